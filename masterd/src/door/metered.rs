//! Counts connections and requests around the service that answers them.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use luxi::{Caller, Request, Response, Service};
use model::job::RequestDigest;

use crate::agents::metrics::{MethodMeter, Metrics};

/// A service whose requests are counted.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    service: S,
    metrics: Arc<Metrics>,
}

impl<S> Metered<S> {
    /// Counts what `service` is asked.
    pub(crate) fn new(service: S, metrics: Arc<Metrics>) -> Self {
        Self { service, metrics }
    }

    fn begin(&self, request: &Request) -> Pending<'_> {
        let name = request.name();
        let meter = self.metrics.luxi.methods.iter().find(|meter| meter.name == name);
        Pending { meter, begun: Instant::now(), well: false }
    }
}

impl<S: Service> Service for Metered<S> {
    async fn call(
        &self,
        request: Request,
        caller: Caller,
        digest: Option<RequestDigest>,
    ) -> Response {
        let pending = self.begin(&request);
        pending.end(self.service.call(request, caller, digest).await)
    }

    async fn answer_client(
        &self,
        message: Bytes,
        request: Request,
        caller: Caller,
        digest: Option<RequestDigest>,
    ) -> Response {
        let pending = self.begin(&request);
        pending.end(self.service.answer_client(message, request, caller, digest).await)
    }

    fn connected(&self) {
        self.metrics.luxi.opened.add();
        self.service.connected();
    }

    fn disconnected(&self) {
        self.metrics.luxi.closed.add();
        self.service.disconnected();
    }

    fn turned_away(&self) {
        self.metrics.luxi.turned_away.add();
        self.service.turned_away();
    }
}

/// A request under way. However it ends, by a panic or because its client left too, it is counted.
struct Pending<'a> {
    meter: Option<&'a MethodMeter>,
    begun: Instant,
    well: bool,
}

impl Pending<'_> {
    fn end(mut self, answer: Response) -> Response {
        self.well = answer.is_success();
        answer
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(meter) = self.meter else { return };
        meter.seconds.observe_time(self.begun.elapsed());
        if !self.well {
            meter.failures.add();
        }
    }
}

#[cfg(test)]
mod tests {
    use luxi::method::{QueryClusterInfo, QueryTags};

    use super::*;

    /// Answers one method well, one badly, and a third never.
    struct Toy;

    impl Service for Toy {
        async fn call(
            &self,
            request: Request,
            _caller: Caller,
            _digest: Option<RequestDigest>,
        ) -> Response {
            match request {
                Request::QueryClusterInfo(_) => Response::success(&1),
                Request::QueryTags(_) => Response::internal_error(),
                _ => std::future::pending().await,
            }
        }
    }

    fn counted(metrics: &Metrics, name: &str) -> (u64, u64) {
        let meter = metrics.luxi.methods.iter().find(|meter| meter.name == name).unwrap();
        (meter.seconds.counts().count, meter.failures.get())
    }

    #[tokio::test]
    async fn every_end_of_a_request_is_counted() {
        let metrics = Arc::new(Metrics::default());
        let service = Metered::new(Toy, Arc::clone(&metrics));
        let caller = Caller::root();
        service.call(Request::QueryClusterInfo(QueryClusterInfo {}), caller.clone(), None).await;
        let tags = QueryTags { kind: "cluster".to_owned(), name: None };
        service.call(Request::QueryTags(tags), caller.clone(), None).await;
        let never = service.call(Request::GantryIpam(luxi::method::GantryIpam {}), caller, None);
        drop(Box::pin(futures_util::FutureExt::now_or_never(never)));
        assert_eq!(counted(&metrics, "QueryClusterInfo"), (1, 0));
        assert_eq!(counted(&metrics, "QueryTags"), (1, 1));
        assert_eq!(counted(&metrics, "GantryIpam"), (1, 1));
        assert_eq!(counted(&metrics, "SubmitJob"), (0, 0));
    }
}
