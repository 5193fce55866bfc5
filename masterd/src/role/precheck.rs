//! Asking everyone before the master role is taken (decision 5, point 9): the agent of each node, and
//! `masterd` of each member, all at the same time. The answers form the question that
//! [`membership::confirm`] judges.
//!
//! In reading order: [`answers`] says what an answer, or none, means; [`members`] who has which seat;
//! [`table`] tells a verdict to people.

pub mod answers;
pub mod members;
pub mod table;

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::NodeName;
use model::node::Node;
use queue_format::Epoch;
use rpc::calls::{Call as _, MasterView, TimeClass};
use rpc::peer::ControlCall as _;
use rpc::peer::control::{AskPosition, PeerPosition};
use rpc::{Client, Meta, NodeTarget};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::agents::metrics::Metrics;
use crate::config::Config;
use membership::confirm::{
    AgentSays, Asked, Attempt, Later, Question, Silence, StoreSays, Waivers, confirm,
};
use membership::peers::PeerBook;

/// Questions under way at the same time. Each holds a connection, so they must fit the file limit of a
/// process. A cluster of a hundred silent nodes must be asked in one time limit.
const QUESTIONS_AT_ONCE: usize = 128;

/// Pause before a member is asked again that just opens its store anew, which takes a tenth of a second
/// where nothing is behind.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The asker of one node, with its ways to the others.
#[derive(Debug, Clone)]
pub struct Asker {
    pub me: NodeName,
    pub cluster_uuid: Uuid,
    /// The way to agents.
    pub agents: Client,
    /// The way to `masterd` of other nodes.
    pub book: PeerBook,
    /// How long each answer is waited for.
    pub limit: Duration,
    /// How long all answers are waited for where enough are there to go on. A dead machine does not
    /// announce itself, and everybody waits for the new master.
    pub patience: Duration,
    /// A later leadership, reported before, that the own store does not know.
    pub later: Option<Later>,
    /// Counts questions.
    pub metrics: Arc<Metrics>,
}

/// The outcome of one question.
enum PeerStatuses {
    Agent(Result<AgentSays, Silence>),
    Store(Result<StoreSays, Silence>),
}

impl Asker {
    /// An asker that waits for each answer as long as the time class of the questions allows.
    pub fn new(
        me: NodeName,
        cluster_uuid: Uuid,
        (agents, book): (Client, PeerBook),
        metrics: Arc<Metrics>,
    ) -> Self {
        let limit = TimeClass::Urgent.limit();
        Self { me, cluster_uuid, agents, book, limit, patience: limit, later: None, metrics }
    }

    async fn agent(&self, node: &Node, epoch: Epoch) -> Result<AgentSays, Silence> {
        let target = NodeTarget::from(node);
        let call = self.agents.call(&target, MasterView {}, Meta { epoch, job: None });
        let begun = Instant::now();
        match tokio::time::timeout(self.limit, call).await {
            Ok(answer) => {
                self.metrics.called(
                    MasterView::TRAITS.name,
                    begun.elapsed(),
                    answer.as_ref().err(),
                );
                answers::agent(self.cluster_uuid, answer)
            }
            Err(_elapsed) => {
                self.metrics.called_in_vain(MasterView::TRAITS.name, begun.elapsed());
                Err(answers::late(self.limit))
            }
        }
    }

    async fn store(&self, node: &Node) -> Result<StoreSays, Silence> {
        let began = Instant::now();
        loop {
            let asked = async {
                let mut link = self.book.control(node)?;
                link.call_within(&AskPosition {}, self.limit).await
            };
            let begun = Instant::now();
            let answer = asked.await;
            let name = AskPosition::LINE.name;
            self.metrics.asked(name, begun.elapsed(), answer.as_ref().err());
            let in_a_moment = answer.as_ref().err().is_some_and(answers::is_in_a_moment);
            if !in_a_moment || began.elapsed() + ASK_AGAIN >= self.limit {
                return answers::store(answer);
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
}

/// Asks the agents of all nodes, also of offline ones, but not of ignored ones. Asks `masterd` of all
/// members, and of nodes that are to become members. For this node's own `masterd`, `own` is the answer;
/// it also tells whose word counts.
///
/// Takes as long as the slowest answer, or [`Asker::patience`] if the answers so far let the taker go
/// on. Takes at most twice [`Asker::limit`] for each `QUESTIONS_AT_ONCE` questions. May be dropped at
/// any await: then nobody is asked any more.
pub async fn ask(
    asker: &Asker,
    config: &Config,
    attempt: Attempt,
    waivers: Waivers,
    own: &PeerPosition,
) -> Question {
    let seats = members::Seats::of(config, &asker.me, own);
    let asked = |node: &Arc<Node>| {
        let member = seats.member(node);
        // An invited node that has not come may have an old store, in which it leads.
        let has_masterd = member.is_some() || node.member.is_some();
        Asked {
            name: node.name.clone(),
            role: node.role,
            agent: Err(answers::late(asker.patience)),
            store: has_masterd.then(|| Err(answers::late(asker.patience))),
            member,
        }
    };
    let nodes: Vec<Asked> = config.nodes.values().map(asked).collect();
    let (taker, next_member) = (asker.me.clone(), config.cluster.next_node_id);
    let voters = members::sets(own);
    let later = asker.later.clone();
    let mut question = Question { attempt, waivers, taker, next_member, voters, later, nodes };
    let places = Arc::new(Semaphore::new(QUESTIONS_AT_ONCE));
    let mut questions = JoinSet::new();
    for (at, node) in config.nodes.values().enumerate() {
        if node.name == asker.me {
            question.nodes[at].store = Some(Ok(answers::says(own)));
        } else if question.nodes[at].store.is_some() {
            let (asker, node, places) = (asker.clone(), Arc::clone(node), Arc::clone(&places));
            questions.spawn(async move {
                let _place = places.acquire_owned().await;
                (at, PeerStatuses::Store(asker.store(&node).await))
            });
        }
        if question.waivers.ignored.contains(&node.name) {
            continue;
        }
        let (asker, node, places) = (asker.clone(), Arc::clone(node), Arc::clone(&places));
        let epoch = own.epoch;
        questions.spawn(async move {
            let _place = places.acquire_owned().await;
            (at, PeerStatuses::Agent(asker.agent(&node, epoch).await))
        });
    }
    let patience = tokio::time::sleep(asker.patience);
    tokio::pin!(patience);
    let mut is_patient = true;
    while is_patient || !confirm(&question).decision.goes_on() {
        let joined = tokio::select! {
            biased;
            joined = questions.join_next() => joined,
            () = &mut patience, if is_patient => {
                is_patient = false;
                continue;
            }
        };
        match joined {
            Some(Ok((at, PeerStatuses::Agent(agent)))) => question.nodes[at].agent = agent,
            Some(Ok((at, PeerStatuses::Store(store)))) => question.nodes[at].store = Some(store),
            Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
            None => break,
        }
    }
    question
}

#[cfg(test)]
mod tests;
