//! Which calls agents have run, under which epochs, and whether that was right.

use std::collections::BTreeMap;

use queue_format::Epoch;
use rpc::JobRef;

/// The observations of all agents.
#[derive(Debug, Default)]
pub(super) struct Calls {
    agents: BTreeMap<u64, Seen>,
    /// Under which epoch an opcode called agents.
    opcodes: BTreeMap<(u64, u32), Epoch>,
    begun: u64,
    /// Calls that ended early since an agent obeyed a higher epoch.
    superseded: u64,
    finding: Option<String>,
}

/// The observations of one agent, over all its processes.
#[derive(Debug, Default)]
struct Seen {
    running: BTreeMap<u64, Epoch>,
    highest: Epoch,
}

impl Calls {
    /// A call begins on this node; the number by which it ends.
    pub(super) fn begin(&mut self, node: u64, epoch: Epoch, job: Option<JobRef>) -> u64 {
        self.begun += 1;
        let seen = self.agents.entry(node).or_default();
        let finding = if let Some(other) = seen.running.values().find(|other| **other != epoch) {
            Some(format!("the agent of n{node} runs calls of {other} and {epoch} together"))
        } else if epoch < seen.highest {
            let highest = seen.highest;
            Some(format!("a call of {epoch} began on n{node}, which obeyed {highest} before"))
        } else {
            None
        };
        seen.running.insert(self.begun, epoch);
        seen.highest = epoch.max(seen.highest);
        let finding = finding.or_else(|| {
            let JobRef { id, op } = job?;
            let first = *self.opcodes.entry((id.0, op)).or_insert(epoch);
            (first != epoch)
                .then(|| format!("opcode {op} of job {id} called agents in {first} and {epoch}"))
        });
        self.finding = self.finding.take().or(finding);
        self.begun
    }

    /// It ended, or its process did.
    pub(super) fn end(&mut self, node: u64, call: u64) {
        self.agents.entry(node).or_default().running.remove(&call);
    }

    /// This node's agent obeys an epoch, and will still after its end.
    pub(super) fn obey(&mut self, node: u64, epoch: Epoch) {
        let seen = self.agents.entry(node).or_default();
        seen.highest = epoch.max(seen.highest);
    }

    /// A call was ended early for a higher epoch.
    pub(super) fn supersede(&mut self) {
        self.superseded += 1;
    }

    /// The first fault that was found.
    pub(super) fn finding(&self) -> Option<&str> {
        self.finding.as_deref()
    }

    /// Calls that began, and those that ended early for a higher epoch.
    pub(super) fn tally(&self) -> [u64; 2] {
        [self.begun, self.superseded]
    }
}

#[cfg(test)]
mod tests {
    use model::JobId;

    use super::*;

    fn epoch(term: u64) -> Epoch {
        Epoch { term, node: 1 }
    }

    #[test]
    fn what_is_right_is_no_finding() {
        let mut calls = Calls::default();
        let job = Some(JobRef { id: JobId(1), op: 0 });
        let [one, other] = [1, 1].map(|node| calls.begin(node, epoch(1), job));
        let _elsewhere = calls.begin(2, epoch(1), None);
        calls.end(1, one);
        calls.obey(1, epoch(2));
        calls.end(1, other);
        calls.begin(1, epoch(2), None);
        assert_eq!(calls.finding(), None);
    }

    #[test]
    fn what_is_not_right_is_found() {
        let two_together = |calls: &mut Calls| {
            calls.begin(1, epoch(1), None);
            calls.begin(1, epoch(2), None);
        };
        let too_late = |calls: &mut Calls| {
            calls.obey(1, epoch(2));
            calls.begin(1, epoch(1), None);
        };
        let again = |calls: &mut Calls| {
            let job = Some(JobRef { id: JobId(1), op: 0 });
            let call = calls.begin(1, epoch(1), job);
            calls.end(1, call);
            calls.begin(2, epoch(2), job);
        };
        type Breaks = fn(&mut Calls);
        let broken: [(Breaks, &str); 3] =
            [(two_together, "together"), (too_late, "before"), (again, "called agents in")];
        for (breaks, word) in broken {
            let mut calls = Calls::default();
            breaks(&mut calls);
            assert!(calls.finding().is_some_and(|finding| finding.contains(word)), "{calls:?}");
        }
    }
}
