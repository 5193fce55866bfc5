//! Core: how agents serve DHCP: the document `config/dhcp`, and the part of it that a rack gets.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::NodeName;

/// Longest URL that is told: one option of DHCP.
const URL_BYTES_MAX: usize = 255;
/// Most servers of a kind: a reply to a client has room for them, and none asks more than three.
pub const SERVERS_MAX: usize = 8;
/// Most racks that are named: more than a master has agents for.
const RACKS_MAX: usize = 10_000;

/// The settings of DHCP; what is not given has its default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct DhcpConfig {
    /// Whether agents answer.
    pub mode: DhcpMode,
    /// Racks whose agents only observe, whatever the mode.
    pub observe_racks: Vec<u32>,
    /// Whether switches on the clients' own link may add option 82.
    pub trusted_circuits: bool,
    /// The reaction to another DHCP server on the link of an agent.
    pub other_servers: OtherServers,
    /// The URL of the installer that ONIE loads on switches, which are machines of the role `switch`.
    pub onie_installer_url: Option<String>,
    /// Name servers that clients are told (option 6), at most [`SERVERS_MAX`].
    pub name_servers: Vec<Ipv4Addr>,
    /// Time servers that clients are told (option 42), at most [`SERVERS_MAX`].
    pub ntp_servers: Vec<Ipv4Addr>,
    /// The domain that clients are told (option 15).
    pub domain_name: Option<NodeName>,
}

/// Whether agents answer DHCP clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DhcpMode {
    /// They serve.
    #[default]
    Serve,
    /// They count, log what they would answer, and send nothing.
    Observe,
}

/// The reaction of an agent to another DHCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OtherServers {
    /// Serve, and tell of it.
    #[default]
    Tell,
    /// Tell of it, and observe only, until it is gone.
    HoldBack,
}

/// Settings that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DhcpError {
    /// The URL cannot be told to a switch.
    #[error(
        "onie-installer-url must begin with http:// or https:// and have at most {URL_BYTES_MAX} \
         visible ASCII characters"
    )]
    Url,
    /// Too many racks.
    #[error("observe-racks names {0} racks; at most {RACKS_MAX} are possible")]
    Racks(usize),
    /// Too many name servers or time servers.
    #[error("name-servers or ntp-servers has {0} addresses; at most {SERVERS_MAX} are possible")]
    Servers(usize),
    /// No server has this address.
    #[error("{0} is no address of a name server or time server")]
    Server(Ipv4Addr),
}

impl DhcpConfig {
    /// Whether it can work.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), DhcpError> {
        if self.observe_racks.len() > RACKS_MAX {
            return Err(DhcpError::Racks(self.observe_racks.len()));
        }
        for servers in [&self.name_servers, &self.ntp_servers] {
            if servers.len() > SERVERS_MAX {
                return Err(DhcpError::Servers(servers.len()));
            }
            let none = |address: &&Ipv4Addr| {
                address.is_unspecified()
                    || address.is_multicast()
                    || address.is_broadcast()
                    || address.is_loopback()
            };
            if let Some(address) = servers.iter().find(none) {
                return Err(DhcpError::Server(*address));
            }
        }
        let told = |url: &String| {
            let web = ["http://", "https://"]
                .iter()
                .any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
            web && url.len() <= URL_BYTES_MAX && url.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if self.onie_installer_url.as_ref().is_none_or(told) { Ok(()) } else { Err(DhcpError::Url) }
    }

    /// The settings for the agents of `rack`.
    pub fn of_rack(&self, rack: u32) -> RackDhcp {
        RackDhcp {
            observe: self.mode == DhcpMode::Observe || self.observe_racks.contains(&rack),
            trusted_circuits: self.trusted_circuits,
            hold_back: self.other_servers == OtherServers::HoldBack,
            onie_installer_url: self.onie_installer_url.clone(),
            name_servers: self.name_servers.clone(),
            ntp_servers: self.ntp_servers.clone(),
            domain_name: self.domain_name.clone(),
        }
    }
}

/// How the agents of one rack serve DHCP.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RackDhcp {
    /// Send nothing.
    pub observe: bool,
    /// Believe option 82 where no relay passed the message on.
    pub trusted_circuits: bool,
    /// Send nothing while another server answers.
    pub hold_back: bool,
    /// What ONIE loads.
    pub onie_installer_url: Option<String>,
    pub name_servers: Vec<Ipv4Addr>,
    /// Time servers.
    pub ntp_servers: Vec<Ipv4Addr>,
    pub domain_name: Option<NodeName>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_defaults_and_no_unknown_names() {
        let read = |text: &str| serde_json::from_str::<DhcpConfig>(text);
        assert_eq!(read("{}").unwrap(), DhcpConfig::default());
        let all = r#"{"mode":"observe","observe-racks":[3],"trusted-circuits":true,
            "other-servers":"hold-back","onie-installer-url":"http://10.0.0.1/onie",
            "name-servers":["192.0.2.53"],"ntp-servers":["192.0.2.1"],"domain-name":"rack.example"}"#;
        let config = read(all).unwrap();
        assert_eq!(config.check(), Ok(()));
        assert_eq!(read(&serde_json::to_string(&config).unwrap()).unwrap(), config);
        for wrong in [r#"{"modes":"serve"}"#, r#"{"mode":"off"}"#, r#"{"trusted-circuits":1}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn racks_that_observe() {
        let some = DhcpConfig { observe_racks: vec![3], ..DhcpConfig::default() };
        assert_eq!([2, 3].map(|rack| some.of_rack(rack).observe), [false, true]);
        let all = DhcpConfig { mode: DhcpMode::Observe, ..some };
        assert_eq!([2, 3].map(|rack| all.of_rack(rack).observe), [true, true]);
        assert_eq!(DhcpConfig::default().of_rack(3), RackDhcp::default());
    }

    #[test]
    fn urls() {
        let long = format!("http://{}", "x".repeat(249));
        for (url, good) in [
            ("http://10.0.0.1/onie-installer", true),
            ("https://images.example/x86_64", true),
            ("ftp://10.0.0.1/x", false),
            ("http://", false),
            ("http://10.0.0.1/a b", false),
            ("http://10.0.0.1/\u{e9}", false),
            (long.as_str(), false),
        ] {
            let config =
                DhcpConfig { onie_installer_url: Some(url.to_owned()), ..Default::default() };
            assert_eq!(config.check().is_ok(), good, "{url}");
        }
        let many = DhcpConfig { observe_racks: vec![0; 10_001], ..Default::default() };
        assert_eq!(many.check(), Err(DhcpError::Racks(10_001)));
    }
}
