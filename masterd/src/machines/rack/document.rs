//! Core: the document of a rack: all that its agents need to serve it (docs/netboot.md).

use std::sync::Arc;

use model::Exception;
use model::image::{BootTarget, Image, ImageFiles, Parameter};
use model::machine::Machine;
use model::node::{Node, NodeRole};
use model::power_cycle::ExpectedRamdisk;
use model::power_cycle::MachineToken;
use model::rack::{
    BootChoice, DocumentVersion, LEASE_SECONDS, RackAgent, RackDocument, RackMachine,
};

use crate::config::Config;
use crate::config::queue::Snapshot;
use crate::machines::boot_template;
use crate::machines::power_cycle;

/// Compiles the document of one rack from the committed configuration; none before the rules of
/// addresses are set.
///
/// # Errors
/// The rack lies beyond the pool of addresses.
pub(crate) fn compile(snapshot: &Snapshot, rack: u32) -> Result<Option<RackDocument>, Exception> {
    compile_at(&snapshot.config, rack, snapshot.rack_position(rack))
}

/// The same, from a configuration of this position.
///
/// # Errors
/// As [`compile`].
pub(crate) fn compile_at(
    config: &Config,
    rack: u32,
    position: u64,
) -> Result<Option<RackDocument>, Exception> {
    let Some(ipam) = &config.ipam else { return Ok(None) };
    let ranges = ipam.lease_ranges(rack).map_err(|error| Exception::exec(error.to_string()))?;
    let mut machines: Vec<_> = config.machines_in(rack).collect();
    machines.sort_by(|a, b| a.serial.cmp(&b.serial));
    let mut documents = boot_template::of_rack(config, machines.iter().copied());
    let machines = machines.into_iter().map(|machine| RackMachine {
        serial: machine.serial.clone(),
        role: machine.role.clone(),
        index: machine.index_in_rack,
        mac: machine.mac.clone(),
        uuid: machine.uuid,
        addresses: machine.network.values().flat_map(|a| a.ipv4.iter().copied()).collect(),
        boot: boot_choice(config, machine),
        registered: Some(machine.register_date),
        cycle: config.power_cycles.get(&machine.serial).map_or(0, |cycle| cycle.number),
        ramdisk: expected_ramdisk(config, machine),
        documents: documents.remove(&machine.serial).unwrap_or_default(),
    });
    Ok(Some(RackDocument {
        cluster_name: config.cluster.cluster_name.clone(),
        rack,
        version: DocumentVersion { term: config.role.term, position },
        ranges,
        lease_seconds: LEASE_SECONDS,
        parts: config.shares.get(&rack).map_or_else(Vec::new, |shares| shares.parts.to_vec()),
        agents: agents(config, rack),
        dhcp: config.dhcp.as_ref().map(|dhcp| dhcp.of_rack(rack)).unwrap_or_default(),
        assets: config.assets.values().map(|asset| asset.as_ref().clone()).collect(),
        machines: machines.collect(),
    }))
}

/// The ramdisk that is to look itself up. A token that cannot be opened is none: the next power cycle has
/// another one.
pub(crate) fn expected_ramdisk(config: &Config, machine: &Machine) -> Option<ExpectedRamdisk> {
    let cycle = config.power_cycles.get(&machine.serial)?;
    if !machine.life.state.expects_ramdisk() {
        return None;
    }
    let token = power_cycle::secret(config, cycle).ok()?;
    let (enrols, token) = match cycle.enrolment {
        None => (None, token),
        Some(_) => {
            let (enrols, token) = MachineToken::of(&token);
            (Some(enrols), token)
        }
    };
    let boots = machine.life.boot.is_some();
    Some(ExpectedRamdisk { token, boots, enrols, heard: cycle.ramdisk.clone() })
}

fn agents(config: &Config, rack: u32) -> Vec<RackAgent> {
    let serving = config.agents_of(rack).filter(|node| node.role != NodeRole::Offline);
    let agent = |node: &Arc<Node>| RackAgent {
        name: node.name.clone(),
        address: node.rpc_address(),
        fingerprints: node.fingerprints().collect(),
    };
    let agents: Vec<_> = serving.map(agent).collect();
    if agents.len() > 1 { agents } else { Vec::new() }
}

/// The boot choice of a machine. A machine whose image is gone boots its disk.
fn boot_choice(config: &Config, machine: &Machine) -> BootChoice {
    let Some(image) = image_of(config, machine.boots()) else { return BootChoice::Local };
    BootChoice::Image {
        id: image.id.clone(),
        files: image.files.clone(),
        parameters: parameters(config, machine, image).cloned().collect(),
    }
}

/// The kernel parameters of a machine that boots an image: from the most general to its own, since
/// kernels take the last word.
pub(crate) fn parameters<'a>(
    config: &'a Config,
    machine: &'a Machine,
    image: &'a Image,
) -> impl Iterator<Item = &'a Parameter> {
    // A unified kernel image holds its own, and takes no others.
    let is_uki = matches!(image.files, ImageFiles::Uki(_));
    let kernel = config.kernel.as_deref().filter(|_| !is_uki);
    let others = kernel.into_iter().flat_map(|kernel| kernel.of_role(&machine.role));
    image.parameters.iter().chain(others).chain(&machine.kernel_parameters)
}

/// The image that a target means: the version that it names, or the newest one. No machine boots that of a
/// disk.
pub(crate) fn image_of<'a>(config: &'a Config, target: &BootTarget) -> Option<&'a Arc<Image>> {
    let BootTarget::Image { name, version } = target else { return None };
    let boots =
        |image: &&Arc<Image>| image.id.name == *name && !matches!(image.files, ImageFiles::Disk(_));
    let versions = config.images.values().filter(boots);
    match version {
        Some(version) => versions.into_iter().find(|image| image.id.version == *version),
        None => versions.max_by(|a, b| (a.ctime, &a.id).cmp(&(b.ctime, &b.id))),
    }
}

#[cfg(test)]
mod tests {
    use model::kernel::KernelParameters;

    use super::*;
    use crate::config::ConfigChange;
    use crate::machines::machine::register;
    use crate::testing::{NOW, config, image, spec};

    #[test]
    fn kernel_parameters_go_from_the_most_general_to_the_machines_own() {
        let words = |text: &str| -> Vec<Parameter> {
            text.split_whitespace().map(|word| word.parse().unwrap()).collect()
        };
        let mut config = config(&[]);
        let uki = image("debian/1");
        let ImageFiles::Uki(kernel) = uki.files else { panic!("{uki:?}") };
        let files = ImageFiles::Linux { kernel, initrds: Vec::new() };
        let linux = Image { files, parameters: words("of=image"), ..uki.clone() };
        let kernel = KernelParameters::default()
            .with(None, words("of=all"))
            .with(Some("worker".to_owned()), words("of=role"));
        let mut machine = register(&config, &[spec("s1", 0, "worker")], NOW).unwrap().remove(0);
        machine.kernel_parameters = words("of=machine");
        config.apply([ConfigChange::Kernel(kernel)]);
        let of = |machine: &Machine, image: &Image| {
            parameters(&config, machine, image).cloned().collect::<Vec<_>>()
        };
        assert_eq!(of(&machine, &linux), words("of=image of=all of=role of=machine"));
        assert_eq!(of(&machine, &uki), words("of=machine"), "it holds its own");
        machine.role = "boot".to_owned();
        assert_eq!(of(&machine, &linux), words("of=image of=all of=machine"));
    }
}
