//! Files that pass for those of an image, where nothing boots them: small, and plain text.

/// A kernel with this text in it: an Image of ARM64.
pub fn kernel(text: &str) -> String {
    format!("{:<56}ARM\x64 {text}\n", "MZ")
}

/// An initial file system with this text in it: a cpio archive that holds nothing.
pub fn initrd(text: &str) -> String {
    format!("070701 {text}\n")
}

/// A unified kernel image with this text in it: an EFI program for 32 bits, whose kernel is empty.
pub fn uki(text: &str) -> String {
    let dos = format!("MZ{}\x40\0\0\0", "\0".repeat(58));
    let coff = format!("PE\0\0\x4c\x01\x01\0{}\x70\0\0\0", "\0".repeat(12));
    let optional = format!("{}\x0a\0{}", "\0".repeat(68), "\0".repeat(42));
    let section = format!(".linux\0\0{}", "\0".repeat(32));
    format!("{dos}{coff}{optional}{section}{text}\n")
}
