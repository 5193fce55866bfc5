//! A process without a store: it waits until a master invites it.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use model::role_check::RoleTaken;
use queue_format::store::{AtRest, finish_wipe};
use stdx::daemon::chain;
use tokio::time::MissedTickBehavior;

use super::{Life, Next, State};
use crate::house::{Errand, Seat};

/// How often is looked whether a disk was mounted: sooner than a master gives up a member that has
/// no store.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Life {
    /// Waits for an invitation.
    pub(super) async fn outside(&mut self) -> Next {
        self.sit(Seat::Outside);
        self.callers.forget_store();
        self.door.point_outside();
        tracing::info!(node = %self.me(), "no store here: waits to be made a candidate");
        let began_on = self.disk();
        let mut look = tokio::time::interval(LOOK_AGAIN);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let errand = tokio::select! {
                biased;
                asked = self.ending.asked() => return Next::End(asked),
                _ = look.tick() => match self.mounted(began_on) {
                    None => continue,
                    Some(member) => return self.go_on(member).await,
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
                Some(Errand::Purge { outcome, .. }) => outcome.send(self.clear()).unwrap_or(()),
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

    /// Which disk the data directory is on, if it is there.
    fn disk(&self) -> Option<u64> {
        let found = stdx::aside(|| std::fs::metadata(self.options.layout.data()));
        found.ok().map(|found| found.dev())
    }

    /// The member whose store came with a disk that was mounted since this process `began_on` another
    /// one. What somebody copies to the same disk is not whole before its end: that wants a new start.
    fn mounted(&self, began_on: Option<u64>) -> Option<u64> {
        let now = self.disk();
        if now.is_none() || now == began_on {
            return None;
        }
        let found = stdx::aside(|| AtRest::read(&self.options.layout.data()));
        // A disk that does not read yet may be about to.
        found.ok().flatten().and_then(|found| found.member)
    }

    async fn go_on(&self, member: u64) -> Next {
        tracing::warn!(member, "a disk was mounted that has a store: goes on with that");
        match self.open_engine(member).await {
            Ok(engine) => Next::Be(State::Standby(engine)),
            Err(error) => Next::End(Err(error)),
        }
    }

    /// Makes sure that there is no store, nor what is left of one.
    ///
    /// # Errors
    /// Somebody put one there, or what is left does not go.
    fn clear(&self) -> Result<(), String> {
        let data = self.options.layout.data();
        let found = stdx::aside(|| AtRest::read(&data)).map_err(|error| chain(&error))?;
        if found.is_some() {
            return Err(format!(
                "a store is in {} by now, which was put there while masterd ran; start masterd anew",
                data.display()
            ));
        }
        stdx::aside(|| finish_wipe(&data)).map_err(|error| chain(&error))
    }

    async fn join(&self, member: u64) -> Result<State, String> {
        self.clear()?;
        let opened = self.open_engine(member).await;
        opened.map(State::Standby).map_err(|error| chain(&error))
    }
}
