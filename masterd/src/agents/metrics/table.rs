//! The table of the master's numbers, printed in `docs/metrics.md`.

use stdx::families;
use stdx::metrics::Family;

/// Every number.
pub const FAMILIES: &[Family] = families! {
    "gantry_master_info" Gauge ["version"] "Always 1; which version runs";
    "gantry_master_leaderships" Gauge [] "1 where the master is, 0 on a standby";
    "gantry_master_term" Gauge [] "Term of this master's epoch";
    "gantry_jobs" Gauge ["status"] "Jobs that are not archived";
    "gantry_jobs_submitted" Counter [] "Jobs that were taken, each when it was durable";
    "gantry_jobs_ended" Counter ["status"] "Jobs that came to their end";
    "gantry_queue_drained" Gauge [] "1 while the queue takes no jobs";
    "gantry_commit_seconds" Histogram []
        "Time to make one batch durable, from its first byte written to the end of the flush";
    "gantry_commit_submissions" Histogram [] "Rounds of the writer in one batch";
    "gantry_commit_changes" Histogram [] "Changed documents in one batch";
    "gantry_commit_waiting_changes" Gauge [] "Changes that wait for the next batch";
    "gantry_commit_waiting_bytes" Gauge [] "Bytes of these changes";
    "gantry_journal_used_bytes" Gauge [] "Bytes of the journal that cannot be reused yet";
    "gantry_journal_bytes" Gauge [] "Bytes of the whole journal";
    "gantry_files_lag_keys" Gauge [] "Committed documents whose file is not written yet";
    "gantry_files_lag_bytes" Gauge [] "Bytes of these documents";
    "gantry_store_position" Gauge [] "Index of the last committed batch";
    "gantry_store_disk_full" Gauge [] "1 while the disk takes no files";
    "gantry_lock_wait_seconds" Histogram []
        "Time that opcodes waited for locks, those too that had them at once";
    "gantry_lock_requests_waiting" Gauge [] "Opcodes that wait for locks";
    "gantry_rpc_seconds" Histogram ["call"]
        "Time of calls to agents; `exchange` waits at the agent on purpose";
    "gantry_rpc_failures" Counter ["call", "reason"] "Calls to agents without a reply";
    "gantry_peer_seconds" Histogram ["question"]
        "Time of questions to masterd of other members before the role is taken";
    "gantry_peer_failures" Counter ["question", "reason"]
        "Questions to masterd of other members without an answer";
    "gantry_agents" Gauge ["state"] "Agents, by whether the last exchange reached them";
    "gantry_alarms" Gauge ["what"] "Alarms that are on, by what they are about";
    "gantry_rack_faults" Gauge ["cause"] "What keeps racks from being served, by cause";
    "gantry_agent_events" Counter [] "Events of agents that were committed";
    "gantry_luxi_connections" Gauge [] "Connections of clients";
    "gantry_luxi_connections_opened" Counter [] "Connections that got a place";
    "gantry_luxi_connections_refused" Counter [] "Connections that found no place";
    "gantry_luxi_request_seconds" Histogram ["method"]
        "Time of requests until the answer is ready; waits last on purpose";
    "gantry_luxi_failures" Counter ["method"]
        "Requests that were answered with an error, given up, or whose client left";
    "gantry_luxi_passed" Counter []
        "Requests that this node passed on, or tried to pass on, to the master";
    "gantry_luxi_pass_failures" Counter ["reason"]
        "Requests of these that the master did not answer";
};
