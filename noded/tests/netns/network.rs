//! The network of the host: a change that no commit can keep goes back, whatever stands in the way at first.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::Uuid;
use model::layout::Layout;
use noded::host_network::HostNetworks;
use rpc::calls::NetworkApply;
use stdx::Clock;
use tokio::runtime::{Builder, Runtime};

use crate::wire::Wire;

/// The route that the change takes away, as the kernel shows it.
const ROUTE: &str = "192.0.2.0/24 via 10.69.0.1 dev rack0";

/// A host with a route that a change has taken away.
struct Host {
    root: tempfile::TempDir,
    runtime: Runtime,
    networks: Arc<HostNetworks>,
}

impl Host {
    fn changed() -> Self {
        ip(&format!("route add {ROUTE} proto static"));
        let root = tempfile::tempdir().unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let networks = open(&runtime, root.path());
        let network = r#"{"links": [{"name": "rack0", "addresses": ["10.69.0.3/26"]}]}"#;
        let network = Some(serde_json::from_str(network).unwrap());
        let change = Uuid::from_u128(1);
        let call = NetworkApply { change, network, plan_only: false, seconds: 3_600 };
        let applied = runtime.block_on(networks.apply(&call)).unwrap();
        assert_eq!(applied.steps.len(), 1, "{applied:?}");
        assert!(!has_route());
        Self { root, runtime, networks }
    }

    /// Ends the agent as `kill -9` would.
    fn killed(self) -> tempfile::TempDir {
        let Self { root, runtime, networks } = self;
        drop(runtime);
        drop(networks);
        root
    }
}

fn open(runtime: &Runtime, root: &std::path::Path) -> Arc<HostNetworks> {
    runtime.block_on(HostNetworks::open(&Layout::new(root), Clock::system()))
}

fn ip(line: &str) -> String {
    let out = Command::new("ip").args(line.split_whitespace()).output().unwrap();
    assert!(out.status.success(), "ip {line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn has_route() -> bool {
    ip("route").contains(ROUTE)
}

#[test]
fn an_agent_that_ends_within_the_deadline_goes_back_first() {
    let Some(wire) = Wire::new("net") else { return };
    wire.at_server(|| {
        let host = Host::changed();
        host.runtime.block_on(host.networks.end());
        assert!(has_route());
    });
}

#[test]
fn a_way_back_that_the_kernel_refuses_is_tried_until_it_is_free() {
    let Some(wire) = Wire::new("back") else { return };
    wire.at_server(|| {
        let root = Host::changed().killed();
        // Somebody else has the same route now.
        ip("route add 192.0.2.0/24 dev lo");
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let networks = open(&runtime, root.path());
        let told = networks.drift().join("; ");
        assert!(told.contains("cannot undo a change that was not committed"), "{told}");
        assert!(!has_route());
        ip("route del 192.0.2.0/24 dev lo");
        let started = Instant::now();
        runtime.block_on(async {
            while !has_route() && started.elapsed() < Duration::from_secs(60) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        assert!(has_route());
    });
}
