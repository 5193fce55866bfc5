//! Tests that passed without testing: they printed `skipped: why`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};

use parking_lot::Mutex;

const MARK: &str = "skipped: ";

/// A test that tested nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// Which.
    pub test: String,
    /// Why.
    pub why: String,
}

/// The reason in a line, if it is a test's word that it was skipped. The line may begin with the name
/// that the test's harness printed before it.
pub(super) fn reason(line: &str) -> Option<&str> {
    let at = line.find(MARK)?;
    let before = line[..at].trim();
    (before.is_empty() || before.ends_with("...")).then(|| line[at + MARK.len()..].trim())
}

/// Finds the skips in the output of `cargo test -- --show-output`, line by line.
#[derive(Debug, Default)]
pub struct InOutput {
    test: Option<String>,
    found: Vec<Skip>,
}

impl InOutput {
    /// Looks at the next line.
    pub fn line(&mut self, line: &str) {
        let heading = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(test) = heading {
            self.test = Some(test.to_owned());
        } else if line.starts_with("successes:") || line.starts_with("running ") {
            self.test = None;
        } else if let Some(why) = reason(line) {
            let test = self.test.clone().unwrap_or_else(|| "a test".to_owned());
            self.found.push(Skip { test, why: why.to_owned() });
        }
    }

    /// What was found.
    pub fn skips(self) -> Vec<Skip> {
        self.found
    }
}

/// Runs a command, passes on what it prints to `out` and `err`, and has every line looked at.
///
/// # Errors
/// It does not start, or its end cannot be waited for.
pub fn run_watched(
    command: &mut Command,
    out: impl Write + Send,
    err: impl Write + Send,
    found: &mut InOutput,
) -> io::Result<ExitStatus> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let found = Mutex::new(found);
    std::thread::scope(|scope| {
        scope.spawn(|| stdout.map(|from| copy(from, out, &found)));
        scope.spawn(|| stderr.map(|from| copy(from, err, &found)));
    });
    child.wait()
}

fn copy(from: impl Read, mut to: impl Write, found: &Mutex<&mut InOutput>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // A reader that closed our output does not want to see more; the run goes on.
        drop(to.write_all(&line));
        found.lock().line(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(test: &str, why: &str) -> Skip {
        Skip { test: test.to_owned(), why: why.to_owned() }
    }

    #[test]
    fn output_is_searched() {
        let output = "\
running 2 tests
test a ... ok

successes:

---- b::c stdout ----
skipped: no root
and more

---- d stdout ----
fine

running 1 test
skipped: loose
";
        let mut found = InOutput::default();
        output.lines().for_each(|line| found.line(line));
        assert_eq!(found.skips(), [skip("b::c", "no root"), skip("a test", "loose")]);
    }

    #[test]
    fn a_watched_command_keeps_its_exit_status() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo skipped: this; echo skipped: that >&2; exit 3"]);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut found = InOutput::default();
        let status = run_watched(&mut command, &mut out, &mut err, &mut found).unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!((&*out, &*err), (&b"skipped: this\n"[..], &b"skipped: that\n"[..]));
        let mut whys: Vec<String> = found.skips().into_iter().map(|skip| skip.why).collect();
        whys.sort();
        assert_eq!(whys, ["that", "this"]);
    }
}
