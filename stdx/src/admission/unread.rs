//! Answers that were not read yet: how much memory they take together.
//!
//! A client may ask for a hundred megabytes and read none of it. The memory of unread answers is
//! bounded, for each client and for all together. An answer that finds no room cuts off the reader that
//! made no progress for longest. It is a reader of the same client, or of the client that holds most.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Bytes of answers that are kept until they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadLimits {
    pub total: usize,
    pub of_client: usize,
    /// How long a client has at least for some progress.
    pub patience: Duration,
}

/// Answers that are being read; clones share them.
#[derive(Debug)]
pub struct Unread<C: Clone + Eq + Hash>(Arc<Mutex<UnreadTable<C>>>);

impl<C: Clone + Eq + Hash> Clone for Unread<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct UnreadTable<C> {
    limits: UnreadLimits,
    bytes: usize,
    of_client: HashMap<C, usize>,
    answers: BTreeMap<u64, UnreadAnswer<C>>,
    next: u64,
}

#[derive(Debug)]
struct UnreadAnswer<C> {
    client: C,
    bytes: usize,
    progress: Instant,
    cut_off: Arc<Notify>,
}

/// There is no room for an answer, and nobody reads too slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "The answer has {bytes} bytes, and answers that clients have not read yet leave no room for it; try \
     again, or ask for less"
)]
pub struct NoRoom {
    bytes: usize,
}

/// Room for an answer; given back when it is dropped.
#[derive(Debug)]
pub struct Room<C: Clone + Eq + Hash> {
    unread: Unread<C>,
    number: u64,
}

impl<C: Clone + Eq + Hash> Unread<C> {
    /// No answers yet.
    pub fn new(limits: UnreadLimits) -> Self {
        Self(Arc::new(Mutex::new(UnreadTable {
            limits,
            bytes: 0,
            of_client: HashMap::new(),
            answers: BTreeMap::new(),
            next: 0,
        })))
    }

    /// Makes room for an answer of so many bytes. `cut_off` is notified when the room is needed for others.
    ///
    /// # Errors
    /// There is none.
    pub fn hold(
        &self,
        client: &C,
        bytes: usize,
        now: Instant,
        cut_off: &Arc<Notify>,
    ) -> Result<Room<C>, NoRoom> {
        let mut table = self.0.lock();
        let UnreadLimits { total, of_client, .. } = table.limits;
        if bytes > of_client.min(total) {
            return Err(NoRoom { bytes });
        }
        while table.held_by(client) + bytes > of_client {
            table.cut_off_slowest_of(client, now).then_some(()).ok_or(NoRoom { bytes })?;
        }
        while table.bytes + bytes > total {
            let most = table.of_client.iter().max_by_key(|(_client, held)| **held);
            let most = most.map_or_else(|| client.clone(), |(most, _held)| most.clone());
            table.cut_off_slowest_of(&most, now).then_some(()).ok_or(NoRoom { bytes })?;
        }
        let number = table.next;
        table.next += 1;
        table.bytes += bytes;
        *table.of_client.entry(client.clone()).or_default() += bytes;
        let (client, cut_off) = (client.clone(), Arc::clone(cut_off));
        table.answers.insert(number, UnreadAnswer { client, bytes, progress: now, cut_off });
        Ok(Room { unread: self.clone(), number })
    }
}

impl<C: Clone + Eq + Hash> UnreadTable<C> {
    fn held_by(&self, client: &C) -> usize {
        self.of_client.get(client).copied().unwrap_or_default()
    }

    /// Cuts off the answer of a client that made no progress for longest, if that is longer than patience.
    fn cut_off_slowest_of(&mut self, client: &C, now: Instant) -> bool {
        let of_client = self.answers.iter().filter(|(_number, answer)| answer.client == *client);
        let slowest = of_client.min_by_key(|(_number, answer)| answer.progress);
        let slow = slowest.filter(|(_, answer)| now - answer.progress >= self.limits.patience);
        let Some((&number, answer)) = slow else { return false };
        answer.cut_off.notify_one();
        self.forget(number);
        true
    }

    fn forget(&mut self, number: u64) {
        // A reader that was cut off is forgotten already.
        let Some(answer) = self.answers.remove(&number) else { return };
        self.bytes -= answer.bytes;
        let Some(held) = self.of_client.get_mut(&answer.client) else { return };
        *held -= answer.bytes;
        if *held == 0 {
            self.of_client.remove(&answer.client);
        }
    }
}

impl<C: Clone + Eq + Hash> Room<C> {
    /// Notes that the client reads on.
    pub fn note_progress(&self, now: Instant) {
        if let Some(answer) = self.unread.0.lock().answers.get_mut(&self.number) {
            answer.progress = now;
        }
    }
}

impl<C: Clone + Eq + Hash> Drop for Room<C> {
    fn drop(&mut self) {
        self.unread.0.lock().forget(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    fn unread(of_client: usize) -> Unread<u8> {
        Unread::new(UnreadLimits { total: 100, of_client, patience: PATIENCE })
    }

    /// Room for an answer of a client, and what tells that it is cut off.
    fn hold(
        unread: &Unread<u8>,
        client: u8,
        bytes: usize,
        now: Instant,
    ) -> Result<(Room<u8>, Arc<Notify>), NoRoom> {
        let cut_off = Arc::new(Notify::new());
        unread.hold(&client, bytes, now, &cut_off).map(|room| (room, cut_off))
    }

    fn is_cut_off(notify: &Notify) -> bool {
        let mut cut_off = Box::pin(notify.notified());
        let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
        cut_off.as_mut().poll(&mut nobody).is_ready()
    }

    #[test]
    fn who_reads_slowest_makes_room_and_who_has_just_begun_does_not() {
        let unread = unread(100);
        let mut now = Instant::now();
        let (first, one) = hold(&unread, 1, 60, now).unwrap();
        now += PATIENCE / 2;
        let (second, two) = hold(&unread, 1, 40, now).unwrap();
        assert_eq!(hold(&unread, 1, 1, now).unwrap_err(), NoRoom { bytes: 1 }, "nobody is slow");
        now += PATIENCE / 2;
        let (third, _three) = hold(&unread, 1, 50, now).unwrap();
        assert!(is_cut_off(&one) && !is_cut_off(&two));
        assert!(hold(&unread, 1, 20, now).is_err(), "the next one has some time left");
        drop(first);
        assert_eq!(unread.0.lock().bytes, 90, "its room was given away before");
        second.note_progress(now);
        now += PATIENCE / 2;
        assert!(hold(&unread, 1, 20, now).is_err(), "it reads on");
        drop((second, third));
        let table = unread.0.lock();
        assert!(table.bytes == 0 && table.answers.is_empty() && table.of_client.is_empty());
    }

    #[test]
    fn a_client_costs_others_no_room() {
        let unread = unread(40);
        let mut now = Instant::now();
        assert!(hold(&unread, 1, 41, now).is_err());
        let (_all, _one) = hold(&unread, 1, 40, now).unwrap();
        assert!(hold(&unread, 1, 1, now).is_err());
        let (_of_two, two) = hold(&unread, 2, 30, now).unwrap();
        now += PATIENCE;
        let (_of_three, three) = hold(&unread, 3, 30, now).unwrap();
        assert!(!is_cut_off(&two));
        let (_again, again) = hold(&unread, 2, 20, now).unwrap();
        assert!(is_cut_off(&two), "a client that has its share is cut off itself");
        assert!(!is_cut_off(&three) && !is_cut_off(&again));
    }

    #[test]
    fn where_all_room_is_taken_the_client_with_most_is_cut_off() {
        let unread = unread(40);
        let now = Instant::now();
        let held = [(1, 40), (2, 30), (3, 30)]
            .map(|(client, bytes)| hold(&unread, client, bytes, now).unwrap());
        assert!(hold(&unread, 4, 10, now).is_err());
        let (_room, _four) = hold(&unread, 4, 10, now + PATIENCE).unwrap();
        assert_eq!(held.each_ref().map(|(_, cut_off)| is_cut_off(cut_off)), [true, false, false]);
    }
}
