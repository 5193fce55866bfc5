//! Opcodes that do not end by themselves, through days that pass at once.

use luxi::method::{CancelJob, QueryJobs, SubmitJob};
use model::{JobId, JobStatus};
use serde_json::Value;
use tokio::time::Instant;

use super::*;

/// Longer than any opcode may take: two sleeps of as long as one may be.
const ENDLESS: &str = r#"[{"OP_ID": "OP_TEST_DELAY", "duration": 86400, "repeat": 2,
    "no_locks": false}]"#;
/// Wants the locks of the other one.
const NEXT: &str = r#"[{"OP_ID": "OP_TEST_DELAY", "duration": 0, "no_locks": false}]"#;
const HOUR: Duration = Duration::from_secs(3_600);
/// How often the store takes its steps, and jobs are looked at.
pub(super) const STEP: Duration = Duration::from_secs(10);
/// How exact that lets a test tell the time.
const MINUTE: Duration = Duration::from_secs(60);

/// How often a job is looked at, every ten seconds: for longer than a day.
const LOOKS_MAX: u32 = 10_000;

/// A client of a master.
pub(super) struct Scene {
    pub(super) client: client::Client,
    /// The parts with which the master works.
    pub(super) parts: Parts,
    pub(super) layout: Layout,
}

impl Scene {
    async fn submit(&self, ops: &str) -> JobId {
        self.client.ask(SubmitJob { ops: serde_json::from_str(ops).unwrap() }).await.unwrap()
    }

    async fn until(&self, id: JobId, status: JobStatus) {
        let call = QueryJobs { job_ids: Some(vec![id]), fields: ["status"].into() };
        let mut row = None;
        for _ in 0..LOOKS_MAX {
            row = self.client.ask(call.clone()).await.unwrap().remove(0);
            if row.as_ref().unwrap()[0] == status.as_str() {
                return;
            }
            tokio::time::sleep(STEP).await;
        }
        panic!("job {id} is {row:?}, not {status:?}");
    }

    async fn results(&self, id: JobId) -> Value {
        let call = QueryJobs { job_ids: Some(vec![id]), fields: ["opresult"].into() };
        self.client.ask(call).await.unwrap().remove(0).unwrap().remove(0)
    }
}

/// Plays a scene with a master whose store takes its steps now and then.
pub(super) fn play(scene: impl AsyncFnOnce(&Scene)) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let history = History::new(1);
        let store = Store::open_simulated(&history.disk, options()).unwrap();
        let found = load::load(&store.reader()).unwrap();
        let layout = &ground().layout;
        let keys = ground().keys();
        let me = daemon::check_role(&found.config, keys.identity.name()).unwrap();
        let hand = Mutex::new(None);
        let played = async {
            let clock = &history.clock;
            let master = take_role(store, found, me, clock, &hand).await.unwrap();
            let committer = Arc::clone(&master.commits);
            let daemon = Daemon::start(master, layout, keys, clock);
            let told = (Arc::clone(&history.oracle), Excuse::Disk(history.disk.clone()));
            let service = Arc::clone(&daemon.service);
            let client = client::Client::new(0, service, Chance::new(0), told);
            let (parts, layout) = (daemon.parts.clone(), daemon.layout.clone());
            scene(&Scene { client, parts, layout }).await;
            daemon.stop().await;
            committer
        };
        let steps = async {
            loop {
                if let Some(hand) = hand.lock().as_mut() {
                    for step in [Step::Log, Step::Files] {
                        hand.take(step).unwrap();
                    }
                }
                tokio::time::sleep(STEP).await;
            }
        };
        let committer = tokio::select! {
            committer = played => committer,
            () = steps => unreachable!("the steps have no end"),
        };
        hand.into_inner().unwrap().finish().unwrap();
        drop(committer);
    });
}

#[test]
fn an_opcode_that_does_not_end_within_a_day_is_given_up_and_its_locks_are_free() {
    play(async |scene| {
        let endless = scene.submit(ENDLESS).await;
        scene.until(endless, JobStatus::Running).await;
        let begun = Instant::now();
        tokio::time::sleep(HOUR).await;
        let next = scene.submit(NEXT).await;
        scene.until(next, JobStatus::Waiting).await;
        scene.until(endless, JobStatus::Error).await;
        let took = begun.elapsed();
        assert!(took > 24 * HOUR - MINUTE && took < 24 * HOUR + MINUTE, "{took:?}");
        let why = scene.results(endless).await[0].to_string();
        assert!(why.contains("OP_TEST_DELAY did not end within 24 hours"), "{why}");
        scene.until(next, JobStatus::Success).await;
    });
}

#[test]
fn an_opcode_that_does_not_end_is_killed_at_once() {
    play(async |scene| {
        let endless = scene.submit(ENDLESS).await;
        scene.until(endless, JobStatus::Running).await;
        let next = scene.submit(NEXT).await;
        scene.until(next, JobStatus::Waiting).await;
        tokio::time::sleep(10 * HOUR).await;
        let begun = Instant::now();
        let (done, told) =
            scene.client.ask(CancelJob { job_id: endless, kill: true }).await.unwrap();
        assert!(done, "{told}");
        scene.until(next, JobStatus::Success).await;
        assert!(begun.elapsed() < MINUTE);
        let why = scene.results(endless).await[0].to_string();
        assert!(why.contains("Job killed by request"), "{why}");
    });
}
