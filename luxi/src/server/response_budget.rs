//! Answers that were not read yet: how much memory they take together.
//!
//! A client may ask for a hundred megabytes and read none of it. What it does not read is bounded
//! for all together; where there is no room for one more, who has been reading longest is cut off.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::error::ExceptionKind;
use model::{Code, Exception};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Answers that are being read.
#[derive(Debug, Clone)]
pub(super) struct Unread(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    bytes: usize,
    bytes_max: usize,
    /// How long a client has at least.
    patience: Duration,
    /// By number, and thereby by age.
    answers: BTreeMap<u64, Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    bytes: usize,
    since: Instant,
    cut_off: Arc<Notify>,
}

/// There is no room for an answer, and nobody reads too slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "The answer has {bytes} bytes, and answers that other clients have not read yet leave no room \
     for it; try again, or ask for less"
)]
pub(super) struct NoRoom {
    bytes: usize,
}

impl From<NoRoom> for Exception {
    fn from(no_room: NoRoom) -> Self {
        Self::new(ExceptionKind::GenericError, no_room.to_string()).coded(Code::Overloaded)
    }
}

/// Room for an answer; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    unread: Unread,
    number: u64,
    cut_off: Arc<Notify>,
}

impl Unread {
    pub(super) fn new(bytes_max: usize, patience: Duration) -> Self {
        let (answers, next) = (BTreeMap::new(), 0);
        Self(Arc::new(Mutex::new(Held { bytes: 0, bytes_max, patience, answers, next })))
    }

    /// Makes room for an answer of so many bytes.
    pub(super) fn hold(&self, bytes: usize, now: Instant) -> Result<Room, NoRoom> {
        let mut held = self.0.lock();
        while held.bytes + bytes > held.bytes_max {
            let patience = held.patience;
            let oldest = held.answers.first_entry();
            let slow = oldest.filter(|oldest| now - oldest.get().since >= patience);
            let Some(slow) = slow else { return Err(NoRoom { bytes }) };
            let slow = slow.remove();
            held.bytes -= slow.bytes;
            slow.cut_off.notify_one();
        }
        held.bytes += bytes;
        let number = held.next;
        held.next += 1;
        let cut_off = Arc::new(Notify::new());
        let entry = Entry { bytes, since: now, cut_off: Arc::clone(&cut_off) };
        held.answers.insert(number, entry);
        Ok(Room { unread: self.clone(), number, cut_off })
    }
}

impl Room {
    /// Ends when the room is needed for others.
    pub(super) async fn cut_off(&self) {
        self.cut_off.notified().await;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut held = self.unread.0.lock();
        if let Some(entry) = held.answers.remove(&self.number) {
            held.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    fn is_cut_off(room: &Room) -> bool {
        let mut cut_off = Box::pin(room.cut_off());
        let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
        cut_off.as_mut().poll(&mut nobody).is_ready()
    }

    #[test]
    fn who_reads_longest_makes_room_and_who_has_just_begun_does_not() {
        let unread = Unread::new(100, PATIENCE);
        let mut now = Instant::now();
        assert_eq!(unread.hold(101, now).unwrap_err(), NoRoom { bytes: 101 });
        let first = unread.hold(60, now).unwrap();
        now += PATIENCE / 2;
        let second = unread.hold(40, now).unwrap();
        assert!(unread.hold(1, now).is_err(), "nobody has read for long");
        now += PATIENCE / 2;
        let third = unread.hold(50, now).unwrap();
        assert!(is_cut_off(&first) && !is_cut_off(&second));
        assert!(unread.hold(20, now).is_err(), "the next one has some time left");
        drop(first);
        assert_eq!(unread.0.lock().bytes, 90, "its room was given away before");
        drop((second, third));
        let held = unread.0.lock();
        assert!(held.bytes == 0 && held.answers.is_empty());
    }
}
