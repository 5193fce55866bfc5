//! Core: what only some kinds of links have.

mod tuning;

use crate::json::Malformed;

use super::{Written, mac, name};
use crate::host::address::ip;
use crate::host::link::{Bond, BondMode, Kind, LinkName, MacvlanMode, VXLAN_PORT, Vxlan, Word};
use crate::host::written::{nothing_is_left, number, word, wrong};

/// Takes the options of one link, and remembers where they stand.
struct Options<'w> {
    place: &'w str,
    written: &'w mut Written,
}

pub(super) fn read(place: &str, written: &mut Written) -> Result<Kind, Malformed> {
    let named = written.kind.take().unwrap_or_else(|| "ethernet".to_owned());
    let mut options = Options { place, written };
    let kind = options.kind(&named)?;
    options.nothing_is_left(&named)?;
    Ok(kind)
}

impl Options<'_> {
    fn kind(&mut self, kind: &str) -> Result<Kind, Malformed> {
        Ok(match kind {
            "ethernet" => {
                let place = self.at("permanent_mac");
                let text = self.written.permanent_mac.take();
                Kind::Ethernet { permanent_mac: text.map(|text| mac(&place, &text)).transpose()? }
            }
            "bond" => Kind::Bond(self.bond()?),
            "vlan" => {
                let id = self.written.vlan.take().ok_or_else(|| self.missing("vlan", kind))?;
                Kind::Vlan { id: number(&self.at("vlan"), id, 1..=4094)?, parent: self.parent()? }
            }
            "bridge" => Kind::Bridge { members: self.members()?, stp: self.written.stp.take() },
            "macvlan" => {
                let mode = self.written.mode.take();
                let mode = mode.map(|text| word(&self.at("mode"), &text));
                Kind::Macvlan {
                    parent: self.parent()?,
                    mode: mode.transpose()?.unwrap_or(MacvlanMode::Bridge),
                }
            }
            "vxlan" => Kind::Vxlan(self.vxlan()?),
            "dummy" => Kind::Dummy,
            "ovs_bridge" => Kind::OvsBridge { members: self.members()?, primary: self.primary()? },
            "ovs_bond" => Kind::OvsBond {
                members: self.members()?,
                primary: self.primary()?,
                options: self.written.ovs_options.take(),
            },
            _ => {
                let why = format!(
                    "`{}` is none of ethernet, bond, vlan, bridge, macvlan, vxlan, dummy, \
                     ovs_bridge, ovs_bond",
                    kind.escape_debug()
                );
                return Err(wrong(&self.at("kind"), why));
            }
        })
    }

    fn bond(&mut self) -> Result<Bond, Malformed> {
        let Written { mode, miimon_ms, lacp_rate, xmit_hash_policy, .. } = &mut *self.written;
        let (mode, miimon) = (mode.take(), miimon_ms.take());
        let (rate, policy) = (lacp_rate.take(), xmit_hash_policy.take());
        let mode = mode.ok_or_else(|| self.missing("mode", "bond"))?;
        let miimon_at = self.at("miimon_ms");
        if rate.is_some() && mode != BondMode::Lacp.word() {
            return Err(wrong(&self.at("lacp_rate"), "only a bond of mode 802.3ad has it"));
        }
        Ok(Bond {
            mode: word(&self.at("mode"), &mode)?,
            miimon_ms: miimon.map(|ms| number(&miimon_at, ms, 0..=60_000)).transpose()?,
            lacp_rate: rate.map(|r| word(&self.at("lacp_rate"), &r)).transpose()?,
            xmit_hash_policy: policy
                .map(|text| word(&self.at("xmit_hash_policy"), &text))
                .transpose()?,
            tuning: tuning::read(self.place, self.written)?,
            members: self.members()?,
            primary: self.primary()?,
        })
    }

    fn vxlan(&mut self) -> Result<Vxlan, Malformed> {
        let vni = self.written.vni.take().ok_or_else(|| self.missing("vni", "vxlan"))?;
        let (local_at, remote_at) = (self.at("local"), self.at("remote"));
        let Written { local, remote, port, parent, .. } = &mut *self.written;
        let read = |text: Option<String>, at: &str| {
            text.map(|text| ip(&text).map_err(|why| wrong(at, why))).transpose()
        };
        let (local, remote) = (read(local.take(), &local_at)?, read(remote.take(), &remote_at)?);
        let (port, parent) = (port.take(), parent.take());
        if let (Some(local), Some(remote)) = (local, remote)
            && local.is_ipv4() != remote.is_ipv4()
        {
            let why = format!("{remote} is of another family than {local}");
            return Err(wrong(&remote_at, why));
        }
        let port = port.map(|port| number(&self.at("port"), port, 1..=65_535)).transpose()?;
        Ok(Vxlan {
            vni: number(&self.at("vni"), vni, 0..=0xFF_FFFF)?,
            parent: parent.map(|text| name(&self.at("parent"), &text)).transpose()?,
            local,
            remote,
            port: port.unwrap_or(VXLAN_PORT),
        })
    }

    fn members(&mut self) -> Result<Vec<LinkName>, Malformed> {
        let members = self.written.members.take().unwrap_or_default();
        let members = members.iter().enumerate();
        members.map(|(i, text)| name(&self.at(&format!("members[{i}]")), text)).collect()
    }

    fn primary(&mut self) -> Result<Option<LinkName>, Malformed> {
        let text = self.written.primary.take();
        text.map(|text| name(&self.at("primary"), &text)).transpose()
    }

    fn parent(&mut self) -> Result<LinkName, Malformed> {
        let text = self.written.parent.take();
        let text = text.ok_or_else(|| wrong(&self.at("parent"), "the link below is missing"))?;
        name(&self.at("parent"), &text)
    }

    fn nothing_is_left(&self, kind: &str) -> Result<(), Malformed> {
        let w = &self.written;
        let left = [
            ("permanent_mac", w.permanent_mac.is_some()),
            ("members", w.members.is_some()),
            ("primary", w.primary.is_some()),
            ("mode", w.mode.is_some()),
            ("miimon_ms", w.miimon_ms.is_some()),
            ("lacp_rate", w.lacp_rate.is_some()),
            ("xmit_hash_policy", w.xmit_hash_policy.is_some()),
            ("updelay_ms", w.updelay_ms.is_some()),
            ("downdelay_ms", w.downdelay_ms.is_some()),
            ("arp_interval_ms", w.arp_interval_ms.is_some()),
            ("arp_ip_targets", w.arp_ip_targets.is_some()),
            ("min_links", w.min_links.is_some()),
            ("ad_select", w.ad_select.is_some()),
            ("fail_over_mac", w.fail_over_mac.is_some()),
            ("ovs_options", w.ovs_options.is_some()),
            ("stp", w.stp.is_some()),
            ("parent", w.parent.is_some()),
            ("vlan", w.vlan.is_some()),
            ("vni", w.vni.is_some()),
            ("local", w.local.is_some()),
            ("remote", w.remote.is_some()),
            ("port", w.port.is_some()),
        ];
        nothing_is_left(self.place, &left, &format!("a link of kind {kind} has no such option"))
    }

    fn missing(&self, field: &str, kind: &str) -> Malformed {
        wrong(&self.at(field), format!("a link of kind {kind} needs it"))
    }

    fn at(&self, field: &str) -> String {
        format!("{}.{field}", self.place)
    }
}

pub(super) fn write(kind: Kind, written: &mut Written) {
    written.kind = Some(kind.word().to_owned());
    written.primary = kind.primary().map(ToString::to_string);
    written.parent = kind.parent().map(ToString::to_string);
    let names = |members: &[LinkName]| Some(members.iter().map(ToString::to_string).collect());
    match kind {
        Kind::Ethernet { permanent_mac } => {
            written.permanent_mac = permanent_mac.map(String::from);
        }
        Kind::Bond(bond) => {
            written.members = names(&bond.members);
            written.mode = Some(bond.mode.word().to_owned());
            written.miimon_ms = bond.miimon_ms.map(i64::from);
            written.lacp_rate = bond.lacp_rate.map(|rate| rate.word().to_owned());
            written.xmit_hash_policy = bond.xmit_hash_policy.map(|one| one.word().to_owned());
            tuning::write(&bond.tuning, written);
        }
        Kind::Vlan { id, .. } => written.vlan = Some(i64::from(id)),
        Kind::Bridge { members, stp } => {
            written.members = names(&members);
            written.stp = stp;
        }
        Kind::Macvlan { mode, .. } => written.mode = Some(mode.word().to_owned()),
        Kind::Vxlan(vxlan) => {
            written.vni = Some(i64::from(vxlan.vni));
            written.local = vxlan.local.map(|address| address.to_string());
            written.remote = vxlan.remote.map(|address| address.to_string());
            written.port = Some(i64::from(vxlan.port));
        }
        Kind::Dummy => {}
        Kind::OvsBridge { members, .. } => written.members = names(&members),
        Kind::OvsBond { members, options, .. } => {
            written.members = names(&members);
            written.ovs_options = options;
        }
    }
}
