//! Clients that read much: they wait for each other, and depose nobody.

use std::sync::atomic::{AtomicUsize, Ordering};

use luxi::Client;
use luxi::method::{Fields, Query, QueryConfigValues, SubmitJob, SubmitManyJobs, What};
use model::OpInput;
use model::opcode::{OpCode, TestDelay};
use tests::candidates::{refusal, status};
use tests::cluster::{Cluster, Host};

use super::automatic::automatic;

/// Jobs that there are to read.
const JOBS: usize = 300;
/// Clients that read all of them at once; some of them ask the master, some a standby.
const READERS: usize = 100;
/// How often each of them asks.
const ROUNDS: usize = 2;

fn delay() -> OpInput {
    OpInput::new(OpCode::TestDelay(TestDelay::on_master(0.0)))
}

/// One reader; there is one less when it ends, also by a panic.
struct Reader<'a>(&'a AtomicUsize);

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn epoch(host: &Host) -> Option<String> {
    Some(status(host)?.master?.epoch)
}

fn read_all_jobs(client: &mut Client) -> usize {
    let fields = Fields::from(["id", "ops"]);
    client.call(&Query { what: What::Job, fields, filter: None }).unwrap().data.len()
}

/// Submits while there are readers, and asks for something small; everything is answered.
fn work(cluster: &Cluster, readers: &AtomicUsize) -> usize {
    let mut client = cluster.client();
    let mut submitted = 0;
    while readers.load(Ordering::Relaxed) > 0 {
        client.call(&SubmitJob { ops: vec![delay()] }).unwrap();
        client.call(&QueryConfigValues { names: Fields::from(["master_node"]) }).unwrap();
        submitted += 1;
    }
    submitted
}

#[test]
fn a_crowd_of_readers_costs_the_master_neither_its_role_nor_its_clients() {
    let (cluster, n2, _n3) = automatic();
    let jobs = vec![vec![delay()]; JOBS];
    cluster.client().call(&SubmitManyJobs { jobs }).unwrap();
    let before = epoch(&cluster.master);
    let readers = AtomicUsize::new(READERS);
    let submitted = std::thread::scope(|scope| {
        for reader in 0..READERS {
            let (host, readers) = (if reader % 4 == 0 { &n2 } else { &cluster.master }, &readers);
            scope.spawn(move || {
                let _reader = Reader(readers);
                let mut client = Client::connect(&host.layout().luxi_socket()).unwrap();
                for _ in 0..ROUNDS {
                    assert!(read_all_jobs(&mut client) >= JOBS);
                }
            });
        }
        work(&cluster, &readers)
    });
    assert!(submitted > 0);
    assert!(before.is_some() && before == epoch(&cluster.master), "the role moved");
    assert_eq!(refusal(&cluster.master), None);
}
