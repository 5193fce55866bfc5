//! Nothing that a stranger sends breaks this.

use proptest::prelude::*;
use serde_json::Value;

use crate::testing::{MAC, TOKEN, UUID, World};
use crate::{Request, VERSION_MAX, VERSION_MIN};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(Value::from(MAC)),
        Just(Value::from("0464649b32f300")),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let name = prop_oneof![
            "inventory|interfaces|disks|cpu|memory|lldp|lldp_raw|mac_address|name|size|error",
            "\\PC{0,6}",
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::hash_map(name, inner, 0..6)
                .prop_map(|map| Value::from_iter(map.into_iter())),
        ]
    })
}

proptest! {
    #[test]
    fn every_request_has_an_answer(
        method in "GET|POST|PUT|HEAD|[A-Z]{0,5}",
        path in "(/v1)?(/lookup|/heartbeat|/continue_inspection|/)?(/\\PC{0,20})?",
        query in proptest::option::of("(addresses=|node_uuid=)?\\PC{0,40}"),
        version in proptest::option::of("1\\.[0-9]{1,3}|latest|\\PC{0,10}"),
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let request = Request {
            method: &method,
            path: &path,
            query: query.as_deref(),
            version: version.as_deref(),
            body: &body,
            base: "",
        };
        let answer = World::new().ask(request, 1).answer;
        prop_assert!((200..500).contains(&answer.status));
        prop_assert!((VERSION_MIN..=VERSION_MAX).contains(&answer.version));
        if answer.status != 202 {
            prop_assert!(serde_json::from_str::<Value>(&answer.body).is_ok());
        }
        // No such request has a token, so none is told but to who looks itself up.
        prop_assert!(!answer.body.contains(TOKEN) || path.starts_with("/v1/lookup"));
    }

    #[test]
    fn every_inspection_has_an_answer(told in value(), raw in value()) {
        let body = serde_json::json!({ "inventory": told, "lldp_raw": raw }).to_string();
        World::new().post(&format!("/v1/continue_inspection?node_uuid={UUID}"), "", &body, 1);
    }

    #[test]
    fn every_heartbeat_has_an_answer(told in value(), url in "\\PC{0,40}", status in value()) {
        let body = serde_json::json!({
            "callback_url": url, "agent_token": TOKEN, "agent_version": told,
            "agent_status": status,
        });
        let answer =
            World::new().post(&format!("/v1/heartbeat/{UUID}"), "1.115", &body.to_string(), 1).answer;
        prop_assert!([202, 400].contains(&answer.status));
    }
}
