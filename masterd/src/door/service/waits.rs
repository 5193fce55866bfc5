//! Why jobs wait: asked of the queue and of the lock manager, for those lists that show it.

use std::collections::HashMap;

use ::jobs::locks::Owner;
use ::jobs::writer::WAITS_ASKED_MAX;
use luxi::method::Query;
use model::job::Wait;
use model::{Exception, JobId};

use super::LuxiService;
use crate::door::lists::job::{JobRow, WAITS_FOR};

/// Jobs of one list that are told why they wait; further ones have no data. The queue is asked in
/// portions, between which it does its work.
const EXPLAINED_MAX: usize = 16 * WAITS_ASKED_MAX;

impl LuxiService {
    /// Adds why they wait to the rows of a list that shows it.
    pub(super) async fn add_waits(
        &self,
        rows: &mut [JobRow],
        call: &Query,
    ) -> Result<(), Exception> {
        let shown = call.fields.iter().any(|field| field == WAITS_FOR);
        let filtered = call.filter.as_ref().is_some_and(|f| f.fields().contains(&WAITS_FOR));
        if !shown && !filtered {
            return Ok(());
        }
        let ids = rows.iter().filter(|row| may_wait(row)).map(|row| row.job.id);
        let ids: Vec<JobId> = ids.take(EXPLAINED_MAX).collect();
        let mut waits: HashMap<JobId, Vec<Wait>> = HashMap::with_capacity(ids.len());
        for portion in ids.chunks(WAITS_ASKED_MAX) {
            waits.extend(self.sources.writer.explain(portion.to_vec()).await?);
        }
        for row in rows {
            row.waits = if may_wait(row) { waits.remove(&row.job.id) } else { Some(Vec::new()) };
            let lock = || self.sources.locks.explain(Owner(row.job.id.0));
            if let Some(waits) = &mut row.waits
                && let Some(lock) = lock()
            {
                waits.push(Wait::from(&lock));
            }
        }
        Ok(())
    }
}

fn may_wait(row: &JobRow) -> bool {
    !row.archived && !row.job.status().is_final()
}
