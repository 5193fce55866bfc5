//! The end of a member: its store is wiped, or kept aside where its history was cut.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use engine::{Engine, EngineOptions, OfflineStore};
use model::Timestamp;
use queue_format::Epoch;
use queue_format::store::{AsideError, AtRest, keep_aside, wipe, wipe_aside};
use stdx::daemon::chain;

use super::{DaemonError, Leading, Lifecycle, Next, State};
use crate::role::local_member::{MemberState, Reply, StoreDisposal};

impl Lifecycle {
    /// Puts the store away of a member that is none any more.
    pub(super) async fn purge(
        &self,
        engine: &Arc<Engine>,
        disposal: StoreDisposal,
        outcome: Reply<()>,
    ) -> Next {
        let member = engine.member();
        if let Err(error) = engine.close().await {
            tracing::warn!(%error, "the store that is to go did not close well");
        }
        self.followers.join().await;
        let (data, now) = (self.options.layout.data(), self.clock.now_micros());
        let options = self.engine_options(member);
        let gone = stdx::aside(|| match disposal {
            StoreDisposal::Aside(reason) => {
                let put = put_aside(&data, options, &reason, Timestamp::from_micros(now));
                put.map_err(|error| chain(&error))
            }
            StoreDisposal::Wiped => wipe(&data).map_err(|error| chain(&error)),
            StoreDisposal::WipedWithAside => {
                wipe(&data).and_then(|()| wipe_aside(&data)).map_err(|error| chain(&error))
            }
        });
        match &gone {
            Ok(()) => tracing::warn!(member, "no member any more: its store is gone"),
            Err(why) => tracing::error!(why, "the store of a member that is none any more stays"),
        }
        self.set_state(MemberState::Outside);
        let next = match &gone {
            Ok(()) => Next::Be(State::Outside),
            Err(_stays) => self.as_before(member).await,
        };
        outcome.send(gone).unwrap_or(());
        next
    }

    /// The next state where the store of `member` could not be put away: its member still, if it is
    /// whole.
    async fn as_before(&self, member: u64) -> Next {
        let data = self.options.layout.data();
        match stdx::aside(|| AtRest::read(&data)) {
            Ok(None) => Next::Be(State::Outside),
            Ok(Some(_)) => match self.open_engine(member).await {
                Ok(engine) => Next::Be(State::Standby(engine)),
                Err(error) => Next::End(Err(error)),
            },
            Err(error) => Next::End(Err(error.into())),
        }
    }

    /// Ends a leadership whose store no other node ever had, where the master of a later epoch invites this
    /// node or dismisses it. The store is a copy from before there were others, and is kept aside. Gives
    /// the next state, and whether the store is kept.
    pub(super) async fn give_way(
        &self,
        leading: Leading,
        epoch: Epoch,
    ) -> (Next, Result<(), String>) {
        tracing::error!(%epoch, own = %leading.epoch, "no longer the master: there is another one");
        let Leading { leadership, over, commits, .. } = leading;
        over.cancel();
        leadership.abandon().await;
        drop(commits);
        let (data, now) = (self.options.layout.data(), self.clock.now_micros());
        let name = name_aside(Timestamp::from_micros(now), 0);
        let reason = format!(
            "store of {} from before others had one; there is a master of epoch {epoch}",
            self.me()
        );
        let gone = stdx::aside(|| keep_aside(&data, (&name, &reason), &BTreeMap::new()));
        self.set_state(MemberState::Outside);
        match gone {
            Ok(kept) => {
                tracing::warn!(?kept, "the store is kept aside");
                (Next::Be(State::Outside), Ok(()))
            }
            Err(error) => {
                let why = chain(&error);
                (Next::End(Err(DaemonError::Aside(error))), Err(why))
            }
        }
    }

    /// Ends a leadership whose history a later master cut, and the member with it; the leadership goes on
    /// where another store is meant.
    pub(super) async fn be_purged(
        &self,
        leading: Leading,
        (member, epoch): (u64, Epoch),
        disposal: StoreDisposal,
        outcome: Reply<()>,
    ) -> Result<Leading, Next> {
        let Some(engine) = leading.commits.engine() else {
            let (next, kept) = self.give_way(leading, epoch).await;
            outcome.send(kept).unwrap_or(());
            return Err(next);
        };
        let here = engine.member();
        drop(engine);
        if here != member {
            let why = format!("here is a master with the store of member {here}, not of {member}");
            outcome.send(Err(why)).unwrap_or(());
            return Ok(leading);
        }
        let why = "a later master asks this member to begin anew";
        match self.depose(leading, why).await {
            Next::Be(State::Standby(engine)) => Err(self.purge(&engine, disposal, outcome).await),
            other => Err(other),
        }
    }
}

fn put_aside(
    data: &Path,
    options: EngineOptions,
    reason: &str,
    now: Timestamp,
) -> Result<(), AsideError> {
    let member = options.member;
    // The last acknowledged entries may be in the log alone.
    let tail = match OfflineStore::open(data, options) {
        Ok(resting) => resting.into_uncommitted(),
        Err(error) => {
            let why = chain(&error);
            tracing::warn!(why, "the end of the log is kept as the journal has it");
            BTreeMap::new()
        }
    };
    if let Some(kept) = keep_aside(data, (&name_aside(now, member), reason), &tail)? {
        tracing::warn!(member, reason, path = %kept.display(), "the store of a member is kept aside");
    }
    Ok(())
}

/// The name of what is kept aside, which sorts by time: `20261120-130509-member-3`.
fn name_aside(now: Timestamp, member: u64) -> String {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let told = now.to_string();
    let (day, time) = told.split_once(' ').unwrap_or((&told, ""));
    format!("{}-{}-member-{member}", digits(day), digits(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time() {
        let name = |seconds: i64| name_aside(Timestamp::from_micros(seconds * 1_000_000), 3);
        assert_eq!(name(1_700_000_000), "20231114-221320-member-3");
        assert!(name(1_700_000_000) < name(1_700_000_001));
    }
}
