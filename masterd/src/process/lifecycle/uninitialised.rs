//! A process without a store: it waits until a master invites it.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use model::role_check::RoleTaken;
use queue_format::store::{AtRest, finish_wipe, wipe_aside};
use stdx::daemon::chain;
use tokio::time::MissedTickBehavior;

use super::{Lifecycle, Next, State};
use crate::role::local_member::{MemberState, RoleCommand, StoreDisposal};

/// How often is looked whether a disk was mounted: sooner than a master gives up a member that has
/// no store.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Lifecycle {
    /// Waits for an invitation.
    pub(super) async fn outside(&mut self) -> Next {
        self.set_state(MemberState::Outside);
        self.callers.forget_store();
        self.router.point_outside();
        tracing::info!(node = %self.me(), "no store here: waits to be made a candidate");
        let mut disk = self.disk();
        let mut look = tokio::time::interval(LOOK_AGAIN);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let command = tokio::select! {
                biased;
                asked = self.ending.asked() => return Next::End(asked),
                _ = look.tick() => match self.is_mounted(&mut disk) {
                    false => continue,
                    true => return self.go_on().await,
                },
                command = self.commands.next() => command,
            };
            match command {
                None => return Next::End(Ok(())),
                Some(RoleCommand::Join { member, outcome, .. }) => match self.join(member).await {
                    Ok(state) => {
                        let incarnation = self.local.book.here().incarnation;
                        let told =
                            incarnation.ok_or_else(|| "the store has no identity".to_owned());
                        // The caller may have left; it asks again.
                        outcome.send(told).unwrap_or(());
                        return Next::Be(state);
                    }
                    Err(why) => outcome.send(Err(why)).unwrap_or(()),
                },
                Some(RoleCommand::Purge { disposal, outcome, .. }) => {
                    let gone = self.clear().and_then(|()| self.clear_aside(&disposal));
                    outcome.send(gone).unwrap_or(());
                }
                Some(RoleCommand::HandOver { outcome, .. }) => {
                    outcome.send(Err("there is no store here".to_owned())).unwrap_or(());
                }
                Some(RoleCommand::TakeOver { outcome, .. }) => {
                    let text = format!("{} is no master candidate: it has no store", self.me());
                    outcome.send(Ok(RoleTaken::refused(text))).unwrap_or(());
                }
            }
        }
    }

    /// Which disk the data directory is on, or will be where it is not there yet.
    fn disk(&self) -> Option<u64> {
        let data = self.options.layout.data();
        stdx::aside(|| data.ancestors().find_map(|path| std::fs::metadata(path).ok()))
            .map(|found| found.dev())
    }

    /// Whether another disk than `before` was mounted, and came with a store. A store that somebody
    /// copies to a mounted disk is not whole before the copy ends: that wants a new start.
    fn is_mounted(&self, before: &mut Option<u64>) -> bool {
        let now = self.disk();
        if now == *before {
            return false;
        }
        match stdx::aside(|| AtRest::read(&self.options.layout.data())) {
            Ok(Some(_)) => true,
            Ok(None) => {
                *before = now;
                false
            }
            // A disk that does not read yet may be about to.
            Err(_) => false,
        }
    }

    async fn go_on(&self) -> Next {
        tracing::warn!("a disk was mounted that has a store: goes on with that");
        match self.first().await {
            Ok(state) => Next::Be(state),
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
        if let Some(found) = found {
            let whose =
                found.member.map_or_else(|| "a master".to_owned(), |id| format!("member {id}"));
            return Err(format!(
                "in {} is the store of {whose}, which masterd has not opened: start masterd anew",
                data.display()
            ));
        }
        stdx::aside(|| finish_wipe(&data)).map_err(|error| chain(&error))
    }

    /// Removes what was kept aside, where that goes as well.
    fn clear_aside(&self, disposal: &StoreDisposal) -> Result<(), String> {
        let data = self.options.layout.data();
        match disposal {
            StoreDisposal::WipedWithAside => {
                stdx::aside(|| wipe_aside(&data)).map_err(|error| chain(&error))
            }
            StoreDisposal::Wiped | StoreDisposal::Aside(_) => Ok(()),
        }
    }

    async fn join(&self, member: u64) -> Result<State, String> {
        self.clear()?;
        let opened = self.open_engine(member).await;
        opened.map(State::Standby).map_err(|error| chain(&error))
    }
}
