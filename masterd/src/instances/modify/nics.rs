//! Core: changes of an instance's NICs.

use model::instance::record::NICS_MAX;
use model::instance::{InstanceSettings, Nic};
use model::opcode::InstanceSetParams;
use model::opcode::instance::DeviceVerb;
use model::{Exception, MacAddress, Uuid};

use super::decide::{Around, Changed};
use super::order::{Device, new_place, place, takes_none};
use crate::config::Config;
use crate::instances::blueprint::take_addresses;
use crate::instances::devices::{self, WantedNic};
use crate::machines::network::claim;
use crate::units::wrong;

impl Device for Nic {
    fn uuid(&self) -> Uuid {
        self.uuid
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

/// Makes the changes of NICs.
pub(super) fn change(
    op: &InstanceSetParams,
    config: &Config,
    around: &Around,
    changed: &mut Changed,
) -> Result<(), Exception> {
    let node = config.node(changed.instance.primary_node.as_str())?;
    let (group, settings) = (config.group_of(node), config.settings_on(node));
    let mut after = config.clone();
    let mut nics = changed.instance.nics.clone();
    for (turn, told) in (1_u128..).zip(&op.nics) {
        takes_none(told)?;
        let given: Vec<MacAddress> = nics.iter().map(|nic| nic.mac).collect();
        let seed = around.seed.wrapping_add(turn << 32);
        let (settings, given) = (&settings, given.as_slice());
        let conflicts_check = op.conflicts_check;
        match told.0 {
            DeviceVerb::Add => {
                let at = new_place(nics.len(), told, "NIC")?;
                let mut parameters = told.2.clone();
                parameters.entry("mac").or_insert_with(|| "auto".into());
                let uuid = uuid::Builder::from_random_bytes(seed.to_le_bytes()).into_uuid();
                let config = &after;
                let surroundings =
                    devices::Around { config, group, settings, conflicts_check, seed, given };
                let wanted = devices::nic(&parameters, devices::new_nic(uuid), surroundings)?;
                let nic = claimed(&mut after, wanted, around, seed, changed)?;
                changed.told.push((format!("nic.{at}"), described(&nic, settings).into()));
                changed.devices.push((format!("nic.{at}"), nic.uuid));
                nics.insert(at, nic);
            }
            DeviceVerb::Modify => {
                let at = place(&nics, &told.1, "NIC")?;
                let before = nics[at].clone();
                // Its address goes back first, so that it may have it again.
                let addressed = told.2.contains_key("ip") || told.2.contains_key("network");
                if addressed {
                    released(&mut after, &before, seed, changed);
                }
                let config = &after;
                let surroundings =
                    devices::Around { config, group, settings, conflicts_check, seed, given };
                let wanted = devices::nic(&told.2, before, surroundings)?;
                nics[at] = claimed(&mut after, wanted, around, seed, changed)?;
                changed.devices.push((format!("nic/{at}"), nics[at].uuid));
                for (name, value) in &told.2 {
                    // The client may have left it to us.
                    let value = match name.as_str() {
                        "mac" => nics[at].mac.to_string().into(),
                        _ => value.clone(),
                    };
                    changed.told.push((format!("nic.{name}/{at}"), value));
                }
            }
            DeviceVerb::Remove => {
                let at = place(&nics, &told.1, "NIC")?;
                let nic = nics.remove(at);
                released(&mut after, &nic, seed, changed);
                changed.told.push((format!("nic.{at}"), "remove".into()));
                changed.devices.push((format!("nic.{at}"), nic.uuid));
            }
            DeviceVerb::Attach | DeviceVerb::Detach => {
                return Err(wrong("NICs are added and removed, not attached and detached"));
            }
        }
    }
    if nics.len() > NICS_MAX {
        return Err(wrong(format!("{} NICs; an instance has at most {NICS_MAX}", nics.len())));
    }
    changed.instance.nics = nics;
    Ok(())
}

/// A new NIC, in Ganeti's words.
fn described(nic: &Nic, settings: &InstanceSettings) -> String {
    let of = |name: &str| settings.nic_of(nic).remove(name).unwrap_or_default();
    format!(
        "add:mac={},ip={},mode={},link={},network={}",
        nic.mac,
        nic.ip.map_or_else(|| "None".to_owned(), |ip| ip.to_string()),
        of("mode").as_str().unwrap_or_default(),
        of("link").as_str().unwrap_or_default(),
        nic.network.as_ref().map_or("None", |name| name.as_str()),
    )
}

/// A NIC with the address that it claimed.
fn claimed(
    after: &mut Config,
    wanted: WantedNic,
    around: &Around,
    seed: u128,
    changed: &mut Changed,
) -> Result<Nic, Exception> {
    let claims: Vec<_> = wanted.claim.into_iter().collect();
    let (made, bound) = claim::made(after, &claims, around.now, seed)?;
    after.apply(made.clone());
    changed.claims.extend(made);
    let mut nics = [wanted.nic];
    take_addresses(&mut nics, &bound)?;
    let [nic] = nics;
    Ok(nic)
}

/// Gives the address of a NIC back.
fn released(after: &mut Config, nic: &Nic, seed: u128, changed: &mut Changed) {
    for (_, owner) in devices::claims_of([nic]) {
        let released = claim::released_by(after, &owner, seed);
        after.apply(released.clone());
        changed.claims.extend(released);
    }
}
