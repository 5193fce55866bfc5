//! The files of a package, before and while they are written.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::DistError;

/// Mode of what is read.
pub const READABLE: u32 = 0o644;
/// Mode of programs and directories.
pub const RUNNABLE: u32 = 0o755;

/// The source of a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Another file.
    File(PathBuf),
    /// These bytes.
    Bytes(Vec<u8>),
    /// The same, compressed by gzip without its time and name.
    Gzip(Vec<u8>),
    /// None: it is a symbolic link.
    Link(String),
}

/// Files by their paths below the root, without the first slash.
#[derive(Debug, Clone, Default)]
pub struct Tree(BTreeMap<String, (u32, Content)>);

impl Tree {
    /// Adds a file.
    pub fn add(&mut self, path: &str, mode: u32, content: Content) {
        self.0.insert(path.to_owned(), (mode, content));
    }

    /// Adds a text.
    pub fn text(&mut self, path: &str, mode: u32, text: String) {
        self.add(path, mode, Content::Bytes(text.into_bytes()));
    }

    /// The paths with their contents, in order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Content)> {
        self.0.iter().map(|(path, (_, content))| (path.as_str(), content))
    }

    /// Writes everything below `root`.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn write(&self, root: &Path) -> Result<(), DistError> {
        for (path, (mode, content)) in &self.0 {
            let to = root.join(path);
            directories(root, &to)?;
            match content {
                Content::File(from) => {
                    let copied = fs::copy(from, &to);
                    copied.map_err(|error| DistError::file("copy", from, error))?;
                }
                Content::Bytes(bytes) => write(&to, bytes)?,
                Content::Gzip(bytes) => write(&to, &gzip(bytes)?)?,
                Content::Link(target) => {
                    let linked = symlink(target, &to);
                    linked.map_err(|error| DistError::file("link", &to, error))?;
                    continue;
                }
            }
            set_mode(&to, *mode)?;
        }
        Ok(())
    }
}

/// Makes the directories of a file, with their mode whatever the umask is.
fn directories(root: &Path, file: &Path) -> Result<(), DistError> {
    let parent = file.parent().unwrap_or(root);
    let missing: Vec<&Path> = parent.ancestors().take_while(|dir| !dir.exists()).collect();
    for dir in missing.into_iter().rev() {
        fs::create_dir(dir).map_err(|error| DistError::file("make the directory", dir, error))?;
        set_mode(dir, RUNNABLE)?;
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<(), DistError> {
    let set = fs::set_permissions(path, Permissions::from_mode(mode));
    set.map_err(|error| DistError::file("set the mode of", path, error))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), DistError> {
    let written = stdx::atomic::write(path, bytes, READABLE);
    written.map_err(|error| DistError::file("write", path, error))
}

/// Compresses by the system's own program, which every Debian has.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>, DistError> {
    let start = |error| DistError::Start { program: "gzip", package: "gzip", error };
    let input = tempfile::tempfile().map_err(start)?;
    std::io::Write::write_all(&mut &input, bytes).map_err(start)?;
    std::io::Seek::rewind(&mut &input).map_err(start)?;
    let mut command = Command::new("gzip");
    command.args(["-9n"]).stdin(Stdio::from(input));
    let output = command.output().map_err(start)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(DistError::Failed { program: "gzip", why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_links_and_modes() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let mut tree = Tree::default();
        tree.text("usr/share/doc/x/readme", READABLE, "words\n".to_owned());
        tree.add("usr/share/doc/x/more.gz", READABLE, Content::Gzip(b"more\n".to_vec()));
        tree.add("usr/bin/x", RUNNABLE, Content::File("/bin/true".into()));
        tree.add("usr/bin/y", RUNNABLE, Content::Link("x".to_owned()));
        tree.write(&root).unwrap();
        let mode = |path: &str| root.join(path).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode("usr/share/doc/x/readme"), 0o644);
        assert_eq!((mode("usr/bin/x"), mode("usr/share/doc")), (0o755, 0o755));
        assert_eq!(fs::read_link(root.join("usr/bin/y")).unwrap(), Path::new("x"));
        let packed = fs::read(root.join("usr/share/doc/x/more.gz")).unwrap();
        // Neither time nor name: the same input gives the same bytes.
        assert_eq!(packed[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
    }
}
