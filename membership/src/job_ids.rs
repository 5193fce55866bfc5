//! Core: whether a member's files know of all job ids that were given. A log that is whole proves
//! nothing about files that somebody put back. A master that reads a lower id would give ids twice. Its
//! jobs would take the place of those that were acknowledged under them.

use std::fmt;

use model::NodeName;

/// The last job id that was given, by a member's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastJob {
    pub id: u64,
    /// The files know of all entries up to this one.
    pub from: u64,
    /// And of none behind this one.
    pub upto: u64,
}

/// Ids of which a member's files do not know, though its log has the entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    has: u64,
    given: u64,
    by: NodeName,
}

impl Forgotten {
    /// The remedy for an operator.
    pub fn remedy(&self) -> String {
        format!(
            "let another candidate take the role, and give this node a new store: \"A candidate gets a new \
             store\" in the runbook; if {0} is the one that is wrong, the same for {0}, with its masterd \
             stopped first; if there is no other candidate: --no-voting --yes-do-it, which goes on with what \
             this node has",
            self.by
        )
    }
}

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { has, given, by } = self;
        write!(
            f,
            "the last job id is {has} by the files here and {given} by those of {by}, and the log here has \
             the entry: files were changed by hand, or a disk is bad, here or there"
        )
    }
}

/// The job ids that one of the others knows and `own` does not, at entries that both have. Ids only
/// grow, in whatever history.
pub fn forgotten(own: LastJob, others: &[(NodeName, LastJob)]) -> Option<Forgotten> {
    let later = others.iter().filter(|(_, other)| other.upto <= own.from && other.id > own.id);
    let (by, other) = later.max_by_key(|(_, other)| other.id)?;
    Some(Forgotten { has: own.id, given: other.id, by: by.clone() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(own: (u64, u64, u64), others: &[(u64, u64, u64)]) -> Option<String> {
        let last = |(id, from, upto): (u64, u64, u64)| LastJob { id, from, upto };
        let others = (2..).zip(others);
        let others =
            others.map(|(n, other): (u64, _)| (format!("n{n}").parse().unwrap(), last(*other)));
        forgotten(last(own), &others.collect::<Vec<_>>()).map(|found| found.to_string())
    }

    #[test]
    fn only_what_the_log_has_can_be_forgotten() {
        assert_eq!(told((7, 50, 50), &[(7, 50, 50), (6, 40, 40)]), None);
        assert_eq!(told((7, 50, 50), &[(9, 60, 60)]), None, "it is behind");
        assert_eq!(told((7, 50, 55), &[(9, 52, 52)]), None, "it may have been read before");
        assert_eq!(told((7, 50, 50), &[(9, 50, 51)]), None, "it may be of a later entry");
        let one = told((7, 50, 50), &[(8, 50, 50), (9, 49, 50)]).unwrap();
        assert!(one.contains("is 7 by the files here and 9 by those of n3"), "{one}");
    }

    proptest! {
        #[test]
        fn who_reads_a_true_history_is_never_accused(
            steps in prop::collection::vec(0..3u64, 1..60),
            reads in prop::collection::vec((any::<prop::sample::Index>(), 0..4usize, 0..4usize), 2..6),
        ) {
            let ids: Vec<u64> =
                steps.iter().scan(0, |id, step| { *id += step; Some(*id) }).collect();
            let read = |(at, before, after): &(prop::sample::Index, usize, usize)| {
                let at = at.index(ids.len());
                let from = u64::try_from(at.saturating_sub(*before)).unwrap();
                let upto = u64::try_from(at + after).unwrap();
                LastJob { id: ids[at], from, upto }
            };
            let name: NodeName = "n2".parse().unwrap();
            let others: Vec<_> = reads[1..].iter().map(|one| (name.clone(), read(one))).collect();
            prop_assert_eq!(forgotten(read(&reads[0]), &others), None);
        }
    }
}
