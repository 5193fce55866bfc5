//! A process without a store: it waits until a master invites it.

use std::time::Duration;

use model::role_check::RoleTaken;
use queue_format::store::{AtRest, finish_wipe};
use stdx::daemon::chain;
use tokio::time::MissedTickBehavior;

use super::{Life, Next, State};
use crate::daemon::DaemonError;
use crate::house::{Errand, Seat};

/// How often is looked whether a store is there after all: sooner than a master gives up a member
/// that has none.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Life {
    /// Waits for an invitation.
    pub(super) async fn outside(&mut self) -> Next {
        self.sit(Seat::Outside);
        self.callers.forget_store();
        self.door.point_outside();
        tracing::info!(node = %self.me(), "no store here: waits to be made a candidate");
        let mut look = tokio::time::interval(LOOK_AGAIN);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let errand = tokio::select! {
                biased;
                asked = self.ending.asked() => return Next::End(asked),
                _ = look.tick() => match self.appeared().await {
                    Ok(None) => continue,
                    Ok(Some(state)) => return Next::Be(state),
                    Err(error) => return Next::End(Err(error)),
                },
                errand = self.errands.recv() => errand,
            };
            match errand {
                None => return Next::End(Ok(())),
                Some(Errand::Join { member, outcome }) => match self.join(member).await {
                    Ok(state) => {
                        let incarnation = self.house.book.here().incarnation;
                        let told =
                            incarnation.ok_or_else(|| "the store has no identity".to_owned());
                        // Who asked may have left; it asks again.
                        outcome.send(told).unwrap_or(());
                        return Next::Be(state);
                    }
                    Err(why) => outcome.send(Err(why)).unwrap_or(()),
                },
                Some(Errand::Purge { outcome, .. }) => outcome.send(Ok(())).unwrap_or(()),
                Some(Errand::HandOver { outcome, .. }) => {
                    outcome.send(Err("there is no store here".to_owned())).unwrap_or(());
                }
                Some(Errand::TakeOver { outcome, .. }) => {
                    let text = format!("{} is no master candidate: it has no store", self.me());
                    outcome.send(Ok(RoleTaken::refused(text))).unwrap_or(());
                }
            }
        }
    }

    /// What a store makes this process that was not there before: its disk was mounted late, or it was
    /// put back.
    async fn appeared(&self) -> Result<Option<State>, DaemonError> {
        let data = self.options.layout.data();
        if stdx::aside(|| AtRest::read(&data))?.is_none() {
            return Ok(None);
        }
        tracing::warn!(path = %data.display(), "here is a store by now: goes on with it");
        self.first().await.map(Some)
    }

    async fn join(&self, member: u64) -> Result<State, String> {
        let data = self.options.layout.data();
        if let Some(found) = stdx::aside(|| AtRest::read(&data)).map_err(|error| chain(&error))? {
            let whose =
                found.member.map_or_else(|| "a master".to_owned(), |id| format!("member {id}"));
            return Err(format!("the store of {whose} is there by now; ask again"));
        }
        // What an interrupted purge left.
        stdx::aside(|| finish_wipe(&data)).map_err(|error| chain(&error))?;
        let opened = self.open_engine(member).await;
        opened.map(State::Standby).map_err(|error| chain(&error))
    }
}
