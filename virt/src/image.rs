//! Writes images of disks onto disks: raw ones, and qcow2, without the holes.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

use imago::qcow2::Qcow2;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatDriverBuilder as _, Mapping};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Bytes that are read at a time.
const PIECE_BYTES: u64 = 1024 * 1024;
/// Bytes that are left out where all of them are zero: a page of most file systems, some times over.
const HOLE_BYTES: usize = 64 * 1024;
/// Bytes of the header of qcow2 that all versions have.
const HEADER_BYTES: usize = 72;
/// Bits of the size of a cluster, which a reader must know.
const CLUSTER_BITS_MIN: u64 = 9;
const CLUSTER_BITS_MAX: u64 = 21;
/// Most entries of its first table: QEMU's limit of 32 MiB.
const TABLE_ENTRIES_MAX: u64 = 4 << 20;
/// The bits of an entry that are an offset.
const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// The mark of qcow2.
const QCOW2: &[u8] = b"QFI\xfb";

/// An image that was not written.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The disk is smaller.
    #[error("the image is of a disk of {image} bytes, and this disk has {disk}")]
    Large { image: u64, disk: u64 },
    /// It does not read.
    #[error("the image does not read")]
    Read(#[source] io::Error),
    /// The disk takes it not.
    #[error("the disk cannot be written")]
    Write(#[source] io::Error),
}

/// The content of an image, in pieces.
enum Content {
    Raw(File, u64),
    /// An image that refers to no other file; the library refuses one that does.
    Qcow2(Box<FormatAccess<imago::file::File>>, u64),
}

/// Looks whether all tables of a qcow2 lie within its file (QEMU's docs/interop/qcow2.txt): the library reads
/// what is cut off as zeros.
fn whole(image: &File, size: u64) -> io::Result<()> {
    let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "the image is cut off");
    let mut header = [0; HEADER_BYTES];
    image.read_exact_at(&mut header, 0)?;
    let number = |at: usize| u64::from(u32::from_be_bytes([0, 1, 2, 3].map(|i| header[at + i])));
    let (cluster_bits, entries) = (number(20), number(36));
    let table = number(40) << 32 | number(44);
    let cluster = u32::try_from(cluster_bits).ok().and_then(|bits| 1_u64.checked_shl(bits));
    let cluster = cluster.filter(|_| (CLUSTER_BITS_MIN..=CLUSTER_BITS_MAX).contains(&cluster_bits));
    let cluster = cluster.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    if entries > TABLE_ENTRIES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if table.checked_add(entries * 8).is_none_or(|end| end > size) {
        return Err(cut());
    }
    let mut entry = [0; 8];
    for place in 0..entries {
        image.read_exact_at(&mut entry, table + place * 8)?;
        let offset = u64::from_be_bytes(entry) & OFFSET;
        if offset != 0 && offset.saturating_add(cluster) > size {
            return Err(cut());
        }
    }
    Ok(())
}

impl Content {
    fn open(image: File) -> io::Result<Self> {
        let mut mark = Vec::new();
        (&image).take(4).read_to_end(&mut mark)?;
        let size = image.metadata()?.len();
        if mark != QCOW2 {
            return Ok(Self::Raw(image, size));
        }
        whole(&image, size)?;
        let image = imago::file::File::try_from(image)?;
        let image = Qcow2::<imago::file::File>::builder(image);
        let image = FormatAccess::new(image.open(DenyImplicitOpenGate::default())?);
        Ok(Self::Qcow2(Box::new(image), size))
    }

    fn size(&self) -> u64 {
        match self {
            Self::Raw(_, size) => *size,
            Self::Qcow2(image, _) => image.size(),
        }
    }

    /// The next bytes that may be other than zero, at or behind an offset: where they begin, and how many
    /// come in a row.
    fn data(&self, from: u64) -> io::Result<Option<(u64, u64)>> {
        let mut at = from;
        while at < self.size() {
            let (is_zero, length) = match self {
                Self::Raw(image, size) => match seek(image, SeekFrom::Data(at)) {
                    Ok(data) => {
                        let hole = seek(image, SeekFrom::Hole(data))?;
                        return Ok(Some((data, hole.min(*size) - data)));
                    }
                    // Nothing follows.
                    Err(Errno::NXIO) => return Ok(None),
                    Err(error) => return Err(error.into()),
                },
                Self::Qcow2(image, file) => {
                    let (mapping, length) = image.get_mapping(at, image.size() - at)?;
                    if let Mapping::Raw { offset, .. } = &mapping
                        && offset.saturating_add(length) > *file
                    {
                        let why = "the image is cut off";
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
                    }
                    (matches!(mapping, Mapping::Zero { .. } | Mapping::Eof { .. }), length)
                }
            };
            if !is_zero {
                return Ok(Some((at, length)));
            }
            if length == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            at += length;
        }
        Ok(None)
    }

    fn read(&self, piece: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Self::Raw(image, _) => image.read_exact_at(piece, at),
            Self::Qcow2(image, _) => image.read(piece, at),
        }
    }
}

/// Writes an image over all that a disk of `size` bytes has.
///
/// # Errors
/// The disk is smaller, the image does not read, or the system says no.
pub(crate) fn write(image: File, disk: &File, size: u64) -> Result<(), ImageError> {
    let content = Content::open(image).map_err(ImageError::Read)?;
    if content.size() > size {
        return Err(ImageError::Large { image: content.size(), disk: size });
    }
    // The disk's old content must not show through holes of the image.
    disk.set_len(0).and_then(|()| disk.set_len(size)).map_err(ImageError::Write)?;
    let mut piece = vec![0; usize::try_from(PIECE_BYTES).unwrap_or(HOLE_BYTES)];
    let mut at = 0;
    while let Some((start, length)) = content.data(at).map_err(ImageError::Read)? {
        at = start;
        while at < start + length {
            let count = usize::try_from((start + length - at).min(PIECE_BYTES));
            let count = count.unwrap_or(HOLE_BYTES);
            let piece = &mut piece[..count];
            content.read(piece, at).map_err(ImageError::Read)?;
            for part in piece.chunks(HOLE_BYTES) {
                if part.iter().any(|byte| *byte != 0) {
                    disk.write_all_at(part, at).map_err(ImageError::Write)?;
                }
                at += u64::try_from(part.len()).unwrap_or_default();
            }
        }
    }
    disk.sync_all().map_err(ImageError::Write)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Some data, a hole, and data at the end.
    fn content() -> Vec<u8> {
        let mut bytes = vec![0; 3 << 20];
        bytes[10..20].fill(7);
        bytes[(1 << 20)..(1 << 20) + 5000].fill(9);
        let end = bytes.len();
        bytes[end - 3..].fill(1);
        bytes
    }

    fn disk(directory: &tempfile::TempDir) -> File {
        let path = directory.path().join("disk");
        stdx::atomic::write(&path, &[0xaa; 5000], 0o600).unwrap();
        File::options().read(true).write(true).open(path).unwrap()
    }

    #[test]
    fn a_raw_image_takes_the_place_of_all_that_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let raw = directory.path().join("raw");
        stdx::atomic::write(&raw, &content(), 0o600).unwrap();
        let disk = disk(&directory);
        write(File::open(&raw).unwrap(), &disk, 4 << 20).unwrap();
        let mut wanted = content();
        wanted.resize(4 << 20, 0);
        let mut had = vec![0; wanted.len()];
        disk.read_exact_at(&mut had, 0).unwrap();
        assert!(had == wanted);
        let small = write(File::open(&raw).unwrap(), &disk, 2 << 20);
        assert!(matches!(small, Err(ImageError::Large { image: 3_145_728, .. })));
    }

    #[test]
    fn images_of_qcow2_are_read_packed_or_not_and_refer_to_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        stdx::atomic::write(path("raw").as_ref(), &content(), 0o600).unwrap();
        let qemu_img = |words: &[&str]| match Command::new("qemu-img").args(words).output() {
            Ok(ended) => assert!(ended.status.success(), "{ended:?}"),
            Err(error) => panic!("qemu-img: {error}; `cargo xtask test install` brings it"),
        };
        for more in [&[][..], &["-c"], &["-o", "cluster_size=4k"]] {
            let convert = ["convert", "-f", "raw", "-O", "qcow2"];
            qemu_img(&[&convert, more, &[&path("raw"), &path("qcow2")]].concat());
            let disk = disk(&directory);
            write(File::open(path("qcow2")).unwrap(), &disk, 3 << 20).unwrap();
            let mut had = content();
            disk.read_exact_at(&mut had, 0).unwrap();
            assert!(had == content(), "{more:?}");
        }
        // The last whole one has clusters of 4 KiB; cut anywhere, it is no image any more.
        let whole = std::fs::read(path("qcow2")).unwrap();
        for end in [whole.len() / 4, whole.len() / 2, whole.len() - 4096] {
            stdx::atomic::write(path("cut").as_ref(), &whole[..end], 0o600).unwrap();
            let refused = write(File::open(path("cut")).unwrap(), &disk(&directory), 3 << 20);
            assert!(matches!(refused, Err(ImageError::Read(_))), "{end}: {refused:?}");
        }
        let (base, over) = (path("qcow2"), path("over"));
        qemu_img(&["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", &base, &over]);
        let refused = write(File::open(over).unwrap(), &disk(&directory), 3 << 20);
        assert!(matches!(refused, Err(ImageError::Read(_))), "{refused:?}");
        stdx::atomic::write(path("rubbish").as_ref(), b"QFI\xfb and no more", 0o600).unwrap();
        let refused = write(File::open(path("rubbish")).unwrap(), &disk(&directory), 3 << 20);
        assert!(matches!(refused, Err(ImageError::Read(_))), "{refused:?}");
    }
}
