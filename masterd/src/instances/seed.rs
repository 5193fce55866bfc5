//! Core: what a guest is told of itself, for cloud-init (its data source NoCloud).

use std::net::IpAddr;

use model::instance::launch::Seed;
use model::instance::parameters::Parameters;
use model::instance::{Instance, Nic};
use serde_json::{Map, Value, json};

use super::os;
use crate::config::Config;

/// The texts for an instance; none where nobody wants its guest to be told.
pub(super) fn seed(
    config: &Config,
    instance: &Instance,
    hvparams: &Parameters,
    system: &Parameters,
) -> Option<Seed> {
    let is_wanted = hvparams.get("seed").and_then(Value::as_str) == Some("nocloud");
    if os::image::variant(&instance.os).is_none() && !is_wanted {
        return None;
    }
    let text =
        |name: &str| system.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let hostname = text("hostname").unwrap_or(instance.name.as_str());
    let user_data = match text("user_data") {
        Some(whole) => whole.to_owned(),
        None => {
            let short = hostname.split('.').next().unwrap_or(hostname);
            let keys: Vec<&str> = text("ssh_keys").into_iter().flat_map(str::lines).collect();
            // JSON is YAML, too, and needs no rules of its own for what is between quotes.
            let mut told = json!({"hostname": short, "fqdn": hostname});
            // Cloud-init warns of an empty list.
            if !keys.is_empty() {
                told["ssh_authorized_keys"] = keys.into();
            }
            format!("#cloud-config\n{told}\n")
        }
    };
    let ethernets: Map<String, Value> = (0..)
        .zip(&instance.nics)
        .map(|(number, nic): (usize, _)| (format!("nic{number}"), card(config, nic)))
        .collect();
    let meta_data = json!({"instance-id": instance.uuid, "local-hostname": hostname});
    Some(Seed {
        meta_data: format!("{meta_data}\n"),
        user_data,
        network_config: format!("{}\n", json!({"version": 2, "ethernets": ethernets})),
    })
}

/// The configuration of a card: its own address where a network has one for it, else whatever DHCP tells.
fn card(config: &Config, nic: &Nic) -> Value {
    let mut card = json!({"match": {"macaddress": nic.mac}});
    let network = nic.network.as_ref().and_then(|name| config.network(name.as_str()).ok());
    let known = nic.ip.zip(network).and_then(|(ip, network)| {
        let subnet = network.subnets.iter().find(|subnet| subnet.prefix.contains(&ip))?;
        Some((ip, network, subnet))
    });
    let Some((ip, network, subnet)) = known else {
        card["dhcp4"] = true.into();
        return card;
    };
    card["addresses"] = json!([format!("{ip}/{}", subnet.prefix.prefix_len())]);
    match subnet.gateway {
        Some(gateway @ IpAddr::V4(_)) => card["gateway4"] = json!(gateway),
        Some(gateway @ IpAddr::V6(_)) => card["gateway6"] = json!(gateway),
        None => {}
    }
    if !network.dns_servers.is_empty() {
        card["nameservers"] = json!({"addresses": network.dns_servers});
    }
    if let Some(mtu) = network.mtu {
        card["mtu"] = mtu.into();
    }
    card
}
