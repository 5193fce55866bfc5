//! Core: documents in YAML that name networks and addresses, as the IPAM study of Metal3 writes them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use model::Word;
use model::network::{IpRange, Owner, Prefix, Strategy, range};
use model::opcode::NetworkAdd;
use model::opcode::network::ClaimSpec;
use serde::Deserialize;

use crate::error::CliError;

/// `networks` at the top, or below `infra`; what else there is is for others.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Infra {
    networks: BTreeMap<Word, Definition>,
    infra: Option<Box<Infra>>,
}

/// One network.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Definition {
    /// The length of the prefix.
    netmask: u8,
    address_range: Option<Ends>,
    addresses: Option<Vec<String>>,
    gateway: Option<String>,
    #[serde(default)]
    dns_servers: Vec<String>,
    mtu: Option<u16>,
    vlan: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ends {
    start: String,
    end: String,
}

/// Addresses in use, by network and owner.
#[derive(Debug, Deserialize)]
struct ConfigMap {
    data: BTreeMap<Word, BTreeMap<Owner, String>>,
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> CliError {
    CliError::Failed(format!("{}: {why}", path.display()))
}

/// The networks of a document.
///
/// # Errors
/// It does not read, or has none.
pub(super) fn networks(path: &Path, text: &str) -> Result<Vec<NetworkAdd>, CliError> {
    let document: Infra = serde_saphyr::from_str(text).map_err(|error| wrong(path, error))?;
    let Infra { mut networks, infra } = document;
    networks.extend(infra.into_iter().flat_map(|infra| infra.networks));
    if networks.is_empty() {
        return Err(wrong(path, "it has no `networks`"));
    }
    let of = |(name, definition): (Word, Definition)| {
        let field = format!("networks.{name}");
        definition.network(name).map_err(|why| wrong(path, format!("{field}.{why}")))
    };
    networks.into_iter().map(of).collect()
}

impl Definition {
    fn network(self, name: Word) -> Result<NetworkAdd, String> {
        let address = |field: &str, text: &str| {
            range::parse(text).map_err(|error| format!("{field}: {error}"))
        };
        let pools: Vec<IpRange> = match (&self.address_range, &self.addresses) {
            (Some(Ends { start, end }), None) => {
                let start = address("addressRange.start", start)?;
                let end = address("addressRange.end", end)?;
                vec![IpRange::new(start, end).map_err(|error| format!("addressRange: {error}"))?]
            }
            (None, Some(all)) => {
                let one = |text: &String| address("addresses", text).map(IpRange::one);
                all.iter().map(one).collect::<Result<_, _>>()?
            }
            (Some(_), Some(_)) => return Err("addressRange and addresses: give one".to_owned()),
            (None, None) => return Err("addressRange or addresses is missing".to_owned()),
        };
        let first = pools.first().ok_or("addresses is empty")?.first();
        let prefix = IpNet::new(first, self.netmask)
            .map_err(|_too_long| format!("netmask {} is too long for {first}", self.netmask))?;
        let gateway = self.gateway.map(|text| address("gateway", &text)).transpose()?;
        let dns = |text: &String| address("dnsServers", text);
        let dns_servers: Vec<IpAddr> =
            self.dns_servers.iter().map(dns).collect::<Result<_, _>>()?;
        let (prefix, is_ipv4) = (Prefix(prefix.trunc()), first.is_ipv4());
        Ok(NetworkAdd {
            network_name: name,
            network: is_ipv4.then_some(prefix),
            gateway: gateway.filter(|_| is_ipv4),
            network6: (!is_ipv4).then_some(prefix),
            gateway6: gateway.filter(|_| !is_ipv4),
            mac_prefix: None,
            add_reserved_ips: None,
            conflicts_check: true,
            tags: Vec::new(),
            pools: Some(pools),
            further: BTreeMap::new(),
            pre_allocated: BTreeMap::new(),
            dns_servers,
            mtu: self.mtu,
            vlan: self.vlan,
            strategy: Strategy::default(),
        })
    }
}

/// The claims of a document.
///
/// # Errors
/// It does not read.
pub(super) fn claims(path: &Path, text: &str) -> Result<Vec<ClaimSpec>, CliError> {
    let ConfigMap { data } = serde_saphyr::from_str(text).map_err(|error| wrong(path, error))?;
    let of = |(network, owner, text): (&Word, Owner, String)| {
        let address = range::parse(&text)
            .map_err(|error| wrong(path, format!("data.{network}.{owner}: {error}")))?;
        Ok(ClaimSpec { network: network.clone(), owner, address: Some(address) })
    };
    let all = data.iter().flat_map(|(network, owners)| {
        owners.iter().map(move |(owner, text)| (network, owner.clone(), text.clone()))
    });
    all.map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = "
networks:
  net0:
    netmask: 24
    addressRange:
      start: 192.168.0.10
      end: 192.168.0.250
    gateway: 192.168.0.1
    dnsServers:
      - 8.8.8.8
      - 8.8.4.4
  net1:
    netmask: 24
    addresses:
      - 192.168.1.10
      - 192.168.1.11
      - 192.168.1.12
      - 192.168.1.15
";

    fn read(text: &str) -> Result<Vec<NetworkAdd>, String> {
        networks(Path::new("f"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_documents_own_networks_are_read() {
        let [net0, net1] = read(STUDY).unwrap().try_into().unwrap();
        let pools = |op: &NetworkAdd| {
            op.pools.iter().flatten().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(net0.network.unwrap().0.to_string(), "192.168.0.0/24");
        assert_eq!(net0.gateway.unwrap().to_string(), "192.168.0.1");
        assert_eq!(
            (pools(&net0), net0.dns_servers.len()),
            (vec!["192.168.0.10-192.168.0.250".into()], 2)
        );
        assert_eq!(pools(&net1), ["192.168.1.10", "192.168.1.11", "192.168.1.12", "192.168.1.15"]);
        let nested = format!("infra:{}\ncontrollers: {{replicas: 1}}", STUDY.replace('\n', "\n  "));
        assert_eq!(read(&nested).unwrap().len(), 2);
    }

    #[test]
    fn a_fault_names_its_field() {
        let net = |rest: &str| format!("networks: {{net0: {{netmask: 24, {rest}}}}}");
        for (told, text) in [
            ("it has no `networks`", "network: {}".to_owned()),
            ("networks.net0.addressRange or addresses is missing", net("gateway: 10.0.0.1")),
            (
                "addressRange.start: `010.0.0.1` is no IP address",
                net("addressRange: {start: 010.0.0.1, end: 10.0.0.9}"),
            ),
            (
                "addressRange: 10.0.0.9-10.0.0.1 is the wrong way",
                net("addressRange: {start: 10.0.0.9, end: 10.0.0.1}"),
            ),
            ("addresses is empty", net("addresses: []")),
            ("dnsServers: `8.8.8` is no", net("addresses: [10.0.0.1], dnsServers: [8.8.8]")),
            ("unknown field", net("addresses: [10.0.0.1], gatway: 10.0.0.1")),
            ("netmask 33 is too long", net("addresses: [10.0.0.1]").replace("24", "33")),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(told), "{told}: {error}");
        }
    }

    #[test]
    fn a_config_map_is_read() {
        let text = "
kind: ConfigMap
apiVersion: v1
metadata:
  name: xxx
  namespace: xxx
data:
  net0:
    node-0: 192.168.0.10
  net1:
    node-0: 192.168.1.10
";
        let claims = claims(Path::new("f"), text).unwrap();
        let told =
            claims.iter().map(|c| format!("{}/{} {}", c.network, c.owner, c.address.unwrap()));
        let told: Vec<String> = told.collect();
        assert_eq!(told, ["net0/node-0 192.168.0.10", "net1/node-0 192.168.1.10"]);
    }
}
