//! Core: which copies of disks a node serves to which runs of other nodes.

use model::instance::launch::DiskLaunch;
use model::{InstanceName, Uuid};
use serde::{Deserialize, Serialize};
use stdx::process::Process;

use crate::VirtError;

/// A record of the copies of one instance's disks: a document of its own on the node. It stays when they are
/// not served any more, for the number of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Served {
    pub(crate) uuid: Uuid,
    pub(crate) name: InstanceName,
    /// The highest run to which they were served.
    pub(crate) run: u64,
    /// The boot of the node in which it was written.
    pub(crate) boot_id: String,
    pub(crate) disks: Vec<DiskLaunch>,
    pub(crate) serving: Serving,
}

/// Whether copies are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Serving {
    Not,
    /// A process that nobody has noted may serve them.
    Begins,
    By {
        process: Process,
        port: u16,
    },
}

impl Served {
    /// Whether a process may serve them.
    pub(crate) fn is_live(&self) -> bool {
        match self.serving {
            Serving::Not => false,
            Serving::Begins => true,
            Serving::By { process, .. } => process.is_alive(),
        }
    }
}

/// The answer to an order to serve copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// They are served as ordered, at this port.
    Is(u16),
    /// Whatever serves them ends, and another process begins.
    Begin,
}

/// Judges an order to serve copies of `disks` to a run; `has_key` is whether the key is the one that they are
/// served with.
///
/// # Errors
/// A newer run was served.
pub(crate) fn judge(
    known: Option<&Served>,
    run: u64,
    disks: &[DiskLaunch],
    has_key: bool,
) -> Result<Verdict, VirtError> {
    let Some(known) = known else { return Ok(Verdict::Begin) };
    if run < known.run {
        return Err(VirtError::Over { name: known.name.clone(), run, highest: known.run });
    }
    let is_served = |disk: &DiskLaunch| {
        known
            .disks
            .iter()
            .any(|had| (had.uuid, &had.place, had.size) == (disk.uuid, &disk.place, disk.size))
    };
    match known.serving {
        Serving::By { port, .. }
            if run == known.run && has_key && known.is_live() && disks.iter().all(is_served) =>
        {
            Ok(Verdict::Is(port))
        }
        _ => Ok(Verdict::Begin),
    }
}

/// Whether somebody is connected to a port, by the text of `/proc/net/tcp` or `/proc/net/tcp6` (proc(5)). A
/// connection that the other end has closed counts no more.
pub(crate) fn is_connected(table: &str, port: u16) -> bool {
    const ESTABLISHED: &str = "01";
    let wanted = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _other, state) = (words.next(), words.next(), words.next());
        local.is_some_and(|local| local.ends_with(&wanted)) && state == Some(ESTABLISHED)
    })
}

/// Looks whether a run may begin on this node; gives whether something has to end before.
///
/// # Errors
/// Copies are served to a run of another node that is not below.
pub(crate) fn may_begin(known: Option<&Served>, run: u64) -> Result<bool, VirtError> {
    match known {
        Some(known) if known.is_live() && known.run >= run => {
            Err(VirtError::Serves { name: known.name.clone(), served: known.run, run })
        }
        Some(known) => Ok(known.is_live()),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use model::instance::disk::{DiskMode, DiskPlace};
    use model::instance::parameters::Parameters;

    use super::*;

    fn disk(number: u128, size: u64) -> DiskLaunch {
        DiskLaunch {
            uuid: Uuid::from_u128(number),
            place: DiskPlace::Mirror { path: format!("/srv/{number}") },
            size,
            mode: DiskMode::ReadWrite,
            params: Parameters::new(),
            replica: None,
        }
    }

    fn served(run: u64, serving: Serving) -> Served {
        Served {
            uuid: Uuid::nil(),
            name: "web1".parse().unwrap(),
            run,
            boot_id: "boot".to_owned(),
            disks: vec![disk(1, 10), disk(2, 10)],
            serving,
        }
    }

    fn here() -> Process {
        Process::of(std::process::id()).unwrap()
    }

    #[test]
    fn copies_are_served_to_the_highest_run_with_its_key() {
        let by = Serving::By { process: here(), port: 7 };
        let known = served(5, by);
        let disks = [disk(1, 10)];
        let judged = |run, disks: &[DiskLaunch], key| judge(Some(&known), run, disks, key).unwrap();
        assert_eq!(judged(5, &disks, true), Verdict::Is(7));
        assert_eq!(judged(5, &disks, false), Verdict::Begin, "another key");
        assert_eq!(judged(6, &disks, true), Verdict::Begin, "a newer run");
        assert_eq!(judged(5, &[disk(1, 20)], true), Verdict::Begin, "another size");
        assert_eq!(judged(5, &[disk(3, 10)], true), Verdict::Begin, "another disk");
        let old = judge(Some(&known), 4, &disks, true);
        assert!(matches!(old, Err(VirtError::Over { run: 4, highest: 5, .. })), "{old:?}");
        let gone = Process { started: here().started + 1, ..here() };
        for serving in [Serving::Not, Serving::Begins, Serving::By { process: gone, port: 7 }] {
            let known = served(5, serving);
            assert_eq!(judge(Some(&known), 5, &disks, true).unwrap(), Verdict::Begin);
        }
        assert_eq!(judge(None, 1, &disks, false).unwrap(), Verdict::Begin);
    }

    #[test]
    fn a_run_begins_where_no_copy_is_served_to_one_that_is_not_below() {
        let by = Serving::By { process: here(), port: 7 };
        assert!(may_begin(Some(&served(5, by)), 6).unwrap());
        for run in [4, 5] {
            let refused = may_begin(Some(&served(5, by)), run);
            assert!(matches!(refused, Err(VirtError::Serves { served: 5, .. })), "{refused:?}");
        }
        assert!(!may_begin(Some(&served(5, Serving::Not)), 5).unwrap());
        assert!(!may_begin(None, 1).unwrap());
    }

    #[test]
    fn connections_are_told_from_those_that_end() {
        let line = |local: &str, state: &str| {
            format!("   0: 00000000:{local} 0100007F:C350 {state} 00000000:00000000 00:00000000\n")
        };
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n";
        let listens = format!("{head}{}", line("1F90", "0A"));
        assert!(!is_connected(&listens, 8080));
        assert!(is_connected(&format!("{listens}{}", line("1F90", "01")), 8080));
        assert!(!is_connected(&format!("{listens}{}", line("1F90", "08")), 8080), "closed");
        assert!(!is_connected(&format!("{listens}{}", line("1F91", "01")), 8080));
        assert!(!is_connected("", 8080));
    }
}
