//! Requests of machines for the keys of their disks, which wait here for the master. They are in memory
//! alone, which is wiped when they are gone: a machine asks again for all that is lost with the agent.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use parking_lot::Mutex;
use rpc::calls::{KEY_REQUESTS_MAX, KeyOutcome, KeyRequest};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use uuid::Uuid;

/// Requests of one address that wait at the same time: sabakan's client asks for one key after the other.
const OF_ADDRESS_MAX: usize = 2;
/// How long a request waits for the master to take it. The master, as a rule, holds an exchange open.
/// The time is longer than its commit of earlier news, and short of the patience of a machine.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// How long a request that was taken waits for its answer: longer than the master waits for the job that
/// keeps a key.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// As many wait as may.
    #[error("{KEY_REQUESTS_MAX} requests for keys wait already; try again")]
    Busy,
    /// As many of the same address wait as may.
    #[error("{OF_ADDRESS_MAX} requests of this address wait already; try again")]
    BusyAddress,
    /// No master took it.
    #[error("the master is away, and keys are with it alone; try again")]
    Away,
    /// The master took it and did not answer.
    #[error("the master did not answer in time; a key that was sent may be kept, so send it again")]
    Late,
}

/// The requests that wait.
#[derive(Debug)]
pub struct KeyDesk {
    waiting: Mutex<HashMap<Uuid, Waiting>>,
    /// How many were not handed out.
    new: watch::Sender<usize>,
}

#[derive(Debug)]
struct Waiting {
    /// None once the master has it.
    request: Option<KeyRequest>,
    from: Ipv4Addr,
    answer: oneshot::Sender<KeyOutcome>,
}

impl Default for KeyDesk {
    fn default() -> Self {
        Self { waiting: Mutex::default(), new: watch::channel(0).0 }
    }
}

impl KeyDesk {
    /// Has the master answer a request.
    ///
    /// # Errors
    /// It does not.
    pub async fn ask(&self, request: KeyRequest) -> Result<KeyOutcome, Unanswered> {
        let (id, from) = (request.id, request.from);
        let (answer, mut answered) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= KEY_REQUESTS_MAX {
                return Err(Unanswered::Busy);
            }
            if waiting.values().filter(|waits| waits.from == from).count() >= OF_ADDRESS_MAX {
                return Err(Unanswered::BusyAddress);
            }
            waiting.insert(id, Waiting { request: Some(request), from, answer });
            self.count(&waiting);
        }
        // Also when the machine goes away meanwhile.
        let _forgets = Forgets { desk: self, id };
        if let Ok(outcome) = timeout(TAKEN_WITHIN, &mut answered).await {
            return outcome.map_err(|_closed| Unanswered::Late);
        }
        if self.waiting.lock().get(&id).is_some_and(|waits| waits.request.is_some()) {
            return Err(Unanswered::Away);
        }
        match timeout(ANSWERED_WITHIN, answered).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) | Err(_) => Err(Unanswered::Late),
        }
    }

    /// Tells when there are requests that nobody took.
    pub fn watch(&self) -> watch::Receiver<usize> {
        self.new.subscribe()
    }

    /// Hands out the requests that were not handed out yet.
    pub fn take(&self) -> Vec<KeyRequest> {
        let mut waiting = self.waiting.lock();
        let taken = waiting.values_mut().filter_map(|waits| waits.request.take()).collect();
        self.count(&waiting);
        taken
    }

    /// Gives whoever waits for a request its answer.
    pub fn answer(&self, id: Uuid, outcome: KeyOutcome) {
        let waits = self.waiting.lock().remove(&id);
        if let Some(waits) = waits {
            // A machine that has just gone asks again.
            drop(waits.answer.send(outcome));
        }
    }

    fn count(&self, waiting: &HashMap<Uuid, Waiting>) {
        self.new.send_replace(waiting.values().filter(|waits| waits.request.is_some()).count());
    }
}

/// Forgets a request when dropped.
struct Forgets<'a> {
    desk: &'a KeyDesk,
    id: Uuid,
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        let mut waiting = self.desk.waiting.lock();
        waiting.remove(&self.id);
        self.desk.count(&waiting);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn request(id: u128) -> KeyRequest {
        let (serial, disk) = ("S1".parse().unwrap(), "sda".parse().unwrap());
        let from = [10, 69, 0, u8::try_from(id % 32).unwrap()].into();
        KeyRequest { id: Uuid::from_u128(id), serial, disk, from, key: None }
    }

    #[expect(clippy::disallowed_methods, reason = "its end is awaited by hand")]
    fn asked(
        desk: &Arc<KeyDesk>,
        id: u128,
    ) -> tokio::task::JoinHandle<Result<KeyOutcome, Unanswered>> {
        let desk = Arc::clone(desk);
        tokio::spawn(async move { desk.ask(request(id)).await })
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_is_taken_once_and_answered_or_forgotten() {
        let desk = Arc::new(KeyDesk::default());
        let mut new = desk.watch();
        let answered = asked(&desk, 1);
        new.wait_for(|new| *new == 1).await.unwrap();
        assert_eq!(desk.take(), [request(1)]);
        assert_eq!((desk.take(), *new.borrow()), (Vec::new(), 0));
        desk.answer(Uuid::from_u128(9), KeyOutcome::Kept);
        desk.answer(Uuid::from_u128(1), KeyOutcome::Kept);
        assert_eq!(answered.await.unwrap(), Ok(KeyOutcome::Kept));

        assert_eq!(asked(&desk, 2).await.unwrap(), Err(Unanswered::Away));
        let late = asked(&desk, 3);
        new.wait_for(|new| *new == 1).await.unwrap();
        assert_eq!(desk.take(), [request(3)]);
        assert_eq!(late.await.unwrap(), Err(Unanswered::Late));
        let gone = asked(&desk, 4);
        new.wait_for(|new| *new == 1).await.unwrap();
        gone.abort();
        new.wait_for(|new| *new == 0).await.unwrap();
        assert_eq!((desk.take(), desk.waiting.lock().len()), (Vec::new(), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_wait_than_may() {
        let desk = Arc::new(KeyDesk::default());
        let waiting: Vec<_> =
            (0..KEY_REQUESTS_MAX).map(|id| asked(&desk, u128::try_from(id).unwrap())).collect();
        desk.watch().wait_for(|new| *new == KEY_REQUESTS_MAX).await.unwrap();
        assert_eq!(desk.ask(request(95)).await, Err(Unanswered::Busy));
        desk.answer(Uuid::from_u128(1), KeyOutcome::Kept);
        assert_eq!(desk.ask(request(95)).await, Err(Unanswered::BusyAddress));
        for one in waiting.into_iter().skip(2) {
            assert_eq!(one.await.unwrap(), Err(Unanswered::Away));
        }
    }
}
