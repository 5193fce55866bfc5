//! Core: the cards of a guest of Xen, as `xl` is told of them. Scripts of Xen connect them.

use model::instance::launch::NicLaunch;
use stdx::net::tap::NAME_BYTES_MAX;

use crate::kvm::Filled;
use crate::kvm::nics::plan::{MAIN_TABLE, Place, interface, parameter, plan};
use crate::kvm::plan::PlanError;

/// Xen's ending of the interface behind an emulated card, beside that of the paravirtual one.
const EMULATED: &str = "-emu";

/// Whether a guest's cards are emulated until its driver takes the paravirtual ones.
fn is_emulated(parameters: Filled<'_>, is_hvm: bool) -> bool {
    is_hvm && parameters.text("vif_type") == "ioemu" && parameters.text("nic_type") != "paravirtual"
}

/// The interfaces of a card on the host. The first one's name leaves room for the ending of the second.
pub(crate) fn interfaces(nic: &NicLaunch, parameters: Filled<'_>, is_hvm: bool) -> Vec<String> {
    let mut name = interface(nic);
    if !is_emulated(parameters, is_hvm) {
        return vec![name];
    }
    name.truncate(NAME_BYTES_MAX - EMULATED.len());
    let emulated = format!("{name}{EMULATED}");
    vec![name, emulated]
}

/// A card in `xl`'s words.
///
/// # Errors
/// Its mode, link, VLAN or script is none with which Xen's scripts connect it.
pub(super) fn vif(
    nic: &NicLaunch,
    parameters: Filled<'_>,
    is_hvm: bool,
) -> Result<String, PlanError> {
    let refused = |why: String| PlanError::new("vif", format!("card {}: {why}", nic.uuid));
    let planned = plan(nic, "").map_err(|error| refused(error.to_string()))?;
    let mut words = vec![format!("mac={}", nic.mac)];
    if is_hvm {
        words.push(match is_emulated(parameters, is_hvm) {
            true => format!("type=ioemu, model={}", parameters.text("nic_type")),
            false => "type=vif".to_owned(),
        });
    }
    words.extend(interfaces(nic, parameters, is_hvm).first().map(|name| format!("vifname={name}")));
    let own = parameters.text("vif_script");
    let script = match &planned.place {
        Place::Bridge { vlans: Some(_), .. } if own.is_empty() => {
            let why =
                "Xen's script vif-bridge knows no VLANs: use mode openvswitch, or a vif_script";
            return Err(refused(why.to_owned()));
        }
        Place::Bridge { bridge, .. } => {
            words.push(format!("bridge={bridge}"));
            "vif-bridge"
        }
        Place::Switch { bridge, .. } => {
            let vlan = parameter(nic, "vlan");
            let dot = if vlan.is_empty() || vlan.starts_with(['.', ':']) { "" } else { "." };
            words.push(format!("bridge={bridge}{dot}{vlan}"));
            "vif-openvswitch"
        }
        Place::Routed { table, .. } if own.is_empty() && *table != MAIN_TABLE => {
            let why = "Xen's script vif-route knows the main routing table alone: leave link empty, or give a vif_script";
            return Err(refused(why.to_owned()));
        }
        Place::Routed { .. } => "vif-route",
    };
    words.extend(nic.ip.map(|ip| format!("ip={ip}")));
    let script = if own.is_empty() { script } else { own };
    if script.contains(',') {
        return Err(PlanError::new("vif_script", "xl ends the name of a script at a comma"));
    }
    words.push(format!("script={script}"));
    Ok(words.join(", "))
}
