//! A store on a disk in memory, whose threads' steps are taken by hand: for simulations of who uses
//! it. Everything follows from the seed that the simulation gives.

use std::path::Path;
use std::sync::Arc;

pub use crate::disk::sim::{Chance, Fault, Loss, SimDisk, Stop};
pub use crate::store::committer::by_hand::{Hand, Step};
use crate::store::open::{Writer, open};
pub use crate::store::replicated::by_hand::RecorderHand;
use crate::store::{OpenError, Store, StoreOptions};

/// The directory of the store on a simulated disk.
pub const ROOT: &str = "/data";

impl SimDisk {
    /// An empty disk.
    pub fn empty() -> Self {
        Self::with_root(Path::new(ROOT))
    }
}

impl Store {
    /// As [`Store::open`], on a simulated disk.
    ///
    /// # Errors
    /// See [`Store::open`].
    pub fn open_simulated(disk: &SimDisk, options: StoreOptions) -> Result<Self, OpenError> {
        let opened = open(Arc::new(disk.clone()), Path::new(ROOT), options, Writer::Single)?;
        Ok(Self { parts: opened.parts, recovered: opened.recovered })
    }
}
