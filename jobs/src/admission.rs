//! Holds submissions back while the disk is behind, so that a load that lasts is slowed down and
//! not refused.

use std::time::Duration;

use queue_format::Refusal;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a submission may wait for room: a third of a request's deadline, so that whoever is
/// refused is told why.
pub const ROOM_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks for room: the file writer makes a hundred files in that time.
const ROOM_LOOK: Duration = Duration::from_millis(5);

/// The line of submissions that wait for room, in the order in which they came. Only the first one
/// looks.
#[derive(Debug, Default)]
pub struct Admission(Mutex<()>);

impl Admission {
    /// Passes when `admit` does. A submission that cannot pass soon waits for [`ROOM_PATIENCE`] at most;
    /// a refusal that time does not mend is told at once.
    ///
    /// # Errors
    /// Why there is no room.
    pub async fn pass(&self, admit: impl Fn() -> Result<(), Refusal>) -> Result<(), Refusal> {
        match admit() {
            Err(Refusal::Busy) => {}
            done => return done,
        }
        let until = Instant::now() + ROOM_PATIENCE;
        let Ok(_turn) = tokio::time::timeout_at(until, self.0.lock()).await else {
            return admit();
        };
        loop {
            match admit() {
                Err(Refusal::Busy) if Instant::now() < until => {
                    tokio::time::sleep(ROOM_LOOK).await;
                }
                done => return done,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_waits_for_it() {
        let looks = Cell::new(0);
        let admit = || {
            looks.set(looks.get() + 1);
            if looks.get() < 1_000 { Err(Refusal::Busy) } else { Ok(()) }
        };
        assert_eq!(Admission::default().pass(admit).await, Ok(()));
        assert_eq!(looks.get(), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn room_that_does_not_come_is_told_in_time() {
        let begun = Instant::now();
        assert_eq!(Admission::default().pass(|| Err(Refusal::Busy)).await, Err(Refusal::Busy));
        let waited = begun.elapsed();
        assert!((ROOM_PATIENCE..=ROOM_PATIENCE + ROOM_LOOK).contains(&waited), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_time_does_not_mend_is_told_at_once() {
        let full = Refusal::DiskFull { path: "/x".into(), reason: "no space".to_owned() };
        let begun = Instant::now();
        for refusal in [full, Refusal::Stopped] {
            let told = Admission::default().pass(|| Err(refusal.clone())).await;
            assert_eq!(told, Err(refusal));
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn thousands_wait_and_one_of_them_looks() {
        let admission = Arc::new(Admission::default());
        let (room, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let mut waiting = JoinSet::new();
        for _ in 0..2_000 {
            let (admission, room, looks) = (admission.clone(), room.clone(), looks.clone());
            let admit = move || {
                looks.fetch_add(1, Ordering::Relaxed);
                if room.load(Ordering::Relaxed) { Ok(()) } else { Err(Refusal::Busy) }
            };
            waiting.spawn(async move { admission.pass(admit).await });
        }
        tokio::time::sleep(ROOM_LOOK * 100).await;
        assert!(looks.load(Ordering::Relaxed) < 2_000 + 200, "{looks:?}");
        room.store(true, Ordering::Relaxed);
        assert_eq!(waiting.join_all().await, vec![Ok(()); 2_000]);
    }
}
