//! The table of the master's numbers, printed in `docs/metrics.md`.

use stdx::metrics::Kind::{Counter, Gauge, Histogram};
use stdx::metrics::{Family, Kind};

const fn line(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Family {
    Family { name, kind, labels, help }
}

/// Every number.
pub const FAMILIES: &[Family] = &[
    line("gantry_master_info", Gauge, &["version"], "Always 1; which version runs"),
    line("gantry_master_term", Gauge, &[], "Term of this master's reign"),
    line("gantry_jobs", Gauge, &["status"], "Jobs that are not archived"),
    line("gantry_jobs_submitted", Counter, &[], "Jobs that were taken, each when it was durable"),
    line("gantry_jobs_ended", Counter, &["status"], "Jobs that came to their end"),
    line("gantry_queue_drained", Gauge, &[], "1 while the queue takes no jobs"),
    line(
        "gantry_commit_seconds",
        Histogram,
        &[],
        "Time to make one batch durable, from its first byte written to the end of the flush",
    ),
    line("gantry_commit_submissions", Histogram, &[], "Rounds of the writer in one batch"),
    line("gantry_commit_changes", Histogram, &[], "Changed documents in one batch"),
    line("gantry_commit_waiting_changes", Gauge, &[], "Changes that wait for the next batch"),
    line("gantry_commit_waiting_bytes", Gauge, &[], "Bytes of these changes"),
    line(
        "gantry_journal_used_bytes",
        Gauge,
        &[],
        "Bytes of the journal that cannot be written anew yet",
    ),
    line("gantry_journal_bytes", Gauge, &[], "Bytes of the whole journal"),
    line("gantry_files_lag_keys", Gauge, &[], "Committed documents whose file is not written yet"),
    line("gantry_files_lag_bytes", Gauge, &[], "Bytes of these documents"),
    line("gantry_store_position", Gauge, &[], "Index of the last committed batch"),
    line("gantry_store_disk_full", Gauge, &[], "1 while the disk takes no files"),
    line(
        "gantry_lock_wait_seconds",
        Histogram,
        &[],
        "Time that opcodes waited for locks, those too that had them at once",
    ),
    line("gantry_lock_requests_waiting", Gauge, &[], "Opcodes that wait for locks"),
    line(
        "gantry_rpc_seconds",
        Histogram,
        &["call"],
        "Time of calls to agents; `exchange` waits at the agent on purpose",
    ),
    line("gantry_rpc_failures", Counter, &["call", "reason"], "Calls to agents without a reply"),
    line("gantry_agents", Gauge, &["state"], "Agents, by whether the last exchange reached them"),
    line("gantry_agent_events", Counter, &[], "Events of agents that were committed"),
    line("gantry_luxi_connections", Gauge, &[], "Connections of clients"),
    line("gantry_luxi_connections_opened", Counter, &[], "Connections that got a place"),
    line("gantry_luxi_connections_refused", Counter, &[], "Connections that found no place"),
    line(
        "gantry_luxi_request_seconds",
        Histogram,
        &["method"],
        "Time of requests until the answer is ready; waits last on purpose",
    ),
    line(
        "gantry_luxi_failures",
        Counter,
        &["method"],
        "Requests that were answered with an error, given up, or whose client left",
    ),
];
