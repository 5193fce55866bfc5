//! A master that answers what it is told to, byte for byte, and shows what it was asked.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

/// A master that answers what it is told to, one connection after the other.
pub(crate) struct Script {
    pub(crate) root: tempfile::TempDir,
    pub(crate) listener: UnixListener,
}

impl Script {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(root.path().join("socket")).unwrap();
        Self { root, listener }
    }

    pub(crate) fn gnt(&self, words: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_gnt"))
            .arg("--root")
            .arg(self.root.path())
            .arg("--socket")
            .arg(self.root.path().join("socket"))
            .args(words)
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Takes a connection, gives each of the answers to a question, and hangs up; the questions.
    pub(crate) fn answer(&self, answers: &[&str]) -> Vec<String> {
        let (mut stream, _) = self.listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut question = move || {
            let mut question = Vec::new();
            reader.read_until(3, &mut question).unwrap();
            String::from_utf8(question).unwrap()
        };
        let mut asked = Vec::new();
        for answer in answers {
            asked.push(question());
            stream.write_all(format!("{answer}\u{3}").as_bytes()).unwrap();
        }
        // The client sends no further question before it has read the last answer.
        asked.push(question());
        asked
    }
}
