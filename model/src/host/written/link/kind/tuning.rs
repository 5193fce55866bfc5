//! Core: how a bond watches its members, in files.

use crate::host::link::{BondOption, Tuning, Word};
use crate::host::written::link::Written;
use crate::host::written::wrong;
use crate::json::Malformed;

pub(super) fn read(place: &str, written: &mut Written) -> Result<Tuning, Malformed> {
    let number = |value: Option<i64>| value.map(|value| value.to_string());
    let mut tuning = Tuning::default();
    for (option, text) in [
        (BondOption::UpDelay, number(written.updelay_ms.take())),
        (BondOption::DownDelay, number(written.downdelay_ms.take())),
        (BondOption::ArpInterval, number(written.arp_interval_ms.take())),
        (BondOption::ArpIpTargets, written.arp_ip_targets.take().map(|list| list.join(","))),
        (BondOption::MinLinks, number(written.min_links.take())),
        (BondOption::AdSelect, written.ad_select.take()),
        (BondOption::FailOverMac, written.fail_over_mac.take()),
    ] {
        let Some(text) = text else { continue };
        let place = || format!("{place}.{}", option.names().own);
        tuning.set(option, &text).map_err(|why| wrong(&place(), why))?;
    }
    Ok(tuning)
}

pub(super) fn write(tuning: &Tuning, written: &mut Written) {
    written.updelay_ms = tuning.updelay_ms.map(i64::from);
    written.downdelay_ms = tuning.downdelay_ms.map(i64::from);
    written.arp_interval_ms = tuning.arp_interval_ms.map(i64::from);
    let targets: Vec<String> = tuning.arp_ip_targets.iter().map(ToString::to_string).collect();
    written.arp_ip_targets = Some(targets).filter(|list| !list.is_empty());
    written.min_links = tuning.min_links.map(i64::from);
    written.ad_select = tuning.ad_select.map(|one| one.word().to_owned());
    written.fail_over_mac = tuning.fail_over_mac.map(|one| one.word().to_owned());
}
