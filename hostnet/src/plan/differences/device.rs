//! Core: whether a device can stay, or must be made anew.

use model::json::Malformed;

use crate::model::link::{Bond, Kind, Link};
use crate::model::written::wrong;

/// Whether `found` can become `wanted` by settings alone.
pub(super) fn can_stay(place: &str, found: &Link, wanted: &Link) -> Result<bool, Malformed> {
    let is_card = |kind: &Kind| matches!(kind, Kind::Ethernet { .. });
    if is_card(&found.kind) != is_card(&wanted.kind) {
        let (has, want) = (found.kind.word(), wanted.kind.word());
        let why = format!("{} is of kind {has} on this host, and cannot become {want}", found.name);
        return Err(wrong(place, why));
    }
    Ok(match (&found.kind, &wanted.kind) {
        (Kind::Bond(found), Kind::Bond(wanted)) => bond_can_stay(found, wanted),
        (Kind::Ethernet { .. }, Kind::Ethernet { .. })
        | (Kind::Bridge { .. }, Kind::Bridge { .. })
        | (Kind::Dummy, Kind::Dummy) => true,
        (Kind::Vlan { .. }, Kind::Vlan { .. })
        | (Kind::Macvlan { .. }, Kind::Macvlan { .. })
        | (Kind::Vxlan(_), Kind::Vxlan(_)) => found.kind == wanted.kind,
        (
            Kind::Ethernet { .. }
            | Kind::Bond(_)
            | Kind::Vlan { .. }
            | Kind::Bridge { .. }
            | Kind::Macvlan { .. }
            | Kind::Vxlan(_)
            | Kind::Dummy
            | Kind::OvsBridge { .. }
            | Kind::OvsBond { .. },
            _,
        ) => false,
    })
}

/// A setting that the configuration leaves open may stay as it is.
fn bond_can_stay(found: &Bond, wanted: &Bond) -> bool {
    fn fits<T: PartialEq>(wanted: Option<T>, found: Option<T>) -> bool {
        wanted.is_none() || wanted == found
    }
    found.mode == wanted.mode
        && fits(wanted.miimon_ms, found.miimon_ms)
        && fits(wanted.lacp_rate, found.lacp_rate)
        && fits(wanted.xmit_hash_policy, found.xmit_hash_policy)
        && wanted.tuning.is_met_by(&found.tuning)
}
