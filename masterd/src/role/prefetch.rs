//! Reads the jobs of a store before its member leads, so that nobody waits for that between two
//! masters, however many there are. Serves the change of master.

use std::pin::Pin;

use engine::{Engine, Noting};
use futures_util::future::{self, BoxFuture, MaybeDone};
use model::Job;
use queue_format::Reader;
use stdx::daemon::chain;

use jobs::load::ArchivedRequests;

use super::load::{self, Found, FoundError};

/// Live jobs, and what archived ones say of their requests.
type Jobs = (Vec<Job>, ArchivedRequests);

/// Jobs that are being read, or why they do not read.
type Reading = BoxFuture<'static, Result<Jobs, String>>;

/// Jobs that are read while the store still changes, and what tells which of them did.
pub(crate) struct Prefetch {
    noting: Noting,
    jobs: MaybeDone<Reading>,
}

impl Prefetch {
    /// Begins to read the live jobs, and the requests of archived ones, beside all else.
    pub(crate) fn begin(engine: &Engine) -> Self {
        let (noting, reader) = (engine.note_changes(), engine.reader());
        let reading = stdx::apart(move || {
            let jobs = ::jobs::load::jobs(&reader)?;
            let requests = ArchivedRequests::ahead(&reader, &jobs)?;
            Ok::<Jobs, FoundError>((jobs, requests))
        });
        let jobs = async {
            match reading.await {
                Ok(read) => read.map_err(|error| chain(&error)),
                Err(error) => Err(chain(&error)),
            }
        };
        let jobs: Reading = Box::pin(jobs);
        Self { noting, jobs: future::maybe_done(jobs) }
    }

    /// Waits until they are read.
    ///
    /// # Errors
    /// Why one does not read.
    pub(crate) async fn done(&mut self) -> Result<(), String> {
        (&mut self.jobs).await;
        match Pin::new(&mut self.jobs).output_mut() {
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Reads what changed since, and all else; nothing must change meanwhile.
    ///
    /// # Errors
    /// As [`load::load`].
    pub(crate) async fn load(mut self, reader: &Reader) -> Result<Found, FoundError> {
        (&mut self.jobs).await;
        let jobs = Pin::new(&mut self.jobs).take_output().and_then(Result::ok);
        stdx::aside(|| match jobs.zip(self.noting.changed()) {
            Some((jobs, changed)) => load::load_behind(reader, jobs, &changed),
            None => load::load(reader),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use bytes::Bytes;
    use engine::EngineOptions;
    use model::OpStatus;
    use model::job::RequestDigest;
    use model::layout::Layout;
    use model::opcode::Input;
    use model::{JobId, OpInput, document};
    use queue_format::{Batch, Change, Epoch, Key, Store, StoreOptions};

    use super::*;
    use crate::store::bootstrap;
    use crate::testing::{NOW, Nobody, first_node};

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    /// A job that ended, or did not.
    fn put(id: u64, ended: bool) -> Change {
        let input = OpInput::parse(r#"{"OP_ID":"OP_TEST_DELAY","duration":0}"#).unwrap();
        let mut job = Job::new(JobId(id), [Arc::new(Input::Known(Box::new(input)))], NOW);
        job.request = Some(RequestDigest::of("SubmitJob", 0, b"[]").at(u32::try_from(id).unwrap()));
        if ended {
            job.ops[0].status = OpStatus::Success;
        }
        let content = Bytes::from(serde_json::to_vec(&job).unwrap());
        Change::Put { key: key(&document::job(job.id)), content }
    }

    async fn change(engine: &Engine, epoch: Epoch, changes: Vec<Change>) {
        engine.propose(epoch, Batch(changes)).await.unwrap();
    }

    fn ids_and_ends(found: &Found) -> Vec<(u64, bool)> {
        found.jobs.iter().map(|job| (job.id.0, job.status().is_final())).collect()
    }

    fn archive(id: u64) -> Change {
        let [from, to] = [document::job(JobId(id)), document::archived_job(JobId(id))];
        Change::Move { from: key(&from), to: key(&to) }
    }

    /// A store with the first nine of at most twenty jobs, and the epoch in which it is led.
    async fn led(layout: &Layout) -> (Arc<Engine>, Epoch) {
        bootstrap::init(layout, &first_node(), NOW).unwrap();
        let store = StoreOptions { segment_bytes: 1 << 20, ..StoreOptions::default() };
        let options = EngineOptions::new(1, "n1.example", store);
        let opened = Engine::open(&layout.data(), options, Arc::new(Nobody)).await;
        let (engine, _committed) = opened.unwrap();
        let engine = Arc::new(engine);
        let epoch = engine.take_over(std::time::Duration::from_secs(60)).await.unwrap();
        let serial = Change::Put { key: key(document::QUEUE_SERIAL), content: "20\n".into() };
        change(&engine, epoch, (1..=9).map(|id| put(id, false)).chain([serial]).collect()).await;
        (engine, epoch)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn requests_of_archived_jobs_are_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path());
        let (engine, epoch) = led(&layout).await;
        change(&engine, epoch, [1, 2, 3].map(archive).into()).await;
        let reader = engine.reader();
        let mut ahead = Prefetch::begin(&engine);
        ahead.done().await.unwrap();
        let gone = Change::Delete { key: key(&document::archived_job(JobId(2))) };
        change(&engine, epoch, vec![archive(5), gone, put(12, false)]).await;
        let Found { jobs, serial, requests, .. } = ahead.load(&reader).await.unwrap();
        let known = |reader: &Reader| {
            let known = jobs::load::requests(reader, &jobs, serial, requests.clone()).unwrap();
            known.iter().map(|remembered| remembered.job.0).collect::<BTreeSet<u64>>()
        };
        assert_eq!(known(&reader), BTreeSet::from([1, 3, 4, 5, 6, 7, 8, 9, 12]));
        // Requests that were read before stay known where nothing can be read any more.
        let empty = Store::open(&dir.path().join("empty"), StoreOptions::default()).unwrap();
        assert_eq!(known(&empty.reader()), BTreeSet::from([1, 3, 4, 6, 7, 8, 9, 12]));
        engine.close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_changed_since_it_was_read_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (engine, epoch) = led(&Layout::new(dir.path())).await;
        let mut ahead = Prefetch::begin(&engine);
        ahead.done().await.unwrap();
        let archived = |id| key(&document::archived_job(JobId(id)));
        change(&engine, epoch, vec![put(3, true), archive(5), put(12, false)]).await;
        change(&engine, epoch, vec![Change::Delete { key: archived(5) }, archive(1)]).await;
        change(&engine, epoch, vec![put(11, true), put(3, false), put(4, true)]).await;
        let reader = engine.reader();
        let found = ahead.load(&reader).await.unwrap();
        let others = [2, 3, 6, 7, 8, 9].map(|id| (id, false));
        let mut wanted = [others.as_slice(), &[(4, true), (11, true), (12, false)]].concat();
        wanted.sort_unstable();
        assert_eq!(ids_and_ends(&found), wanted);
        assert_eq!(ids_and_ends(&load::load(&reader).unwrap()), wanted);
        // Without word of what changed, everything is read.
        let ahead = Prefetch::begin(&engine);
        change(&engine, epoch, vec![put(2, true)]).await;
        drop(engine.note_changes());
        let found = ahead.load(&reader).await.unwrap();
        assert!(ids_and_ends(&found).contains(&(2, true)));

        let broken = Change::Put { key: key("queue/job-6"), content: "half".into() };
        change(&engine, epoch, vec![broken]).await;
        let mut ahead = Prefetch::begin(&engine);
        let why = ahead.done().await.unwrap_err();
        assert!(why.contains("queue/job-6"), "{why}");
        assert_eq!(chain(&ahead.load(&reader).await.unwrap_err()), why);
        engine.close().await.unwrap();
    }
}
