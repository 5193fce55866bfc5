//! The agents of a simulated cluster: the real server, with its fence, before a service that only
//! waits and notes what it runs. Each has a runtime of its own, crashes by itself or with its
//! machine, and obeys afterwards whom it obeyed before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::simulation::{Node, branch};
use model::enrol::Fingerprint;
use parking_lot::Mutex;
use queue_format::simulation::Chance;
use rpc::Failure;
use rpc::calls::{MasterViewed, Request, Traits};
use rpc::fence::{EpochStore, Fence, HoldError, Interruption, Obeyed};
use rpc::server::{Limits, Server};
use rpc::service::{Agent, AgentService, Answer, CallContext, Received, Service, answer};
use rpc::simulation::Network;
use rpc::tls::{AllowedCallers, server_config};

use super::calls::Calls;
use super::nodes;

/// It takes up to so long to make an epoch durable, and as long again until that is known.
const HOLD_MS: usize = 30;
/// A call that is to end early takes up to so long for it.
const TIDY_MS: usize = 200;

/// The state of an agent that outlives its process.
#[derive(Debug, Clone)]
struct Kept {
    id: u64,
    obeyed: Arc<Mutex<Obeyed>>,
    calls: Arc<Mutex<Calls>>,
    chance: Arc<Mutex<Chance>>,
}

impl Kept {
    async fn rest(&self, ms: usize) {
        let ms = self.chance.lock().below(ms) as u64;
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

impl EpochStore for Kept {
    async fn hold(&self, obeyed: &Obeyed) -> Result<(), HoldError> {
        self.rest(HOLD_MS).await;
        *self.obeyed.lock() = obeyed.clone();
        // Calls of a lower epoch may begin until this is known; they end before those of the new one.
        self.rest(HOLD_MS).await;
        self.calls.lock().obey(self.id, obeyed.epoch);
        Ok(())
    }
}

/// A call that runs.
struct Running<'a>(&'a Kept, u64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.calls.lock().end(self.0.id, self.1);
    }
}

impl Agent for Kept {
    async fn call(&self, request: Request, mut context: CallContext) -> Answer {
        match request {
            Request::TestDelay(call) => {
                let number = self.calls.lock().begin(self.id, context.epoch, context.job);
                let _running = Running(self, number);
                answer(call, async |call| {
                    tokio::select! {
                        biased;
                        why = context.interrupt.wait() => {
                            if matches!(why, Interruption::Superseded(_)) {
                                self.calls.lock().supersede();
                            }
                            self.rest(TIDY_MS).await;
                            Err(why.failure())
                        }
                        () = tokio::time::sleep(Duration::from_secs_f64(call.seconds)) => Ok(()),
                    }
                })
                .await
            }
            Request::MasterView(call) => {
                let Obeyed { epoch: obeys, master } = self.obeyed.lock().clone();
                let view = MasterViewed { obeys, master, cluster_uuid: nodes::cluster_uuid() };
                answer(call, |_| std::future::ready(Ok(view))).await
            }
            _ => Err(Failure::failed("this agent has no machine")),
        }
    }
}

/// An agent whose fence lets everything through: each call has one of its own.
struct Unfenced {
    kept: Arc<Kept>,
    allowed: AllowedCallers,
}

impl Unfenced {
    fn service(&self) -> AgentService<Kept, Kept> {
        let fence = Fence::new(Kept::clone(&self.kept), Obeyed::default());
        AgentService::new(Arc::clone(&self.kept), fence, self.allowed.clone())
    }
}

impl Service for Unfenced {
    fn traits(&self, name: &str) -> Option<&'static Traits> {
        Request::traits(name)
    }

    fn admits(&self, peer: Option<Fingerprint>) -> bool {
        self.service().admits(peer)
    }

    async fn respond(&self, received: Received) -> Answer {
        self.service().respond(received).await
    }

    fn stop(&self) {}
}

/// An agent's machine, with its process or without.
#[derive(Debug)]
struct Machine {
    kept: Kept,
    process: Option<Node>,
    frozen_ms: u64,
    lag_ms: u64,
}

#[derive(Debug)]
pub(super) struct Agents {
    network: Network,
    machines: BTreeMap<u64, Machine>,
    fenced: bool,
}

impl Agents {
    /// Those of `count` nodes, which run. Without fences where not `fenced`.
    pub(super) fn new(
        count: u64,
        (network, calls): (&Network, &Arc<Mutex<Calls>>),
        fenced: bool,
        chance: &mut Chance,
    ) -> Self {
        let machine = |id| {
            let (calls, chance) = (Arc::clone(calls), Arc::new(Mutex::new(branch(chance))));
            let kept = Kept { id, obeyed: Arc::default(), calls, chance };
            (id, Machine { kept, process: None, frozen_ms: 0, lag_ms: 0 })
        };
        let machines = (1..=count).map(machine).collect();
        let mut agents = Self { network: network.clone(), machines, fenced };
        agents.start_all();
        agents
    }

    /// Starts those that do not run.
    pub(super) fn start_all(&mut self) {
        for id in 1..=self.machines.len() as u64 {
            self.start(id);
        }
    }

    /// Starts one, unless it runs.
    pub(super) fn start(&mut self, id: u64) {
        let machine = self.machines.get_mut(&id).expect("only nodes have agents");
        if machine.process.is_some() {
            return;
        }
        let allowed = AllowedCallers::new(nodes::allow_list());
        let tls = server_config(&nodes::identity(id, &self.network), allowed.clone()).unwrap();
        let listener = self.network.host(nodes::address(id)).listen(nodes::AGENT_PORT);
        let (kept, process) = (Arc::new(machine.kept.clone()), Node::new());
        let held = kept.obeyed.lock().epoch;
        kept.calls.lock().obey(id, held);
        let fenced = self.fenced;
        process.spawn(async move {
            let limits = Limits::default();
            if fenced {
                let fence = Fence::new(Kept::clone(&kept), kept.obeyed.lock().clone());
                let service = AgentService::new(kept, fence, allowed);
                let _server = Server::start(listener, tls, service, limits).unwrap();
                std::future::pending::<()>().await;
            } else {
                let service = Unfenced { kept, allowed };
                let _server = Server::start(listener, tls, service, limits).unwrap();
                std::future::pending::<()>().await;
            }
        });
        (machine.process, machine.frozen_ms, machine.lag_ms) = (Some(process), 0, 0);
    }

    /// Ends the process of one where it is.
    pub(super) fn crash(&mut self, id: u64) {
        drop(self.machines.get_mut(&id).and_then(|machine| machine.process.take()));
    }

    /// Lets one rest for so long, while time goes on.
    pub(super) fn freeze(&mut self, id: u64, ms: u64) {
        self.machines.entry(id).and_modify(|machine| machine.frozen_ms = ms);
    }

    /// Time has passed, and everyone does something.
    pub(super) fn turn(&mut self, passed_ms: u64, chance: &mut Chance) {
        for machine in self.machines.values_mut() {
            let Some(process) = &machine.process else { continue };
            if machine.frozen_ms > 0 {
                machine.frozen_ms = machine.frozen_ms.saturating_sub(passed_ms);
                machine.lag_ms += passed_ms;
                continue;
            }
            let passed = passed_ms + std::mem::take(&mut machine.lag_ms);
            if passed > 0 {
                process.advance(Duration::from_millis(passed));
            }
            process.run(1 + chance.below(3));
        }
    }
}
