//! Core: when a master takes its address again that somebody took off its node.
//!
//! Network daemons and operators remove addresses that they do not know. So the master's own agent is
//! asked, and where the address is missing it is taken again at once. If it does not stay, further
//! attempts come ever more rarely, since every one is told to the whole link.

/// Seconds between two attempts, doubled with each further one.
pub(super) const FIRST_PAUSE: u64 = 5;
/// Longest time between two attempts, in seconds.
pub(super) const LONGEST_PAUSE: u64 = 60;
/// Seconds that it must have been there until earlier attempts are forgotten: several times the pause
/// after which it may be removed again.
pub(super) const CALM: u64 = 300;

/// The result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The cluster has no such address, or an operator took it off until further notice.
    Unwanted,
    /// It is where it should be.
    Here,
    /// It is not.
    Missing,
    /// The agent does not answer, or cannot tell.
    Unknown,
}

/// The memory between two looks. Times are seconds of a clock that does not jump.
#[derive(Debug, Default)]
pub(super) struct Rule {
    /// When it may be taken again.
    next: u64,
    /// Attempts since all was calm.
    times: u32,
    /// Since when it has been there.
    here: Option<u64>,
}

impl Rule {
    /// Whether the address is to be taken now.
    pub(super) fn step(&mut self, at: u64, seen: Seen) -> bool {
        match seen {
            Seen::Unwanted => *self = Self::default(),
            Seen::Unknown => self.here = None,
            Seen::Here => {
                if at >= self.here.get_or_insert(at).saturating_add(CALM) {
                    self.times = 0;
                }
            }
            Seen::Missing => {
                self.here = None;
                if at >= self.next {
                    let pause = FIRST_PAUSE.saturating_mul(2_u64.saturating_pow(self.times));
                    self.next = at.saturating_add(pause.min(LONGEST_PAUSE));
                    self.times = self.times.saturating_add(1);
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which it is taken, by what each second shows.
    fn taken(seen: impl IntoIterator<Item = Seen>) -> Vec<u64> {
        let mut rule = Rule::default();
        (0..).zip(seen).filter(|(at, seen)| rule.step(*at, *seen)).map(|(at, _)| at).collect()
    }

    #[test]
    fn what_is_shown_decides() {
        use Seen::{Here, Missing, Unknown, Unwanted};
        let cases: [(&[Seen], &[u64]); 6] = [
            (&[Here, Here, Missing], &[2]),
            (&[Unwanted, Unknown, Here], &[]),
            (&[Missing, Here, Missing], &[0]),
            (&[Missing, Missing, Missing, Missing, Missing, Missing], &[0, 5]),
            (&[Missing, Unknown, Unknown, Unknown, Unknown, Missing], &[0, 5]),
            (&[Missing, Unwanted, Missing], &[0, 2]),
        ];
        for (seen, wanted) in cases {
            assert_eq!(taken(seen.iter().copied()), wanted, "{seen:?}");
        }
    }

    #[test]
    fn where_it_does_not_stay_it_is_taken_ever_more_rarely() {
        let wanted = [0, 5, 15, 35, 75, 135, 195];
        assert_eq!(taken((0..200).map(|_| Seen::Missing)), wanted);
        // Short times in which it is there change nothing.
        let mostly = (0..200).map(|at| if at % 7 == 3 { Seen::Here } else { Seen::Missing });
        assert_eq!(taken(mostly).len(), wanted.len());
        // After a time of calm, what was is forgotten.
        let calm = 20 + CALM;
        let seen = (0..calm + 9).map(|at| match at {
            20.. if at < calm + 1 => Seen::Here,
            _ => Seen::Missing,
        });
        assert_eq!(taken(seen), [0, 5, 15, calm + 1, calm + 6]);
    }
}
