//! The numbers that are counted where events happen, on the page of numbers.

use rpc::RpcError;
use rpc::peer::PeerError;
use stdx::metrics::Page;

use super::Metrics;

impl Metrics {
    /// Puts all of it on the page.
    pub(crate) fn show(&self, page: &mut Page) {
        page.histogram("gantry_commit_seconds", &[], self.commit_seconds.counts());
        page.histogram("gantry_commit_submissions", &[], self.commit_submissions.counts());
        page.histogram("gantry_commit_changes", &[], self.commit_changes.counts());
        page.histogram("gantry_lock_wait_seconds", &[], self.lock_wait_seconds.counts());
        page.counter("gantry_agent_events", &[], self.agent_events.get());
        for call in &self.calls {
            page.histogram("gantry_rpc_seconds", &[call.name], call.seconds.counts());
            for (word, failures) in RpcError::WORDS.iter().zip(&call.failures) {
                page.counter("gantry_rpc_failures", &[call.name, word], failures.get());
            }
        }
        for question in &self.questions {
            page.histogram("gantry_peer_seconds", &[question.name], question.seconds.counts());
            for (word, failures) in PeerError::WORDS.iter().zip(&question.failures) {
                page.counter("gantry_peer_failures", &[question.name, word], failures.get());
            }
        }
        let luxi = &self.luxi;
        page.counter("gantry_luxi_passed", &[], luxi.passed.get());
        for (word, failures) in Self::not_passed_words().zip(&luxi.not_passed) {
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
}
