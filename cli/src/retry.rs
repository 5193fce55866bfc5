//! Core: whether the master is only away, and how long it is awaited.

use std::time::Duration;

use luxi::ClientError;

/// How long the master may be away before it is given up, unless more is asked for. A restart with a
/// long queue takes some seconds, and an operator wants to know when it takes longer.
pub(crate) const OUTAGE_MAX: Duration = Duration::from_secs(60);
/// How long a command waits for a master that is away when it begins, if nothing else is said. A restart
/// by the service manager takes a few seconds. Ganeti's clients wait as long.
pub(crate) const AWAY_MAX: Duration = Duration::from_secs(30);
/// Pause before each attempt to reach the master again: short for who waits, and no load for the
/// machine, however many wait.
pub(crate) const OUTAGE_PAUSE: Duration = Duration::from_millis(500);
/// Pauses before a submission is sent again that a master may have had, in milliseconds. With the
/// first attempt it is sent as often as Ganeti's clients send it, since the request may be what ends the
/// master. The pauses grow, so that they do not end before [`OUTAGE_MAX`].
const RESEND_PAUSES: [u64; 14] =
    [500, 500, 1_000, 1_000, 2_000, 2_000, 3_000, 4_000, 5_000, 7_000, 8_000, 8_000, 9_000, 9_000];

/// A time without a master, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    lost_at: Option<Duration>,
}

/// The meaning of a failure for a caller that needs an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The master is away as of this failure: connect anew after [`OUTAGE_PAUSE`].
    First,
    /// It is still away: the same.
    Still,
    /// It was away for too long, or the failure says more than that it is away.
    Over,
}

impl Outage {
    /// Takes a failure at the time `now` since any fixed moment; the master may be away for `limit`.
    pub(crate) fn failed_within(
        &mut self,
        error: &ClientError,
        now: Duration,
        limit: Duration,
    ) -> Loss {
        let first = self.lost_at.is_none();
        let lost_at = *self.lost_at.get_or_insert(now);
        if !error.is_away() || now.saturating_sub(lost_at) >= limit {
            return Loss::Over;
        }
        if first { Loss::First } else { Loss::Still }
    }

    /// The master has answered.
    pub(crate) fn end(&mut self) {
        self.lost_at = None;
    }
}

/// The words of a server that has no master to ask, for a message on a master that is lost.
pub(crate) fn reason(error: &ClientError) -> String {
    let told = error.exception().map(model::Exception::message);
    told.map_or_else(String::new, |told| format!(" ({told})"))
}

/// A submission that can be sent again, since the master knows it again.
#[derive(Debug)]
pub(crate) struct Sending {
    outage: Outage,
    /// How often a master may have had it.
    sent: usize,
    pause: Duration,
    /// How long the master may be away as long as none has had it.
    away_left: Duration,
    /// How long, once one may have had it: what became of it is worth a longer wait.
    unsure_max: Duration,
    /// Whether one may have had it.
    unsure: bool,
}

impl Sending {
    /// It was sent once. A master that has not had it is awaited for up to `away_left`. A master that
    /// may have had it is awaited for [`OUTAGE_MAX`], or for `away_max` where that is longer.
    pub(crate) fn new(away_left: Duration, away_max: Duration) -> Self {
        let (outage, unsure_max) = (Outage::default(), away_max.max(OUTAGE_MAX));
        Self { outage, sent: 1, pause: OUTAGE_PAUSE, away_left, unsure_max, unsure: false }
    }

    /// How long all of it may take: from the first failure on, and anew from the first one after which
    /// a master may have had it.
    pub(crate) fn limit(&self) -> Duration {
        if self.unsure { self.unsure_max } else { self.away_left }
    }

    /// Takes a failure to send it or to get an answer, at the time `now` since any fixed moment. A
    /// master that has it and is silent is not asked again: the repeat would wait just as long.
    pub(crate) fn failed(&mut self, error: &ClientError, now: Duration) -> Loss {
        if matches!(error, ClientError::TimedOut { .. }) {
            return Loss::Over;
        }
        if error.certainly_not_done() {
            if matches!(error, ClientError::Failure(_)) {
                // No master had it.
                self.sent = self.sent.saturating_sub(1);
            }
            self.pause = OUTAGE_PAUSE;
        } else {
            let before = RESEND_PAUSES.get(self.sent.saturating_sub(1));
            let Some(pause) = before else { return Loss::Over };
            self.pause = Duration::from_millis(*pause);
            if !std::mem::replace(&mut self.unsure, true) {
                self.outage.end();
            }
        }
        self.outage.failed_within(error, now, self.limit())
    }

    /// Time until it is sent again.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }

    /// It is sent again.
    pub(crate) fn sent_again(&mut self) {
        self.sent += 1;
    }
}

#[cfg(test)]
mod tests {
    use luxi::response::{Failure, NotMaster, Unserved};
    use model::Exception;
    use model::error::ExceptionKind;

    use super::*;

    const CLOSED: ClientError = ClientError::Closed { method: "SubmitJob" };

    fn refused() -> ClientError {
        ClientError::Refused { path: "socket".into() }
    }

    fn answered(text: &str) -> ClientError {
        ClientError::Failure(Failure::Exception(Exception::new(ExceptionKind::GenericError, text)))
    }

    #[test]
    fn a_submission_is_sent_again_for_a_while() {
        let mut sending = Sending::new(OUTAGE_MAX, OUTAGE_MAX);
        let at = Duration::from_secs;
        assert_eq!(sending.failed(&CLOSED, at(10)), Loss::First);
        // Nobody is there to send it to: that does not count as sending it.
        for second in 11..70 {
            assert_eq!(sending.failed(&refused(), at(second)), Loss::Still, "{second}");
        }
        assert_eq!(sending.failed(&refused(), at(70)), Loss::Over);
    }

    #[test]
    fn a_submission_that_a_master_may_have_is_sent_so_often_and_for_all_of_the_time() {
        let mut sending = Sending::new(OUTAGE_MAX, OUTAGE_MAX);
        let (mut sent, mut now) = (1, Duration::ZERO);
        while sending.failed(&CLOSED, now) != Loss::Over {
            now += sending.pause();
            sending.sent_again();
            sent += 1;
        }
        assert_eq!((sent, now), (15, OUTAGE_MAX));
        assert!(RESEND_PAUSES.is_sorted() && RESEND_PAUSES[0] == 500, "soon at first");
    }

    #[test]
    fn what_no_master_had_does_not_count_as_sent() {
        let mut sending = Sending::new(OUTAGE_MAX, OUTAGE_MAX);
        let standby = ClientError::Failure(Failure::NotMaster {
            exception: Exception::new(ExceptionKind::GenericError, "n2 is a standby"),
            about: NotMaster { outcome: Unserved::Again, master: None, address: None },
        });
        assert_eq!(sending.failed(&standby, Duration::ZERO), Loss::First);
        for _ in 0..1_000 {
            sending.sent_again();
            assert_eq!(sending.failed(&standby, Duration::ZERO), Loss::Still);
            assert_eq!(sending.pause(), OUTAGE_PAUSE);
        }
        let ending = answered("The master daemon is ending, and nothing was done; try again");
        for _ in 0..1_000 {
            sending.sent_again();
            assert_eq!(sending.failed(&ending, Duration::ZERO), Loss::Still);
        }
        assert_eq!(sending.failed(&standby, OUTAGE_MAX), Loss::Over);
    }

    #[test]
    fn who_was_told_how_long_to_wait_waits_longer_only_for_what_a_master_may_have() {
        let at = Duration::from_secs;
        let mut sending = Sending::new(at(5), at(5));
        assert_eq!(sending.failed(&refused(), at(10)), Loss::First);
        assert_eq!(sending.failed(&refused(), at(14)), Loss::Still);
        assert_eq!(sending.failed(&refused(), at(15)), Loss::Over);
        for (left, max, last) in [(0, 5, 60), (5, 5, 60), (500, 600, 600)] {
            let mut sending = Sending::new(at(left), at(max));
            assert_eq!(sending.failed(&CLOSED, at(10)), Loss::First);
            assert_eq!(sending.limit(), at(last));
            assert_eq!(sending.failed(&refused(), at(9 + last)), Loss::Still, "{max}");
            assert_eq!(sending.failed(&refused(), at(10 + last)), Loss::Over, "{max}");
        }
        assert_eq!(
            Sending::new(Duration::ZERO, Duration::ZERO).failed(&refused(), at(1)),
            Loss::Over
        );
    }

    /// Its time is not used up by a master that was away before.
    #[test]
    fn who_waited_for_a_master_and_lost_it_waits_anew_and_says_so() {
        let at = Duration::from_secs;
        let mut sending = Sending::new(at(30), at(30));
        assert_eq!(sending.failed(&refused(), at(0)), Loss::First);
        assert_eq!(sending.failed(&refused(), at(29)), Loss::Still);
        assert_eq!(sending.failed(&CLOSED, at(29)), Loss::First);
        assert_eq!(sending.failed(&refused(), at(60)), Loss::Still);
        assert_eq!(sending.failed(&CLOSED, at(88)), Loss::Still);
        assert_eq!(sending.failed(&refused(), at(89)), Loss::Over);
    }

    #[test]
    fn what_the_master_says_is_final_unless_it_ends() {
        let failed = |error: &ClientError| {
            Sending::new(OUTAGE_MAX, OUTAGE_MAX).failed(error, Duration::ZERO)
        };
        assert_eq!(failed(&answered("The master daemon is ending; try again")), Loss::First);
        assert_eq!(failed(&answered("The queue is full")), Loss::Over);
        assert_eq!(failed(&ClientError::TimedOut { method: "SubmitJob" }), Loss::Over);
    }
}
