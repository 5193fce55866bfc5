//! Clients that break the rules: each gets a clear end, and others notice nothing.

use std::io::Write as _;
use std::time::Duration;

use luxi::Limits;

use crate::toy::{HANGS, PANICS, ask, drain, receive, start};

/// Short enough to wait for, where a test is about a limit in time.
const SHORT: Duration = Duration::from_millis(30);

fn assert_unreadable(answer: &str, why: &str) {
    assert!(
        answer.starts_with(r#"{"success":false,"result":"Failed to parse request: "#),
        "{answer}"
    );
    assert!(answer.contains(why), "{answer}");
}

#[test]
fn oversized() {
    let server = start(Limits { message_bytes: 1_000, ..Limits::default() });
    let mut stream = server.raw();
    let exact = format!("{:<1000}", r#"{"method":"ArchiveJob","args":[1]}"#);
    assert!(ask(&mut stream, &exact).contains("true"));
    stream.write_all(&[b'x'; 1_001]).unwrap();
    assert_unreadable(&drain(&mut stream), "longer than 1000 bytes");
    server.assert_others_are_served();
}

#[test]
fn truncated() {
    let server = start(Limits::default());
    let mut stream = server.raw();
    stream.write_all(br#"{"method":"Archi"#).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_unreadable(&drain(&mut stream), "ends without ETX");
    server.assert_others_are_served();
}

#[test]
fn nonsense_is_answered_and_the_conversation_goes_on() {
    let server = start(Limits::default());
    let mut stream = server.raw();
    stream.write_all(b"{\"method\":\"\xff\xfe\",\"args\":[]}\x03").unwrap();
    assert_unreadable(&receive(&mut stream), "not UTF-8 at offset 11");
    stream.write_all(b"\x03").unwrap();
    assert_unreadable(&receive(&mut stream), "EOF");
    let deep = format!("{{\"method\":\"SubmitJob\",\"args\":{}", "[".repeat(1 << 20));
    assert_unreadable(&ask(&mut stream, &deep), "JSON");
    let deep = "[".repeat(1 << 20) + &"]".repeat(1 << 20);
    let deep = format!(
        r#"{{"method":"SubmitJob","args":[[{{"OP_ID":"OP_TEST_DELAY","duration":{deep}}}]]}}"#
    );
    assert_unreadable(&ask(&mut stream, &deep), "nests deeper than 32");
    assert!(ask(&mut stream, r#"{"method":"ArchiveJob","args":[1]}"#).contains("true"));
}

#[test]
fn a_panic_ends_with_its_request() {
    let server = start(Limits::default());
    let mut stream = server.raw();
    let request = format!(r#"{{"method":"ArchiveJob","args":[{PANICS}]}}"#);
    let expected = r#"{"success":false,"result":["ProgrammerError",["internal error"]]}"#;
    assert_eq!(ask(&mut stream, &request), expected);
    assert!(ask(&mut stream, r#"{"method":"ArchiveJob","args":[1]}"#).contains("true"));
    server.assert_others_are_served();
}

#[test]
fn idle() {
    let server = start(Limits { idle: SHORT, ..Limits::default() });
    let mut stream = server.raw();
    assert_eq!(drain(&mut stream), "");
    let mut stream = server.raw();
    stream.write_all(b" \n").unwrap();
    assert_eq!(drain(&mut stream), "", "white space is no request");
    server.assert_others_are_served();
}

#[test]
fn a_request_that_does_not_end() {
    let server = start(Limits { message_time: SHORT, ..Limits::default() });
    let mut stream = server.raw();
    stream.write_all(b"{").unwrap();
    assert_unreadable(&drain(&mut stream), "not finished in time");
    server.assert_others_are_served();
}

#[test]
fn an_answer_that_is_not_read() {
    let limits = Limits { answer_time: SHORT, ..Limits::default() };
    let server = start(limits);
    let mut stream = server.raw();
    stream.write_all(b"{\"method\":\"QueryTags\",\"args\":[\"50000000\",null]}\x03").unwrap();
    stream.write_all(b"{\"method\":\"ArchiveJob\",\"args\":[1]}\x03").unwrap();
    server.assert_others_are_served();
    // Writing ends when the server gives up; what the socket held by then is all that comes.
    while stream.write_all(b" ").is_ok() {}
    let got = drain(&mut stream);
    assert!(got.len() < 50_000_000 && !got.ends_with('\u{3}'));
}

#[test]
fn a_deadline_passes() {
    let mut server = start(Limits { wait: SHORT, ..Limits::default() });
    let mut stream = server.raw();
    let request = format!(r#"{{"method":"WaitForJobChange","args":[{HANGS},[],null,null,60]}}"#);
    let answer = ask(&mut stream, &request);
    assert!(answer.contains("GenericError") && answer.contains("given up"), "{answer}");
    assert_eq!(server.hanging.blocking_recv(), Some("hangs"));
    assert_eq!(server.hanging.blocking_recv(), Some("dropped"));
    assert!(ask(&mut stream, r#"{"method":"ArchiveJob","args":[1]}"#).contains("true"));
}

#[test]
fn vanishing_clients_free_what_they_waited_for() {
    let mut server = start(Limits::default());
    let request =
        format!("{{\"method\":\"WaitForJobChange\",\"args\":[{HANGS},[],null,null,60]}}\x03");
    for _ in 0..20 {
        let mut stream = server.raw();
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(server.hanging.blocking_recv(), Some("hangs"));
        drop(stream);
        assert_eq!(server.hanging.blocking_recv(), Some("dropped"));
    }
    // Also one that had sent ahead.
    let mut stream = server.raw();
    stream.write_all(request.repeat(2).as_bytes()).unwrap();
    assert_eq!(server.hanging.blocking_recv(), Some("hangs"));
    drop(stream);
    assert_eq!(server.hanging.blocking_recv(), Some("dropped"));
    server.assert_others_are_served();
}

#[test]
fn a_flood_of_connections() {
    let server = start(Limits { connections: 20, connections_per_user: 10, ..Limits::default() });
    let mut known = server.raw();
    ask(&mut known, r#"{"method":"ArchiveJob","args":[1]}"#);
    let mut flood: Vec<_> = (0..40).map(|_| server.raw()).collect();
    let turned_away = &mut flood[30];
    let answer = receive(turned_away);
    assert!(answer.contains("Too many connections: user"), "{answer}");
    assert!(ask(&mut known, r#"{"method":"ArchiveJob","args":[1]}"#).contains("true"));
    let error = luxi::Client::connect(&server.path)
        .and_then(|mut client| client.call(&luxi::method::QueryClusterInfo {}))
        .unwrap_err();
    assert!(error.to_string().contains("Too many connections"), "{error}");
    for stream in &mut flood[..9] {
        ask(stream, r#"{"method":"ArchiveJob","args":[1]}"#);
    }
    drop(flood);
    // The places are free again as soon as the server saw the ends.
    while ask_or_refused(&server).contains("Too many") {}
    server.assert_others_are_served();
}

fn ask_or_refused(server: &crate::toy::Server) -> String {
    let mut stream = server.raw();
    match stream.write_all(b"{\"method\":\"ArchiveJob\",\"args\":[1]}\x03") {
        Ok(()) => receive(&mut stream),
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
            receive(&mut stream)
        }
    }
}

#[test]
fn many_large_requests_at_once_take_turns() {
    let server = start(Limits::default());
    let padding = " ".repeat(300_000);
    let request = format!("{{\"method\":\"ArchiveJob\",{padding}\"args\":[1]}}");
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| assert!(ask(&mut server.raw(), &request).contains("true")));
        }
    });
}
