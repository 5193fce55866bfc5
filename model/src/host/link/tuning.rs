//! Core: how a bond watches its members: one row for each option, and its name in every program's files.

use std::net::Ipv4Addr;

use super::words::{AdSelect, FailOverMac};
use super::{Bond, BondMode, Word};

/// The longest time, in milliseconds.
const MS_MAX: u32 = 60_000;
/// As many links as no host has.
const LINKS_MAX: u32 = 1024;
/// The kernel asks so many addresses at most (`BOND_MAX_ARP_TARGETS`).
const TARGETS_MAX: usize = 16;

/// How a bond watches its members. A number that is zero is the same as none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tuning {
    /// How long a member works before it is used, in milliseconds.
    pub updelay_ms: Option<u32>,
    /// How long a member fails before it is left, in milliseconds.
    pub downdelay_ms: Option<u32>,
    /// How often the targets are asked by ARP, in milliseconds.
    pub arp_interval_ms: Option<u32>,
    /// Who is asked.
    pub arp_ip_targets: Vec<Ipv4Addr>,
    /// Members that must work before the bond has a carrier.
    pub min_links: Option<u32>,
    /// Which aggregator of 802.3ad is used.
    pub ad_select: Option<AdSelect>,
    /// Which address the bond has when another member takes over.
    pub fail_over_mac: Option<FailOverMac>,
}

/// An option of [`Tuning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BondOption {
    /// `updelay_ms`.
    UpDelay,
    /// `downdelay_ms`.
    DownDelay,
    /// `arp_interval_ms`.
    ArpInterval,
    /// `arp_ip_targets`.
    ArpIpTargets,
    /// `min_links`.
    MinLinks,
    /// `ad_select`.
    AdSelect,
    /// `fail_over_mac`.
    FailOverMac,
}

/// The names of an option in files.
#[derive(Debug)]
pub struct BondOptionNames {
    /// In our own form.
    pub own: &'static str,
    /// The kernel's, which os-net-config, NetworkManager and nmstate have too.
    pub kernel: &'static str,
    /// netplan's.
    pub netplan: &'static str,
    /// systemd-networkd's.
    pub networkd: &'static str,
}

const fn names(
    own: &'static str,
    kernel: &'static str,
    netplan: &'static str,
    networkd: &'static str,
) -> BondOptionNames {
    BondOptionNames { own, kernel, netplan, networkd }
}

impl BondOption {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::UpDelay,
        Self::DownDelay,
        Self::ArpInterval,
        Self::ArpIpTargets,
        Self::MinLinks,
        Self::AdSelect,
        Self::FailOverMac,
    ];

    pub fn names(self) -> BondOptionNames {
        match self {
            Self::UpDelay => names("updelay_ms", "updelay", "up-delay", "UpDelaySec"),
            Self::DownDelay => names("downdelay_ms", "downdelay", "down-delay", "DownDelaySec"),
            Self::ArpInterval => {
                names("arp_interval_ms", "arp_interval", "arp-interval", "ARPIntervalSec")
            }
            Self::ArpIpTargets => {
                names("arp_ip_targets", "arp_ip_target", "arp-ip-targets", "ARPIPTargets")
            }
            Self::MinLinks => names("min_links", "min_links", "min-links", "MinLinks"),
            Self::AdSelect => names("ad_select", "ad_select", "ad-select", "AdSelect"),
            Self::FailOverMac => {
                names("fail_over_mac", "fail_over_mac", "fail-over-mac-policy", "FailOverMACPolicy")
            }
        }
    }

    /// Whether it is a time in milliseconds.
    pub fn is_ms(self) -> bool {
        matches!(self, Self::UpDelay | Self::DownDelay | Self::ArpInterval)
    }

    /// The one that the kernel calls so.
    pub fn from_kernel(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|option| option.names().kernel == name)
    }
}

impl Tuning {
    /// The options that are given, with their values as text; addresses are separated by commas.
    pub fn given(&self) -> impl Iterator<Item = (BondOption, String)> {
        BondOption::ALL.iter().filter_map(|option| Some((*option, self.get(*option)?)))
    }

    fn get(&self, option: BondOption) -> Option<String> {
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        match option {
            BondOption::UpDelay => number(self.updelay_ms),
            BondOption::DownDelay => number(self.downdelay_ms),
            BondOption::ArpInterval => number(self.arp_interval_ms),
            BondOption::ArpIpTargets => {
                let targets: Vec<_> = self.arp_ip_targets.iter().map(ToString::to_string).collect();
                Some(targets.join(",")).filter(|list| !list.is_empty())
            }
            BondOption::MinLinks => number(self.min_links),
            BondOption::AdSelect => self.ad_select.map(|one| one.word().to_owned()),
            BondOption::FailOverMac => self.fail_over_mac.map(|one| one.word().to_owned()),
        }
    }

    /// Reads an option.
    ///
    /// # Errors
    /// Why it has no such value.
    pub fn set(&mut self, option: BondOption, text: &str) -> Result<(), String> {
        match option {
            BondOption::UpDelay => self.updelay_ms = Some(number(text, MS_MAX)?),
            BondOption::DownDelay => self.downdelay_ms = Some(number(text, MS_MAX)?),
            BondOption::ArpInterval => self.arp_interval_ms = Some(number(text, MS_MAX)?),
            BondOption::MinLinks => self.min_links = Some(number(text, LINKS_MAX)?),
            BondOption::AdSelect => self.ad_select = Some(Word::read_or_number(text)?),
            BondOption::FailOverMac => self.fail_over_mac = Some(Word::read_or_number(text)?),
            BondOption::ArpIpTargets => {
                let read = |one: &str| {
                    let one = one.trim();
                    one.parse().map_err(|_e| format!("`{}` is no IPv4 address", one.escape_debug()))
                };
                let targets = text.split(',').filter(|one| !one.trim().is_empty());
                self.arp_ip_targets = targets.map(read).collect::<Result<_, String>>()?;
                if self.arp_ip_targets.len() > TARGETS_MAX {
                    return Err(format!("a bond asks at most {TARGETS_MAX} addresses"));
                }
            }
        }
        Ok(())
    }

    /// Takes from an earlier one what this one leaves open. How members are watched is one thing.
    pub(crate) fn keep(&mut self, before: &Self, is_watched: bool) {
        let Self { min_links, ad_select, fail_over_mac, .. } = before;
        if !is_watched {
            self.updelay_ms = self.updelay_ms.or(before.updelay_ms);
            self.downdelay_ms = self.downdelay_ms.or(before.downdelay_ms);
            self.arp_interval_ms = before.arp_interval_ms;
            self.arp_ip_targets.clone_from(&before.arp_ip_targets);
        }
        self.min_links = self.min_links.or(*min_links);
        self.ad_select = self.ad_select.or(*ad_select);
        self.fail_over_mac = self.fail_over_mac.or(*fail_over_mac);
    }

    /// Whether a bond of the kernel is so already; what is not given may be as it is.
    pub fn is_met_by(&self, found: &Self) -> bool {
        let value = |tuning: &Self, option| {
            tuning.get(option).filter(|text| text != "0").unwrap_or_default()
        };
        self.given().all(|(option, _)| value(self, option) == value(found, option))
    }
}

impl Bond {
    /// Refuses tuning that the kernel would refuse or change.
    pub(crate) fn check_tuning(&self) -> Result<(), (BondOption, String)> {
        let is_set = |value: Option<u32>| value.filter(|value| *value != 0);
        let tuning = &self.tuning;
        let miimon = is_set(self.miimon_ms);
        for (option, delay) in
            [(BondOption::UpDelay, tuning.updelay_ms), (BondOption::DownDelay, tuning.downdelay_ms)]
        {
            let Some(delay) = is_set(delay) else { continue };
            let Some(miimon) = miimon else {
                return Err((option, "it needs `miimon_ms`, of which it is a multiple".to_owned()));
            };
            if !delay.is_multiple_of(miimon) {
                let why = format!("{delay} is no multiple of `miimon_ms`, which is {miimon}");
                return Err((option, why));
            }
        }
        let interval = is_set(tuning.arp_interval_ms);
        let refused = |why: &str| Err((BondOption::ArpInterval, why.to_owned()));
        match (interval, self.mode) {
            (None, _) if tuning.arp_ip_targets.is_empty() => Ok(()),
            (None, _) => refused("`arp_ip_targets` without it are never asked"),
            (Some(_), BondMode::Lacp | BondMode::BalanceTlb | BondMode::BalanceAlb) => {
                refused(&format!("a bond of mode {} has `miimon_ms` alone", self.mode.word()))
            }
            (Some(_), _) if miimon.is_some() => refused("a bond has it or `miimon_ms`, not both"),
            (Some(_), _) if tuning.arp_ip_targets.is_empty() => {
                refused("it needs `arp_ip_targets`, without which no member works")
            }
            (Some(_), _) => Ok(()),
        }
    }
}

fn number(text: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number <= most);
    number.ok_or_else(|| format!("{} is none of 0 to {most}", text.escape_debug()))
}
