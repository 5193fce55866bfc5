//! One user, from however many addresses, keeps no other one out.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::door::{Door, login, request};

/// Connections of the crowd: more than the front door keeps, from five addresses.
const CROWD: usize = 1_100;
const ADDRESSES: u8 = 5;
/// Requests of another user meanwhile, from another address.
const OTHERS: usize = 25;

/// A connection of the crowd that has sent this.
async fn one_of_crowd(door: &Door, number: usize, sent: &str) -> TcpStream {
    let from = u8::try_from(number % usize::from(ADDRESSES)).unwrap();
    let mut stream = door.connect(from + 1).await;
    // It may be shed meanwhile.
    drop(stream.write_all(sent.as_bytes()).await);
    stream
}

async fn crowd(door: &Door, size: usize, sent: &str) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for number in 0..size {
        streams.push(one_of_crowd(door, number, sent).await);
    }
    streams
}

/// Every other user who asks now is answered.
async fn others_are_served(door: &Door, line: &str) {
    for number in 0..OTHERS {
        let answer = door.ask(100, &request("carol", line)).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{number}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_with_a_thousand_slow_bodies_keeps_nobody_out() {
    let door = Door::open().await;
    let slow = format!(
        "POST /graphql HTTP/1.1\r\nHost: localhost\r\n{}Content-Type: application/json\r\n\
         Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
        login("bob")
    );
    let mut streams = crowd(&door, CROWD, &slow).await;
    for stream in &mut streams {
        // The door waits for the body, or has given the place to another one.
        let mut told = [0; 64];
        let read = stream.read(&mut told).await.unwrap_or_default();
        let told = String::from_utf8_lossy(&told[..read]).into_owned();
        assert!(told.is_empty() || told.starts_with("HTTP/1.1 100"), "{told}");
        drop(stream.write_all(b"{").await);
    }
    others_are_served(&door, "GET /2/info").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_with_a_thousand_lists_that_are_not_answered_keeps_nobody_out() {
    let door = Door::open().await;
    let _streams = crowd(&door, CROWD, &request("bob", "GET /2/jobs?bulk=1")).await;
    door.until_asked("bob", 16).await;
    others_are_served(&door, "GET /2/jobs?bulk=1").await;
    assert_eq!(door.master.asked("bob"), 16, "a user has a quarter of the questions");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_with_hundreds_of_waits_leaves_places_to_others() {
    let door = Door::open().await;
    let wait = |user: &str| {
        let body = r#"{"fields": ["status"]}"#;
        format!(
            "GET /2/jobs/7/wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            login(user),
            body.len()
        )
    };
    let _streams = crowd(&door, 240, &wait("alice")).await;
    door.until_asked("alice", 48).await;
    for _ in 0..OTHERS {
        let answer = door.ask(100, &wait("carol")).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("null"), "{answer}");
    }
    assert_eq!(door.master.asked("alice"), 48, "a user has a quarter of the waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_finds_no_place_tells_of_no_change() {
    let door = Door::open().await;
    let body = r#"{"fields": ["status"]}"#;
    let wait = format!(
        "GET /2/jobs/7/wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        login("alice"),
        body.len()
    );
    let _streams = crowd(&door, 48, &wait).await;
    door.until_asked("alice", 48).await;
    let answer = door.ask(1, &wait).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("null"), "{answer}");
}
