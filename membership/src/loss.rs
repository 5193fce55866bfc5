//! Core: whether commits go on when voters go.

use std::collections::BTreeSet;

/// Voters of whom too few answer: with them alone, nothing would be committed any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{heard} of {voters} voters would answer, and {needed} are needed: the cluster would stop; bring \
     those back first that do not answer, or mark them offline; where two vote while a third gets its copy, wait for that"
)]
pub struct Stops {
    /// Those that answer.
    pub heard: usize,
    /// All of them.
    pub voters: usize,
    /// A majority of them.
    pub needed: usize,
}

/// Whether those who are `heard` are a majority of `voters`.
///
/// # Errors
/// They are not.
pub fn goes_on(voters: &BTreeSet<u64>, heard: &BTreeSet<u64>) -> Result<(), Stops> {
    let (count, needed) = (voters.intersection(heard).count(), voters.len() / 2 + 1);
    let stops = Stops { heard: count, voters: voters.len(), needed };
    if count >= needed { Ok(()) } else { Err(stops) }
}

/// The same where the voter `going` goes; nothing changes where it is none.
///
/// # Errors
/// They are not.
pub fn goes_on_without(
    going: u64,
    voters: &BTreeSet<u64>,
    heard: &BTreeSet<u64>,
) -> Result<(), Stops> {
    if !voters.contains(&going) {
        return Ok(());
    }
    let rest = voters.iter().copied().filter(|voter| *voter != going).collect();
    goes_on(&rest, heard)
}

/// Whether commits go on where the voter `going` answers no more, and keeps its vote until another
/// commit takes it away; nothing changes where it is none.
///
/// # Errors
/// They do not.
pub fn goes_on_if_silent(
    going: u64,
    voters: &BTreeSet<u64>,
    heard: &BTreeSet<u64>,
) -> Result<(), Stops> {
    if !voters.contains(&going) {
        return Ok(());
    }
    let rest = heard.iter().copied().filter(|voter| *voter != going).collect();
    goes_on(voters, &rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(ids: &[u64]) -> BTreeSet<u64> {
        ids.iter().copied().collect()
    }

    #[test]
    fn a_voter_goes_where_the_rest_has_a_majority() {
        let three = set(&[1, 2, 3]);
        let five = set(&[1, 2, 3, 4, 5]);
        for (going, voters, heard, goes) in [
            (3, &three, &[1, 2, 3][..], true),
            // The one that is away goes; not the one that is left.
            (3, &three, &[1, 2], true),
            (2, &three, &[1, 2], false),
            (5, &five, &[1, 2, 3], true),
            (3, &five, &[1, 2, 3], false),
            (9, &five, &[1, 2, 3], true),
            (9, &three, &[1], true),
        ] {
            let found = goes_on_without(going, voters, &set(heard)).is_ok();
            assert_eq!(found, goes, "{going} of {voters:?} with {heard:?}");
        }
        let told = goes_on_without(2, &three, &set(&[1, 2])).unwrap_err();
        assert_eq!(told, Stops { heard: 1, voters: 2, needed: 2 });
    }

    #[test]
    fn a_voter_may_fall_silent_where_the_others_are_a_majority_of_all() {
        let (two, three) = (set(&[1, 2]), set(&[1, 2, 3]));
        for (going, voters, heard, goes) in [
            (3, &three, &[1, 2, 3][..], true),
            (3, &three, &[1, 2], true),
            (3, &three, &[1, 3], false),
            (2, &two, &[1, 2], false),
            (9, &two, &[1, 2], true),
        ] {
            let found = goes_on_if_silent(going, voters, &set(heard)).is_ok();
            assert_eq!(found, goes, "{going} of {voters:?} with {heard:?}");
        }
    }

    proptest! {
        #[test]
        fn who_is_away_may_always_go_where_there_is_a_majority(
            voters in proptest::collection::btree_set(1_u64..9, 1..8),
            heard in proptest::collection::btree_set(1_u64..9, 0..9),
            going in 1_u64..9,
        ) {
            let is_majority = goes_on(&voters, &heard).is_ok();
            let goes = goes_on_without(going, &voters, &heard).is_ok();
            prop_assert!(goes || !is_majority || heard.contains(&going));
        }
    }
}
