//! Questions and answers on their way: late, lost, or held back by a cut.
//!
//! A question whose asker has given up is still carried: bytes of a connection that was given up can
//! arrive after those of the next one. Nothing is carried twice, since the transport is TCP.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use queue_format::simulation::Chance;
use tokio::sync::oneshot;

/// Most letters of one way are quick: milliseconds at most.
const QUICK_MS: usize = 4;
/// Some are not: this is longer than a lease.
const SLOW_MS: usize = 3_000;
/// One in so many is slow.
const SLOW_ONE_IN: usize = 200;

/// A question that has arrived.
pub struct Letter<Q, A> {
    /// The node that asks.
    pub from: u64,
    /// The node that is asked.
    pub to: u64,
    /// What it asks.
    pub question: Q,
    answer: oneshot::Sender<A>,
}

impl<Q, A> fmt::Debug for Letter<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Letter").field("from", &self.from).field("to", &self.to).finish()
    }
}

/// A question without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// The node that was asked has no such process.
    Gone,
    /// No answer came in time.
    Late,
}

enum Under<Q, A> {
    Question(Letter<Q, A>),
    Answer { from: u64, to: u64, answer: A, tell: oneshot::Sender<A> },
}

struct State<Q, A> {
    now_ms: u64,
    under_way: BTreeMap<(u64, u64), Under<Q, A>>,
    sent: u64,
    cut: BTreeSet<(u64, u64)>,
    /// One letter in so many is lost; none if zero.
    loss_one_in: usize,
    /// The senders of lost answers: their receivers wait in vain.
    lost: Vec<oneshot::Sender<A>>,
    chance: Chance,
}

/// The network between nodes; clones are the same one.
pub struct Net<Q, A>(Arc<Mutex<State<Q, A>>>);

impl<Q, A> Clone for Net<Q, A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<Q, A> fmt::Debug for Net<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Net")
    }
}

impl<Q, A> Net<Q, A> {
    /// One in which nothing is cut or lost.
    pub fn new(chance: Chance) -> Self {
        Self(Arc::new(Mutex::new(State {
            now_ms: 0,
            under_way: BTreeMap::new(),
            sent: 0,
            cut: BTreeSet::new(),
            loss_one_in: 0,
            lost: Vec::new(),
            chance,
        })))
    }

    /// Asks the node `to`, and waits for its answer, at most `limit` by the asker's clock.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub async fn ask(
        &self,
        from: u64,
        to: u64,
        question: Q,
        limit: Duration,
    ) -> Result<A, Unanswered> {
        let (answer, answered) = oneshot::channel();
        self.0.lock().send(Under::Question(Letter { from, to, question, answer }));
        match tokio::time::timeout(limit, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_gone)) => Err(Unanswered::Gone),
            Err(_elapsed) => Err(Unanswered::Late),
        }
    }

    /// Sends the answer to what arrived.
    pub fn answer(&self, letter: Letter<Q, A>, answer: A) {
        let Letter { from, to, answer: tell, .. } = letter;
        self.0.lock().send(Under::Answer { from: to, to: from, answer, tell });
    }

    /// Moves on to this time: answers arrive where they are waited for; gives the questions that
    /// arrive. A question that is dropped tells its asker that nobody is there.
    pub fn arrive(&self, now_ms: u64) -> Vec<Letter<Q, A>> {
        let mut state = self.0.lock();
        state.now_ms = now_ms;
        let later = state.under_way.split_off(&(now_ms + 1, 0));
        let due = std::mem::replace(&mut state.under_way, later);
        let mut questions = Vec::new();
        for under in due.into_values() {
            match under {
                Under::Question(letter) if state.cut.contains(&(letter.from, letter.to)) => {
                    state.lost.push(letter.answer);
                }
                Under::Question(letter) => questions.push(letter),
                Under::Answer { from, to, tell, .. } if state.cut.contains(&(from, to)) => {
                    state.lost.push(tell);
                }
                // The asker may have given up.
                Under::Answer { answer, tell, .. } => drop(tell.send(answer)),
            }
        }
        questions
    }

    /// Lets nothing more through from one node to the other.
    pub fn cut(&self, from: u64, to: u64) {
        self.0.lock().cut.insert((from, to));
    }

    /// Lets one letter in so many get lost, none if zero.
    pub fn lose(&self, one_in: usize) {
        self.0.lock().loss_one_in = one_in;
    }

    /// Lets everything through again.
    pub fn heal(&self) {
        let mut state = self.0.lock();
        state.cut.clear();
        state.loss_one_in = 0;
        state.lost.clear();
    }
}

impl<Q, A> State<Q, A> {
    fn send(&mut self, under: Under<Q, A>) {
        if self.loss_one_in > 0 && self.chance.below(self.loss_one_in) == 0 {
            self.lost.push(match under {
                Under::Question(letter) => letter.answer,
                Under::Answer { tell, .. } => tell,
            });
            return;
        }
        let slow = self.chance.below(SLOW_ONE_IN) == 0;
        let delay = self.chance.below(if slow { SLOW_MS } else { QUICK_MS });
        self.sent += 1;
        self.under_way.insert((self.now_ms + delay as u64, self.sent), under);
    }
}
