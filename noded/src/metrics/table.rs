//! The table of the agent's numbers, printed in `docs/metrics.md`.

use stdx::families;
use stdx::metrics::Family;

/// Every number.
pub const FAMILIES: &[Family] = families! {
    "gantry_node_info" Gauge ["version"] "Always 1; which version runs";
    "gantry_node_call_seconds" Histogram ["call"]
        "Time of the master's calls; `exchange` is its poll for events and waits on purpose";
    "gantry_node_call_failures" Counter ["call", "kind"] "Calls answered with a failure";
    "gantry_node_commit_seconds" Histogram [] "Time to make one batch durable";
    "gantry_node_journal_used_bytes" Gauge [] "Bytes of the journal that cannot be reused yet";
    "gantry_node_journal_bytes" Gauge [] "Bytes of the whole journal";
    "gantry_node_store_disk_full" Gauge [] "1 while the disk takes no files";
    "gantry_outbox_events" Gauge [] "Events that the master has not taken yet";
    "gantry_outbox_dropped" Counter []
        "Events that were given up since the node joined, because the outbox was full";
    "gantry_rack_document_term" Gauge ["rack"] "Term of the rack document that is served";
    "gantry_rack_document_position" Gauge ["rack"] "Its position within the term";
    "gantry_rack_machines" Gauge ["rack"] "Machines in the rack document";
    "gantry_dhcp_packets_received" Counter [] "Packets that came to the DHCP port";
    "gantry_dhcp_packets_malformed" Counter [] "Packets that were no DHCP messages";
    "gantry_dhcp_messages_ignored" Counter [] "Messages that led to nothing, for good reasons";
    "gantry_dhcp_messages_limited" Counter ["by"]
        "Messages that were dropped because a client, a relay's circuit or a link sent too many";
    "gantry_dhcp_messages_untrusted" Counter []
        "Messages with option 82 that came without a relay, where circuits are not trusted";
    "gantry_dhcp_replies_withheld" Counter []
        "Replies that were not sent, because the rack is only observed";
    "gantry_dhcp_replies" Counter [] "Replies sent";
    "gantry_dhcp_send_failures" Counter [] "Replies that could not be sent";
    "gantry_dhcp_persist_failures" Counter []
        "Leases that could not be made durable, and were not acknowledged";
    "gantry_dhcp_panics" Counter [] "Messages over which the server panicked, and went on";
    "gantry_dhcp_events" Counter ["event"] "Outcomes of clients' messages";
    "gantry_dhcp_leases" Gauge ["state"] "Addresses of lease ranges, by their last lease";
    "gantry_boot_requests" Counter ["answer"]
        "HTTP requests for boot scripts, by the answer; and those of ramdisks and for keys of disks";
};
