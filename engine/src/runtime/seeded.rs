//! Tokio's runtime with seeded randomness, by which the engine spreads its first ticks and its patience
//! with leaders. It comes from the simulation of the thread, or from the system where there is none.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use openraft::impls::TokioRuntime;
use openraft::rt::deterministic_rng::DeterministicRng;
use openraft::{AsyncRuntime, OptionalSend};
use queue_format::simulation::Chance;

use super::watch::Fair;

type Numbers = DeterministicRng<TokioRuntime>;

thread_local! {
    static CHANCE: RefCell<Option<Chance>> = const { RefCell::new(None) };
}

/// Lets the engines of this thread take their chances from this source; none ends that.
pub fn set_chance(chance: Option<Chance>) {
    CHANCE.set(chance);
}

fn next_seed() -> u64 {
    let drawn = CHANCE.with_borrow_mut(|chance| chance.as_mut().map(|c| c.below(usize::MAX)));
    drawn.map_or_else(seed_of_system, |drawn| drawn as u64)
}

fn seed_of_system() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

#[derive(Debug)]
pub(crate) struct Seeded;

impl AsyncRuntime for Seeded {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, F: Future<Output = R> + OptionalSend> =
        <TokioRuntime as AsyncRuntime>::Timeout<R, F>;
    type ThreadLocalRng = <Numbers as AsyncRuntime>::ThreadLocalRng;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = Fair;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(error)
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        let numbers = async { Numbers::thread_rng() };
        let numbers = Numbers::scope(next_seed(), numbers).now_or_never();
        numbers.expect("nothing is waited for")
    }

    fn new(_threads: usize) -> Self {
        Self
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        TokioRuntime::new(1).block_on(future)
    }
}
