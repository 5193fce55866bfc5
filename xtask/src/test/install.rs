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
    if let Err(why) = needs::may_install() {
        return left_out(round, &missing, &why);
    }
    needs::fetch(&missing);
    let still = needs::missing();
    if still.is_empty() {
        Outcome::Passed
    } else {
        left_out(round, &still, "apt-get could not install it, see above")
    }
}

fn left_out(round: &mut Round, missing: &[&Need], why: &str) -> Outcome {
    for need in missing {
        let test = format!("what needs `{}` ({})", need.program, need.purpose);
        let why = format!("{why}; as root: apt-get install {}", need.package);
        round.skips.push(Skip { test, why });
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
        let outcome = left_out(&mut round, &missing, "not root");
        assert_eq!(outcome, Outcome::Skipped("udhcpc, dhclient missing".to_owned()));
        assert_eq!(round.skips.len(), 2);
        assert_eq!(round.skips[0].why, "not root; as root: apt-get install udhcpc");
    }
}
