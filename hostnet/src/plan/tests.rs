use std::collections::BTreeSet;
use std::time::Instant;

use proptest::prelude::*;

use super::model_kernel::ModelKernel;
use super::random::network;
use super::step::Step;
use super::{Plan, plan, steps};
use crate::from_yaml;
use crate::host::checkpoint;
use crate::model::HostNetwork;
use crate::model::address::Route;
use crate::model::link::{Kind, Link, LinkName};

/// Whether a host has what was asked for. This is told without a plan.
fn assert_has(kernel: &ModelKernel, desired: &HostNetwork) {
    for wanted in &desired.links {
        let found = kernel.0.link(&wanted.name).unwrap_or_else(|| panic!("no {}", wanted.name));
        let set = |link: &Link| link.routes.iter().map(Route::canonical).collect::<BTreeSet<_>>();
        assert_eq!(set(found), set(wanted), "{}", wanted.name);
        let set = |link: &Link| link.addresses.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!(set(found), set(wanted), "{}", wanted.name);
        assert_eq!((found.up, found.kind.parent()), (wanted.up, wanted.kind.parent()));
        if let (Kind::Bond(wanted), Kind::Bond(found)) = (&wanted.kind, &found.kind) {
            assert!(wanted.tuning.is_met_by(&found.tuning), "{wanted:?}: {found:?}");
        }
        assert!(wanted.mtu.is_none() || wanted.mtu == found.mtu, "{}", wanted.name);
        for member in wanted.kind.members() {
            assert!(found.kind.members().contains(member), "{member} in {}", wanted.name);
        }
        for member in found.kind.members() {
            let is_named = desired.link(member).is_some();
            assert!(
                !is_named || wanted.kind.members().contains(member),
                "{member} in {}",
                wanted.name
            );
        }
    }
    assert!(desired.absent.iter().all(|name| kernel.0.link(name).is_none()));
    assert_eq!(desired.rules.len(), kernel.0.rules.len());
}

/// The links that a configuration does not name, with those of their members that it does not name.
fn foreign(network: &HostNetwork, to: &HostNetwork) -> Vec<Link> {
    let is_named = |name: &LinkName| to.link(name).is_some() || to.absent.contains(name);
    let mut links = network.links.clone();
    links.retain(|link| !is_named(&link.name));
    let controllers = network.controllers();
    for link in &mut links {
        // A bond gives its members its own address and MTU, whoever names them.
        if controllers.get(&link.name).is_some_and(|one| matches!(one.kind, Kind::Bond(_))) {
            (link.mac, link.mtu) = (None, None);
        }
        link.kind.members_mut().into_iter().for_each(|list| list.retain(|name| !is_named(name)));
    }
    links
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// From any state to any other one: the plan leads there, its checkpoint back, and a second plan is
    /// empty. Everything that the configuration does not name stays.
    #[test]
    fn a_plan_leads_there_and_back(from in prop::collection::vec(any::<u8>(), 90), to in prop::collection::vec(any::<u8>(), 90)) {
        let (Some(from), Some(to)) = (network(&from), network(&to)) else { return Ok(()) };
        let mut kernel = ModelKernel::with_cards(4);
        kernel.apply(&plan(&kernel.0, &from).unwrap().steps);
        assert_has(&kernel, &from);
        for to in [to.clone().replacing(&from), to] {
            let before = kernel.clone();
            let Ok(plan) = plan(&kernel.0, &to) else { continue };
            kernel.apply(&plan.steps);
            assert_has(&kernel, &to);
            prop_assert_eq!(steps(&kernel.0, &plan.target).unwrap(), vec![]);
            let foreign = |kernel: &ModelKernel| foreign(&kernel.0, &to);
            prop_assert_eq!(foreign(&kernel), foreign(&before));
            kernel.apply(&way_back(&kernel, &before, &plan));
            prop_assert_eq!(kernel.sorted(), before.sorted());
        }
    }
}

/// The steps of an agent that goes back from what a plan made.
fn way_back(kernel: &ModelKernel, before: &ModelKernel, plan: &Plan) -> Vec<Step> {
    steps(&kernel.0, &checkpoint::before(&before.0, &plan.target)).unwrap()
}

fn own(text: &str) -> HostNetwork {
    from_yaml(text).unwrap()
}

#[test]
fn the_same_meaning_gives_no_step() {
    let mut kernel = ModelKernel::with_cards(1);
    let one = "links: [{name: e0, addresses: [192.0.2.10/24, '2001:db8::1/64'], routes: [{to: default, via: 192.0.2.1}, {to: '::/0', via: '2001:db8::2', metric: 1024}]}]";
    kernel.apply(&plan(&kernel.0, &own(one)).unwrap().steps);
    let two = "links: [{name: e0, addresses: ['2001:0DB8:0:0::0001/64', 192.0.2.10/24], routes: [{to: 0::0/0, via: '2001:DB8::0002', table: 254}, {to: 0.0.0.0/0, metric: 0, via: 192.0.2.1}]}]";
    assert_eq!(plan(&kernel.0, &own(two)).unwrap().steps, []);
}

#[test]
fn routes_survive_the_last_address_of_their_link() {
    let mut kernel = ModelKernel::with_cards(1);
    for address in ["192.0.2.10/24", "192.0.2.11/24", "192.0.2.11/25"] {
        let text = format!(
            "links: [{{name: e0, addresses: [{address}], routes: [{{to: default, via: 192.0.2.1}}]}}]"
        );
        let before = kernel.clone();
        let plan = plan(&kernel.0, &own(&text)).unwrap();
        kernel.apply(&plan.steps);
        assert_has(&kernel, &own(&text));
        kernel.apply(&way_back(&kernel, &before, &plan));
        assert_eq!(kernel.sorted(), before.sorted());
        kernel.apply(&plan.steps);
    }
}

#[test]
fn a_way_back_leaves_the_addresses_of_members_to_their_bond() {
    let bare = ModelKernel::with_cards(2);
    let mut bonded = bare.clone();
    let text = "links: [{name: e0}, {name: e1}, {name: bo0, kind: bond, mode: 802.3ad, mtu: 9000, members: [e0, e1]}]";
    bonded.apply(&plan(&bonded.0, &own(text)).unwrap().steps);
    let back = steps(&bare.0, &bonded.0).unwrap();
    let sets = |step: &&Step| matches!(step, Step::SetMac { .. } | Step::SetMtu { .. });
    assert_eq!(back.iter().find(sets), None);
}

#[test]
fn a_plan_reads_as_what_it_does() {
    let mut kernel = ModelKernel::with_cards(2);
    let one = "links: [{name: e0, addresses: [192.0.2.10/24], routes: [{to: default, via: 192.0.2.1}]}, {name: e1}]";
    kernel.apply(&plan(&kernel.0, &own(one)).unwrap().steps);
    let two = "links: [{name: e0}, {name: e1}, {name: br0, kind: bridge, members: [e0], mtu: 1400, addresses: [192.0.2.10/24], routes: [{to: default, via: 192.0.2.1}]},
        {name: bo0, kind: bond, mode: 802.3ad, members: [e1]}]\nrules: [{from: 192.0.2.0/24, table: 5, priority: 9}]";
    insta::assert_snapshot!(plan(&kernel.0, &own(two)).unwrap());
}

#[test]
fn cards_are_found_by_permanent_address_only() {
    let mut kernel = ModelKernel::with_cards(3);
    // Members of a bond share an address; e0 and e1 exchange their names in the configuration.
    kernel.0.links[1].mac = kernel.0.links[0].mac;
    let desired = own(
        "links: [{name: e1, permanent_mac: '52:54:00:00:00:00', mtu: 1400}, {name: e0, permanent_mac: '52:54:00:00:00:01'},
         {name: bo0, kind: bond, mode: active-backup, primary: e1, members: [e0, e1], mtu: 1400}, {name: v5, kind: vlan, vlan: 5, parent: bo0}]",
    );
    let plan = plan(&kernel.0, &desired).unwrap();
    assert_eq!(plan.target.link("e0").unwrap().mtu, Some(1400));
    assert_eq!(plan.target.link("bo0").unwrap().kind.primary().unwrap().as_str(), "e0");
    kernel.apply(&plan.steps);
}

#[test]
fn what_cannot_be_reached_is_refused() {
    let mut kernel = ModelKernel::with_cards(2);
    let base = "links: [{name: e0}, {name: e1}, {name: br0, kind: bridge, members: [e0, e1]}, {name: v5, kind: vlan, vlan: 5, parent: br0}]";
    kernel.apply(&plan(&kernel.0, &own(base)).unwrap().steps);
    for (text, told) in [
        ("links: [{name: e9}]", "links[0].name: this host has no interface e9"),
        (
            "links: [{name: nic1}]",
            "this host has no interface nic1; that is os-net-config's word for an active card: name one of e0, e1",
        ),
        (
            "links: [{name: e0, permanent_mac: '52:54:00:00:00:77'}]",
            "links[0].permanent_mac: no card of this host has the permanent address 52:54:00:00:00:77",
        ),
        (
            "{links: [{name: e0, kind: dummy}], absent: [v5, br0]}",
            "links[0].kind: e0 is of kind ethernet on this host",
        ),
        ("links: [{name: br0}]", "links[0].kind: br0 is of kind bridge on this host"),
        (
            "links: [{name: o, kind: ovs_bridge}]",
            "links[0].kind: an agent does not configure Open vSwitch",
        ),
        (
            "links: [{name: e0, mtu: 1400}]",
            "links[0].name: e0 is a member of br0, which the configuration does not name",
        ),
        (
            "links: [{name: e0}, {name: e1, mtu: 9000}, {name: bo0, kind: bond, mode: 802.3ad, members: [e1]}, {name: br0, kind: bridge}]",
            "links[1].mtu: e1 is a member of bo0, which gives it its own",
        ),
        ("absent: [e0]", "absent[0]: e0 is no virtual link"),
        (
            "absent: [br0]",
            "br0 cannot be removed or replaced: e0, which the configuration does not name",
        ),
        (
            "{links: [{name: e0}, {name: e1}], absent: [br0]}",
            "br0 cannot be removed or replaced: v5, which",
        ),
        (
            "links: [{name: x, permanent_mac: '52:54:00:00:00:00'}, {name: e0, kind: dummy}]",
            "links[1].name: e0 is there twice (with the names",
        ),
    ] {
        let error = plan(&kernel.0, &own(text)).expect_err(text).to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
    // A tap of an instance in a bridge that is named stays in it.
    let plan = plan(&kernel.0, &own("links: [{name: br0, kind: bridge, mtu: 1400}]")).unwrap();
    assert_eq!(plan.steps.len(), 1, "{plan}");
}

#[test]
fn a_host_of_500_interfaces_is_planned_fast() {
    let mut text = "links:\n- {name: e0}\n".to_owned();
    for id in 1..500 {
        let (high, low) = (id / 256, id % 256);
        text.push_str(&format!("- {{name: v{id}, kind: vlan, vlan: {id}, parent: e0, addresses: [10.{high}.{low}.2/24], routes: [{{to: 172.{high}.{low}.0/24, via: 10.{high}.{low}.1}}]}}\n"));
    }
    let desired = own(&text);
    let mut kernel = ModelKernel::with_cards(1);
    let started = Instant::now();
    let first = plan(&kernel.0, &desired).unwrap();
    let took = started.elapsed();
    kernel.apply(&first.steps);
    let started = Instant::now();
    assert!(plan(&kernel.0, &desired).unwrap().is_empty());
    let took = took + started.elapsed();
    println!("two plans of 500 interfaces: {took:?}");
    // Half of it is the target of a release build on an idle machine; this is neither.
    assert!(took.as_millis() < 1000, "{took:?}");
}
