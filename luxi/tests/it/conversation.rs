//! Golden requests and answers, and how a conversation goes on.

use std::io::Write as _;

use luxi::Limits;

use crate::toy::{ask, drain, receive, start};

#[test]
fn golden() {
    let server = start(Limits::default());
    let mut stream = server.raw();
    let mut asked = 0;
    let mut lines = include_str!("conversation.txt").lines().filter(|line| !line.starts_with('#'));
    while let Some(line) = lines.next() {
        let request = line.strip_prefix("> ").unwrap();
        let expected = lines.next().unwrap().strip_prefix("< ").unwrap();
        assert_eq!(ask(&mut stream, request), expected, "{request}");
        asked += 1;
    }
    assert!(asked > 15);
}

#[test]
fn requests_sent_ahead_are_answered_in_order() {
    let server = start(Limits::default());
    let mut stream = server.raw();
    let request = |id| format!("{{\"method\":\"CancelJob\",\"args\":[{id}]}}\n\x03");
    let ahead: String = (1..=500).map(request).collect();
    stream.write_all(ahead.as_bytes()).unwrap();
    for id in 1..=500 {
        let expected = format!(r#"{{"success":true,"result":[false,"job {id}"]}}"#);
        assert_eq!(receive(&mut stream), expected);
    }
}

/// `echo … | socat - UNIX:…` ends its side before it reads.
#[test]
fn a_client_may_end_its_sending_side() {
    let server = start(Limits::default());
    let mut stream = server.raw();
    stream.write_all(b"{\"method\":\"ArchiveJob\",\"args\":[1]}\x03").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(drain(&mut stream), "{\"success\":true,\"result\":true}\u{3}");
}

#[test]
fn the_service_knows_who_asks() {
    let server = start(Limits::default());
    let answer = ask(&mut server.raw(), r#"{"method":"QueryClusterInfo","args":[]}"#);
    assert!(answer.contains(&format!("\"pid\":{}", std::process::id())), "{answer}");
}

#[test]
fn stopping_ends_idle_connections_and_lets_busy_ones_finish() {
    let mut server = start(Limits::default());
    let mut idle = server.raw();
    ask(&mut idle, r#"{"method":"ArchiveJob","args":[1]}"#);
    server.stop.send(true).unwrap();
    assert_eq!(drain(&mut idle), "");
    let done = server.done.take().unwrap();
    server.runtime.block_on(done).unwrap();
    assert!(std::os::unix::net::UnixStream::connect(&server.path).is_err());
}
