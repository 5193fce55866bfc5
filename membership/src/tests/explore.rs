//! Every state that steps lead to, breadth first, so that the first counterexample is a shortest one.
//!
//! This is written here and not taken from the crate `stateright` (MIT, 0.31). The checker there comes
//! with an actor framework, a web server for looking at states and eight crates that are used nowhere
//! else. It brings nothing to this model but what these lines do.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};

/// What is explored.
pub(super) trait Model {
    type State: Clone + Hash;
    type Step: Copy + Debug;

    /// Where it begins.
    fn start(&self) -> Self::State;
    /// All that can happen next, and what it leads to.
    fn steps(&self, state: &Self::State, found: &mut Vec<(Self::Step, Self::State)>);
    /// The property that does not hold here.
    fn broken(&self, state: &Self::State) -> Option<&'static str>;
}

/// What was found.
#[derive(Debug)]
pub(super) struct Explored<S> {
    pub(super) states: usize,
    /// The broken property, and the shortest way there.
    pub(super) broken: Option<(&'static str, Vec<S>)>,
}

/// Each state, and the one before it with the step between.
type Reached<S> = HashMap<u64, Option<(u64, S)>, foldhash::fast::FixedState>;

/// Visits all states, or stops at the first that breaks a property.
///
/// A state is remembered by 64 bits of its hash: among a million states two are confused once in
/// forty million runs.
pub(super) fn explore<M: Model>(model: &M, states_max: usize) -> Explored<M::Step> {
    let hasher = foldhash::quality::FixedState::default();
    let start = model.start();
    let first = hasher.hash_one(&start);
    let mut reached = Reached::<M::Step>::default();
    reached.insert(first, None);
    let mut waiting = VecDeque::from([(first, start)]);
    let mut next = Vec::new();
    while let Some((mark, state)) = waiting.pop_front() {
        if let Some(property) = model.broken(&state) {
            let states = reached.len();
            return Explored { states, broken: Some((property, way(&reached, mark))) };
        }
        model.steps(&state, &mut next);
        for (step, state) in next.drain(..) {
            let next = hasher.hash_one(&state);
            if let Entry::Vacant(place) = reached.entry(next) {
                place.insert(Some((mark, step)));
                waiting.push_back((next, state));
            }
        }
        assert!(
            reached.len() <= states_max,
            "more than {states_max} states: choose tighter bounds"
        );
    }
    Explored { states: reached.len(), broken: None }
}

fn way<S: Copy>(reached: &Reached<S>, to: u64) -> Vec<S> {
    let mut steps = Vec::new();
    let mut at = to;
    while let Some(Some((before, step))) = reached.get(&at) {
        steps.push(*step);
        at = *before;
    }
    steps.reverse();
    steps
}
