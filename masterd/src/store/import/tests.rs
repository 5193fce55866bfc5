//! Clusters that were begun, exported, lost and imported.

use std::io;

use adapt::Steps;
use jobs::rounds::round::job_file;
use model::OpStatus;
use model::cluster::Cluster;
use model::node::{Node, NodeRole};
use model::opcode::Input;
use model::{Job, JobId, OpInput};
use queue_format::{Callbacks, Change, Epoch};
use uuid::Uuid;

use super::*;
use crate::role::load;
use crate::store::bootstrap::Init;
use crate::store::export::at_rest;
use membership::forced_takeover::{JOB_IDS_UNSEEN, NODE_ID_STEP, TERM_STEP};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const LATER: Timestamp = Timestamp::from_micros(1_700_000_900_000_000);
/// The document of a sealed key of a disk.
const DISK_KEY: &str = r#"{"serial": "S1", "disk": "disk", "sealed": "1:AQID", "ctime": [1, 0]}"#;
const PHRASE: &str = "correct horse";

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

fn phrase() -> io::Result<Option<Secret<String>>> {
    Ok(Some(Secret::new(PHRASE.to_owned())))
}

fn never() -> io::Result<Option<Secret<String>>> {
    panic!("nothing is sealed")
}

fn put(name: &str, content: impl Into<Bytes>) -> Change {
    Change::Put { key: key(name), content: content.into() }
}

fn json(value: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap().into()
}

/// A cluster of n1, its master, and n2, with a job that ended and one that did not.
struct Lost {
    dir: tempfile::TempDir,
    layout: Layout,
}

impl Lost {
    fn begin() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().join("n1"));
        let init = Init { cluster: name("c1.example"), ..crate::testing::first_node() };
        bootstrap::init(&layout, &init, NOW).unwrap();
        let other = crate::testing::node("n2.example", NodeRole::Candidate);
        let input = OpInput::parse(r#"{"OP_ID":"OP_TEST_DELAY","duration":0}"#).unwrap();
        let input = std::sync::Arc::new(Input::Known(Box::new(input)));
        let mut ended = Job::new(JobId(1), [std::sync::Arc::clone(&input)], NOW);
        ended.ops[0].status = OpStatus::Success;
        let queued = Job::new(JobId(2), [input], NOW);
        let lost = Self { dir, layout };
        lost.commit(vec![
            put("config/nodes/n2.example", json(&other)),
            put("queue/job-1", job_file(&ended)),
            put("queue/job-2", job_file(&queued)),
            put("queue/serial", "2\n"),
            put("crypts/S1/disk", DISK_KEY),
        ]);
        lost
    }

    fn commit(&self, changes: Vec<Change>) {
        let store = bootstrap::open_store(&self.layout.data(), None).unwrap();
        let callbacks = Callbacks::new(|_: Vec<()>, _| {});
        let committer = store.start(Epoch { term: 4, node: 1 }, callbacks).unwrap();
        committer.submit(changes, ()).unwrap();
        committer.close().unwrap();
    }

    fn export(&self, sealed: bool) -> PathBuf {
        let file = self.dir.path().join(format!("export-{}", Uuid::new_v4()));
        let phrase = sealed.then(|| Secret::new(PHRASE.to_owned()));
        at_rest::export(&self.layout, &file, phrase.as_ref(), NOW).unwrap();
        file
    }

    /// A machine that has nothing.
    fn machine(&self) -> Layout {
        Layout::new(self.dir.path().join(Uuid::new_v4().to_string()))
    }
}

fn wanted(file: &Path) -> Import {
    Import { file: file.to_owned(), node: name("n1.example"), segment_bytes: Some(1 << 20) }
}

fn told(result: Result<Imported, ImportError>) -> String {
    stdx::daemon::chain(&result.unwrap_err())
}

fn read<T: serde::de::DeserializeOwned>(layout: &Layout, name: &str) -> T {
    serde_json::from_slice(&std::fs::read(layout.data().join(name)).unwrap()).unwrap()
}

#[test]
fn a_cluster_without_secrets_gets_a_new_authority() {
    let lost = Lost::begin();
    let (file, machine) = (lost.export(false), lost.machine());
    let wanted = Import { node: name("n1"), ..wanted(&file) };
    let imported = import(&machine, &wanted, never, LATER).unwrap();
    assert_eq!(imported.me, name("n1.example"));
    assert_eq!((imported.unfinished, imported.others, imported.kept_identity), (1, 1, false));
    assert!(imported.told().contains("has a new authority: 1 other nodes"));
    let (identity, membership) = NodeIdentity::load(&machine).unwrap();
    let (before, _) = NodeIdentity::load(&lost.layout).unwrap();
    assert_ne!(identity.fingerprint(), before.fingerprint());
    assert!(!machine.data().join("crypts/S1/disk").exists());

    let store = bootstrap::open_store(&machine.data(), None).unwrap();
    let found = load::load(&store.reader()).unwrap();
    let authority = load::authority(&store.reader()).unwrap().unwrap();
    assert!(Authority::with_key(&machine, &authority).is_ok());
    let config = &found.config;
    assert_eq!(config.role.master, name("n1.example"));
    // Beyond whatever was elected, and given out, since the export.
    let steps = Steps::at(LATER);
    assert!(
        steps.term > 9 * TERM_STEP && steps.node_id > NODE_ID_STEP && steps.job_id > JOB_IDS_UNSEEN
    );
    assert_eq!(config.cluster.first_term, config.role.term);
    assert!(config.role.term > steps.term && membership.epoch.term == config.role.term);
    assert_eq!(config.cluster.uuid, read::<Cluster>(&lost.layout, "config/cluster").uuid);
    let role = |node: &str| config.nodes[&name(node)].role;
    assert_eq!((role("n1.example"), role("n2.example")), (NodeRole::Candidate, NodeRole::Offline));
    assert_eq!(config.nodes[&name("n1.example")].fingerprint, identity.fingerprint());
    let statuses: Vec<_> = found.jobs.iter().map(|job| job.ops[0].status).collect();
    assert_eq!(
        (statuses.as_slice(), found.serial),
        (&[OpStatus::Success, OpStatus::Error][..], steps.job_id + 2)
    );
    let before: Cluster = read(&lost.layout, "config/cluster");
    assert_eq!(config.cluster.next_node_id, before.next_node_id + steps.node_id);
}

#[test]
fn sealed_secrets_come_back_and_a_machine_that_has_its_certificate_keeps_it() {
    let lost = Lost::begin();
    let file = lost.export(true);
    let machine = lost.machine();
    let imported = import(&machine, &wanted(&file), phrase, LATER).unwrap();
    assert!(!imported.kept_identity);
    let authority = |layout: &Layout| std::fs::read(layout.ca_certificate()).unwrap();
    assert_eq!(authority(&machine), authority(&lost.layout));
    assert_eq!(std::fs::read(machine.data().join("crypts/S1/disk")).unwrap(), DISK_KEY.as_bytes());

    let (before, membership) = NodeIdentity::load(&lost.layout).unwrap();
    std::fs::remove_dir_all(lost.layout.data()).unwrap();
    let imported = import(&lost.layout, &wanted(&file), phrase, LATER).unwrap();
    assert!(imported.kept_identity);
    let (after, now) = NodeIdentity::load(&lost.layout).unwrap();
    assert_eq!(after.fingerprint(), before.fingerprint());
    assert!(now.epoch > membership.epoch);
    let node: Node = read(&lost.layout, "config/nodes/n1.example");
    assert_eq!(node.fingerprint, before.fingerprint());
}

#[test]
fn what_cannot_be_imported_leaves_the_machine_as_it_was() {
    let lost = Lost::begin();
    let (file, machine) = (lost.export(true), lost.machine());
    let wrong = || Ok(Some(Secret::new("another horse".to_owned())));
    let refused = told(import(&machine, &wanted(&file), wrong, LATER));
    assert!(refused.contains("the passphrase is not the one"), "{refused}");
    let refused = told(import(&machine, &wanted(&file), || Ok(None), LATER));
    assert!(refused.contains("--passphrase-file"), "{refused}");
    let stranger = Import { node: name("n7.example"), ..wanted(&file) };
    let refused = told(import(&machine, &stranger, phrase, LATER));
    assert!(refused.contains("n1.example, n2.example"), "{refused}");

    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = lost.dir.path().join("damaged");
    stdx::atomic::write(&damaged, &bytes, 0o600).unwrap();
    let refused = told(import(&machine, &wanted(&damaged), phrase, LATER));
    assert!(refused.contains("damaged"), "{refused}");
    stdx::atomic::write(&damaged, &bytes[..middle], 0o600).unwrap();
    let refused = told(import(&machine, &wanted(&damaged), phrase, LATER));
    assert!(refused.contains("cut off"), "{refused}");
    assert!(!machine.root().exists());
    import(&machine, &wanted(&file), phrase, LATER).unwrap();
}

#[test]
fn a_store_is_never_imported_over() {
    let lost = Lost::begin();
    let file = lost.export(false);
    let before = std::fs::read(lost.layout.data().join("config/cluster")).unwrap();
    let refused = told(import(&lost.layout, &wanted(&file), never, LATER));
    assert!(refused.contains("belongs to a cluster already"), "{refused}");
    assert_eq!(std::fs::read(lost.layout.data().join("config/cluster")).unwrap(), before);

    // Nor where only the journal has it.
    let machine = lost.machine();
    import(&machine, &wanted(&file), never, LATER).unwrap();
    let store = bootstrap::open_store(&machine.data(), None).unwrap();
    let callbacks = Callbacks::new(|_: Vec<()>, _| {});
    let committer = store.start(Epoch { term: 50 * TERM_STEP, node: 1 }, callbacks).unwrap();
    committer.submit(vec![put("ipam", "{}")], ()).unwrap();
    let refused = told(import(&machine, &wanted(&file), never, LATER));
    assert!(refused.contains("belongs to a cluster already"), "{refused}");
    committer.close().unwrap();

    // Nor over files whose store is gone.
    std::fs::remove_file(machine.data().join("store.json")).unwrap();
    std::fs::remove_file(machine.data().join("config/cluster")).unwrap();
    let refused = told(import(&machine, &wanted(&file), never, LATER));
    assert!(refused.contains("no store to which it belongs"), "{refused}");
    assert!(machine.data().join("queue/job-1").exists());

    // Nor is another node or cluster forgotten.
    let other = Lost::begin();
    std::fs::remove_dir_all(other.layout.data()).unwrap();
    let refused = told(import(&other.layout, &wanted(&file), never, LATER));
    assert!(refused.contains("is the node n1.example of the cluster"), "{refused}");
    std::fs::remove_dir_all(lost.layout.data()).unwrap();
    let second = Import { node: name("n2.example"), ..wanted(&file) };
    let refused = told(import(&lost.layout, &second, never, LATER));
    assert!(refused.contains("--node-name n1.example"), "{refused}");
}

#[test]
fn an_export_writes_over_no_file_and_leaves_none_that_is_not_whole() {
    let lost = Lost::begin();
    let file = lost.export(false);
    let before = std::fs::read(&file).unwrap();
    let again = at_rest::export(&lost.layout, &file, None, NOW).unwrap_err();
    assert!(stdx::daemon::chain(&again).contains("exists"), "{again}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    let short = Secret::new("horse".to_owned());
    let other = lost.dir.path().join("other");
    let refused = at_rest::export(&lost.layout, &other, Some(&short), NOW).unwrap_err();
    assert!(stdx::daemon::chain(&refused).contains("12 characters"), "{refused}");
    let nothing = at_rest::export(&lost.machine(), &other, None, NOW).unwrap_err();
    assert!(nothing.to_string().contains("there is no store"), "{nothing}");
    let names = std::fs::read_dir(lost.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.count(), 2);
}

#[test]
fn an_import_that_was_interrupted_is_made_anew() {
    let lost = Lost::begin();
    let file = lost.export(false);
    let machine = lost.machine();
    // As a crash leaves it: everything is there but what makes a cluster of it.
    import(&machine, &wanted(&file), never, LATER).unwrap();
    let store = bootstrap::open_store(&machine.data(), None).unwrap();
    let callbacks = Callbacks::new(|_: Vec<()>, _| {});
    let committer = store.start(Epoch { term: 50 * TERM_STEP, node: 1 }, callbacks).unwrap();
    let delete = |name: &str| Change::Delete { key: key(name) };
    let documents = ["config/cluster", "config/role", "config/authority"].map(delete);
    committer.submit(documents.to_vec(), ()).unwrap();
    committer.submit(vec![put("machines/stray", "{}")], ()).unwrap();
    committer.close().unwrap();

    let imported = import(&machine, &wanted(&file), never, LATER).unwrap();
    assert_eq!(imported.unfinished, 1);
    assert!(!machine.data().join("machines/stray").exists());
    let store = bootstrap::open_store(&machine.data(), None).unwrap();
    load::load(&store.reader()).unwrap();
}
