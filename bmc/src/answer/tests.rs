use serde_json::json;

use super::*;

fn answered(status: u16, body: Value) -> Answered {
    let status = StatusCode::from_u16(status).unwrap();
    Answered { status, token: None, location: None, etag: None, body }
}

fn refusal(id: &str, message: &str) -> Value {
    json!({"error": {"@Message.ExtendedInfo": [{"Message": "first"},
        {"MessageId": id, "Message": message}]}})
}

#[test]
fn odd_answers_are_tried_again_and_refusals_are_not() {
    let dell = refusal(
        "IDRAC.1.6.SWC0700",
        "iDRAC is not ready. The configuration values cannot be accessed. Please retry after a few minutes.",
    );
    let temporary = refusal("Base.1.8.ServiceTemporarilyUnavailable", "later");
    let hpe = refusal("iLO.2.14.ResourceNotReadyRetry", "");
    let read_only = refusal("Base.1.8.PropertyNotWritable", "The property Mode is read only.");
    let code = json!({"error": {"code": "Base.1.0.GeneralError", "message": "Please try again"}});
    let object = json!({"error": {"@Message.ExtendedInfo": {"Message": "BMC is Busy"}}});
    for (status, body, reading, ordering) in [
        (200, json!({}), (Verdict::Good, 1), (Verdict::Good, 1)),
        (200, Value::Null, (Verdict::Unreadable, 2), (Verdict::Good, 1)),
        (200, json!([1]), (Verdict::Unreadable, 2), (Verdict::Good, 1)),
        (204, json!("x"), (Verdict::Unreadable, 2), (Verdict::Good, 1)),
        (400, dell, (Verdict::NotReady, 5), (Verdict::NotReady, 5)),
        (400, temporary, (Verdict::NotReady, 5), (Verdict::NotReady, 5)),
        (400, hpe, (Verdict::NotReady, 5), (Verdict::NotReady, 5)),
        (400, code, (Verdict::NotReady, 5), (Verdict::NotReady, 5)),
        (404, object, (Verdict::NotReady, 5), (Verdict::NotReady, 5)),
        (400, read_only, (Verdict::Failed, 2), (Verdict::Refused, 1)),
        (400, Value::Null, (Verdict::Failed, 2), (Verdict::Refused, 1)),
        (404, json!({"error": []}), (Verdict::Failed, 2), (Verdict::Refused, 1)),
        (428, Value::Null, (Verdict::Failed, 2), (Verdict::Refused, 1)),
        (503, Value::Null, (Verdict::NotReady, 5), (Verdict::NotReady, 5)),
        (409, Value::Null, (Verdict::NotReady, 5), (Verdict::NotReady, 5)),
        (500, Value::Null, (Verdict::Failed, 2), (Verdict::Failed, 1)),
        (401, Value::Null, (Verdict::Unauthorized, 1), (Verdict::Unauthorized, 1)),
        (403, Value::Null, (Verdict::Forbidden, 1), (Verdict::Forbidden, 1)),
        (302, Value::Null, (Verdict::Failed, 2), (Verdict::Refused, 1)),
    ] {
        let told = answered(status, body.clone());
        for (method, wanted) in [(Method::GET, reading), (Method::POST, ordering)] {
            let verdict = told.verdict(&method);
            assert_eq!((verdict, tries(&method, verdict)), wanted, "{method} {status} {body}");
        }
    }
    assert_eq!(tries(&Method::PATCH, Verdict::Failed), 2);
}

#[test]
fn tags_in_the_order_in_which_they_are_tried() {
    let tags = |header: Option<&str>, body: &str| {
        let mut told = answered(200, json!({ "@odata.etag": body }));
        told.etag = header.map(str::to_owned);
        told.tags().into_iter().map(|tag| tag.unwrap_or_else(|| "-".to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(tags(None, ""), ["-", "*"]);
    assert_eq!(tags(Some("\"7\""), ""), ["\"7\"", "*", "-"]);
    assert_eq!(tags(None, "W/\"7\""), ["W/\"7\"", "\"7\"", "*", "-"]);
    assert_eq!(tags(Some("W/\"7\""), "W/\"7\""), ["W/\"7\"", "\"7\"", "*", "-"]);
    assert_eq!(tags(Some("\"8\""), "W/\"7\""), ["\"8\"", "W/\"7\"", "\"7\"", "*", "-"]);
    assert_eq!(tags(Some("a\r\nX: y"), "b\n"), ["-", "*"]);
}

#[test]
fn who_speaks_without_tls_is_sent_elsewhere() {
    let told = |status: u16, location: &str| {
        let mut told = answered(status, Value::Null);
        told.location = Some(location.to_owned());
        told.secured_elsewhere().map(|url| url.to_string())
    };
    assert_eq!(told(301, "https://10.1.1.1/redfish/v1/").as_deref(), Some("https://10.1.1.1"));
    assert_eq!(told(308, "https://bmc:8443").as_deref(), Some("https://bmc:8443"));
    for (status, location) in
        [(200, "https://a/"), (301, "/x"), (301, "http://a/"), (301, "https:///")]
    {
        assert_eq!(told(status, location), None, "{status} {location}");
    }
}

#[test]
fn a_refused_login_is_one() {
    let ilo = refusal("iLO.0.10.UnauthorizedLoginAttempt", "");
    assert!(answered(400, ilo).refuses_login());
    assert!(answered(401, Value::Null).refuses_login());
    assert!(!answered(400, refusal("Base.1.0.SessionLimitExceeded", "too many")).refuses_login());
}
