use proptest::prelude::*;

use super::*;

fn hello() -> Hello {
    Hello {
        protocol: PEER_PROTOCOL,
        cluster_uuid: Uuid::from_u128(7),
        from: Speaker {
            node: "n1.example.com".parse().unwrap(),
            store: StoreId::new(1, Uuid::from_u128(11)),
        },
        to: StoreId::new(2, Uuid::from_u128(12)),
        purpose: Purpose::Engine,
        acknowledged: at(3),
    }
}

fn at(index: u64) -> Position {
    Position { epoch: queue_format::Epoch { term: 1, node: 1 }, index }
}

fn here() -> Here {
    let store = StoreId::new(2, Uuid::from_u128(12));
    Here { cluster_uuid: Uuid::from_u128(7), store, last: at(3) }
}

#[test]
fn the_form_on_the_wire_is_the_documented_one() {
    let text = serde_json::to_string(&hello()).unwrap();
    assert_eq!(
        text,
        r#"{"protocol":1,"cluster_uuid":"00000000-0000-0000-0000-000000000007","from":{"node":"n1.example.com","member":1,"incarnation":"00000000-0000-0000-0000-00000000000b"},"to":{"member":2,"incarnation":"00000000-0000-0000-0000-00000000000c"},"purpose":"engine","acknowledged":{"epoch":{"term":1,"node":1},"index":3}}"#
    );
    let refusal = PeerRefusal::not_meant(hello().to, StoreId::NONE);
    let text = serde_json::to_string(&refusal).unwrap();
    assert!(
        text.starts_with(
            r#"{"reason":{"kind":"not-meant","here":{"member":null,"incarnation":null}},"#
        ),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<PeerRefusal>(&text).unwrap(), refusal);
}

#[test]
fn an_older_copy_of_a_store_is_not_followed() {
    let older = Here { last: at(2), ..here() };
    let refusal = hello().check(&older).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::Reverted { last: at(2) });
    assert!(refusal.message.contains("1.1/2") && refusal.message.contains("1.1/3"), "{refusal}");
    let newer = Here { last: at(4), ..here() };
    hello().check(&newer).unwrap();
    // A caller that asks how it stands gets an answer.
    let control = Hello { purpose: Purpose::Control, ..hello() };
    control.check(&older).unwrap();
    // A version that did not say so knows of nothing.
    let text = serde_json::to_string(&hello()).unwrap();
    let (before, _) = text.split_once(",\"acknowledged\"").unwrap();
    let before = Hello::read(format!("{before}}}").as_bytes()).unwrap();
    before.check(&older).unwrap();
}

#[test]
fn what_a_later_version_adds_is_passed_over() {
    let text = serde_json::to_string(&hello()).unwrap();
    let more = format!("{},\"mood\":{{\"good\":[1]}}}}", text.strip_suffix('}').unwrap());
    assert_eq!(Hello::read(more.as_bytes()).unwrap(), hello());
    let newer: PeerRefusal =
        serde_json::from_str(r#"{"reason":{"kind":"tired","since":1},"message":"m","x":2}"#)
            .unwrap();
    assert_eq!(newer.reason, RefusalReason::Other);
}

#[test]
fn the_version_is_read_before_anything_else() {
    let refusal = Hello::read(br#"{"protocol":9,"from":"anybody"}"#).unwrap_err();
    let versions = Versions::up_to(PEER_PROTOCOL);
    assert_eq!(refusal.reason, RefusalReason::Version { versions });
    assert!(refusal.message.contains("version 9"), "{refusal}");
    let refusal = Hello::read(br#"{"protocol":1,"from":"anybody"}"#).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::Malformed);
}

#[test]
fn only_who_is_meant_accepts() {
    let accepted = |change: &dyn Fn(&mut Hello)| {
        let mut changed = hello();
        change(&mut changed);
        changed.check(&here()).map_err(|refusal| refusal.reason)
    };
    let not_meant = Err(RefusalReason::NotMeant { here: here().store });
    assert_eq!(accepted(&|_| ()), Ok(()));
    assert_eq!(accepted(&|h| h.to.incarnation = None), Ok(()));
    assert_eq!(accepted(&|h| h.to.member = Some(3)), not_meant);
    assert_eq!(accepted(&|h| h.to.incarnation = Some(Uuid::from_u128(13))), not_meant);
    assert_eq!(
        accepted(&|h| h.cluster_uuid = Uuid::from_u128(8)),
        Err(RefusalReason::WrongCluster { cluster_uuid: Uuid::from_u128(7) })
    );
    // The engine speaks from member to member; control also asks who is there.
    assert_eq!(accepted(&|h| h.to = StoreId::NONE), Err(RefusalReason::Malformed));
    assert_eq!(accepted(&|h| h.from.store = StoreId::NONE), Err(RefusalReason::Malformed));
    let asks_who = |h: &mut Hello| {
        (h.to, h.from.store, h.purpose) = (StoreId::NONE, StoreId::NONE, Purpose::Control);
    };
    assert_eq!(accepted(&asks_who), Ok(()));
    // A node without a store cannot be the one that was meant.
    let nobody = Here { store: StoreId::NONE, ..here() };
    assert!(hello().check(&nobody).is_err());
}

#[test]
fn the_documentation_has_every_reason() {
    let text = include_str!("../../../../docs/replication.md");
    let versions = Versions::up_to(PEER_PROTOCOL);
    for reason in [
        RefusalReason::Version { versions },
        RefusalReason::WrongCluster { cluster_uuid: Uuid::nil() },
        RefusalReason::Stranger,
        RefusalReason::NotMeant { here: StoreId::NONE },
        RefusalReason::Busy,
        RefusalReason::Malformed,
        RefusalReason::Stopping,
    ] {
        let json = serde_json::to_value(reason).unwrap();
        assert_eq!(json["kind"], reason.name());
        let row = format!("| `{}` | ", reason.name());
        assert!(text.contains(&row), "docs/replication.md lacks the row\n{row}");
    }
}

fn stores() -> impl Strategy<Value = StoreId> {
    let member = proptest::option::of(any::<u64>());
    let incarnation = proptest::option::of(any::<u128>().prop_map(Uuid::from_u128));
    (member, incarnation).prop_map(|(member, incarnation)| StoreId { member, incarnation })
}

proptest! {
    #[test]
    fn what_is_written_is_read(cluster: u128, from in stores(), to in stores(), engine: bool) {
        let purpose = if engine { Purpose::Engine } else { Purpose::Control };
        let cluster_uuid = Uuid::from_u128(cluster);
        let from = Speaker { store: from, ..hello().from };
        let written = Hello { cluster_uuid, from, to, purpose, ..hello() };
        let text = serde_json::to_vec(&written).unwrap();
        prop_assert!(text.len() < super::super::frame::HELLO_BYTES_MAX);
        prop_assert_eq!(Hello::read(&text).unwrap(), written);
    }

    #[test]
    fn decoding_is_total(bytes: Vec<u8>) {
        drop(Hello::read(&bytes));
    }

    #[test]
    fn decoding_what_is_nearly_a_hello_is_total(at in 0_usize..240, byte: u8, cut in 0_usize..240) {
        let mut text = serde_json::to_vec(&hello()).unwrap();
        if let Some(place) = text.get_mut(at) {
            *place = byte;
        }
        drop(Hello::read(&text));
        text.truncate(cut);
        prop_assert!(Hello::read(&text).is_err());
    }

    #[test]
    fn a_store_means_itself(store in stores(), other in stores()) {
        prop_assert!(store.means(&store) && StoreId::NONE.means(&other));
        if store.means(&other) && store.member.is_some() {
            prop_assert_eq!(store.member, other.member);
        }
    }
}
