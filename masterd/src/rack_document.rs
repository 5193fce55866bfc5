//! Core: the document of a rack: all that its agents need to serve it (DESIGN §9).

use model::Exception;
use model::rack::{BootChoice, DocumentVersion, LEASE_SECONDS, RackDocument, RackMachine};

use crate::queue::Snapshot;

/// Compiles the document of one rack from the committed configuration; none before the rules of
/// addresses are set.
///
/// # Errors
/// The rack lies beyond the pool of addresses.
pub(crate) fn compile(snapshot: &Snapshot, rack: u32) -> Result<Option<RackDocument>, Exception> {
    let config = &snapshot.config;
    let Some(ipam) = &config.ipam else { return Ok(None) };
    let ranges = ipam.lease_ranges(rack).map_err(|error| Exception::exec(error.to_string()))?;
    let mut machines: Vec<_> = config.machines_in(rack).collect();
    machines.sort_by(|a, b| a.serial.cmp(&b.serial));
    let machines = machines.into_iter().map(|machine| RackMachine {
        serial: machine.serial.clone(),
        role: machine.role.clone(),
        index: machine.index_in_rack,
        mac: machine.mac.clone(),
        addresses: machine.network.values().flat_map(|a| a.ipv4.iter().copied()).collect(),
        boot: BootChoice::Local,
    });
    Ok(Some(RackDocument {
        cluster_name: config.cluster.cluster_name.clone(),
        rack,
        version: DocumentVersion { term: config.role.term, position: snapshot.rack_position(rack) },
        ranges,
        lease_seconds: LEASE_SECONDS,
        machines: machines.collect(),
    }))
}
