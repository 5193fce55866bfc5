//! What is limited to a tenant: its requests, and its share of the queue.

use std::sync::Arc;

use luxi::{Caller, Request};
use model::asker::Asker;
use model::error::ExceptionKind;
use model::{Exception, Job, Word};
use tokio::sync::MutexGuard;

use super::{LuxiService, jobs};
use crate::door::tenants;

impl LuxiService {
    /// Limits what somebody with the role tenant asks for to what is its tenant's own.
    pub(super) async fn limit(
        &self,
        request: &mut Request,
        caller: &mut Caller,
    ) -> Result<(), Exception> {
        let config = self.config();
        let Some(tenant) = tenants::of_caller(&config, caller)? else { return Ok(()) };
        tenants::limit(request, tenant, &config)?;
        let job = match request {
            Request::WaitForJobChange(call) => Some(call.job_id),
            Request::CancelJob(call) => Some(call.job_id),
            _ => None,
        };
        if let Some(id) = job {
            let (found, _archived) = self.find(id).await?;
            if found.tenant() != Some(&tenant.name) {
                return Err(jobs::lost(id));
            }
        }
        let name = Some(tenant.name.clone());
        let asker = caller.asker.as_deref();
        let asker = asker.map(|asker| Arc::new(Asker { tenant: name, ..asker.clone() }));
        caller.asker = asker;
        Ok(())
    }

    /// A turn to submit jobs as a tenant that may have so many more. Tenants submit one after the other, so
    /// that none has more than its limit.
    pub(super) async fn tenants_turn(
        &self,
        tenant: &Word,
        more: usize,
    ) -> Result<MutexGuard<'_, ()>, Exception> {
        let turn = self.tenants_turn.lock().await;
        let jobs = self.sources.published.jobs.all();
        let is_live = |job: &&Arc<Job>| job.tenant() == Some(tenant) && !job.status().is_final();
        let live = jobs.iter().filter(is_live).count();
        let most = self.config().tenant(tenant.as_str())?.limits.jobs;
        match live.saturating_add(more) > most as usize {
            false => Ok(turn),
            true => Err(Exception::new(
                ExceptionKind::JobQueueFull,
                format!(
                    "tenant {tenant} has {live} jobs in the queue, and may have {most}; wait for one to end, or \
                     have an administrator change that: `gnt tenant modify {tenant} --jobs`"
                ),
            )),
        }
    }
}

/// The tenant as which a caller asks.
pub(super) fn of(caller: &Caller) -> Option<&Word> {
    caller.asker.as_deref()?.tenant.as_ref()
}
