//! `gnt instance console` and `log`: serial consoles, by way of the master, and where screens are.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use luxi::Client;
use luxi::method::{ConsolePiece, GantryConsole, Query, StagedSecret, What};
use model::Secret;
use serde_json::Value;

use crate::error::CliError;
use crate::output::{say, warn, warn_lines};
use crate::python;
use crate::selection::Selection;
use crate::session::Session;

/// The key that ends a talk, as with telnet and `virsh`: Ctrl-].
const END: u8 = 0x1d;
/// Seconds of one question about what the guest says.
const WAIT: f64 = 10.0;
/// Bytes that are typed at a time.
const TYPED_BYTES: usize = 4096;
/// Bytes that a talk begins with: the prompt that waits, and some lines before it.
const BEFORE_BYTES: usize = 1024;

/// How Ganeti's clients reach a console, in its words, or why there is none.
pub(super) fn command(told: &Value) -> String {
    let of = |name: &str| python::text(&told[name]);
    if let Some(command) = told["command"].as_array() {
        let words: Vec<String> = command.iter().map(python::text).collect();
        return format!("ssh -t {}@{} {}", of("user"), of("host"), words.join(" "));
    }
    if told["kind"] != "vnc" {
        return told["message"].as_str().unwrap_or_default().trim_end().to_owned();
    }
    let (name, host, port) = (of("instance"), of("host"), of("port"));
    // Colons are part of the address where it is one of IPv6.
    let at = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let display = of("display");
    format!("Instance {name} has VNC listening on {at} (display {display}), URL <vnc://{at}/>")
}

/// Talks with an instance, or tells where its screen is if it has no serial console.
pub(super) fn open(name: &str, session: &Session) -> Result<(), CliError> {
    match elsewhere(name, session)? {
        Some(place) => say(place),
        None => talk(name, session),
    }
}

/// The words for an instance without a serial console; none where a talk is tried.
fn elsewhere(name: &str, session: &Session) -> Result<Option<String>, CliError> {
    let filter = Selection::named("name", &[name.to_owned()]).filter();
    let fields = ["console"].into_iter().collect();
    let table = session.ask(&Query { what: What::Instance, fields, filter })?;
    let told = table.data.first().and_then(|row| row.first()?.value());
    let told = told.filter(|told| !told.is_null() && told["kind"] != "ssh");
    Ok(told.map(command))
}

/// Prints what an instance said.
pub(super) fn log(name: &str, follow: bool, session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let mut from = 0;
    loop {
        let timeout = if follow { WAIT } else { 0.0 };
        let (next, said) = asked(session, &mut client, question(name, None, Some(from), timeout))?;
        if said.is_empty() && !follow {
            return Ok(());
        }
        from = next;
        // A log is read later than it was meant for: no word of a guest is to move the reader's terminal.
        match io::stdout().is_terminal() {
            true => {
                let said = String::from_utf8_lossy(&said).replace('\r', "");
                print(stdx::text::lines(&said).as_bytes())?;
            }
            false => print(&said)?,
        }
    }
}

/// Passes keys to an instance, and shows what it says.
fn talk(name: &str, session: &Session) -> Result<(), CliError> {
    let mut client = session.connect()?;
    // It is known here, before the terminal is another one, whether there is a console.
    let (from, said) = asked(session, &mut client, question(name, None, None, 0.0))?;
    let terminal = stdx::terminal::raw()?;
    if terminal.is_some() {
        warn(format_args!("Connected to {name}; Ctrl-] ends this.\r"))?;
        print(&said[said.len().saturating_sub(BEFORE_BYTES)..])?;
    }
    let keys = session.connect()?;
    let ended = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        let listening = scope.spawn(|| listen(name, client, from, &ended));
        let typed = pass(name, keys, terminal.is_some());
        ended.store(true, Ordering::Relaxed);
        let heard = listening.join();
        let heard = heard.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        typed.and(heard)
    });
    drop(terminal);
    if done.is_ok() {
        warn_lines(&format!("\nThe talk with {name} is over."))?;
    }
    done
}

/// Shows what an instance says until the talk ends.
fn listen(
    name: &str,
    mut client: Client,
    mut from: u64,
    ended: &AtomicBool,
) -> Result<(), CliError> {
    loop {
        // The last words are heard that came before the end.
        let is_over = ended.load(Ordering::Relaxed);
        let timeout = if is_over { 0.0 } else { HEARING };
        let piece = client.call(&question(name, None, Some(from), timeout))?;
        let (next, said) = read(&piece)?;
        from = next;
        print(&said)?;
        if is_over && said.is_empty() {
            return Ok(());
        }
    }
}

/// Seconds of a question within a talk, whose end waits for no longer than that.
const HEARING: f64 = 0.5;

/// Passes what is typed until its end, or the key that ends it.
fn pass(name: &str, mut client: Client, is_terminal: bool) -> Result<(), CliError> {
    let mut keys = [0; TYPED_BYTES];
    loop {
        let count = io::stdin().read(&mut keys)?;
        let typed = &keys[..count];
        let end = typed.iter().position(|key| is_terminal && *key == END);
        let typed = &typed[..end.unwrap_or(count)];
        if !typed.is_empty() {
            let _nothing = client.call(&question(name, Some(typed), None, 0.0))?;
        }
        if count == 0 || end.is_some() {
            return Ok(());
        }
    }
}

fn question(name: &str, typed: Option<&[u8]>, from: Option<u64>, timeout: f64) -> GantryConsole {
    let input = typed.map(|typed| StagedSecret(Secret::new(STANDARD.encode(typed))));
    GantryConsole { instance: name.to_owned(), input, from, timeout }
}

fn asked(
    session: &Session,
    client: &mut Client,
    question: GantryConsole,
) -> Result<(u64, Vec<u8>), CliError> {
    read(&session.call(client, &question)?)
}

/// The bytes of a piece, and the place behind them.
fn read(piece: &ConsolePiece) -> Result<(u64, Vec<u8>), CliError> {
    let data = STANDARD.decode(&piece.data);
    let data = data.map_err(io::Error::other)?;
    Ok((piece.offset + u64::try_from(data.len()).unwrap_or_default(), data))
}

/// Gives bytes to the terminal as they are: those of a guest are meant for one.
fn print(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_screen_is_told_in_ganetis_words() {
        let vnc = |host: &str| {
            command(&json!({"kind": "vnc", "instance": "web1", "host": host, "port": 11_000,
                "display": 5_100, "message": null, "command": null}))
        };
        let words = "Instance web1 has VNC listening on 10.0.0.1:11000 (display 5100), \
                     URL <vnc://10.0.0.1:11000/>";
        assert_eq!(vnc("10.0.0.1"), words);
        assert!(vnc("::1").ends_with("URL <vnc://[::1]:11000/>"));
        assert_eq!(
            command(&json!({"kind": "msg", "message": "No serial shell\n"})),
            "No serial shell"
        );
    }
}
