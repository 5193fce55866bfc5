//! All numbers of the master at a moment.

use model::Timestamp;
use model::rack_fault::RackCause;
use queue_format::{Backlog, Fill, Health};
use stdx::metrics::Page;

use crate::agents::metrics::{FAMILIES, Metrics};
use crate::health::alarm::AlarmKind;
use crate::health::status::MasterView;

/// Takes the numbers, where there is a master its own too. Nothing here looks at every
/// job or waits for a lock that lasts.
pub(crate) fn page(master: Option<&MasterView>, metrics: &Metrics) -> Page {
    let mut page = Page::new(FAMILIES);
    page.gauge_of("gantry_master_info", &[env!("CARGO_PKG_VERSION")], 1);
    page.gauge_of("gantry_master_leaderships", &[], u64::from(master.is_some()));
    if let Some(view) = master {
        of_master(&mut page, view);
    }
    metrics.show(&mut page);
    page
}

fn of_master(page: &mut Page, view: &MasterView) {
    page.gauge_of("gantry_master_term", &[], view.published.snapshot().config.role.term);
    jobs(page, view);
    store(page, view);
    let (reached, unreached) = view.contacts.counts();
    page.gauge_of("gantry_agents", &["reached"], number(reached));
    page.gauge_of("gantry_agents", &["unreached"], number(unreached));
    let faults = view.alarms_at(Timestamp::default());
    for cause in RackCause::ALL {
        let on = faults.iter().filter(|alarm| alarm.what.cause() == Some(*cause)).count();
        page.gauge_of("gantry_rack_faults", &[cause.word()], number(on));
    }
    let alarms = view.alarms.all();
    for kind in AlarmKind::ALL.iter().filter(|kind| kind.deadline().is_some()) {
        let on = alarms.iter().filter(|alarm| alarm.what.kind() == *kind).count();
        page.gauge_of("gantry_alarms", &[kind.code().word()], number(on));
    }
    page.gauge_of("gantry_lock_requests_waiting", &[], number(view.locks.waiting()));
}

fn jobs(page: &mut Page, view: &MasterView) {
    let tally = view.published.jobs.status_counts();
    for (status, number) in tally.now() {
        page.gauge_of("gantry_jobs", &[status.as_str()], number);
    }
    page.counter("gantry_jobs_submitted", &[], tally.submitted());
    for (status, number) in tally.ended() {
        page.counter("gantry_jobs_ended", &[status.as_str()], number);
    }
    page.gauge_of("gantry_queue_drained", &[], u64::from(view.published.is_drained()));
}

fn store(page: &mut Page, view: &MasterView) {
    let Backlog { changes, bytes, file_lag_keys, file_lag_bytes } = view.commits.backlog();
    page.gauge_of("gantry_commit_waiting_changes", &[], number(changes));
    page.gauge_of("gantry_commit_waiting_bytes", &[], number(bytes));
    page.gauge_of("gantry_files_lag_keys", &[], number(file_lag_keys));
    page.gauge_of("gantry_files_lag_bytes", &[], number(file_lag_bytes));
    let Fill { used_bytes, bytes } = view.commits.journal_fill();
    page.gauge_of("gantry_journal_used_bytes", &[], used_bytes);
    page.gauge_of("gantry_journal_bytes", &[], bytes);
    page.gauge_of("gantry_store_position", &[], view.commits.position().index);
    let full = matches!(view.commits.health(), Health::DiskFull { .. });
    page.gauge_of("gantry_store_disk_full", &[], u64::from(full));
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
