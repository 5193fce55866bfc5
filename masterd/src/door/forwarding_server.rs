//! The master's side of requests that other members pass on (decision 7). Serves the path of a job,
//! before `door`, beside the server of the socket.

use std::sync::Arc;

use bytes::Bytes;
use luxi::limits::MESSAGE_BYTES_MAX;
use luxi::{Caller, Limits, Request, Response, Service as _, within_deadline};
use model::audit::Interface;
use rpc::peer::{ClientService, Hello, Passed, Passing, PeerFailure, PeerFailureKind};
use stdx::Executor;

use super::guard::Guard;
use crate::agents::metrics::Metrics;
use crate::door::metered::Metered;
use crate::door::router::LuxiRouter;

/// Answers what other candidates pass on, as on the socket. Never passes anything on itself.
#[derive(Debug, Clone)]
pub(crate) struct ForwardingServer {
    router: LuxiRouter,
    service: Arc<Metered<Guard>>,
    limits: Limits,
    /// The executor for requests, which is not the engine's.
    executor: Executor,
}

impl ForwardingServer {
    pub(crate) fn new(
        router: LuxiRouter,
        guard: Guard,
        metrics: Arc<Metrics>,
        executor: Executor,
    ) -> Self {
        let service = Arc::new(Metered::new(guard, metrics));
        Self { router, service, limits: Limits::default(), executor }
    }

    /// Whether `from` may pass requests on to the one that is here. A holder of the store may do
    /// whatever the master can; nobody else's word on its client counts.
    fn admit(&self, from: &Hello) -> Result<(), PeerFailure> {
        let master =
            self.router.master().ok_or_else(|| PeerFailure::not_now(self.router.words()))?;
        let config = master.published.snapshot().config;
        let node = config.nodes.get(&from.from.node);
        if node.is_some_and(|node| node.may_pass_on()) {
            return Ok(());
        }
        let text = format!("{} is no master candidate: it may pass nothing on", from.from.node);
        Err(PeerFailure::new(PeerFailureKind::NoCandidate, text))
    }

    async fn take(&self, passed: Passed) -> Result<Bytes, PeerFailure> {
        let Passed { uid, gid, role, asker, message } = passed;
        let malformed = |text| Err(PeerFailure::new(PeerFailureKind::Malformed, text));
        if message.len() > MESSAGE_BYTES_MAX {
            return malformed(format!("a request is longer than {MESSAGE_BYTES_MAX} bytes"));
        }
        let answer = match Request::parse(&message) {
            Ok(request) if LuxiRouter::answers_everywhere(&request) => {
                return malformed(format!("{} is never passed on", request.name()));
            }
            Ok(request) => {
                let digest = request.digest(uid, &message);
                drop(message);
                let method = (request.name(), request.class());
                // The process is one of another machine.
                let interface = asker.as_ref().map_or(Interface::Luxi, |asker| asker.interface);
                let asker = asker.map(Arc::new);
                let caller = Caller { uid, gid, pid: None, role, interface, asker };
                let call = Box::pin(self.service.call(request, caller, digest));
                within_deadline(method, &self.limits, call).await
            }
            Err(error) => Response::malformed(&error),
        };
        Ok(answer.into_bytes().into())
    }
}

impl ClientService for ForwardingServer {
    fn answer<'a>(&'a self, from: &'a Hello, passed: Passed) -> Passing<'a> {
        let this = self.clone();
        Box::pin(async move {
            self.admit(from)?;
            self.executor.run(async move { this.take(passed).await }).await
        })
    }
}
