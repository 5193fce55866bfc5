//! Locks, waiting and threads as the store uses them. With the feature `shuttle` they are those of a
//! scheduler that tries many orders of all steps, for `tests/orders`.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
pub(crate) use scheduled::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "shuttle")]
pub(crate) use shuttle::thread;
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::thread;

#[cfg(feature = "shuttle")]
mod scheduled {
    use std::ops::{Deref, DerefMut};
    use std::time::{Duration, Instant};

    /// As `parking_lot`'s, on the scheduler's.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    /// Empty only while its owner waits.
    pub(crate) struct MutexGuard<'m, T>(Option<shuttle::sync::MutexGuard<'m, T>>);

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    /// Time does not pass here: who waits for it waits to be woken.
    pub(crate) struct Waited;

    impl Waited {
        pub(crate) fn timed_out(&self) -> bool {
            false
        }
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            let locked = self.0.lock();
            MutexGuard(Some(locked.unwrap_or_else(std::sync::PoisonError::into_inner)))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("its owner does not wait")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("its owner does not wait")
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect("its owner does not wait");
            let woken = self.0.wait(held);
            guard.0 = Some(woken.unwrap_or_else(std::sync::PoisonError::into_inner));
        }

        pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _time: Duration) -> Waited {
            self.wait(guard);
            Waited
        }

        pub(crate) fn wait_until<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            _until: Instant,
        ) -> Waited {
            self.wait(guard);
            Waited
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
