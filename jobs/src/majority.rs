//! Whether this master hears a majority of the voters (docs/failover.md). The daemon looks,
//! and notes here what it sees; [`contact`] has the rules.

pub mod contact;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use contact::Contact;

/// When a majority was heard, as of the last look; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Majority(Arc<Mutex<Seen>>);

/// The result of the last look.
#[derive(Debug, Clone, Copy, Default)]
enum Seen {
    /// A master that is alone is its own majority, and one that is new was heard just now.
    #[default]
    Own,
    /// A majority was heard then. A process that looks late, since it stood still, knows how late it is.
    At(Instant),
    /// Longer ago than can be told, or never.
    Never,
}

impl Majority {
    /// How this master stands.
    pub fn contact(&self) -> Contact {
        Contact::after(self.silence_ms())
    }

    /// How long a majority has been silent by now, in milliseconds.
    pub fn silence_ms(&self) -> u64 {
        match *self.0.lock() {
            Seen::Own => 0,
            Seen::At(then) => u64::try_from(then.elapsed().as_millis()).unwrap_or(u64::MAX),
            Seen::Never => u64::MAX,
        }
    }

    /// Notes for how long a majority has been silent; none where there are no others.
    pub fn note(&self, silence_ms: Option<u64>) {
        let then = |ms| Instant::now().checked_sub(Duration::from_millis(ms));
        *self.0.lock() = silence_ms.map_or(Seen::Own, |ms| then(ms).map_or(Seen::Never, Seen::At));
    }
}

#[cfg(test)]
mod tests {
    use super::contact::REFUSE_AFTER_MS;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_looks_late_knows_how_late_it_is() {
        let majority = Majority::default();
        majority.note(Some(200));
        let (left, more) = (REFUSE_AFTER_MS - 200, 1);
        tokio::time::advance(Duration::from_millis(left)).await;
        assert_eq!(majority.contact(), Contact::Heard);
        // Nobody has looked since.
        tokio::time::advance(Duration::from_millis(more)).await;
        assert_eq!(majority.contact(), Contact::Refusing);
        assert_eq!(majority.silence_ms(), REFUSE_AFTER_MS + more);
        majority.note(Some(u64::MAX));
        assert_eq!(majority.contact(), Contact::AddressDropped);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_alone_hears_itself() {
        let majority = Majority::default();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(majority.contact(), Contact::Heard);
        majority.note(None);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(majority.silence_ms(), 0);
    }
}
