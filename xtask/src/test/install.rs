//! The step `install`: what tests want of the machine is installed where that is allowed.

use super::skips::Skip;
use super::{Outcome, Round};
use crate::needs::{self, Need, names};

/// The step: installs what is missing, or says what will not be tested. Never fails: what is still
/// missing afterwards shows as skipped tests.
pub(super) fn run(round: &mut Round) -> Outcome {
    let missing = needs::missing();
    if missing.is_empty() {
        println!("everything is there: {}", names(needs::all()));
        return Outcome::Passed;
    }
    println!("missing: {}", names(missing.iter().copied()));
    needs::fetch(&missing);
    let still = needs::missing();
    if still.is_empty() { Outcome::Passed } else { left_out(round, &still) }
}

fn left_out(round: &mut Round, missing: &[&Need]) -> Outcome {
    for need in missing {
        let test = format!("what needs `{}` ({})", need.program, need.purpose);
        let why = needs::may_install(need).err();
        let why = why.unwrap_or_else(|| "it could not be installed, see above".to_owned());
        round.skips.push(Skip { test, why: format!("{why}; {}", needs::remedy(need)) });
    }
    Outcome::Skipped(format!("{} missing", names(missing.iter().copied())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs::NEEDS;

    #[test]
    fn what_is_missing_is_told() {
        let mut round = Round::default();
        let named = |name| NEEDS.iter().find(|need| need.program == name).unwrap();
        let missing = [named("udhcpc"), named("dhclient")];
        let outcome = left_out(&mut round, &missing);
        assert_eq!(outcome, Outcome::Skipped("udhcpc, dhclient missing".to_owned()));
        assert_eq!(round.skips.len(), 2);
        let why = &round.skips[0].why;
        assert!(why.ends_with("; as root: apt-get install udhcpc"), "{why}");
    }
}
