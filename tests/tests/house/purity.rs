//! The limits of a core: a file whose first line says `//! Core:` decides and does nothing else.

use crate::source::{self, SourceFile};

const MARK: &str = "//! Core:";

/// Code that reaches for the world or waits for it.
const FORBIDDEN: &[&str] = &[
    ".await",
    "async fn",
    "async move",
    "tokio::",
    "std::fs",
    "fs::File",
    "File::",
    "OpenOptions",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "SystemTime",
    "Instant::now",
    "std::thread",
    "thread::spawn",
    "std::process",
    "Clock",
];

/// The rules that must stay cores; a test of theirs needs no disk, no socket and no clock.
const CORES: &[&str] = &[
    "queue-format/src/change.rs",
    "queue-format/src/change/codec.rs",
    "queue-format/src/change/collapse.rs",
    "queue-format/src/digest.rs",
    "queue-format/src/journal/frame.rs",
    "queue-format/src/journal/record.rs",
    "queue-format/src/key.rs",
    "queue-format/src/position.rs",
    "queue-format/src/store/frozen/aside.rs",
    "queue-format/src/store/replicated/order.rs",
    "model/src/node/role.rs",
    "luxi/src/query.rs",
    "luxi/src/query/filter.rs",
    "rpc/src/fence/table.rs",
    "rpc/src/peer/frame.rs",
    "rpc/src/peer/hello.rs",
    "masterd/src/config.rs",
    "jobs/src/depend.rs",
    "jobs/src/filter.rs",
    "jobs/src/deduplication.rs",
    "jobs/src/stored.rs",
    "jobs/src/schedule.rs",
    "jobs/src/schedule/rate_limit.rs",
    "jobs/src/state.rs",
    "jobs/src/locks/table.rs",
    "jobs/src/locks/waiting.rs",
    "membership/src/amnesia.rs",
    "membership/src/confirm.rs",
    "membership/src/confirm/decide.rs",
    "membership/src/confirm/weigh.rs",
    "jobs/src/majority/contact.rs",
    "membership/src/loss.rs",
    "membership/src/pool.rs",
    "membership/src/forced_takeover.rs",
    "masterd/src/agents/ssconf/nodes.rs",
    "masterd/src/store/export/frame.rs",
    "masterd/src/store/export/seal.rs",
    "masterd/src/store/import/adapt.rs",
    "masterd/src/config/finding.rs",
    "masterd/src/health/status/alarms.rs",
    "masterd/src/role/standing.rs",
    "masterd/src/role/replicas.rs",
    "masterd/src/health/watcher/alarms.rs",
    "masterd/src/health/watcher/rules.rs",
    "masterd/src/cluster/node/change.rs",
    "model/src/host.rs",
    "hostnet/src/plan.rs",
    "hostnet/src/render.rs",
    "netboot/src/dhcp/boot.rs",
    "netboot/src/dhcp/engine.rs",
    "netboot/src/dhcp/leases.rs",
    "netboot/src/dhcp/limits.rs",
    "netboot/src/dhcp/packet.rs",
    "noded/src/master_address/plan.rs",
    "stdx/src/net/announce.rs",
    "stdx/src/net/netlink.rs",
];

#[test]
fn cores_are_pure() {
    let mut complaints = Vec::new();
    for file in source::files("rs").iter().filter(|file| must_be_pure(file)) {
        let code = file.code();
        for word in FORBIDDEN.iter().filter(|word| source::holds(&code, word)) {
            let path = &file.path;
            complaints.push(format!("{path}: a core has no `{word}`; its shell may have"));
        }
    }
    source::assert_none(&complaints);
}

#[test]
fn rules_that_must_be_cores_say_so() {
    let files = source::files("rs");
    let says = |path: &str| files.iter().any(|f| f.path == path && f.text.starts_with(MARK));
    let missing = CORES.iter().filter(|path| !says(path));
    let complaints: Vec<String> =
        missing.map(|path| format!("{path}: must be there and begin with `{MARK} …`")).collect();
    source::assert_none(&complaints);
}

/// All of the vocabulary, and every file that says so, but for test files.
fn must_be_pure(file: &SourceFile) -> bool {
    let vocabulary = file.path.starts_with("model/src/");
    (vocabulary || file.text.starts_with(MARK)) && !file.is_test()
}
