//! Three nodes in real trouble, under load. Whatever is done to one of them, no acknowledged job is lost
//! and none is done twice. All is well again when it is over.
//!
//! [`links`], [`disks`], [`power`] and [`processes`] are what can fail of a node; [`memory`] is about
//! nodes that forget. Each test has the kernel's namespaces and mounts to itself
//! ([`tests::sealed`]); each ends with the same comparison ([`tests::testbed::scene::Scene::rest`]).

mod disks;
mod links;
mod memory;
mod power;
mod processes;

use std::time::Duration;

use luxi::method::SubmitJob;
use luxi::{Client, ClientError};
use model::opcode::TestDelay;
use model::{OpCode, OpInput};
use tests::candidates::{LONG, status};
use tests::run::{pass, wait_for};
use tests::seed::Seed;
use tests::testbed::Testbed;
use tests::testbed::scene::{Rested, Scene};

/// Load before and under trouble.
const LOAD: Duration = Duration::from_millis(1_500);
/// Beyond the time after which a leader counts as silent, and a master gives its address up.
const LONG_ENOUGH: Duration = Duration::from_secs(6);

/// A scene in which n1 is master, and clients work.
fn begin() -> Scene {
    let scene = Scene::begin(&mut Seed::new());
    pass(LOAD);
    scene
}

/// Waits until all is well, and compares.
fn well(scene: &mut Scene) -> Rested {
    scene.rest().unwrap_or_else(|finding| panic!("{finding}"))
}

/// The same, and the clients work again.
fn well_again(scene: &mut Scene) {
    let _rested = well(scene);
    scene.clients.resume();
    pass(LOAD);
}

/// Waits until a master knows that it hears no majority.
fn wait_until_refusing(testbed: &Testbed, node: usize) {
    wait_for("the master to refuse changes", LONG, || {
        let quorum = status(&testbed.sites[node].host)?.quorum?;
        (quorum.majority == Some(false) && quorum.refusing.is_some()).then_some(())
    });
}

/// Submits a job on a node.
fn submit(testbed: &Testbed, node: usize) -> Result<u64, ClientError> {
    submit_for(testbed, node, 0.0)
}

/// The same; it sleeps for so many seconds.
fn submit_for(testbed: &Testbed, node: usize, seconds: f64) -> Result<u64, ClientError> {
    let op = OpInput::new(OpCode::TestDelay(TestDelay::on_master(seconds)));
    let mut client = Client::connect(&testbed.sites[node].host.layout().luxi_socket())?;
    client.call(&SubmitJob { ops: vec![op] }).map(|id| id.0)
}

/// Waits until another node than this one is master.
fn successor(testbed: &Testbed, of: usize) -> usize {
    wait_for("another master", LONG, || {
        testbed.lan.others(of).find(|other| testbed.is_master(*other))
    })
}
