//! The shell: waking, deadlines, cancellation, and futures that are dropped. Time is paused.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::locks::name::Level;

const A: Owner = Owner(1);
const B: Owner = Owner(2);
const C: Owner = Owner(3);

fn node(name: &str) -> LockName {
    LockName::member(Level::Node, name)
}

fn one(name: &str, mode: Mode) -> Vec<(LockName, Mode)> {
    vec![(node(name), mode)]
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// Lets a future run as far as it gets; true if it ended.
fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

async fn take(locks: &Locks, owner: Owner, wanted: Vec<(LockName, Mode)>) -> Grant {
    locks.acquire(owner, wanted, 0, later()).await.expect("it is free")
}

fn idle(locks: &Locks) -> bool {
    let state = locks.state();
    state.wakers.is_empty() && state.queue.snapshot().is_empty()
}

#[tokio::test(start_paused = true)]
async fn release_wakes_the_next() {
    let locks = Locks::new();
    let grant = take(&locks, A, one("n1", Mode::Exclusive)).await;
    let mut next = pin!(locks.acquire(B, one("n1", Mode::Exclusive), 0, later()));
    assert!(poll(next.as_mut()).is_none());
    assert_eq!(locks.explain(B).expect("it waits").holders, [(A, Mode::Exclusive)]);
    drop(grant);
    let grant = next.await.expect("its turn");
    assert_eq!((grant.owner(), grant.held()), (B, one("n1", Mode::Exclusive)));
    drop(grant);
    assert!(idle(&locks));
}

#[tokio::test(start_paused = true)]
async fn deadline_says_what_it_waited_for() {
    let locks = Locks::new();
    let _grant = take(&locks, A, one("n1", Mode::Exclusive)).await;
    let began = Instant::now();
    let deadline = began + Duration::from_secs(5);
    let failed = locks.acquire(B, one("n1", Mode::Shared), 0, deadline).await;
    let error = failed.expect_err("A never ends");
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert_eq!(
        error.to_string(),
        "job/2 could not have its locks in time; it waited for node/n1 (shared), held \
         by job/1 (exclusive)",
    );
    assert!(locks.explain(B).is_none());
    assert!(locks.state().wakers.is_empty());
    let again = locks.acquire(B, one("n2", Mode::Shared), 0, later()).await;
    assert!(again.is_ok(), "a failed request leaves its owner free to ask again");
}

#[tokio::test(start_paused = true)]
async fn grant_at_the_deadline_counts() {
    let locks = Locks::new();
    let grant = take(&locks, A, one("n1", Mode::Exclusive)).await;
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut next = pin!(locks.acquire(B, one("n1", Mode::Shared), 0, deadline));
    assert!(poll(next.as_mut()).is_none());
    drop(grant);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(next.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn dropped_future_leaves_the_queue() {
    let locks = Locks::new();
    let _grant = take(&locks, A, one("n1", Mode::Shared)).await;
    let mut behind = pin!(locks.acquire(C, one("n1", Mode::Shared), 0, later()));
    {
        let mut waiting = pin!(locks.acquire(B, one("n1", Mode::Exclusive), 0, later()));
        assert!(poll(waiting.as_mut()).is_none());
        assert!(poll(behind.as_mut()).is_none());
    }
    assert!(behind.await.is_ok(), "what was in its way is gone");
    assert!(locks.state().wakers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn dropped_future_gives_back_what_it_was_granted_unseen() {
    let locks = Locks::new();
    let grant = take(&locks, A, one("n1", Mode::Exclusive)).await;
    {
        let mut unseen = pin!(locks.acquire(B, one("n1", Mode::Exclusive), 0, later()));
        assert!(poll(unseen.as_mut()).is_none());
        drop(grant);
        assert!(!locks.state().queue.is_idle(B));
    }
    assert!(idle(&locks));
    let grant = take(&locks, A, one("n1", Mode::Exclusive)).await;
    let mut unseen = Box::pin(locks.acquire(B, one("n1", Mode::Exclusive), 0, later()));
    let mut behind = pin!(locks.acquire(C, one("n1", Mode::Exclusive), 0, later()));
    assert!(poll(unseen.as_mut()).is_none() && poll(behind.as_mut()).is_none());
    drop(grant);
    assert!(poll(behind.as_mut()).is_none());
    drop(unseen);
    assert!(poll(behind.as_mut()).is_some_and(|grant| grant.is_ok()), "it was passed on");
}

/// The grant came from another thread, just after the timer was found to have ended.
#[tokio::test(start_paused = true)]
async fn giving_up_too_late_is_a_grant() {
    let locks = Locks::new();
    let grant = take(&locks, A, one("n1", Mode::Exclusive)).await;
    let asked = locks.ask(&mut locks.state(), B, one("n1", Mode::Shared), 0);
    let mut asked = asked.expect("it may").expect("it waits");
    drop(grant);
    assert_eq!(asked.give_up(), Ok(()));
    drop(asked);
    assert_eq!(locks.state().queue.holdings(B), one("n1", Mode::Shared));
}

#[tokio::test(start_paused = true)]
async fn dropped_addition_leaves_what_was_held_before() {
    let locks = Locks::new();
    let mut grant = take(&locks, A, one("n1", Mode::Shared)).await;
    let other = take(&locks, B, vec![(node("n1"), Mode::Shared), (node("n2"), Mode::Shared)]).await;
    {
        let wanted = vec![(node("n1"), Mode::Exclusive), (node("n2"), Mode::Exclusive)];
        let mut unseen = pin!(grant.add(wanted, 0, later()));
        assert!(poll(unseen.as_mut()).is_none());
        drop(other);
        assert_eq!(locks.state().queue.holdings(A).len(), 2);
    }
    assert_eq!(grant.held(), one("n1", Mode::Shared));
}

#[tokio::test(start_paused = true)]
async fn cancel_ends_the_wait_and_keeps_what_is_held() {
    let locks = Locks::new();
    let _other = take(&locks, A, one("n2", Mode::Exclusive)).await;
    let mut grant = take(&locks, B, one("n1", Mode::Exclusive)).await;
    assert!(!locks.cancel(B), "it waits for nothing");
    let mut adding = Box::pin(grant.add(one("n2", Mode::Shared), 0, later()));
    assert!(poll(adding.as_mut()).is_none());
    assert!(locks.cancel(B));
    assert_eq!(adding.await, Err(LockError::Canceled { owner: B }));
    assert_eq!(grant.held(), one("n1", Mode::Exclusive));
}

#[tokio::test(start_paused = true)]
async fn a_canceled_future_does_not_touch_its_owners_next_request() {
    let locks = Locks::new();
    let other = take(&locks, A, one("n1", Mode::Exclusive)).await;
    let mut canceled = Box::pin(locks.acquire(B, one("n1", Mode::Shared), 0, later()));
    assert!(poll(canceled.as_mut()).is_none());
    assert!(locks.cancel(B));
    let mut next = pin!(locks.acquire(B, one("n1", Mode::Exclusive), 0, later()));
    assert!(poll(next.as_mut()).is_none());
    drop(canceled);
    drop(other);
    assert!(next.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn priority_changes_who_is_next() {
    let locks = Locks::new();
    let grant = take(&locks, A, one("n1", Mode::Exclusive)).await;
    let mut second = Box::pin(locks.acquire(B, one("n1", Mode::Exclusive), 0, later()));
    let mut third = Box::pin(locks.acquire(C, one("n1", Mode::Exclusive), 0, later()));
    assert!(poll(second.as_mut()).is_none() && poll(third.as_mut()).is_none());
    assert!(locks.set_priority(C, -1));
    assert_eq!(locks.explain(B).expect("it waits").ahead, [C]);
    drop(grant);
    assert!(poll(second.as_mut()).is_none());
    assert!(poll(third.as_mut()).is_some_and(|grant| grant.is_ok()));
    assert!(second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn removal_fails_waiters_until_the_name_is_added() {
    let locks = Locks::new();
    let mut grant = take(&locks, A, one("n1", Mode::Exclusive)).await;
    let mut waiting = pin!(locks.acquire(B, one("n1", Mode::Shared), 0, later()));
    assert!(poll(waiting.as_mut()).is_none());
    grant.remove(&node("n1")).expect("A holds it");
    let error = waiting.await.expect_err("it is gone");
    assert_eq!(error, LockError::Removed { owner: B, name: node("n1") });
    drop(grant);
    let error = locks.acquire(B, one("n1", Mode::Shared), 0, later()).await.expect_err("gone");
    assert_eq!(error, Refused::Removed { owner: B, asked: node("n1") }.into());
    locks.add(&node("n1"));
    drop(take(&locks, B, one("n1", Mode::Shared)).await);
    assert!(idle(&locks));
}

#[tokio::test(start_paused = true)]
async fn an_owner_has_one_grant() {
    let locks = Locks::new();
    let _grant = take(&locks, A, one("n1", Mode::Shared)).await;
    let twice = locks.acquire(A, one("n2", Mode::Shared), 0, later()).await;
    assert_eq!(twice.expect_err("it has one"), Refused::Twice { owner: A }.into());
    let twice = locks.try_acquire(A, one("n2", Mode::Shared), 1, 0);
    assert_eq!(twice.expect_err("it has one"), Refused::Twice { owner: A }.into());
}

#[tokio::test(start_paused = true)]
async fn a_grant_changes_bit_by_bit() {
    let locks = Locks::new();
    let mut grant = take(&locks, A, vec![(LockName::big(), Mode::Shared)]).await;
    grant.add(one("n1", Mode::Shared), 0, later()).await.expect("free");
    grant.upgrade(node("n1"), 0, later()).await.expect("alone");
    let other = locks.try_acquire(B, one("n3", Mode::Exclusive), 1, 0).expect("free");
    let wanted = ["n2", "n3", "n4"].map(|name| (node(name), Mode::Exclusive)).to_vec();
    assert_eq!(grant.try_add(wanted, 2, 0), Ok(vec![node("n2"), node("n4")]));
    grant.downgrade(&[node("n1")]).expect("held");
    grant.release(&[node("n4")]).expect("held");
    assert!(grant.release(&[node("n4")]).is_err());
    grant.keep(Level::Node, &[node("n1")]);
    assert_eq!(grant.held(), [(LockName::big(), Mode::Shared), (node("n1"), Mode::Shared)]);
    let snapshot = locks.snapshot();
    let names: Vec<_> = snapshot.iter().map(|lock| lock.name.to_string()).collect();
    assert_eq!(names, ["cluster/BGL", "node/n1", "node/n3"]);
    drop((grant, other));
    assert!(idle(&locks));
}

#[tokio::test(start_paused = true)]
async fn whatever_a_grant_lets_go_wakes_the_next() {
    type Way = fn(Grant) -> Option<Grant>;
    let ways: [Way; 4] = [
        |mut grant| grant.release(&[node("n1")]).is_ok().then_some(grant),
        |mut grant| grant.downgrade(&[node("n1")]).is_ok().then_some(grant),
        |mut grant| {
            grant.keep(Level::Node, &[]);
            Some(grant)
        },
        |_grant| None,
    ];
    for way in ways {
        let locks = Locks::new();
        let grant = take(&locks, A, one("n1", Mode::Exclusive)).await;
        let mut next = pin!(locks.acquire(B, one("n1", Mode::Shared), 0, later()));
        assert!(poll(next.as_mut()).is_none());
        let _rest = way(grant);
        assert!(poll(next.as_mut()).is_some_and(|grant| grant.is_ok()));
    }
}

#[tokio::test(start_paused = true)]
async fn who_steps_aside_wakes_those_behind() {
    let ways: [fn(&Locks); 3] = [
        |locks| assert!(locks.cancel(B)),
        |locks| assert!(locks.set_priority(B, 1)),
        |locks| assert!(locks.set_priority(C, -1)),
    ];
    for way in ways {
        let locks = Locks::new();
        let _grant = take(&locks, A, one("n1", Mode::Shared)).await;
        let mut first = pin!(locks.acquire(B, one("n1", Mode::Exclusive), 0, later()));
        let mut behind = pin!(locks.acquire(C, one("n1", Mode::Shared), 0, later()));
        assert!(poll(first.as_mut()).is_none() && poll(behind.as_mut()).is_none());
        way(&locks);
        assert!(poll(behind.as_mut()).is_some_and(|grant| grant.is_ok()));
    }
}

#[tokio::test(start_paused = true)]
async fn taking_a_lock_can_let_others_pass() {
    let locks = Locks::new();
    let _grant = take(&locks, A, one("n3", Mode::Exclusive)).await;
    // B has got to n3 and keeps C from n2, until D is served before it at n1.
    let wanted = ["n1", "n2", "n3"].map(|name| (node(name), Mode::Exclusive)).to_vec();
    let mut far = pin!(locks.acquire(B, wanted, 1, later()));
    let mut near = pin!(locks.acquire(C, one("n2", Mode::Exclusive), 2, later()));
    assert!(poll(far.as_mut()).is_none() && poll(near.as_mut()).is_none());
    let _first = locks.try_acquire(Owner(4), one("n1", Mode::Exclusive), 1, 0).expect("free");
    assert!(poll(near.as_mut()).is_some_and(|grant| grant.is_ok()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_exclude_each_other() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let (locks, inside) = (Locks::new(), Arc::new(AtomicU32::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for job in 0..64_u64 {
        let (locks, inside) = (locks.clone(), Arc::clone(&inside));
        tasks.spawn(async move {
            for turn in 0..50_u64 {
                let wanted = if (job + turn) % 5 == 0 {
                    vec![(LockName::set(Level::Node), Mode::Exclusive)]
                } else {
                    vec![(LockName::big(), Mode::Shared), (node("n1"), Mode::Exclusive)]
                };
                let grant = locks.acquire(Owner(job), wanted, 0, later()).await.expect("its turn");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                drop(grant);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task fails");
    }
    assert!(idle(&locks));
}
