//! The table of the agent's numbers, printed in `docs/metrics.md`.

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
    line("gantry_node_info", Gauge, &["version"], "Always 1; which version runs"),
    line(
        "gantry_node_call_seconds",
        Histogram,
        &["call"],
        "Time of the master's calls; `exchange` is its poll for events and waits on purpose",
    ),
    line("gantry_node_call_failures", Counter, &["call", "kind"], "Calls answered with a failure"),
    line("gantry_node_commit_seconds", Histogram, &[], "Time to make one batch durable"),
    line(
        "gantry_node_journal_used_bytes",
        Gauge,
        &[],
        "Bytes of the journal that cannot be written anew yet",
    ),
    line("gantry_node_journal_bytes", Gauge, &[], "Bytes of the whole journal"),
    line("gantry_node_store_disk_full", Gauge, &[], "1 while the disk takes no files"),
    line("gantry_outbox_events", Gauge, &[], "Events that the master has not taken yet"),
    line(
        "gantry_outbox_dropped",
        Counter,
        &[],
        "Events that were given up since the node joined, because the outbox was full",
    ),
    line("gantry_rack_document_term", Gauge, &["rack"], "Term of the rack document that is served"),
    line("gantry_rack_document_position", Gauge, &["rack"], "Its position within the term"),
    line("gantry_rack_machines", Gauge, &["rack"], "Machines in the rack document"),
    line("gantry_dhcp_packets_received", Counter, &[], "Packets that came to the DHCP port"),
    line("gantry_dhcp_packets_malformed", Counter, &[], "Packets that were no DHCP messages"),
    line(
        "gantry_dhcp_messages_ignored",
        Counter,
        &[],
        "Messages that led to nothing, for good reasons",
    ),
    line("gantry_dhcp_replies", Counter, &[], "Replies sent"),
    line("gantry_dhcp_send_failures", Counter, &[], "Replies that could not be sent"),
    line(
        "gantry_dhcp_persist_failures",
        Counter,
        &[],
        "Leases that could not be made durable, and were not acknowledged",
    ),
    line(
        "gantry_dhcp_panics",
        Counter,
        &[],
        "Messages over which the server panicked, and went on",
    ),
    line("gantry_dhcp_events", Counter, &["event"], "What became of clients' messages"),
    line("gantry_dhcp_leases", Gauge, &["state"], "Addresses of lease ranges, by their last lease"),
    line(
        "gantry_boot_requests",
        Counter,
        &["answer"],
        "HTTP requests for boot scripts, by the answer",
    ),
];
