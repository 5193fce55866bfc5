use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use model::enrol::Fingerprint;
use queue_format::simulation::Chance;
use stdx::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};

use super::{Host, Listener, Network, Stream};
use crate::calls::{TestDelay, Version};
use crate::client::NodeTarget;
use crate::fence::Fence;
use crate::identity::Authority;
use crate::server::{Limits, Server};
use crate::service::AgentService;
use crate::testing::{MemoryAgent, NoDisk, allow, epoch, meta, name, now};
use crate::tls::{AllowedCallers, server_config};
use crate::{Client, RpcError};

const PORT: u16 = 1811;
/// Turns in which anything here is done.
const TURNS_MAX: u64 = 20_000;

fn address(id: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, id).into()
}

/// A network, and the runtime of all that is on it.
struct World {
    network: Network,
    runtime: Runtime,
    now_ms: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let network = Network::new(Chance::new(seed));
        Self { network, runtime: runtime.unwrap(), now_ms: 0 }
    }

    fn host(&self, id: u8) -> Host {
        self.network.host(address(id))
    }

    /// A millisecond passes.
    fn turn(&mut self) {
        self.now_ms += 1;
        self.network.arrive(self.now_ms);
        self.runtime.block_on(async {
            tokio::time::advance(Duration::from_millis(1)).await;
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// The output of `work`; none if it does not end.
    fn run<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let task = self.runtime.spawn(work);
        for _ in 0..TURNS_MAX {
            if task.is_finished() {
                return Some(self.runtime.block_on(task).unwrap());
            }
            self.turn();
        }
        task.abort();
        None
    }

    fn pair(&mut self) -> (Stream, Stream) {
        let (caller, listener) = (self.host(1), self.host(2).listen(PORT));
        let shown = Fingerprint::from_bytes([7; 32]);
        let both = async move {
            let accept = async |listener: &Listener| listener.accept().await.open();
            let to = listener.address();
            let dial = caller.dial(to, shown, b"x".to_vec());
            let (called, answered) = tokio::join!(dial, accept(&listener));
            (called.unwrap(), answered)
        };
        let (called, answered) = self.run(both).unwrap();
        assert_eq!((answered.caller(), answered.protocol()), (Some(shown), &b"x"[..]));
        (called, answered)
    }
}

#[test]
fn bytes_arrive_in_order_whole_and_with_their_end() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        world.network.lose(5);
        let (mut called, mut answered) = world.pair();
        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        let expected = sent.clone();
        let writing = async move {
            called.write_all(&sent).await.unwrap();
            called.shutdown().await.unwrap();
            called
        };
        let reading = async move {
            let mut read = Vec::new();
            answered.read_to_end(&mut read).await.unwrap();
            read
        };
        let both = async { tokio::join!(writing, reading) };
        let (_called, read) = world.run(both).unwrap();
        assert!(read == expected, "seed {seed}");
    }
}

#[test]
fn a_cut_holds_back_and_its_end_lets_through() {
    let mut world = World::new(1);
    let (mut called, mut answered) = world.pair();
    world.network.cut(address(1), address(2));
    world.run(async move {
        called.write_all(b"late").await.unwrap();
        called
    });
    let mut reading = world.runtime.spawn(async move { answered.read_u32().await.unwrap() });
    for _ in 0..5_000 {
        world.turn();
    }
    assert!(!reading.is_finished());
    world.network.heal();
    let read = world.run(async move { (&mut reading).await.unwrap() });
    assert_eq!(read, Some(u32::from_be_bytes(*b"late")));
}

#[test]
fn the_end_of_a_process_is_told_and_that_of_a_machine_is_not() {
    for (powerless, told) in [(false, true), (true, false)] {
        let mut world = World::new(2);
        let (called, mut answered) = world.pair();
        world.network.set_powerless(powerless);
        drop(called);
        world.network.set_powerless(false);
        let end = world.run(async move { answered.read(&mut [0]).await.unwrap() });
        assert_eq!(end, told.then_some(0));
    }
}

#[test]
fn who_writes_to_nobody_learns_it() {
    let mut world = World::new(3);
    let (mut called, answered) = world.pair();
    drop(answered);
    let broke = world.run(async move {
        while called.write_all(b"anyone?").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert_eq!(broke, Some(()));
}

#[test]
fn nobody_listens() {
    let mut world = World::new(4);
    let (host, shown) = (world.host(1), Fingerprint::from_bytes([7; 32]));
    let dialed = world.run(async move { host.dial((address(2), 5).into(), shown, vec![]).await });
    assert_eq!(dialed.unwrap().unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn calls_of_agents_go_over_it() {
    let mut world = World::new(5);
    let authority = Authority::create(&name("c1"), now()).unwrap();
    let [master, node] = [(1, "n1"), (2, "n2")].map(|(id, node)| {
        let identity = authority.issue(&name(node), &[address(id)], now()).unwrap();
        identity.on(world.host(id))
    });
    let allowed = AllowedCallers::new(allow(&[&master]));
    let fence = Fence::new(NoDisk, epoch(1).into());
    let service = AgentService::new(Arc::new(MemoryAgent::default()), fence, allowed.clone());
    let tls = server_config(&node, allowed).unwrap();
    let listener = world.host(2).listen(PORT);
    let guard = world.runtime.enter();
    let server = Server::start(listener, tls, service, Limits::default()).unwrap();
    drop(guard);
    let target = NodeTarget {
        name: name("n2"),
        address: server.address(),
        fingerprint: Some(node.fingerprint()),
        renewing: None,
        offline: false,
    };
    let client = Client::new(Arc::new(master), Tasks::new());
    let called = world.run(async move {
        let version = client.call(&target, Version {}, meta(1)).await;
        let high = client.call(&target, TestDelay { seconds: 0.5 }, meta(3)).await;
        let low = client.call(&target, TestDelay { seconds: 0.5 }, meta(2)).await;
        (version, high, low)
    });
    let (version, high, low) = called.unwrap();
    assert_eq!(version.unwrap().node, name("n2"));
    high.unwrap();
    assert!(matches!(low, Err(RpcError::Refused { .. })), "{low:?}");
}
