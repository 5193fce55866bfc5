//! Every answer has the form of its interface, whoever wrote it; and what a request may not have.

use serde_json::Value;

use crate::door::{Door, login, request};

/// The status, and the body as JSON.
fn read(answer: &str) -> (u16, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), serde_json::from_str(body).unwrap_or(Value::Null))
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_master_each_interface_says_so_in_its_form() {
    let door = Door::without_master().await;
    let told = door.ask(1, &request("", "GET /health")).await;
    assert_eq!(read(&told), (500, serde_json::json!({"health": "unhealthy"})));
    for (line, status, words) in [
        ("GET /v1/nowhere", 404, "could not be found"),
        ("GET /v1/lookup", 400, "addresses or node_uuid"),
        ("GET /v1/lookup?x=1", 400, "Unknown argument"),
        ("GET /v1/lookup?addresses=52:54:00:aa:bb:01", 502, "there is no socket"),
    ] {
        let asked = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             X-OpenStack-Ironic-API-Version: 1.72\r\n\r\n"
        );
        let told = door.ask(1, &asked).await;
        assert!(told.contains("x-openstack-ironic-api-version: 1.72"), "{line}: {told}");
        let (found, body) = read(&told);
        let fault = body["error_message"].as_str().unwrap_or_default();
        assert!(found == status && fault.contains(words), "{line}: {told}");
    }
    for (line, status, key) in
        [("GET /2/nodes/%ff", 400, "explain"), ("GET /api/v1/state/%ff", 400, "error")]
    {
        let (found, body) = read(&door.ask(1, &request("bob", line)).await);
        assert_eq!(found, status);
        assert!(body[key].as_str().is_some_and(|why| why.contains("UTF-8")), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_names_its_host_and_comes_from_no_other_site() {
    let door = Door::open().await;
    let status = async |head: &str| {
        let request = format!("{head}Connection: close\r\n{}\r\n", login("carol"));
        read(&door.ask(1, &request).await).0
    };
    let host = "Host: localhost\r\n";
    assert_eq!(status(&format!("GET /2/info HTTP/1.1\r\n{host}")).await, 200);
    assert_eq!(status("GET /2/info HTTP/1.1\r\n").await, 400);
    assert_eq!(status(&format!("GET /2/info HTTP/1.1\r\n{host}{host}")).await, 400);
    let change = format!("PUT /2/tags?tag=x HTTP/1.1\r\n{host}Content-Length: 0\r\n");
    assert_eq!(status(&format!("{change}Origin: http://evil.example\r\n")).await, 403);
    assert_eq!(status(&format!("{change}Origin: http://localhost:3000\r\n")).await, 403);
    assert_ne!(status(&format!("{change}Origin: http://localhost\r\n")).await, 403);
    let misspelt = format!("DELETE /2/groups/blue?dry_run=1 HTTP/1.1\r\n{host}");
    assert_eq!(status(&misspelt).await, 400);
}
