//! Clients that break the rules: each gets a clear end, and others notice nothing.

use std::io::{Read as _, Write as _};
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
fn answers_that_nobody_reads_make_room_for_those_that_are_read() {
    const ANSWER: usize = 1_000_000;
    let limits =
        Limits { unread_bytes: 2_500_000, unread_time: Duration::ZERO, ..Limits::default() };
    let server = start(limits);
    let request = format!("{{\"method\":\"QueryTags\",\"args\":[\"{ANSWER}\",null]}}\x03");
    let mut slow: Vec<_> = (0..30).map(|_| server.raw()).collect();
    for stream in &mut slow {
        stream.write_all(request.as_bytes()).unwrap();
        // Its answer has begun.
        stream.read_exact(&mut [0]).unwrap();
        server.assert_others_are_served();
    }
    let mut good = server.raw();
    good.write_all(request.as_bytes()).unwrap();
    good.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(drain(&mut good).len() > ANSWER);
    let rest = slow.iter_mut().map(|stream| {
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        drain(stream)
    });
    let whole = rest.filter(|rest| rest.len() >= ANSWER).count();
    assert!(whole <= 2, "{whole} answers were held at the same time");
}

#[test]
fn where_nobody_reads_slowly_a_large_answer_is_refused_with_a_sentence() {
    let limits = Limits { unread_bytes: 1_000_000, ..Limits::default() };
    let server = start(limits);
    let mut stream = server.raw();
    let told = ask(&mut stream, r#"{"method":"QueryTags","args":["2000000",null]}"#);
    assert!(told.contains("GenericError") && told.contains("no room"), "{told}");
    assert!(ask(&mut stream, r#"{"method":"ArchiveJob","args":[1]}"#).contains("true"));
}

/// One client's mischief, by number; none of it is answered with anything but a refusal.
fn mischief(server: &crate::toy::Server, number: usize) {
    let mut stream = server.raw();
    let sent = match number % 8 {
        0 => stream.write_all(br#"{"method":"Archi"#),
        1 => stream.write_all(b"\x03\x03\x03 \xff\x00\x03"),
        2 => stream.write_all(&b"[".repeat(100_000)),
        3 => stream.write_all(b"{\"method\":\"QueryTags\",\"args\":[\"300000\",null]}\x03"),
        4 => stream.write_all(b"{\"method\":\"CancelJob\",\"args\":[\"x\",7,7,7]}\x03"),
        5 => stream.write_all(b"{\"method\":\"SubmitJob\",\"args\":[[{\"OP_ID\":7}]]}\x03"),
        6 if number.is_multiple_of(50) => {
            stream.write_all(b"{\"method\":\"ArchiveJob\",\"args\":[13]}\x03")
        }
        _ => stream.shutdown(std::net::Shutdown::Both),
    };
    // A client with too many connections is turned away before all of it is sent.
    drop(sent);
    if number.is_multiple_of(3) {
        let mut some = [0; 100];
        drop(stream.shutdown(std::net::Shutdown::Write));
        drop(stream.read(&mut some));
    }
}

#[test]
fn thousands_of_broken_clients_and_one_good_one() {
    let server = start(Limits { message_bytes: 50_000, ..Limits::default() });
    let done = std::sync::atomic::AtomicBool::new(false);
    let server = &server;
    std::thread::scope(|scope| {
        let good = scope.spawn(|| {
            let mut stream = server.raw();
            let mut served = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) || served == 0 {
                let answer = ask(&mut stream, r#"{"method":"ArchiveJob","args":[1]}"#);
                assert_eq!(answer, r#"{"success":true,"result":true}"#);
                served += 1;
            }
        });
        let bad: Vec<_> = (0..4)
            .map(|thread| {
                scope.spawn(move || (0..1_000).for_each(|n| mischief(server, 4 * n + thread)))
            })
            .collect();
        bad.into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        good.join().unwrap();
    });
    server.assert_others_are_served();
}

#[test]
fn thousands_of_idle_connections_are_there_when_they_have_something_to_ask() {
    const IDLE: usize = 4_000;
    if stdx::daemon::allow_files(3 * IDLE as u64) < 3 * IDLE as u64 {
        println!("skipped: this process may not open {} files", 3 * IDLE);
        return;
    }
    let limits = Limits { buffer_time: Duration::from_millis(1), ..Limits::default() };
    let server = start(limits);
    let mut idle: Vec<_> = (0..IDLE).map(|_| server.raw()).collect();
    for stream in &mut idle {
        assert!(ask(stream, r#"{"method":"ArchiveJob","args":[1]}"#).contains("true"));
    }
    server.assert_others_are_served();
    // Each of them is still there.
    for stream in &mut idle {
        assert!(ask(stream, r#"{"method":"ArchiveJob","args":[1]}"#).contains("true"));
    }
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
fn a_flood_of_connections_sheds_those_that_never_asked() {
    let server = start(Limits { connections: 20, connections_per_user: 10, ..Limits::default() });
    let mut known = server.raw();
    ask(&mut known, r#"{"method":"ArchiveJob","args":[1]}"#);
    let mut flood: Vec<_> = (0..40).map(|_| server.raw()).collect();
    assert_eq!(flood[0].read(&mut [0]).unwrap(), 0, "the first of them is closed");
    assert!(ask(&mut known, r#"{"method":"ArchiveJob","args":[1]}"#).contains("true"));
    for stream in &mut flood[31..] {
        ask(stream, r#"{"method":"ArchiveJob","args":[1]}"#);
    }
    server.assert_others_are_served();
}

#[test]
fn a_client_finds_no_place_where_all_are_busy() {
    let mut server = start(Limits { connections: 3, connections_per_user: 2, ..Limits::default() });
    let hangs =
        format!("{{\"method\":\"WaitForJobChange\",\"args\":[{HANGS},[],null,null,60]}}\x03");
    let busy = [(); 2].map(|()| {
        let mut stream = server.raw();
        stream.write_all(hangs.as_bytes()).unwrap();
        assert_eq!(server.hanging.blocking_recv(), Some("hangs"));
        stream
    });
    let answer = receive(&mut server.raw());
    assert!(answer.contains("Too many connections: user"), "{answer}");
    let error = luxi::Client::connect(&server.path)
        .and_then(|mut client| client.call(&luxi::method::QueryClusterInfo {}))
        .unwrap_err();
    assert!(error.to_string().contains("Too many connections"), "{error}");
    drop(busy);
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
