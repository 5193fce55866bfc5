//! Core: the options of bonds, and those that stand where they mean nothing.

use model::json::Malformed;

use crate::model::link::{Bond, BondMode, LinkName, Tuning};
use crate::model::written::{self, set_bond_option, word_or_number};
use crate::os_net_config::entry::Entry;

/// Reads `mode=active-backup miimon=100`.
pub(super) fn bond(
    place: &str,
    options: &str,
    members: Vec<LinkName>,
    primary: Option<LinkName>,
) -> Result<Bond, Malformed> {
    let place = format!("{place}.bonding_options");
    let mut bond = Bond {
        members,
        // The kernel's default.
        mode: BondMode::BalanceRr,
        miimon_ms: None,
        lacp_rate: None,
        xmit_hash_policy: None,
        primary,
        tuning: Tuning::default(),
    };
    for option in options.split_whitespace() {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let place = format!("{place}.{name}");
        match name {
            "mode" => bond.mode = word_or_number(&place, value)?,
            _ => set_bond_option(&place, &mut bond, name, value)?,
        }
    }
    Ok(bond)
}

/// Refuses options that the type of the object does not have.
pub(super) fn nothing_is_left(place: &str, entry: &Entry) -> Result<(), Malformed> {
    let left = [
        ("members", !entry.members.is_empty()),
        ("vlan_id", entry.vlan_id.is_some()),
        ("device", entry.device.is_some()),
        ("bonding_options", entry.bonding_options.is_some()),
        ("ovs_options", entry.ovs_options.is_some()),
        ("table_id", entry.table_id.is_some()),
    ];
    written::nothing_is_left(place, &left, "an object of this type has no such option")
}
