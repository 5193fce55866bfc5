//! Members on simulated disks, on simulated time, with a network that does what a seed says.
//!
//! Each node has a tokio runtime of its own, whose clock stands still until the simulation moves it. So
//! a node can be frozen while time goes on for the others. A crash is the end of its runtime, whatever
//! its tasks were doing. All of it happens on one thread, in an order that the seed decides. A [`Node`]
//! is such a runtime, a [`Net`] carries questions and answers between them. A [`World`] is members with
//! their disks; [`seeds`] runs many.

mod net;
mod node;
pub mod seeds;
#[cfg(test)]
mod tests;
mod world;

use std::sync::Arc;

use queue_format::ReplicatedStore;
use queue_format::simulation::{RecorderHand, SimDisk};
use tokio::sync::mpsc;

use crate::{Committed, Engine, EngineOptions, OpenError, Peers};

pub use crate::runtime::seeded::set_chance;
pub use net::{Letter, Net, Unanswered};
pub use node::Node;
pub use world::{Alive, Files, Member, Wires, World, branch};

impl Engine {
    /// As [`Engine::open`], on a simulated disk; the steps of the store's threads are taken by the
    /// hand.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub async fn open_simulated(
        disk: &SimDisk,
        options: EngineOptions,
        peers: Arc<dyn Peers>,
    ) -> Result<(Self, mpsc::Receiver<Committed>, RecorderHand), OpenError> {
        let store = ReplicatedStore::open_simulated(disk, options.store.clone(), options.member)?;
        let mut hand = None;
        let (engine, committed) = Self::join_in(store, options, peers, |store, callbacks| {
            let (recorder, taken) = store.start_by_hand(disk, callbacks)?;
            hand = Some(taken);
            Ok(recorder)
        })
        .await?;
        let hand = hand.expect("a store that was started has a hand");
        Ok((engine, committed, hand))
    }
}
