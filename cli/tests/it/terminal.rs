//! `gnt` on a terminal.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const RUNS: &str = r#"{"success":true,"result":[["running",["running"],[null]],[]]}"#;
/// How a terminal's line is cleared from its first column on.
const CLEARED: &str = "\r\x1b[2K";

/// Reads from the terminal until `text` was shown.
fn read_until(terminal: &mut File, text: &str) {
    let mut shown = String::new();
    let mut part = [0; 1_024];
    while !shown.contains(text) {
        let length = terminal.read(&mut part).unwrap();
        assert_ne!(length, 0, "{shown:?}");
        shown.push_str(&String::from_utf8_lossy(&part[..length]));
    }
}

/// Reads what was shown up to the end of the last process on the terminal.
fn rest(terminal: &mut File) -> String {
    let mut shown = Vec::new();
    // A terminal that nobody has open any more ends with an error.
    let ended = terminal.read_to_end(&mut shown).unwrap_err();
    assert_eq!(ended.raw_os_error(), Some(nix::errno::Errno::EIO as i32));
    String::from_utf8(shown).unwrap()
}

pub(crate) const JOBS: &str = concat!(
    r#"{"success":true,"result":{"fields":["#,
    r#"{"name":"id","title":"ID","kind":"number","doc":"d"},"#,
    r#"{"name":"status","title":"Status","kind":"text","doc":"d"},"#,
    r#"{"name":"received_ts","title":"R","kind":"other","doc":"d"},"#,
    r#"{"name":"start_ts","title":"S","kind":"other","doc":"d"},"#,
    r#"{"name":"end_ts","title":"E","kind":"other","doc":"d"},"#,
    r#"{"name":"owner","title":"O","kind":"text","doc":"d"},"#,
    r#"{"name":"summary","title":"S","kind":"other","doc":"d"}],"#,
    r#""data":[[[0,7],[0,"success"],[0,[1,0]],[0,[1,0]],[0,[4,0]],[0,"root"],[0,["A(1)"]]]]}}"#,
);

/// The answer to the question for the numbers of jobs, of which there are so many.
fn numbers(count: u64) -> String {
    let rows: Vec<_> = (1..=count).map(|id| serde_json::json!([[0, id]])).collect();
    let field = serde_json::json!({"name": "id", "title": "ID", "kind": "number", "doc": "d"});
    serde_json::json!({"success": true, "result": {"fields": [field], "data": rows}}).to_string()
}

/// Runs `gnt` on a terminal; gives the connection to it, with its first questions answered: which
/// jobs there are, and what they are like.
fn list(words: &[&str], term: &str) -> (std::process::Child, File, UnixStream) {
    let (child, terminal, mut stream) = answered(words, term, &numbers(1));
    answer_once(&mut stream, JOBS);
    (child, terminal, stream)
}

/// The same with another answer. There is no socket to connect to anew.
fn answered(words: &[&str], term: &str, answer: &str) -> (std::process::Child, File, UnixStream) {
    let root = tempfile::tempdir().unwrap();
    let socket = root.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(&size, None).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnt"));
    command.arg("--root").arg(root.path()).arg("--socket").arg(&socket);
    command.args(words).env("TERM", term).env_remove("NO_COLOR");
    command.stdin(pty.slave.try_clone().unwrap());
    command.stdout(pty.slave.try_clone().unwrap()).stderr(pty.slave);
    let child = command.spawn().unwrap();
    drop(command);
    let (mut stream, _) = listener.accept().unwrap();
    answer_once(&mut stream, answer);
    (child, File::from(pty.master), stream)
}

/// Answers the next question, and gives it.
fn answer_once(stream: &mut UnixStream, answer: &str) -> String {
    let mut request = Vec::new();
    BufReader::new(stream.try_clone().unwrap()).read_until(3, &mut request).unwrap();
    stream.write_all(format!("{answer}\u{3}").as_bytes()).unwrap();
    String::from_utf8(request).unwrap()
}

#[test]
fn a_list_on_a_terminal_is_for_a_reader() {
    let (mut child, mut terminal, _stream) = list(&["job", "list"], "xterm");
    let shown = rest(&mut terminal);
    assert_eq!(child.wait().unwrap().code(), Some(0), "{shown:?}");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].contains("ID Status ") && lines[0].contains("Duration Owner Summary"));
    assert!(lines[1].starts_with(" 7 \x1b[32msuccess\x1b[0m "), "{shown:?}");
    assert!(lines[1].ends_with("     3 s root  A(1)"), "{shown:?}");
}

#[test]
fn a_reader_gets_the_newest_jobs_and_is_told_how_many_there_are() {
    let told = "The newest 50 of 60 jobs; --all shows all.";
    for words in [&["job", "list"] as &[&str], &["job", "list", "--running"]] {
        let (mut child, mut terminal, mut stream) = answered(words, "xterm", &numbers(60));
        let asked = answer_once(&mut stream, JOBS);
        assert!(asked.contains(r#"[">=","id",11]"#), "{asked}");
        let shown = rest(&mut terminal);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{shown:?}");
        assert!(shown.trim_end().ends_with(told), "{shown:?}");
    }
    // Named ones, all, and those for programs are one question.
    for words in [&["7"] as &[&str], &["--all"]] {
        let words = [&["job", "list"], words].concat();
        let (mut child, mut terminal, _stream) = answered(&words, "xterm", JOBS);
        let shown = rest(&mut terminal);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{shown:?}");
        assert!(!shown.contains("newest"), "{shown:?}");
    }
}

#[test]
fn a_terminal_without_colours_gets_none() {
    let (mut child, mut terminal, _stream) = list(&["job", "list"], "dumb");
    let shown = rest(&mut terminal);
    assert_eq!(child.wait().unwrap().code(), Some(0), "{shown:?}");
    assert!(shown.contains(" 7 success ") && !shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn a_watched_list_leaves_the_terminal_as_it_was() {
    let (mut child, mut terminal, _stream) = list(&["job", "list", "--watch"], "xterm");
    read_until(&mut terminal, "A(1)");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let shown = rest(&mut terminal);
    assert_eq!(child.wait().unwrap().code(), Some(130), "{shown:?}");
    assert!(shown.ends_with("\x1b[?25h\x1b[?1049l"), "{shown:?}");
}

#[test]
fn a_key_ends_a_watched_list_and_is_not_shown() {
    let (mut child, mut terminal, _stream) = list(&["job", "list", "--watch"], "xterm");
    read_until(&mut terminal, "A(1)");
    terminal.write_all(b"q").unwrap();
    let status = child.wait().unwrap();
    let after = nix::sys::termios::tcgetattr(&terminal).unwrap().local_flags;
    let shown = rest(&mut terminal);
    assert_eq!(status.code(), Some(0), "{shown:?}");
    assert!(shown.ends_with("\x1b[?25h\x1b[?1049l") && !shown.contains('q'), "{shown:?}");
    assert!(after.contains(nix::sys::termios::LocalFlags::ECHO), "{after:?}");
}

fn status() -> String {
    serde_json::json!({"success": true, "result": crate::standing::status(true)}).to_string()
}

#[test]
fn a_status_on_a_terminal_has_colours_and_ends_with_its_alarms() {
    let (mut child, mut terminal, _stream) = answered(&["cluster", "status"], "xterm", &status());
    let shown = rest(&mut terminal);
    assert_eq!(child.wait().unwrap().code(), Some(1), "{shown:?}");
    assert!(shown.starts_with("\x1b[33mtoy.example.com: 1 warning"), "{shown:?}");
    assert!(shown.contains("\x1b[33m! queue [drained]: it is drained"), "{shown:?}");
}

#[test]
fn a_watched_status_outlives_its_masterd() {
    let words = ["cluster", "status", "--watch", "--interval", "1"];
    for typed in [true, false] {
        let (mut child, mut terminal, stream) = answered(&words, "xterm", &status());
        drop(stream);
        read_until(&mut terminal, "masterd on this machine is away");
        let code = match typed {
            true => {
                terminal.write_all(b"q").unwrap();
                0
            }
            false => {
                kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
                130
            }
        };
        let shown = rest(&mut terminal);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{shown:?}");
        assert!(shown.ends_with("\x1b[?25h\x1b[?1049l"), "{shown:?}");
    }
}

#[test]
fn a_secret_is_asked_for_and_not_shown() {
    for (typed, code) in [("hunter2\r", 1), ("hun\u{3}", 130)] {
        let pty = openpty(None, None).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gnt"));
        command.args(["--root", "/nonexistent", "node", "add", "n4", "--secret", "-"]);
        command.stdin(pty.slave.try_clone().unwrap());
        command.stdout(pty.slave.try_clone().unwrap()).stderr(pty.slave);
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut terminal = File::from(pty.master);
        read_until(&mut terminal, "Secret: ");
        terminal.write_all(typed.as_bytes()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        let after = nix::sys::termios::tcgetattr(&terminal).unwrap().local_flags;
        assert!(after.contains(nix::sys::termios::LocalFlags::ECHO), "{after:?}");
        let shown = rest(&mut terminal);
        assert!(!shown.contains("hun"), "{shown:?}");
    }
}

/// The live line has a thread, and no thread but the one for it may take the signal.
#[test]
fn an_interrupted_live_line_is_cleared_and_the_job_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let socket = root.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(&size, None).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gnt"));
    command.arg("--root").arg(root.path()).arg("--socket").arg(&socket);
    command.args(["job", "watch", "5"]).env("TERM", "xterm");
    command.stdin(pty.slave.try_clone().unwrap());
    command.stdout(pty.slave.try_clone().unwrap()).stderr(pty.slave);
    let mut child = command.spawn().unwrap();
    // Its copies of the terminal would keep the terminal open.
    drop(command);
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    BufReader::new(stream.try_clone().unwrap()).read_until(3, &mut request).unwrap();
    stream.write_all(format!("{RUNS}\u{3}").as_bytes()).unwrap();
    let mut terminal = File::from(pty.master);
    read_until(&mut terminal, "job 5 running");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let shown = rest(&mut terminal);
    assert_eq!(child.wait().unwrap().code(), Some(130), "{shown:?}");
    let told = format!("{CLEARED}Job 5 goes on. Follow it with: gnt job watch 5\r\n");
    assert!(shown.ends_with(&told), "{shown:?}");
}
