//! Takes the role on an engine: asks everyone, is elected or handed the lead, looks once more, and
//! makes the role entry (DESIGN §7 "Confirmation"). Serves the change of master.

use std::sync::Arc;
use std::time::Duration;

use engine::{Engine, End};
use model::cluster::Role;
use queue_format::Epoch;
use rpc::peer::control::LeadAndHandOver;
use tokio::sync::watch;

use super::DaemonError;
use super::life::{Life, Reigning};
use super::load;
use super::reign::{self, Publisher};
use super::replicate;
use crate::commits::Commits;
use crate::role::confirm::{Attempt, RoleEntry, Waivers, still_designated};

/// How long an election may take: several tries, each within the engine's longest pause.
const ELECTION_MAX: Duration = Duration::from_secs(10);

impl Life {
    /// Takes the role, or says why not in words for an operator.
    ///
    /// # Errors
    /// What ends the process: a store that cannot be gone on with.
    pub(super) async fn take(
        &self,
        engine: &Arc<Engine>,
        attempt: Attempt,
        waivers: Waivers,
    ) -> Result<Result<Reigning, String>, DaemonError> {
        let epoch = match self.lead(engine, attempt, waivers).await {
            Ok(epoch) => epoch,
            Err(refused) => return Ok(Err(refused)),
        };
        let entry = super::life::newest_role(engine).map(|role| role_entry(&role));
        if let Err(reason) = still_designated(attempt, self.me(), entry.as_ref()) {
            return Ok(Err(reason.to_string()));
        }
        let reader = engine.reader();
        let found = stdx::aside(|| load::load(&reader))?;
        let (ended, end) = watch::channel(None::<End>);
        let (begin, authority) = self.begin(found, reader, engine.position(), epoch)?;
        let start = |publisher: Publisher| {
            let tasks = &self.followers;
            let led = replicate::propose(Arc::clone(engine), epoch, publisher, tasks, ended);
            Ok(Commits::replicated(led.0, led.1))
        };
        match reign::take_role(begin, &self.clock, start).await {
            Ok(master) => Ok(Ok(self.enthrone(master, authority, end, None))),
            // Another one was elected meanwhile.
            Err(error @ (DaemonError::RoleLost | DaemonError::Refused(_))) => {
                Ok(Err(stdx::daemon::chain(&error)))
            }
            Err(fatal) => Err(fatal),
        }
    }

    /// Comes to lead.
    async fn lead(
        &self,
        engine: &Arc<Engine>,
        _attempt: Attempt,
        _waivers: Waivers,
    ) -> Result<Epoch, String> {
        engine.take_over(ELECTION_MAX).await.map_err(|error| error.to_string())
    }

    #[allow(dead_code)]
    async fn fetch(&self, engine: &Arc<Engine>, from: u64) -> Result<(), String> {
        let place = self.house.book.place(from).ok_or("it is not in the configuration")?;
        let mut peer = self.house.book.ask(place).map_err(|error| error.to_string())?;
        let call = LeadAndHandOver { epoch: engine.standing().vote, to: engine.member() };
        peer.call(&call).await.map_err(|error| stdx::daemon::chain(&error))
    }
}

fn role_entry(role: &Role) -> RoleEntry {
    let epoch = Epoch { term: role.term, node: role.node };
    RoleEntry { master: role.master.clone(), epoch }
}
