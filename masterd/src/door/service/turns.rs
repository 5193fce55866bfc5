//! Turns of long lists: each takes memory, and one client is not to have it all.

use std::sync::Arc;
use std::time::Duration;

use luxi::method::{Query, QueryJobs, What};
use luxi::query::Filter;
use luxi::{Caller, Request};
use model::error::ExceptionKind;
use model::{Code, Exception};
use stdx::admission::turns::{Turn, TurnHolder};

use super::LuxiService;

/// How long a long list waits for its turn, before its client is told to try again.
pub(super) const LIST_TURN_TIME: Duration = Duration::from_secs(10);
/// Rows of a list that waits for no turn: most of what people and scripts ask for.
const SHORT_LIST: usize = 16;
/// Longer lists that are made at the same time; others wait for their turn. An answer may have hundreds
/// of megabytes ([`luxi::limits::ANSWER_BYTES_MAX`]), and its rows as many.
pub(super) const LISTS_MAX: usize = 2;

/// By whom lists take turns: a user of this machine, or one of the front door.
pub(super) type ListUser = (u32, Option<Arc<str>>);

fn holder(caller: &Caller) -> TurnHolder<ListUser> {
    let asker = caller.asker.as_deref();
    let user = (caller.uid, asker.map(|asker| Arc::clone(&asker.user)));
    TurnHolder { user, address: asker.and_then(|asker| asker.address) }
}

impl LuxiService {
    /// The turn of a request for a long list, which it keeps until its answer is made.
    ///
    /// # Errors
    /// It does not come within [`LIST_TURN_TIME`].
    pub(super) async fn turn(
        &self,
        request: &Request,
        caller: &Caller,
    ) -> Result<Option<Turn<ListUser>>, Exception> {
        let published = &self.sources.published;
        let all_jobs = || published.jobs.len();
        let rows = match request {
            Request::Query(Query { what: What::Job, filter, .. }) => {
                let ids = filter.as_ref().and_then(Filter::only_job_ids);
                ids.map_or_else(all_jobs, |ids| ids.len())
            }
            Request::Query(Query { what: What::Machine, filter, .. }) => {
                let config = published.snapshot().config;
                let limited = crate::machines::machine::fields::limited(&config, filter.as_ref());
                limited.map_or_else(|| config.machines.len(), |machines| machines.len())
            }
            Request::Query(Query { what: What::Lock, .. }) => self.sources.locks.waiting(),
            // A rack is as much work as all of its machines.
            Request::Query(Query { what: What::Rack, .. }) => {
                published.snapshot().config.machines.len()
            }
            Request::Query(Query { what: What::Claim, .. }) => {
                published.snapshot().config.claims.len()
            }
            Request::Query(Query { what: What::Lease, .. }) => {
                published.snapshot().config.leases.len()
            }
            Request::QueryJobs(QueryJobs { job_ids, .. }) => {
                job_ids.as_ref().map_or_else(all_jobs, Vec::len)
            }
            _ => 0,
        };
        if rows <= SHORT_LIST {
            return Ok(None);
        }
        let holder = holder(caller);
        let turn = tokio::time::timeout(LIST_TURN_TIME, self.lists.acquire(&holder, 1));
        turn.await.map(Some).map_err(|_elapsed| {
            let text = format!(
                "More lists are asked for at once than the master makes within {} s; try again, or ask \
                 for fewer objects",
                LIST_TURN_TIME.as_secs()
            );
            Exception::new(ExceptionKind::GenericError, text).coded(Code::Overloaded)
        })
    }
}
