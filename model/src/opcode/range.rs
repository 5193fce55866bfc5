//! Core: the range of every numeric parameter.
//!
//! A number outside its range cannot be meant. The queue refuses its job at submission, and a
//! logical unit refuses one that an earlier version took.

use super::OpCode;
use crate::range::{CANDIDATE_POOL_MAX, OutOfRange, PREFIX_MAX, RACK_MAX, ranges};

/// The highest number of a TCP port.
const PORT_MAX: i32 = 65_535;
/// The longest sleep of a test in seconds: as long as an opcode may take.
const DELAY_MAX: i32 = 86_400;

ranges! {
    super::Common {
        debug_level: 0 to 1_000,
    }
    super::ClusterSetParams {
        // Each job holds a share of the connection to every agent.
        max_running_jobs: 1 to 1_000,
        max_tracked_jobs: 1 to 100_000,
        candidate_pool_size: 1 to CANDIDATE_POOL_MAX,
        silence_deadline: 0 to 86_400,
        master_netmask: 1 to PREFIX_MAX,
    }
    super::NodeAdd {
        rpc_port: 1 to PORT_MAX,
        peer_port: 1 to PORT_MAX,
        rack: 0 to RACK_MAX,
    }
    super::NodeSetParams {
        peer_port: 1 to PORT_MAX,
        rack: -1 to RACK_MAX,
    }
    super::NodeNetworkApply {
        // Long enough for a call, and no longer than an agent waits.
        seconds: 10 to 3_600,
    }
    super::RackPush {
        racks: 0 to RACK_MAX,
    }
    super::TestDelay {
        duration: 0 to DELAY_MAX,
        repeat: 0 to 100_000,
    }
}

impl OpCode {
    /// Refuses an opcode with a number that cannot be meant.
    ///
    /// # Errors
    /// The first number outside its range.
    pub fn check_ranges(&self) -> Result<(), OutOfRange> {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "a test finds every number of an opcode"
        )]
        match self {
            Self::ClusterSetParams(op) => op.check_ranges(),
            Self::NodeAdd(op) => op.check_ranges(),
            Self::NodeSetParams(op) => op.check_ranges(),
            Self::NodeNetworkApply(op) => op.check_ranges(),
            Self::IpamSet(op) => op.config.check_ranges(),
            Self::MachineAdd(op) => op.machines.iter().enumerate().try_for_each(|(at, machine)| {
                machine.check_ranges().map_err(|wrong| wrong.within(format_args!("machines[{at}]")))
            }),
            Self::RackPush(op) => op.check_ranges(),
            Self::TestDelay(op) => op.check_ranges(),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
