//! The word that something is committed goes with the next entries. Serves replication, below `network`.

use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use openraft::OptionalSend;
use openraft::raft::AppendEntriesRequest;
use tokio::time::Instant;

use crate::types::TypeConfig;

/// How long the word on what is committed may wait for entries to go with. Under load the next ones come
/// within a commit. Without load a tenth of a heartbeat is soon enough for followers' files.
const HELD_MAX: Duration = Duration::from_millis(20);

type Request = AppendEntriesRequest<TypeConfig>;

/// The requests of `input`, without those that bring no entries and that another one follows within
/// [`HELD_MAX`], since each says what is committed by then.
///
/// After every commit the engine has such a request for every follower. A follower would first write the
/// entries before, and its answer to the next ones would wait for that.
pub(super) fn gathered<S>(input: S) -> impl Stream<Item = Request> + OptionalSend + Unpin + 'static
where
    S: Stream<Item = Request> + OptionalSend + Unpin + 'static,
{
    Box::pin(stream::unfold(input.fuse(), async |mut input| {
        let mut request = input.next().await?;
        let until = Instant::now() + HELD_MAX;
        while request.entries.is_empty()
            && let Ok(Some(next)) = tokio::time::timeout_at(until, input.next()).await
        {
            request = next;
        }
        Some((request, input))
    }))
}

#[cfg(test)]
mod tests {
    use openraft::entry::RaftEntry;
    use queue_format::{Epoch, Position};
    use tokio::sync::mpsc;

    use super::*;
    use crate::types::{LogEntry, Payload, Vote, log_id};

    fn at(index: u64) -> Position {
        Position { epoch: Epoch { term: 1, node: 1 }, index }
    }

    /// A request that says that all before entry `index` is committed, with that entry or without.
    fn request(index: u64, entry: bool) -> Request {
        let before = log_id(at(index - 1));
        let id = log_id(at(index)).expect("it has an index");
        let entries = entry.then(|| LogEntry::new(id, Payload::Blank)).into_iter().collect();
        let vote = Vote::new_committed(1, 1);
        Request { vote, prev_log_id: before, entries, leader_commit: before }
    }

    fn told(request: &Request) -> (u64, usize) {
        (request.leader_commit.map_or(0, |id| id.index()), request.entries.len())
    }

    fn channel() -> (mpsc::Sender<Request>, impl Stream<Item = Request> + Unpin) {
        let (tell, told) = mpsc::channel(8);
        let input = stream::unfold(told, async |mut told: mpsc::Receiver<Request>| {
            told.recv().await.map(|request| (request, told))
        });
        (tell, gathered(Box::pin(input)))
    }

    #[tokio::test(start_paused = true)]
    async fn entries_go_at_once_and_take_the_word_with_them() {
        let (tell, mut requests) = channel();
        let begun = Instant::now();
        for (index, entry) in [(3, true), (4, false), (4, true), (5, false), (6, false), (7, true)]
        {
            tell.send(request(index, entry)).await.unwrap();
        }
        for wanted in [3, 4, 7] {
            assert_eq!(told(&requests.next().await.unwrap()), told(&request(wanted, true)));
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_word_goes_alone_where_nothing_follows() {
        let (tell, mut requests) = channel();
        let begun = Instant::now();
        tell.send(request(4, false)).await.unwrap();
        assert_eq!(told(&requests.next().await.unwrap()), told(&request(4, false)));
        assert_eq!(begun.elapsed(), HELD_MAX);
        // Later ones do not put it off.
        tell.send(request(5, false)).await.unwrap();
        let later = async {
            for index in 6..60 {
                tokio::time::sleep(HELD_MAX / 4).await;
                tell.send(request(index, false)).await.unwrap();
            }
        };
        let begun = Instant::now();
        tokio::select! {
            _ = requests.next() => assert_eq!(begun.elapsed(), HELD_MAX),
            () = later => panic!("it was put off"),
        }
        // The last one goes when there is nothing to wait for.
        let begun = Instant::now();
        tell.send(request(70, false)).await.unwrap();
        drop(tell);
        while requests.next().await.is_some() {}
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
