//! Core: the steps from one state of a host to another.
//!
//! [`step`] has the steps, [`resolve`] finds cards by their permanent addresses, [`differences`] says
//! what of each link differs.

mod differences;
mod resolve;
pub(crate) mod step;

#[cfg(test)]
mod model_kernel;
#[cfg(test)]
pub(crate) mod random;
#[cfg(test)]
mod tests;

use std::fmt;

use model::json::Malformed;

use crate::model::HostNetwork;
use differences::Differences;
use step::Step;

/// Ordered steps. The way back is planned anew, from what the kernel is then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps, the first one first.
    pub steps: Vec<Step>,
    /// The desired network, with the names that the cards have on this host.
    pub target: HostNetwork,
    /// Routes of others that go with what the steps take away.
    pub lost: Vec<String>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps and the routes that get lost, as lines for people.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let lost = self.lost.iter().map(|route| format!("lose route {route}"));
        self.steps.iter().map(ToString::to_string).chain(lost)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// The steps from what a host has to what it should have.
///
/// Equal meaning gives no step. Interfaces that `desired` does not name are left alone, also as
/// members of a bridge that it does name.
///
/// # Errors
/// What [`HostNetwork::check`] refuses, cards that are not here, and links that cannot become what
/// they should, with their place. Then nothing is to be done.
pub fn plan(actual: &HostNetwork, desired: &HostNetwork) -> Result<Plan, Malformed> {
    desired.check()?;
    let target = resolve::resolve(actual, desired)?;
    let steps = steps(actual, &target)?;
    Ok(Plan { steps, target, lost: Vec::new() })
}

/// The steps to a state that a host can have, or had.
pub(crate) fn steps(actual: &HostNetwork, target: &HostNetwork) -> Result<Vec<Step>, Malformed> {
    let differences = Differences::between(actual, target)?;
    let mut steps = Vec::new();
    differences.take_down(&mut steps);
    differences.build_up(&mut steps);
    Ok(steps)
}
