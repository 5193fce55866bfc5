//! A process without a store: it waits until a master invites it.

use model::role_check::RoleTaken;
use queue_format::store::wipe;

use super::{Life, Next, State};
use crate::house::{Errand, Seat};

impl Life {
    /// Waits for an invitation.
    pub(super) async fn outside(&mut self) -> Next {
        self.sit(Seat::Outside);
        self.callers.forget_store();
        self.door.point_outside();
        tracing::info!(node = %self.me(), "no store here: waits to be made a candidate");
        loop {
            let errand = tokio::select! {
                errand = self.errands.recv() => errand,
                asked = self.ending.asked() => return Next::End(asked),
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

    async fn join(&self, member: u64) -> Result<State, String> {
        let data = self.options.layout.data();
        // What an interrupted purge left.
        stdx::aside(|| wipe(&data)).map_err(|error| stdx::daemon::chain(&error))?;
        match self.open_engine(member).await {
            Ok(engine) => Ok(State::Standby(engine)),
            Err(error) => Err(stdx::daemon::chain(&error)),
        }
    }
}
