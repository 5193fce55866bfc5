//! The table of the master's numbers, printed in `docs/metrics.md`.

use stdx::metrics::Family;
use stdx::metrics::Kind::{Counter, Gauge, Histogram};

/// Every number.
pub const FAMILIES: &[Family] = &[
    Family::new("gantry_master_info", Gauge, &["version"], "Always 1; which version runs"),
    Family::new("gantry_master_leaderships", Gauge, &[], "1 where the master is, 0 on a standby"),
    Family::new("gantry_master_term", Gauge, &[], "Term of this master's epoch"),
    Family::new("gantry_jobs", Gauge, &["status"], "Jobs that are not archived"),
    Family::new(
        "gantry_jobs_submitted",
        Counter,
        &[],
        "Jobs that were taken, each when it was durable",
    ),
    Family::new("gantry_jobs_ended", Counter, &["status"], "Jobs that came to their end"),
    Family::new("gantry_queue_drained", Gauge, &[], "1 while the queue takes no jobs"),
    Family::new(
        "gantry_commit_seconds",
        Histogram,
        &[],
        "Time to make one batch durable, from its first byte written to the end of the flush",
    ),
    Family::new("gantry_commit_submissions", Histogram, &[], "Rounds of the writer in one batch"),
    Family::new("gantry_commit_changes", Histogram, &[], "Changed documents in one batch"),
    Family::new(
        "gantry_commit_waiting_changes",
        Gauge,
        &[],
        "Changes that wait for the next batch",
    ),
    Family::new("gantry_commit_waiting_bytes", Gauge, &[], "Bytes of these changes"),
    Family::new(
        "gantry_journal_used_bytes",
        Gauge,
        &[],
        "Bytes of the journal that cannot be reused yet",
    ),
    Family::new("gantry_journal_bytes", Gauge, &[], "Bytes of the whole journal"),
    Family::new(
        "gantry_files_lag_keys",
        Gauge,
        &[],
        "Committed documents whose file is not written yet",
    ),
    Family::new("gantry_files_lag_bytes", Gauge, &[], "Bytes of these documents"),
    Family::new("gantry_store_position", Gauge, &[], "Index of the last committed batch"),
    Family::new("gantry_store_disk_full", Gauge, &[], "1 while the disk takes no files"),
    Family::new(
        "gantry_lock_wait_seconds",
        Histogram,
        &[],
        "Time that opcodes waited for locks, those too that had them at once",
    ),
    Family::new("gantry_lock_requests_waiting", Gauge, &[], "Opcodes that wait for locks"),
    Family::new(
        "gantry_rpc_seconds",
        Histogram,
        &["call"],
        "Time of calls to agents; `exchange` waits at the agent on purpose",
    ),
    Family::new(
        "gantry_rpc_failures",
        Counter,
        &["call", "reason"],
        "Calls to agents without a reply",
    ),
    Family::new(
        "gantry_peer_seconds",
        Histogram,
        &["question"],
        "Time of questions to masterd of other members before the role is taken",
    ),
    Family::new(
        "gantry_peer_failures",
        Counter,
        &["question", "reason"],
        "Questions to masterd of other members without an answer",
    ),
    Family::new(
        "gantry_agents",
        Gauge,
        &["state"],
        "Agents, by whether the last exchange reached them",
    ),
    Family::new("gantry_alarms", Gauge, &["what"], "Alarms that are on, by what they are about"),
    Family::new("gantry_agent_events", Counter, &[], "Events of agents that were committed"),
    Family::new("gantry_luxi_connections", Gauge, &[], "Connections of clients"),
    Family::new("gantry_luxi_connections_opened", Counter, &[], "Connections that got a place"),
    Family::new("gantry_luxi_connections_refused", Counter, &[], "Connections that found no place"),
    Family::new(
        "gantry_luxi_request_seconds",
        Histogram,
        &["method"],
        "Time of requests until the answer is ready; waits last on purpose",
    ),
    Family::new(
        "gantry_luxi_failures",
        Counter,
        &["method"],
        "Requests that were answered with an error, given up, or whose client left",
    ),
    Family::new(
        "gantry_luxi_passed",
        Counter,
        &[],
        "Requests that this node passed on, or tried to pass on, to the master",
    ),
    Family::new(
        "gantry_luxi_pass_failures",
        Counter,
        &["reason"],
        "Requests of these that the master did not answer",
    ),
];
