//! The changing calls that each running opcode has made, so that the log of a canceled one tells what
//! agents did.

use std::collections::{BTreeMap, HashMap};

use model::{JobId, NodeName};
use parking_lot::Mutex;
use rpc::RpcError;
use rpc::calls::{Effect, Traits};

use super::Behalf;

/// Nodes that a log line names; more would not be read.
const NODES_TOLD_MAX: usize = 32;

/// Whether each call to each node is known to be done. At most one entry for each call and node.
type Calls = BTreeMap<(&'static str, NodeName), bool>;

/// The calls of the jobs that run.
#[derive(Debug, Default)]
pub struct Made(Mutex<HashMap<JobId, Calls>>);

impl Made {
    /// Records the calls of a job from here on.
    pub fn record(&self, job: JobId) {
        self.0.lock().entry(job).or_default();
    }

    /// Records no more calls of a job.
    pub fn forget(&self, job: JobId) {
        self.0.lock().remove(&job);
    }

    /// Makes a call, and records it.
    pub(super) async fn during<T>(
        &self,
        behalf: Option<Behalf>,
        (node, traits): (&NodeName, Traits),
        call: impl Future<Output = Result<T, RpcError>>,
    ) -> Result<T, RpcError> {
        let Some((job, _)) = behalf.filter(|_| traits.effect == Effect::Changes) else {
            return call.await;
        };
        let key = (traits.name, node.clone());
        if let Some(calls) = self.0.lock().get_mut(&job) {
            calls.insert(key.clone(), false);
        }
        let reply = call.await;
        if let Some(calls) = self.0.lock().get_mut(&job) {
            match &reply {
                Ok(_) => {
                    calls.insert(key, true);
                }
                Err(error) if error.certainly_not_done() => {
                    calls.remove(&key);
                }
                Err(_) => {}
            }
        }
        reply
    }

    /// The work of a job that changed no configuration, for its log.
    pub fn told(&self, job: JobId) -> String {
        self.0.lock().get(&job).map_or_else(|| told(&Calls::new()), told)
    }
}

fn told(calls: &Calls) -> String {
    if calls.is_empty() {
        return "Canceled before anything was changed".to_owned();
    }
    let list = |wanted: bool| {
        let of = calls.iter().filter(|(_, done)| **done == wanted);
        let mut words: Vec<String> =
            of.map(|((call, node), _)| format!("{call} on {node}")).collect();
        let more = words.len().saturating_sub(NODES_TOLD_MAX);
        words.truncate(NODES_TOLD_MAX);
        words.extend((more > 0).then(|| format!("{more} more")));
        words.join(", ")
    };
    let part = |begin: &str, words: String| match words.as_str() {
        "" => String::new(),
        told => format!(". {begin}: {told}"),
    };
    let (done, open) =
        (part("Agents carried out", list(true)), part("Agents may have carried out", list(false)));
    format!("Canceled; the configuration was not changed{done}{open}")
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use rpc::Call as _;
    use rpc::calls::{RackPush, Version};

    use super::*;

    #[tokio::test]
    async fn what_agents_did_is_told() {
        let (made, job) = (Made::default(), JobId(1));
        let (first, second): (NodeName, NodeName) = ("n1".parse().unwrap(), "n2".parse().unwrap());
        let behalf = Some((job, 0));
        let done = async { Ok(()) };
        made.during(behalf, (&first, RackPush::TRAITS), done).await.unwrap();
        assert_eq!(
            made.told(job),
            "Canceled before anything was changed",
            "nobody asked to record"
        );

        made.record(job);
        made.during(behalf, (&first, Version::TRAITS), async { Ok(()) }).await.unwrap();
        assert_eq!(made.told(job), "Canceled before anything was changed", "it only reads");
        made.during(behalf, (&first, RackPush::TRAITS), async { Ok(()) }).await.unwrap();
        {
            let hangs = std::future::pending::<Result<(), RpcError>>();
            let mut call = Box::pin(made.during(behalf, (&second, RackPush::TRAITS), hangs));
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(
            made.told(job),
            "Canceled; the configuration was not changed. Agents carried out: rack_push on n1. Agents \
             may have carried out: rack_push on n2"
        );
        let offline = async { Err::<(), _>(RpcError::Offline { node: second.clone() }) };
        made.during(behalf, (&second, RackPush::TRAITS), offline).await.unwrap_err();
        assert!(!made.told(job).contains("n2"), "{}", made.told(job));
        made.forget(job);
        assert_eq!(made.told(job), "Canceled before anything was changed");
    }
}
