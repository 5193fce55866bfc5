//! Core: how far the clock of an agent's host is from the master's, and whose is wrong.

use model::Timestamp;
use model::rack_fault::{RackCause, RackFault};

/// How far a node's clock may be from the master's, in seconds; Ganeti's.
pub const CLOCK_SKEW_MAX_SECONDS: i64 = 150;
/// Nodes that must agree against the master: one alone may be the wrong one.
const AGAINST_MASTER_MIN: usize = 2;

/// A difference that is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockSkew {
    /// The node is so many seconds ahead of the master; behind it where they are negative.
    Seconds(i64),
    /// So large that one side takes a certificate for ended, or not valid yet.
    Unknown,
}

impl ClockSkew {
    /// The skew of a clock that said `told` between two moments of the master's.
    pub fn measured(told: Timestamp, from: Timestamp, to: Timestamp) -> Option<Self> {
        let (early, late) = (from.seconds() - told.seconds(), told.seconds() - to.seconds());
        let seconds = if early > late { -early } else { late };
        (early.max(late) > CLOCK_SKEW_MAX_SECONDS).then_some(Self::Seconds(seconds))
    }

    /// The fault of the node that has it.
    pub fn fault(self, master: &str) -> RackFault {
        let text = match self {
            Self::Seconds(seconds @ 0..) => {
                format!("its clock is {} ahead of that of {master}, the master", span(seconds))
            }
            Self::Seconds(seconds) => {
                format!("its clock is {} behind that of {master}, the master", span(-seconds))
            }
            Self::Unknown => format!(
                "its clock and that of {master}, the master, differ so much that one of them takes \
                 certificates for not valid"
            ),
        };
        RackCause::ClockOff.fault(text, &[])
    }
}

/// The fault of a master whose own clock is the wrong one. The skews of all other nodes that answer show
/// it: most of them differ from the master, to the same side.
pub fn fault_of_master(others: &[Option<ClockSkew>]) -> Option<RackFault> {
    let seconds = others.iter().filter_map(|skew| match skew {
        Some(ClockSkew::Seconds(seconds)) => Some(*seconds),
        Some(ClockSkew::Unknown) | None => None,
    });
    let (ahead, behind): (Vec<i64>, Vec<i64>) = seconds.partition(|seconds| *seconds > 0);
    let (side, most) =
        if ahead.len() > behind.len() { ("behind", ahead) } else { ("ahead of", behind) };
    let agree = most.len();
    (agree >= AGAINST_MASTER_MIN && agree * 2 > others.len()).then(|| {
        let least = most.iter().map(|seconds| seconds.abs()).min().unwrap_or_default();
        let text = format!(
            "its clock, the master's, is {} {side} those of {agree} of {} other nodes",
            span(least),
            others.len()
        );
        RackCause::ClockOff.fault(text, &[])
    })
}

/// Seconds in the unit in which a reader thinks of them.
fn span(seconds: i64) -> String {
    let (number, unit) = match seconds {
        ..600 => (seconds, "s"),
        600..7_200 => (seconds / 60, "min"),
        7_200..172_800 => (seconds / 3_600, "h"),
        _ => (seconds / 86_400, "days"),
    };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn measured(seconds: i64) -> Option<ClockSkew> {
        ClockSkew::measured(NOW.plus_seconds(seconds), NOW, NOW)
    }

    #[test]
    fn what_is_too_far_is_told_with_its_side() {
        assert_eq!((measured(150), measured(-150)), (None, None));
        for (seconds, words) in [
            (151, "151 s ahead of that of n1"),
            (-3_000, "50 min behind that of n1"),
            (86_400, "24 h ahead"),
            (-4 * 365 * 86_400, "1460 days behind"),
        ] {
            assert_eq!(measured(seconds), Some(ClockSkew::Seconds(seconds)));
            let fault = ClockSkew::Seconds(seconds).fault("n1").at("n2", 0);
            assert!(fault.text.contains(words), "{fault:?}");
            assert_eq!(fault.remedy, "`timedatectl set-ntp true` on n2");
        }
    }

    #[test]
    fn a_slow_answer_is_no_wrong_clock() {
        let told = NOW.plus_seconds(400);
        assert_eq!(ClockSkew::measured(told, NOW, NOW.plus_seconds(600)), None);
    }

    #[test]
    fn the_master_is_wrong_where_most_others_agree_against_it() {
        let of = |seconds: &[i64]| {
            let skews: Vec<_> = seconds.iter().map(|seconds| measured(*seconds)).collect();
            fault_of_master(&skews).map(|fault| fault.text)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[9_000]), None, "one against one");
        assert_eq!(of(&[9_000, 0]), None);
        assert_eq!(of(&[9_000, -9_000]), None);
        assert!(of(&[9_000, 9_001]).unwrap().contains("2 h behind those of 2 of 2"));
        assert!(of(&[-9_000, 0, -9_001]).unwrap().contains("2 h ahead of those of 2 of 3"));
        assert_eq!(of(&[-9_000, 0, -9_001, 0]), None);
    }
}
