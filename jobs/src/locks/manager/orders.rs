//! Three who take locks, in every order of their steps, each of whom may give up at any of them.
//!
//! A step is what happens without anybody else coming in between: a poll, or the end of a future or
//! a grant. Whatever the order, those who exclude each other never hold at the same time, nobody is
//! left waiting for what is free, and nothing stays behind.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::locks::name::Level;

const OWNERS: usize = 3;
/// Asks, goes on, ends.
const STEPS: usize = 3;

type Wanted = Vec<(LockName, Mode)>;
type Asking<'l> = Pin<Box<dyn Future<Output = Result<Grant, LockError>> + 'l>>;

enum Stands<'l> {
    Outside,
    Waits(Asking<'l>),
    Holds(Grant),
}

fn wanted() -> [Wanted; 3] {
    let node = |name: &str| LockName::member(Level::Node, name);
    let (one, other) = (node("n1"), node("n2"));
    [
        vec![(one.clone(), Mode::Shared)],
        vec![(one.clone(), Mode::Exclusive)],
        vec![(one, Mode::Exclusive), (other, Mode::Exclusive)],
    ]
}

/// Every order in which the owners' steps can come.
fn orders() -> Vec<Vec<usize>> {
    fn extend(order: &mut Vec<usize>, orders: &mut Vec<Vec<usize>>) {
        if order.len() == OWNERS * STEPS {
            return orders.push(order.clone());
        }
        for owner in 0..OWNERS {
            if order.iter().filter(|&&o| o == owner).count() < STEPS {
                order.push(owner);
                extend(order, orders);
                order.pop();
            }
        }
    }
    let mut orders = Vec::new();
    extend(&mut Vec::new(), &mut orders);
    orders
}

fn poll(stands: &mut Stands<'_>) {
    let Stands::Waits(asking) = stands else { return };
    match asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => {}
        Poll::Ready(Ok(grant)) => *stands = Stands::Holds(grant),
        Poll::Ready(Err(error)) => panic!("no rule forbids this: {error}"),
    }
}

fn excludes(one: &Wanted, other: &Wanted) -> bool {
    one.iter().any(|(name, mode)| {
        other.iter().any(|(n, m)| n == name && (*mode, *m) != (Mode::Shared, Mode::Shared))
    })
}

/// `gives_up` has a bit for each owner, who then leaves at its second step, waiting or not.
fn run(locks: &Locks, order: &[usize], asked: &[Wanted; OWNERS], gives_up: usize) {
    let mut all: Vec<Stands<'_>> = (0..OWNERS).map(|_| Stands::Outside).collect();
    let mut taken = [0; OWNERS];
    let deadline = Instant::now() + Duration::from_secs(60);
    for &me in order {
        taken[me] += 1;
        match taken[me] {
            1 => {
                let owner = Owner(u64::try_from(me).unwrap() + 1);
                let asking = locks.acquire(owner, asked[me].clone(), 0, deadline);
                all[me] = Stands::Waits(Box::pin(asking));
                poll(&mut all[me]);
            }
            2 if gives_up & (1 << me) == 0 => poll(&mut all[me]),
            _ => all[me] = Stands::Outside,
        }
        let holds = |&me: &usize| match &all[me] {
            Stands::Holds(grant) => grant.held() == asked[me],
            Stands::Outside | Stands::Waits(_) => false,
        };
        let holders: Vec<usize> = (0..OWNERS).filter(holds).collect();
        for (at, &one) in holders.iter().enumerate() {
            for &other in &holders[at + 1..] {
                assert!(!excludes(&asked[one], &asked[other]), "{order:?} {gives_up} {asked:?}");
            }
        }
        let waiting = all.iter().filter(|s| matches!(s, Stands::Waits(_))).count();
        if holders.is_empty() && waiting == 1 {
            // The last waiting owner has been told, whichever owner left.
            let last = all.iter_mut().find(|s| matches!(s, Stands::Waits(_))).unwrap();
            poll(last);
            assert!(matches!(last, Stands::Holds(_)), "{order:?} {gives_up} {asked:?}");
        }
    }
    drop(all);
    let state = locks.state();
    assert!(state.wakers.is_empty() && state.queue.snapshot().is_empty(), "{order:?} {gives_up}");
}

#[tokio::test(start_paused = true)]
async fn every_order_of_polls_and_drops_ends_well() {
    let (locks, orders, wanted) = (Locks::new(), orders(), wanted());
    assert_eq!(orders.len(), 1_680);
    for choice in 0..27 {
        let asked = [0, 1, 2].map(|owner| wanted[choice / 3_usize.pow(owner) % 3].clone());
        for (number, order) in orders.iter().enumerate() {
            // Each order meets each way of giving up, with a third of what is asked for.
            for gives_up in (0..8).filter(|gives_up| (number + gives_up) % 3 == choice % 3) {
                run(&locks, order, &asked, gives_up);
                // Within one turn the runtime lets nothing be ready too often.
                tokio::task::yield_now().await;
            }
        }
    }
}
