//! Three owners with a few steps each, in every order in which their steps can come.

use std::collections::HashMap;

use super::name::{Level, LockName, Mode, Owner};
use super::plan::{Refused, Wanted};
use super::reference::check_sound;
use super::waiting::LockQueue;

const S: Mode = Mode::Shared;
const X: Mode = Mode::Exclusive;
const OWNERS: [Owner; 3] = [Owner(0), Owner(1), Owner(2)];

type Key = ([usize; 3], [Wanted; 3], Vec<Owner>);

#[derive(Debug, Clone)]
enum Step {
    Take(Wanted),
    Downgrade(LockName),
    End,
}

fn node(name: &str) -> LockName {
    LockName::member(Level::Node, name)
}

/// The scripts of owners: all that can be in another's way, in few steps. Each keeps the order.
fn scripts() -> Vec<Vec<Step>> {
    let take = |wanted: &[(LockName, Mode)]| Step::Take(wanted.to_vec());
    let (a, b, set) = (node("a"), node("b"), LockName::set(Level::Node));
    vec![
        vec![take(&[(a.clone(), X)]), take(&[(b.clone(), X)]), Step::End],
        vec![take(&[(a.clone(), S), (b.clone(), S)]), Step::End],
        vec![take(&[(a.clone(), X), (b.clone(), X)]), Step::End],
        vec![take(&[(a.clone(), S)]), take(&[(a.clone(), X), (b.clone(), S)]), Step::End],
        vec![take(&[(b.clone(), S)]), take(&[(b.clone(), X)]), Step::Downgrade(b), Step::End],
        vec![take(&[(set.clone(), X)]), Step::Downgrade(set.clone()), Step::End],
        vec![take(&[(set.clone(), S)]), take(&[(set, X)]), take(&[(a, S)]), Step::End],
    ]
}

#[derive(Clone)]
struct World<'a> {
    queue: LockQueue,
    /// The steps that each owner still has to do.
    left: [&'a [Step]; 3],
}

impl World<'_> {
    /// Does the next step of one owner; false if it waits or has ended.
    fn step(&mut self, index: usize) -> bool {
        let owner = OWNERS[index];
        let Some((step, rest)) = self.left[index].split_first() else { return false };
        if self.queue.waits(owner) {
            return false;
        }
        self.left[index] = rest;
        match step {
            // An owner whose upgrade is refused goes on with what it has.
            Step::Take(wanted) => match self.queue.request(owner, wanted.clone(), 0) {
                Ok(_) | Err(Refused::UpgradeRace { .. } | Refused::SetUpgrade { .. }) => {}
                Err(refused) => panic!("{refused}"),
            },
            Step::Downgrade(name) => {
                self.queue.downgrade(owner, std::slice::from_ref(name)).expect("it holds it");
            }
            Step::End => self.queue.release_all(owner),
        }
        true
    }

    /// The state that decides how it goes on: steps left, holdings, and the waiting in their turns.
    fn key(&self) -> Key {
        let mut turns: Vec<_> = self.queue.waiting.values().map(|waiter| waiter.rank).collect();
        turns.sort_unstable();
        (
            self.left.map(<[Step]>::len),
            OWNERS.map(|owner| self.queue.holdings(owner)),
            turns.into_iter().map(|rank| rank.owner).collect(),
        )
    }

    /// Tries every order of what is left; returns the number of orders.
    fn explore(&self, seen: &mut HashMap<Key, u64>) -> u64 {
        let key = self.key();
        if let Some(orders) = seen.get(&key) {
            return *orders;
        }
        check_sound(&self.queue, &OWNERS);
        let mut orders = 0;
        for index in 0..self.left.len() {
            let mut next = self.clone();
            if next.step(index) {
                orders += next.explore(seen);
            }
        }
        if orders == 0 {
            assert!(self.left.iter().all(|left| left.is_empty()), "stuck: {:?}", self.left);
            assert!(self.queue.snapshot().is_empty(), "something is left");
            orders = 1;
        }
        seen.insert(key, orders);
        orders
    }
}

#[test]
fn every_order_ends_well() {
    let scripts = scripts();
    let mut orders = 0;
    for (first, one) in scripts.iter().enumerate() {
        for (second, two) in scripts.iter().enumerate().skip(first) {
            for three in &scripts[second..] {
                let world = World { queue: LockQueue::new(), left: [one, two, three] };
                orders += world.explore(&mut HashMap::new());
            }
        }
    }
    assert!(orders > 20_000, "only {orders} orders");
}
