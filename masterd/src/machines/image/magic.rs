//! Core: what a file of an image is, by its first bytes. Nothing else would find a wrong one before a machine
//! that boots it says so on its console.

/// Bytes that are looked at: the headers of every kernel, and the mark of a CD at 32 KiB.
pub(crate) const HEAD_BYTES: u64 = 64 * 1024;

/// The part of an image that a file is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Kernel,
    /// An initial file system: the first is 1.
    Initrd(usize),
    /// A unified kernel image.
    Uki,
    /// A whole disk.
    Disk,
}

/// The format of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Format {
    /// An EFI program.
    Efi {
        /// Whether it holds a kernel beside its own code.
        holds_linux: bool,
        /// A section that ends behind the file, and where.
        cut: Option<(String, u64)>,
    },
    /// A kernel that the loader starts by itself.
    Kernel,
    /// An archive that a kernel unpacks as an initial file system.
    Archive,
    /// The content of a disk.
    Disk(&'static str),
    /// Something else, in words.
    Other(&'static str),
}

/// Marks of files, each with its place and its format. The first one that fits counts.
const MARKS: [(usize, &[u8], Format); 31] = [
    (56, b"ARM\x64", Format::Kernel),
    (56, b"RSC\x05", Format::Kernel),
    (0, b"070701", Format::Archive),
    (0, b"070702", Format::Archive),
    (0, b"\x1f\x8b", Format::Archive),
    (0, b"\x28\xb5\x2f\xfd", Format::Archive),
    (0, b"\xfd7zXZ\0", Format::Archive),
    (0, b"BZh", Format::Archive),
    (0, b"\x5d\0\0", Format::Archive),
    (0, b"\x89LZO\0", Format::Archive),
    (0, b"\x02\x21\x4c\x18", Format::Archive),
    (
        0,
        b"\x04\x22\x4d\x18",
        Format::Other("lz4 in frames, which kernels do not unpack; use lz4 -l"),
    ),
    (
        0,
        b"070707",
        Format::Other("an old cpio archive, which kernels do not unpack; use cpio -H newc"),
    ),
    (0, b"\x7fELF", Format::Other("an ELF file, such as an unpacked vmlinux")),
    (0, b"hsqs", Format::Other("a squashfs file system")),
    (0, b"PK\x03\x04", Format::Other("a zip archive")),
    (0, b"!<arch>", Format::Other("an ar archive, such as a Debian package")),
    (0, b"\xed\xab\xee\xdb", Format::Other("an RPM package")),
    (0, QCOW2, Format::Disk("a qcow2 image of a disk")),
    (0, b"KDMV", Format::Other("a VMDK image; `qemu-img convert -O qcow2` makes another one")),
    (0, b"vhdxfile", Format::Other("a VHDX image; `qemu-img convert -O qcow2` makes another one")),
    (
        0x40,
        b"\x7f\x10\xda\xbe",
        Format::Other("a VDI image; `qemu-img convert -O qcow2` makes another one"),
    ),
    (0, b"XFSB", Format::Disk("an XFS file system")),
    (0, b"#!", Format::Other("a script")),
    (0, b"<!", Format::Other("a page of HTML")),
    (0, b"<html", Format::Other("a page of HTML")),
    (0, b"<?xml", Format::Other("an XML document")),
    (257, b"ustar", Format::Other("a tar archive")),
    (0x8001, b"CD001", Format::Other("an image of a CD")),
    (510, b"\x55\xaa", Format::Disk("an image of a disk")),
    (0x438, b"\x53\xef", Format::Disk("an ext file system")),
];

/// The mark of qcow2.
const QCOW2: &[u8] = b"QFI\xfb";

/// The bytes of a disk whose image begins so: those of the file where it is raw.
pub(crate) fn disk_bytes(head: &[u8], size: u64) -> u64 {
    match head.starts_with(QCOW2) {
        true => big_endian(head, 24).unwrap_or(u64::MAX),
        false => size,
    }
}

/// Refuses a disk whose content is not all in the file.
fn whole_disk(head: &[u8]) -> Result<(), String> {
    if head.starts_with(QCOW2) && big_endian(head, 8) != Some(0) {
        return Err("The image has a backing file, which is not with it; \
                    `qemu-img convert -O qcow2` makes one that is whole"
            .to_owned());
    }
    Ok(())
}

fn big_endian(head: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(head.get(at..at + 8)?.try_into().ok()?))
}

/// Refuses a file of this size that begins so and is not what it is to be.
///
/// # Errors
/// What it is instead.
pub(super) fn check(part: Part, head: &[u8], size: u64) -> Result<(), String> {
    let format = format_of(head, size);
    let is_it = match (part, &format) {
        (_, Some(Format::Efi { cut: Some(_), .. })) => false,
        (Part::Kernel, Some(Format::Efi { .. } | Format::Kernel))
        | (Part::Initrd(_), Some(Format::Archive))
        | (Part::Uki, Some(Format::Efi { holds_linux: true, .. })) => true,
        (Part::Disk, Some(Format::Disk(_))) => return whole_disk(head),
        _ => false,
    };
    if is_it { Ok(()) } else { Err(refusal(part, format.as_ref(), head, size)) }
}

fn refusal(part: Part, format: Option<&Format>, head: &[u8], size: u64) -> String {
    let (name, expected) = match part {
        Part::Kernel => (
            "The kernel".to_owned(),
            "a bzImage, another EFI program, or an Image of ARM64 or RISC-V",
        ),
        Part::Initrd(number) => (
            format!("Initial file system {number}"),
            "a cpio archive (newc), plain or packed by gzip, zstd, xz, bzip2, lzma, lzo or lz4 -l",
        ),
        Part::Uki => (
            "The unified kernel image".to_owned(),
            "an EFI program with the section `.linux`, as ukify makes it",
        ),
        Part::Disk => ("The image".to_owned(), "a disk, raw or as qcow2"),
    };
    let is = match (part, format) {
        (_, Some(Format::Efi { cut: Some((section, end)), .. })) => {
            return format!(
                "{name} is cut off: its section `{section}` ends at byte {end}, and the file has {size}"
            );
        }
        (Part::Kernel, Some(Format::Archive)) => {
            "packed, or an initial file system; unpack a kernel that is packed by itself".to_owned()
        }
        (Part::Uki, Some(Format::Efi { .. } | Format::Kernel)) => {
            "a kernel, or another EFI program; a plain kernel is given by --kernel".to_owned()
        }
        (Part::Initrd(_) | Part::Disk, Some(Format::Efi { .. } | Format::Kernel)) => {
            "a kernel, or another EFI program".to_owned()
        }
        (Part::Uki | Part::Disk, Some(Format::Archive)) => {
            "packed, or an initial file system".to_owned()
        }
        (_, Some(Format::Other(what) | Format::Disk(what))) => (*what).to_owned(),
        (_, None) if head.iter().all(|byte| *byte == 0) => "nothing but zeroes".to_owned(),
        // The others are what was to be there.
        (_, None | Some(Format::Efi { .. } | Format::Kernel | Format::Archive)) => {
            let first: Vec<String> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
            format!("nothing that is known: it begins with {}", first.join(" "))
        }
    };
    format!("{name} is {is}; expected {expected}")
}

fn format_of(head: &[u8], size: u64) -> Option<Format> {
    let has = |at: usize, mark: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(mark));
    // The boot protocol of x86: with it, whatever else the file is, it is a kernel.
    let is_linux = has(0x202, b"HdrS") && has(510, b"\x55\xaa");
    if has(0, b"MZ") {
        match efi(head, size) {
            Ok(program) => return Some(program),
            Err(_) if is_linux || has(56, b"ARM\x64") || has(56, b"RSC\x05") => {
                return Some(Format::Kernel);
            }
            Err(why) => return Some(Format::Other(why)),
        }
    }
    if is_linux {
        return Some(Format::Kernel);
    }
    let mark = MARKS.into_iter().find(|(at, mark, _)| has(*at, mark));
    mark.map(|(_, _, format)| format)
}

/// An EFI program, by its headers (PE/COFF).
fn efi(head: &[u8], size: u64) -> Result<Format, &'static str> {
    const NONE: &str = "a DOS program, or a file that begins as one: it has no PE header";
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let bytes = head.get(at..at.checked_add(bytes)?)?;
        let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).ok()
    };
    let at = number(0x3c, 4).filter(|at| head.get(*at..).is_some_and(|h| h.starts_with(b"PE\0\0")));
    let at = at.ok_or(NONE)?;
    let (count, optional) = (number(at + 6, 2).ok_or(NONE)?, number(at + 20, 2).ok_or(NONE)?);
    // EFI's applications, drivers and ROMs.
    if !number(at + 24 + 68, 2).is_some_and(|subsystem| (10..=13).contains(&subsystem)) {
        return Err("a program of Windows");
    }
    let (mut holds_linux, mut cut) = (false, None);
    for section in 0..count {
        let header = at + 24 + optional + section * 40;
        let Some(name) = head.get(header..header + 8) else { break };
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        let Some((bytes, begins)) = number(header + 16, 4).zip(number(header + 20, 4)) else {
            break;
        };
        let end = u64::try_from(begins.saturating_add(bytes)).unwrap_or(u64::MAX);
        holds_linux |= name == ".linux";
        if bytes > 0 && end > size {
            cut.get_or_insert((name, end));
        }
    }
    Ok(Format::Efi { holds_linux, cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An EFI program with these sections, each of so many bytes behind the headers.
    fn program(subsystem: u8, sections: &[(&str, u32)]) -> Vec<u8> {
        let mut file = vec![0; 0x40];
        file[..2].copy_from_slice(b"MZ");
        file[0x3c] = 0x40;
        file.extend(b"PE\0\0\x64\x86");
        file.extend([u8::try_from(sections.len()).unwrap(), 0]);
        file.extend([0; 12]);
        file.extend([112, 0, 0, 0]);
        let mut optional = [0; 112];
        optional[68] = subsystem;
        file.extend(optional);
        for (name, bytes) in sections {
            let mut header = [0; 40];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[16..20].copy_from_slice(&bytes.to_le_bytes());
            header[20..24].copy_from_slice(&0x400_u32.to_le_bytes());
            file.extend(header);
        }
        file.resize(0x400, 0);
        file
    }

    fn at(at: usize, mark: &[u8]) -> Vec<u8> {
        let mut file = vec![b'x'; at + mark.len() + 9];
        file[at..at + mark.len()].copy_from_slice(mark);
        file
    }

    fn bz_image() -> Vec<u8> {
        let mut file = at(0x202, b"HdrS");
        file[510..512].copy_from_slice(b"\x55\xaa");
        file
    }

    fn told(part: Part, file: &[u8]) -> String {
        check(part, file, u64::try_from(file.len()).unwrap()).err().unwrap_or_default()
    }

    #[test]
    fn what_is_taken() {
        let uki = program(10, &[(".text", 0), (".linux", 0)]);
        let arm = {
            let mut file = at(56, b"ARM\x64");
            file[..2].copy_from_slice(b"MZ");
            file
        };
        for kernel in
            [bz_image(), program(10, &[(".text", 0)]), arm, at(56, b"RSC\x05"), uki.clone()]
        {
            assert_eq!(told(Part::Kernel, &kernel), "");
            assert!(told(Part::Initrd(1), &kernel).contains("is a kernel, or another"));
        }
        assert_eq!(told(Part::Uki, &uki), "");
        let packed: [&[u8]; 8] = [
            b"070701",
            b"070702",
            b"\x1f\x8b",
            b"\x28\xb5\x2f\xfd",
            b"\xfd7zXZ\0",
            b"BZh91",
            b"\x5d\0\0\x80",
            b"\x02\x21\x4c\x18",
        ];
        for initrd in packed {
            assert_eq!(told(Part::Initrd(1), &at(0, initrd)), "", "{initrd:?}");
            assert!(told(Part::Kernel, &at(0, initrd)).contains("unpack a kernel"), "{initrd:?}");
            assert!(told(Part::Uki, &at(0, initrd)).contains("ukify"), "{initrd:?}");
        }
    }

    #[test]
    fn what_is_refused_is_named() {
        let plain = program(10, &[(".text", 0)]);
        for (part, file, why) in [
            (
                Part::Kernel,
                b"noise, and more of it".to_vec(),
                "begins with 6e 6f 69 73 65 2c 20 61;",
            ),
            (Part::Kernel, b"".to_vec(), "nothing but zeroes"),
            (Part::Kernel, vec![0; 999], "nothing but zeroes"),
            (Part::Kernel, b"MZ what this machine boots".to_vec(), "no PE header"),
            (Part::Kernel, program(3, &[]), "a program of Windows"),
            (
                Part::Kernel,
                at(0, b"<!DOCTYPE html>"),
                "The kernel is a page of HTML; expected a bz",
            ),
            (Part::Kernel, at(0, b"\x7fELF"), "vmlinux"),
            (Part::Kernel, at(0x8001, b"CD001"), "an image of a CD"),
            (Part::Kernel, at(510, b"\x55\xaa"), "an image of a disk"),
            (Part::Kernel, at(0x202, b"HdrS"), "nothing that is known"),
            (Part::Initrd(2), at(0, b"noise"), "Initial file system 2 is nothing that is known"),
            (Part::Initrd(1), at(0, b"070707"), "cpio -H newc"),
            (Part::Initrd(1), at(0, b"\x04\x22\x4d\x18"), "lz4 -l"),
            (Part::Initrd(1), at(257, b"ustar"), "a tar archive"),
            (Part::Uki, plain, "--kernel"),
            (Part::Uki, bz_image(), "--kernel"),
            (Part::Uki, at(0, b"noise"), "The unified kernel image is nothing that is known"),
        ] {
            assert!(told(part, &file).contains(why), "{part:?} {why}: {}", told(part, &file));
        }
        let whole = program(10, &[(".text", 0x100), (".linux", 0x900)]);
        let cut = "its section `.linux` ends at byte 3328, and the file has 3327";
        assert_eq!(check(Part::Uki, &whole, 0xd00), Ok(()));
        for part in [Part::Uki, Part::Kernel] {
            assert!(check(part, &whole, 0xcff).unwrap_err().contains(cut));
        }
    }

    /// Headers that point anywhere.
    #[test]
    fn no_file_breaks_it() {
        let mut file = program(10, &[(".linux", 9)]);
        for at in 0..0x140 {
            for byte in [0, 1, 0x7f, 0xff] {
                let before = std::mem::replace(&mut file[at], byte);
                for part in [Part::Kernel, Part::Initrd(1), Part::Uki] {
                    let _told = told(part, &file);
                    let _cut = told(part, &file[..at]);
                }
                file[at] = before;
            }
        }
    }
}
