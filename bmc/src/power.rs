//! Core: what follows of each look at a machine whose power is being switched.

use std::time::Duration;

use model::bmc::PowerState;

/// Refusals of an order after which a refusal is believed. A controller may refuse an order because it
/// is in the middle of the one before, and show an older state for a while.
const REFUSALS_MAX: u32 = 3;

/// The next step of an action on the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The machine was seen to be so.
    Done,
    /// The order is to be given, perhaps again.
    Order,
    /// There is nothing to do but to look again.
    Look,
    /// It did not happen.
    GiveUp,
}

/// The outcome of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ordered {
    /// The controller took it.
    Taken,
    Refused,
    /// Its answer was lost, or does not read: it may have taken the order or not.
    Unknown,
}

/// A machine whose power is being switched. A look that failed says nothing: not that the machine is so, not that
/// it is not.
#[derive(Debug)]
pub(crate) struct Switching {
    wanted: PowerState,
    /// Whether the order is given to a machine that cannot be seen, too: it was switched off, and does no harm
    /// to one that runs.
    blindly: bool,
    /// How long it may take.
    limit: Duration,
    /// Before an order is given again that was not taken.
    again: Duration,
    /// When the last order was given.
    ordered: Option<Duration>,
    /// Whether the controller took one.
    is_taken: bool,
    refusals: u32,
}

impl Switching {
    /// `is_off` tells whether the machine may be off by an order of ours.
    pub(crate) fn new(wanted: PowerState, is_off: bool, limit: Duration, again: Duration) -> Self {
        let blindly = is_off && wanted == PowerState::On;
        Self { wanted, blindly, limit, again, ordered: None, is_taken: false, refusals: 0 }
    }

    /// After a look, at this time since the beginning.
    pub(crate) fn seen(&self, power: Option<PowerState>, at: Duration) -> Next {
        if power == Some(self.wanted) {
            return Next::Done;
        }
        let Some(ordered) = self.ordered else {
            return if power.is_some() || self.blindly { Next::Order } else { Next::GiveUp };
        };
        if at >= self.limit || self.refusals >= REFUSALS_MAX {
            return Next::GiveUp;
        }
        if !self.is_taken && at >= ordered + self.again { Next::Order } else { Next::Look }
    }

    /// After an order.
    pub(crate) fn ordered(&mut self, became: Ordered, at: Duration) {
        self.ordered = Some(at);
        self.is_taken |= became == Ordered::Taken;
        self.refusals += u32::from(became == Ordered::Refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn only_a_machine_that_was_switched_off_is_switched_on_unseen() {
        for (wanted, is_off, next) in [
            (PowerState::On, true, Next::Order),
            (PowerState::On, false, Next::GiveUp),
            (PowerState::Off, true, Next::GiveUp),
        ] {
            let switching = Switching::new(wanted, is_off, S(60), S(5));
            assert_eq!(switching.seen(None, S(0)), next, "{wanted} {is_off}");
        }
    }

    #[test]
    fn each_look_and_what_follows() {
        use Next::{Done, GiveUp, Look, Order};
        use Ordered::{Refused, Taken, Unknown};
        let (on, off) = (Some(PowerState::On), Some(PowerState::Off));
        // Looks at a time, what follows, and what becomes of an order.
        for looks in [
            &[(0, on, Done, None)][..],
            &[(0, off, Order, Some(Taken)), (1, off, Look, None), (2, on, Done, None)],
            // A look that failed is neither the end nor a reason to order again.
            &[(0, off, Order, Some(Taken)), (9, None, Look, None), (10, on, Done, None)],
            &[(0, None, GiveUp, None)],
            &[(0, off, Order, Some(Taken)), (59, None, Look, None), (60, None, GiveUp, None)],
            &[(0, off, Order, Some(Taken)), (60, on, Done, None)],
            // An order whose answer was lost is given again after a while, unless it was carried out.
            &[(0, off, Order, Some(Unknown)), (4, off, Look, None), (5, off, Order, Some(Taken))],
            &[(0, off, Order, Some(Unknown)), (4, None, Look, None), (5, on, Done, None)],
            &[(0, off, Order, Some(Refused)), (1, on, Done, None)],
            &[
                (0, off, Order, Some(Refused)),
                (5, off, Order, Some(Refused)),
                (10, off, Order, Some(Refused)),
                (11, off, GiveUp, None),
            ],
            // However long the first look took, there is one order.
            &[(90, off, Order, Some(Unknown)), (91, off, GiveUp, None)],
        ] {
            let mut switching = Switching::new(PowerState::On, false, S(60), S(5));
            for (at, seen, next, became) in looks {
                assert_eq!(switching.seen(*seen, S(*at)), *next, "{looks:?}");
                if let Some(became) = became {
                    switching.ordered(*became, S(*at));
                }
            }
        }
    }
}
