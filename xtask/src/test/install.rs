//! The step `install`: what tests want of the machine is installed where that is allowed.

use super::skips::Skip;
use super::{Outcome, Round};
use crate::needs::{self, Lack, NEEDS, names};

/// The step: installs what is missing, or says what will not be tested. Never fails: what is still
/// missing afterwards shows as skipped tests.
pub(super) fn run(round: &mut Round) -> Outcome {
    let needs: Vec<_> = NEEDS.iter().collect();
    let missing = needs::prepare(&needs);
    if missing.is_empty() {
        println!("everything is there: {}", names(NEEDS.iter()));
        return Outcome::Passed;
    }
    left_out(round, &missing)
}

fn left_out(round: &mut Round, missing: &[Lack]) -> Outcome {
    for lack in missing {
        let test = format!("what needs `{}` ({})", lack.need.program, lack.need.purpose);
        round.skips.push(Skip { test, why: lack.why() });
    }
    Outcome::Skipped(format!("{} missing", names(missing.iter().map(|lack| lack.need))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told() {
        let mut round = Round::default();
        let missing = needs::of(&["udhcpc", "nmcli"]).into_iter().map(Lack::not_installed);
        let outcome = left_out(&mut round, &missing.collect::<Vec<_>>());
        assert_eq!(outcome, Outcome::Skipped("udhcpc, nmcli missing".to_owned()));
        let whys: Vec<&str> = round.skips.iter().map(|skip| skip.why.as_str()).collect();
        assert!(whys[0].ends_with("; as root: apt-get install udhcpc"), "{whys:?}");
        assert!(whys[1].ends_with("; as root: cargo xtask test install"), "{whys:?}");
    }
}
