//! The master for many requests at a time: a bounded number of them ask, of which each user and each address
//! has a share. Stamps tell one submission from another.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use luxi::Method;
use luxi::method::{Class, Fields, JobChange, WaitForJobChange};
use luxi::request::Principal;
use model::{Exception, JobId, JobStatus, OpInput, OpStatus};
use serde_json::Value;
use stdx::Clock;
use stdx::admission::turns::{TurnLimits, Turns};

use crate::master::Master;
use crate::refusal::Refusal;
use crate::shares::{Holder, SharedPlaces, turn};

/// Questions at the same time. Most take less than a millisecond; each has a connection meanwhile.
const ASKS: TurnLimits = TurnLimits { total: 64, of_user: 16, of_address: 32 };
/// Waits for jobs at the same time: each has a connection, too, and a candidate forwards no more than 48.
const WAITS: TurnLimits = TurnLimits { total: 192, of_user: 48, of_address: 96 };
/// The longest wait for the end of a job whose result an answer needs. It is longer than a push to
/// agents in trouble takes, and shorter than clients wait.
pub const END_TIME: Duration = Duration::from_secs(110);
/// Seconds of one wait.
const WAIT_SECONDS: f64 = 20.0;
/// The observed fields of a job: all that its end tells.
const OBSERVED: [&str; 3] = ["status", "opstatus", "opresult"];

/// The way to the master for requests.
#[derive(Debug)]
pub struct MasterPool {
    master: Master,
    asks: SharedPlaces,
    waits: SharedPlaces,
    clock: Clock,
    stamp: AtomicI64,
}

impl MasterPool {
    /// The way to this master.
    pub fn new(master: Master, clock: Clock) -> Self {
        let (asks, waits) = [ASKS, WAITS].map(Turns::new).into();
        Self { master, asks, waits, clock, stamp: AtomicI64::new(0) }
    }

    /// Asks the master, for `principal` or for this program.
    ///
    /// # Errors
    /// What the client is told.
    pub async fn ask<M: Method>(
        &self,
        holder: &Holder,
        principal: Option<Principal>,
        call: M,
    ) -> Result<M::Reply, Refusal>
    where
        M::Reply: 'static,
    {
        let turns = if M::CLASS == Class::Wait { &self.waits } else { &self.asks };
        let _turn = turn(turns, holder, 1).await?;
        Ok(self.master.ask(principal.as_ref(), &call).await?)
    }

    /// Asks the master once: a caller that checks whether it is there does not wait for another one.
    ///
    /// # Errors
    /// What the client is told.
    pub async fn ask_once<M: Method>(&self, holder: &Holder, call: M) -> Result<M::Reply, Refusal>
    where
        M::Reply: 'static,
    {
        let _turn = turn(&self.asks, holder, 1).await?;
        let once = self.master.clone().with_times(Duration::ZERO, Duration::ZERO);
        Ok(once.ask(None, &call).await?)
    }

    /// Submits a job of stamped opcodes for somebody, which is sent again where the answer is lost.
    ///
    /// # Errors
    /// What the client is told.
    pub async fn submit(
        &self,
        holder: &Holder,
        principal: Option<Principal>,
        ops: Vec<OpInput>,
    ) -> Result<JobId, Refusal> {
        let _turn = turn(&self.asks, holder, 1).await?;
        Ok(self.master.submit(principal.as_ref(), ops).await?)
    }

    /// Waits for the end of a job for `time` at most; its opcodes' results.
    ///
    /// # Errors
    /// The exception of the opcode that failed, or why the end is not known.
    pub async fn results(
        &self,
        holder: &Holder,
        job: JobId,
        time: Duration,
    ) -> Result<Vec<Value>, Refusal> {
        let ended = tokio::time::timeout(time, self.end(holder, job)).await;
        let late = |_elapsed| {
            let text = format!(
                "job {job} did not end within {} s and goes on; GET /2/jobs/{job} tells of it",
                time.as_secs()
            );
            Refusal::new(StatusCode::GATEWAY_TIMEOUT, text)
        };
        ended.map_err(late)?
    }

    /// A job that was submitted is not refused any more, so that its end waits for its turn however long.
    async fn end(&self, holder: &Holder, job_id: JobId) -> Result<Vec<Value>, Refusal> {
        let mut previous = None;
        loop {
            let fields = Fields::from(OBSERVED);
            let wait = WaitForJobChange {
                job_id,
                fields,
                previous: previous.clone(),
                previous_log: None,
                timeout: WAIT_SECONDS,
            };
            let turn = self.waits.acquire(holder, 1).await;
            let changed = self.master.ask(None, &wait).await?;
            drop(turn);
            let JobChange::Changed(row, _log) = changed else { continue };
            let read = serde_json::from_value::<(JobStatus, Vec<OpStatus>, Vec<Value>)>(
                row.clone().into(),
            );
            let (status, opstatus, opresult) = read
                .map_err(|error| Refusal::fault(format!("job {job_id} does not read: {error}")))?;
            if status.is_final() {
                let outcome = luxi::client::JobOutcome { status, opstatus, opresult };
                return outcome.into_result().map_err(|exception: Exception| (&exception).into());
            }
            previous = Some(row);
        }
    }

    /// A nanosecond that no other submission of this process has.
    pub fn stamp(&self) -> i64 {
        let now = self.clock.now_micros().saturating_mul(1_000);
        let next = |last: i64| Some(now.max(last.saturating_add(1)));
        let last = self.stamp.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        now.max(last.unwrap_or_else(|last| last).saturating_add(1))
    }

    /// Microseconds since the epoch.
    pub fn now_micros(&self) -> i64 {
        self.clock.now_micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_stamps_are_alike_whatever_the_clock_does() {
        let clock = Clock::manual(1_000);
        let link = MasterPool::new(Master::new("s".into()), clock.clone());
        let first = [(); 3].map(|()| link.stamp());
        assert_eq!(first, [1_000_000, 1_000_001, 1_000_002]);
        clock.set(10);
        assert_eq!(link.stamp(), 1_000_003);
        clock.set(2_000);
        assert_eq!(link.stamp(), 2_000_000);
    }
}
