//! All numbers of the agent at a moment.

use std::sync::atomic::{AtomicU64, Ordering};

use queue_format::{Fill, Health};
use rpc::FailureKind;
use stdx::metrics::Page;

use super::{FAMILIES, Sources};
use netboot::dhcp::LeaseState;
use netboot::dhcp::server::Counters;

/// Takes the numbers.
pub(crate) fn page(sources: &Sources) -> Page {
    let mut page = Page::new(FAMILIES);
    page.gauge_of("gantry_node_info", &[env!("CARGO_PKG_VERSION")], 1);
    for call in &sources.calls.0 {
        page.histogram("gantry_node_call_seconds", &[call.name], call.seconds.counts());
        for ((kind, ..), failures) in FailureKind::TABLE.iter().zip(&call.failures) {
            page.counter("gantry_node_call_failures", &[call.name, kind], failures.get());
        }
    }
    store(&mut page, sources);
    racks(&mut page, sources);
    dhcp(&mut page, &sources.dhcp);
    leases(&mut page, sources);
    let boot = &sources.boot;
    for (answer, counter) in [
        ("first", &boot.first),
        ("script", &boot.script),
        ("unknown", &boot.unknown),
        ("refused", &boot.refused),
        ("ramdisk", &boot.ramdisk),
        ("key", &boot.key),
    ] {
        page.counter("gantry_boot_requests", &[answer], counter.get());
    }
    page
}

fn store(page: &mut Page, sources: &Sources) {
    let ledger = &sources.ledger;
    page.histogram("gantry_node_commit_seconds", &[], ledger.commit_seconds().counts());
    let Fill { used_bytes, bytes } = ledger.journal_fill();
    page.gauge_of("gantry_node_journal_used_bytes", &[], used_bytes);
    page.gauge_of("gantry_node_journal_bytes", &[], bytes);
    let full = matches!(ledger.health(), Health::DiskFull { .. });
    page.gauge_of("gantry_node_store_disk_full", &[], u64::from(full));
    let (events, dropped) = ledger.outbox_len();
    page.gauge_of("gantry_outbox_events", &[], u64::try_from(events).unwrap_or(u64::MAX));
    page.counter("gantry_outbox_dropped", &[], dropped);
}

fn racks(page: &mut Page, sources: &Sources) {
    for document in sources.racks.all() {
        let rack = document.rack.to_string();
        let machines = u64::try_from(document.machines.len()).unwrap_or(u64::MAX);
        page.gauge_of("gantry_rack_document_term", &[&rack], document.version.term);
        page.gauge_of("gantry_rack_document_position", &[&rack], document.version.position);
        page.gauge_of("gantry_rack_machines", &[&rack], machines);
    }
}

fn dhcp(page: &mut Page, counters: &Counters) {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    page.counter("gantry_dhcp_packets_received", &[], get(&counters.received));
    page.counter("gantry_dhcp_packets_malformed", &[], get(&counters.malformed));
    page.counter("gantry_dhcp_messages_ignored", &[], get(&counters.ignored));
    for (by, counter) in [
        ("client", &counters.limited_client),
        ("circuit", &counters.limited_circuit),
        ("link", &counters.limited_link),
    ] {
        page.counter("gantry_dhcp_messages_limited", &[by], get(counter));
    }
    page.counter("gantry_dhcp_messages_untrusted", &[], get(&counters.untrusted));
    page.counter("gantry_dhcp_replies_withheld", &[], get(&counters.withheld));
    page.counter("gantry_dhcp_replies", &[], get(&counters.replied));
    page.counter("gantry_dhcp_send_failures", &[], get(&counters.send_failed));
    page.counter("gantry_dhcp_persist_failures", &[], get(&counters.persist_failed));
    page.counter("gantry_dhcp_panics", &[], get(&counters.panicked));
    for (event, counter) in [
        ("leased", &counters.leased),
        ("released", &counters.released),
        ("declined", &counters.declined),
        ("refused", &counters.refused),
        ("stranded", &counters.stranded),
        ("full", &counters.full),
        ("crowded", &counters.crowded),
    ] {
        page.counter("gantry_dhcp_events", &[event], get(counter));
    }
}

fn leases(page: &mut Page, sources: &Sources) {
    let now = sources.clock.now_micros();
    let mut numbers = [("bound", 0), ("expired", 0), ("released", 0), ("declined", 0)];
    for lease in sources.ledger.leases() {
        let at = match lease.state {
            LeaseState::Bound { until_us } if until_us > now => 0,
            LeaseState::Bound { .. } => 1,
            LeaseState::Released { .. } => 2,
            LeaseState::Declined { .. } => 3,
        };
        numbers[at].1 += 1;
    }
    for (state, number) in numbers {
        page.gauge_of("gantry_dhcp_leases", &[state], number);
    }
}
