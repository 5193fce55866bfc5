//! A watched value that wakes those who wait in the order in which they came. Tokio's wakes them in
//! a random order, which no seed of ours decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use openraft::rt::watch::{RecvError, SendError, Watch, WatchReceiver, WatchSender};
use openraft::{OptionalSend, OptionalSync};
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

/// The kind.
pub(crate) struct Fair;

struct Shared<T> {
    value: RwLock<T>,
    version: AtomicU64,
    senders: AtomicUsize,
    changed: Notify,
}

pub(crate) struct Sender<T>(Arc<Shared<T>>);

pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl Watch for Fair {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = RwLockReadGuard<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(init: T) -> (Sender<T>, Receiver<T>) {
        let shared = Arc::new(Shared {
            value: RwLock::new(init),
            version: AtomicU64::new(0),
            senders: AtomicUsize::new(1),
            changed: Notify::new(),
        });
        (Sender(Arc::clone(&shared)), Receiver { shared, seen: 0 })
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.changed.notify_waiters();
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T: OptionalSend + OptionalSync> WatchSender<Fair, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.send_if_modified(|current| {
            *current = value;
            true
        });
        Ok(())
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let modified = modify(&mut self.0.value.write());
        if modified {
            self.0.version.fetch_add(1, Ordering::AcqRel);
            self.0.changed.notify_waiters();
        }
        modified
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.0.value.read_recursive()
    }

    fn subscribe(&self) -> Receiver<T> {
        let seen = self.0.version.load(Ordering::Acquire);
        Receiver { shared: Arc::clone(&self.0), seen }
    }
}

impl<T: OptionalSend + OptionalSync> WatchReceiver<Fair, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            let version = self.shared.version.load(Ordering::Acquire);
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            if self.shared.senders.load(Ordering::Acquire) == 0 {
                return Err(RecvError(()));
            }
            changed.await;
        }
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.shared.value.read_recursive()
    }

    fn borrow_and_update(&mut self) -> RwLockReadGuard<'_, T> {
        self.seen = self.shared.version.load(Ordering::Acquire);
        self.shared.value.read_recursive()
    }
}
