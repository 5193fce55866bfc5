//! All numbers of the master at a moment.

use queue_format::{Backlog, Fill, Health};
use rpc::RpcError;
use rpc::peer::PeerError;
use stdx::metrics::Page;

use super::{FAMILIES, Metrics};
use crate::lu::World;
use crate::watcher::alarms::Subject;

/// Takes the numbers, where there is a master those of its `world` too. Nothing here looks at every
/// job or waits for a lock that lasts.
pub(crate) fn page(world: Option<&World>, metrics: &Metrics) -> Page {
    let mut page = Page::new(FAMILIES);
    page.gauge_of("gantry_master_info", &[env!("CARGO_PKG_VERSION")], 1);
    page.gauge_of("gantry_master_reigns", &[], u64::from(world.is_some()));
    if let Some(world) = world {
        of_world(&mut page, world);
    }
    counted(&mut page, metrics);
    page
}

fn of_world(page: &mut Page, world: &World) {
    page.gauge_of("gantry_master_term", &[], world.published.snapshot().config.role.term);
    jobs(page, world);
    store(page, world);
    let (reached, unreached) = world.contacts.counts();
    page.gauge_of("gantry_agents", &["reached"], number(reached));
    page.gauge_of("gantry_agents", &["unreached"], number(unreached));
    let alarms = world.alarms.all();
    for word in Subject::WORDS {
        let on = alarms.iter().filter(|alarm| alarm.what.word() == word).count();
        page.gauge_of("gantry_alarms", &[word], number(on));
    }
    page.gauge_of("gantry_lock_requests_waiting", &[], number(world.locks.waiting()));
}

fn jobs(page: &mut Page, world: &World) {
    let tally = world.published.jobs.tally();
    for (status, number) in tally.now() {
        page.gauge_of("gantry_jobs", &[status.as_str()], number);
    }
    page.counter("gantry_jobs_submitted", &[], tally.submitted());
    for (status, number) in tally.ended() {
        page.counter("gantry_jobs_ended", &[status.as_str()], number);
    }
    page.gauge_of("gantry_queue_drained", &[], u64::from(world.published.is_drained()));
}

fn store(page: &mut Page, world: &World) {
    let Backlog { changes, bytes, file_lag_keys, file_lag_bytes } = world.commits.backlog();
    page.gauge_of("gantry_commit_waiting_changes", &[], number(changes));
    page.gauge_of("gantry_commit_waiting_bytes", &[], number(bytes));
    page.gauge_of("gantry_files_lag_keys", &[], number(file_lag_keys));
    page.gauge_of("gantry_files_lag_bytes", &[], number(file_lag_bytes));
    let Fill { used_bytes, bytes } = world.commits.journal_fill();
    page.gauge_of("gantry_journal_used_bytes", &[], used_bytes);
    page.gauge_of("gantry_journal_bytes", &[], bytes);
    page.gauge_of("gantry_store_position", &[], world.commits.position().index);
    let full = matches!(world.commits.health(), Health::DiskFull { .. });
    page.gauge_of("gantry_store_disk_full", &[], u64::from(full));
}

/// What is counted where it happens.
fn counted(page: &mut Page, metrics: &Metrics) {
    page.histogram("gantry_commit_seconds", &[], metrics.commit_seconds.counts());
    page.histogram("gantry_commit_submissions", &[], metrics.commit_submissions.counts());
    page.histogram("gantry_commit_changes", &[], metrics.commit_changes.counts());
    page.histogram("gantry_lock_wait_seconds", &[], metrics.lock_wait_seconds.counts());
    page.counter("gantry_agent_events", &[], metrics.agent_events.get());
    for call in &metrics.calls {
        page.histogram("gantry_rpc_seconds", &[call.name], call.seconds.counts());
        for (word, failures) in RpcError::WORDS.iter().zip(&call.failures) {
            page.counter("gantry_rpc_failures", &[call.name, word], failures.get());
        }
    }
    for question in &metrics.questions {
        page.histogram("gantry_peer_seconds", &[question.name], question.seconds.counts());
        for (word, failures) in PeerError::WORDS.iter().zip(&question.failures) {
            page.counter("gantry_peer_failures", &[question.name, word], failures.get());
        }
    }
    let luxi = &metrics.luxi;
    page.counter("gantry_luxi_passed", &[], luxi.passed.get());
    for (word, failures) in Metrics::not_passed_words().zip(&luxi.not_passed) {
        page.counter("gantry_luxi_pass_failures", &[word], failures.get());
    }
    let (closed, opened) = (luxi.closed.get(), luxi.opened.get());
    page.gauge_of("gantry_luxi_connections", &[], opened.saturating_sub(closed));
    page.counter("gantry_luxi_connections_opened", &[], opened);
    page.counter("gantry_luxi_connections_refused", &[], luxi.turned_away.get());
    for method in &luxi.methods {
        page.histogram("gantry_luxi_request_seconds", &[method.name], method.seconds.counts());
        page.counter("gantry_luxi_failures", &[method.name], method.failures.get());
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
