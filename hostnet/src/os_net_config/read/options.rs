//! Core: the options of bonds, and those that stand where they mean nothing.

use model::json::Malformed;

use crate::model::link::{Bond, BondMode, BondOption, LinkName, Tuning, Word};
use crate::model::written::{number, wrong};
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
        // What the kernel does unless told otherwise.
        mode: BondMode::BalanceRr,
        miimon_ms: None,
        lacp_rate: None,
        xmit_hash_policy: None,
        primary,
        tuning: Tuning::default(),
    };
    for option in options.split_whitespace() {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let refused = || wrong(&place, format!("`{name}` cannot be `{value}`"));
        match name {
            "mode" => {
                bond.mode = word(value).ok_or_else(refused)?;
            }
            "lacp_rate" => {
                bond.lacp_rate = Some(word(value).ok_or_else(refused)?);
            }
            "xmit_hash_policy" => {
                bond.xmit_hash_policy = Some(word(value).ok_or_else(refused)?);
            }
            "miimon" => {
                let ms = value.parse().map_err(|_e| refused())?;
                bond.miimon_ms = Some(number(&place, ms, 0..=60_000)?);
            }
            "primary" => {
                bond.primary = Some(LinkName::new(value).map_err(|why| wrong(&place, why))?);
            }
            _ => {
                let option = BondOption::from_kernel(name).ok_or_else(|| {
                    wrong(&place, format!("`{}` has no counterpart here", name.escape_debug()))
                })?;
                let set = bond.tuning.set(option, value);
                set.map_err(|why| wrong(&place, format!("`{name}`: {why}")))?;
            }
        }
    }
    Ok(bond)
}

/// A value by its word or its number, as the kernel's module takes both.
fn word<T: Word>(value: &str) -> Option<T> {
    T::from_word(value).or_else(|| value.parse().ok().and_then(T::from_number))
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
    match left.iter().find(|(_, is_left)| *is_left) {
        Some((field, _)) => {
            Err(wrong(&format!("{place}.{field}"), "an object of this type has no such option"))
        }
        None => Ok(()),
    }
}
