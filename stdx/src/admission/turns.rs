//! Places that users share: at most so many at the same time, in all, of one user, and of one address.
//!
//! A request that finds no place waits in line. The next free place goes to the line whose user and
//! address hold fewest, so that a crowd delays its own requests and hardly any other.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// How many places there are, and how many of them one user or one address may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnLimits {
    pub total: usize,
    pub of_user: usize,
    pub of_address: usize,
}

impl TurnLimits {
    /// Limits for users alone, who may hold all places while nobody else wants one.
    pub const fn undivided(total: usize) -> Self {
        Self { total, of_user: total, of_address: total }
    }
}

/// The holder of a place: a user at an address, as far as each is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TurnHolder<U> {
    pub user: U,
    /// The address, or the [`network`](super::network) that counts as one.
    pub address: Option<IpAddr>,
}

impl<U> TurnHolder<U> {
    /// A user whose address is of no matter.
    pub const fn of_user(user: U) -> Self {
        Self { user, address: None }
    }
}

/// The places, and who waits for one; clones share them.
///
/// A turn takes one place or several, such as the bytes of a body. A line serves its own requests in their
/// order. A caller that bounds the time of [`Turns::acquire`] thereby bounds the lines.
#[derive(Debug)]
pub struct Turns<U: Clone + Eq + Hash>(Arc<Mutex<TurnTable<U>>>);

impl<U: Clone + Eq + Hash> Clone for Turns<U> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A held place, or several; free again when it is dropped.
#[derive(Debug)]
pub struct Turn<U: Clone + Eq + Hash> {
    turns: Turns<U>,
    holder: TurnHolder<U>,
    cost: usize,
}

impl<U: Clone + Eq + Hash> Turns<U> {
    /// Places that nobody holds.
    pub fn new(limits: TurnLimits) -> Self {
        Self(Arc::new(Mutex::new(TurnTable {
            limits,
            used: 0,
            of_user: HashMap::new(),
            of_address: HashMap::new(),
            lines: HashMap::new(),
            next: 0,
        })))
    }

    /// Waits for `cost` places. A turn that would take more than its holder may have takes all of that.
    pub async fn acquire(&self, holder: &TurnHolder<U>, cost: usize) -> Turn<U> {
        let (waiting, served) = {
            let mut table = self.0.lock();
            let cost = table.limited(cost);
            if table.lines.is_empty() && table.take(holder, cost) {
                return self.turn(holder.clone(), cost);
            }
            let waiting = table.wait(holder, cost);
            (waiting, table.serve())
        };
        self.tell(served);
        // A waiter that gives up lets others pass: this is dropped after the place in the line.
        let _others = ServeOnDrop(self);
        waiting.await.expect("a line keeps whoever waits until it is served")
    }

    /// `cost` places, if they are free now.
    pub fn try_acquire(&self, holder: &TurnHolder<U>, cost: usize) -> Option<Turn<U>> {
        let mut table = self.0.lock();
        let cost = table.limited(cost);
        table.take(holder, cost).then(|| self.turn(holder.clone(), cost))
    }

    fn turn(&self, holder: TurnHolder<U>, cost: usize) -> Turn<U> {
        Turn { turns: self.clone(), holder, cost }
    }

    fn serve(&self) {
        let served = self.0.lock().serve();
        self.tell(served);
    }

    /// Hands turns to those who waited for them. A turn that nobody takes any more is free again.
    fn tell(&self, served: Vec<Served<U>>) {
        for Served { holder, waiter } in served {
            drop(waiter.tell.send(self.turn(holder, waiter.cost)));
        }
    }
}

impl<U: Clone + Eq + Hash> Drop for Turn<U> {
    fn drop(&mut self) {
        self.turns.0.lock().give_back(&self.holder, self.cost);
        self.turns.serve();
    }
}

struct ServeOnDrop<'a, U: Clone + Eq + Hash>(&'a Turns<U>);

impl<U: Clone + Eq + Hash> Drop for ServeOnDrop<'_, U> {
    fn drop(&mut self) {
        self.0.serve();
    }
}

#[derive(Debug)]
struct TurnTable<U: Clone + Eq + Hash> {
    limits: TurnLimits,
    used: usize,
    of_user: HashMap<U, usize>,
    of_address: HashMap<IpAddr, usize>,
    /// Those who wait; no line is empty.
    lines: HashMap<TurnHolder<U>, Line<U>>,
    /// Numbers those who wait and those who were served.
    next: u64,
}

#[derive(Debug)]
struct Line<U: Clone + Eq + Hash> {
    /// When it was served last.
    served: u64,
    waiting: VecDeque<Waiter<U>>,
}

#[derive(Debug)]
struct Waiter<U: Clone + Eq + Hash> {
    number: u64,
    cost: usize,
    tell: oneshot::Sender<Turn<U>>,
}

struct Served<U: Clone + Eq + Hash> {
    holder: TurnHolder<U>,
    waiter: Waiter<U>,
}

impl<U: Clone + Eq + Hash> TurnTable<U> {
    /// As much of a cost as any holder may have.
    fn limited(&self, cost: usize) -> usize {
        let TurnLimits { total, of_user, of_address } = self.limits;
        cost.min(total).min(of_user).min(of_address)
    }

    fn held_by_user(&self, holder: &TurnHolder<U>) -> usize {
        self.of_user.get(&holder.user).copied().unwrap_or_default()
    }

    fn held_by_address(&self, holder: &TurnHolder<U>) -> usize {
        let held = holder.address.and_then(|address| self.of_address.get(&address));
        held.copied().unwrap_or_default()
    }

    fn is_within_share(&self, holder: &TurnHolder<U>, cost: usize) -> bool {
        self.held_by_user(holder) + cost <= self.limits.of_user
            && self.held_by_address(holder) + cost <= self.limits.of_address
    }

    /// Takes places if they are free and within the holder's share.
    fn take(&mut self, holder: &TurnHolder<U>, cost: usize) -> bool {
        if self.used + cost > self.limits.total || !self.is_within_share(holder, cost) {
            return false;
        }
        self.used += cost;
        *self.of_user.entry(holder.user.clone()).or_default() += cost;
        if let Some(address) = holder.address {
            *self.of_address.entry(address).or_default() += cost;
        }
        true
    }

    fn give_back(&mut self, holder: &TurnHolder<U>, cost: usize) {
        self.used -= cost;
        subtract(&mut self.of_user, &holder.user, cost);
        if let Some(address) = &holder.address {
            subtract(&mut self.of_address, address, cost);
        }
    }

    fn wait(&mut self, holder: &TurnHolder<U>, cost: usize) -> oneshot::Receiver<Turn<U>> {
        let (tell, told) = oneshot::channel();
        let number = self.number();
        let line = self.lines.entry(holder.clone());
        let line = line.or_insert_with(|| Line { served: 0, waiting: VecDeque::new() });
        // Waiters that gave up stand in front.
        while line.waiting.front().is_some_and(|waiter| waiter.tell.is_closed()) {
            line.waiting.pop_front();
        }
        line.waiting.push_back(Waiter { number, cost, tell });
        told
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Takes places for those who wait, as far as there are some.
    fn serve(&mut self) -> Vec<Served<U>> {
        let mut served = Vec::new();
        while let Some(holder) = self.next_in_line() {
            let Some(line) = self.lines.get_mut(&holder) else { break };
            let Some(waiter) = line.waiting.pop_front() else { break };
            let (is_last, is_awaited) = (line.waiting.is_empty(), !waiter.tell.is_closed());
            if is_awaited && !self.take(&holder, waiter.cost) {
                // Nobody passes it meanwhile: else small turns would hold up a large one for ever.
                if let Some(line) = self.lines.get_mut(&holder) {
                    line.waiting.push_front(waiter);
                }
                break;
            }
            let number = self.number();
            match self.lines.get_mut(&holder) {
                Some(line) if !is_last => line.served = number,
                Some(_) | None => drop(self.lines.remove(&holder)),
            }
            if is_awaited {
                served.push(Served { holder, waiter });
            }
        }
        served
    }

    /// The line whose user and address hold fewest, of those whose share has room. Of equal ones, the
    /// line that was served longest ago comes first, and then the one that came first.
    fn next_in_line(&self) -> Option<TurnHolder<U>> {
        let place = |(holder, line): (&TurnHolder<U>, &Line<U>)| {
            let first = line.waiting.front()?;
            let held = self.held_by_user(holder) + self.held_by_address(holder);
            let key = (held, line.served, first.number);
            self.is_within_share(holder, first.cost).then(|| (key, holder.clone()))
        };
        let first = self.lines.iter().filter_map(place).min_by_key(|(key, _holder)| *key);
        first.map(|(_key, holder)| holder)
    }
}

fn subtract<K: Eq + Hash>(held: &mut HashMap<K, usize>, key: &K, cost: usize) {
    let Some(count) = held.get_mut(key) else { return };
    *count -= cost;
    if *count == 0 {
        held.remove(key);
    }
}

#[cfg(test)]
mod tests;
