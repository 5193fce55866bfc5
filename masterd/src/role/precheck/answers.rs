//! Core: what an answer means, or that there is none.

use std::time::Duration;

use queue_format::Epoch;
use rpc::RpcError;
use rpc::calls::MasterViewed;
use rpc::client::{CertificateFault, Refusal};
use rpc::peer::control::{PeerLastJob, PeerPosition, PeerState};
use rpc::peer::{PeerError, PeerFailureKind, RefusalReason};
use stdx::daemon::chain;
use uuid::Uuid;

use membership::amnesia::Found;
use membership::confirm::{AgentSays, Question, RoleEntry, Silence, StoreSays, Verdict};
use membership::job_ids::LastJob;

/// The name of a foreign cluster of which only the authority is known, by a node's certificate.
const FOREIGN: &str = "whose authority signed its certificate";

/// The answer of an agent of the cluster `ours`.
///
/// # Errors
/// It says nothing that can be used.
pub fn agent(ours: Uuid, answer: Result<MasterViewed, RpcError>) -> Result<AgentSays, Silence> {
    match answer {
        Ok(MasterViewed { obeys, master, cluster_uuid }) if cluster_uuid == ours => {
            Ok(AgentSays { obeys, master })
        }
        Ok(viewed) => Err(Silence::AnotherCluster { which: viewed.cluster_uuid.to_string() }),
        Err(error) => Err(no_agent(&error)),
    }
}

fn no_agent(error: &RpcError) -> Silence {
    let why = chain(error);
    match error {
        // The name of the node is said anyway.
        RpcError::Unreachable { address, error, .. } => {
            Silence::Unreachable { why: format!("its agent at {address}: {error}") }
        }
        RpcError::Refused {
            refusal: Refusal::Certificate { fault: CertificateFault::Foreign, .. },
            ..
        } => Silence::AnotherCluster { which: FOREIGN.to_owned() },
        RpcError::Offline { .. } | RpcError::Lost { .. } | RpcError::TimedOut { .. } => {
            Silence::Unreachable { why }
        }
        RpcError::Refused { .. }
        | RpcError::Failed { .. }
        | RpcError::Malformed { .. }
        | RpcError::AnswerTooLarge { .. } => Silence::Refused { why },
    }
}

/// The answer of a member's `masterd`.
///
/// # Errors
/// It says nothing that can be used.
pub fn store(answer: Result<PeerPosition, PeerError>) -> Result<StoreSays, Silence> {
    answer.map(|position| says(&position)).map_err(|error| no_store(&error))
}

fn no_store(error: &PeerError) -> Silence {
    let why = chain(error);
    match error {
        PeerError::Unreachable { address, error, .. } => {
            Silence::Unreachable { why: format!("its masterd at {address}: {error}") }
        }
        PeerError::Certificate { fault: CertificateFault::Foreign, .. } => {
            Silence::AnotherCluster { which: FOREIGN.to_owned() }
        }
        PeerError::Refused { refusal, .. } => match refusal.reason {
            RefusalReason::WrongCluster { cluster_uuid } => {
                Silence::AnotherCluster { which: cluster_uuid.to_string() }
            }
            _ => Silence::Refused { why },
        },
        PeerError::TimedOut { .. } | PeerError::Lost { .. } => Silence::Unreachable { why },
        PeerError::Certificate { .. }
        | PeerError::TooLarge { .. }
        | PeerError::Failed { .. }
        | PeerError::Malformed { .. } => Silence::Refused { why },
    }
}

/// Whether a member that said so is expected to say where it stands in a moment.
pub fn is_in_a_moment(error: &PeerError) -> bool {
    matches!(error, PeerError::Failed { failure, .. } if failure.kind == PeerFailureKind::NotNow)
}

/// The silence of a node that did not answer in time.
pub fn late(limit: Duration) -> Silence {
    Silence::Unreachable { why: format!("no answer within {} ms", limit.as_millis()) }
}

/// A member's position in the words of the check.
pub fn says(position: &PeerPosition) -> StoreSays {
    let PeerPosition { member, incarnation, last, .. } = *position;
    let found = match (&position.state, member, incarnation) {
        (PeerState::Damaged { why }, ..) => Found::Broken { why: why.clone() },
        (PeerState::Outside, ..) | (_, None, _) | (_, _, None) => Found::Nothing,
        (_, Some(member), Some(incarnation)) => Found::Store { member, incarnation, last },
    };
    let role = position.role.clone();
    StoreSays {
        found,
        committed: position.committed,
        vote: position.epoch,
        role: role.map(|role| RoleEntry { master: role.master, epoch: role.epoch }),
        leads: position.leads,
        disk_full: position.disk_full,
        last_job: position.last_job.map(last_job),
    }
}

/// The last job id by the files of a member.
pub fn last_job(PeerLastJob { id, from, upto }: PeerLastJob) -> LastJob {
    LastJob { id, from, upto }
}

/// The epoch under which the member `from` is asked to lead and to hand over. The member refuses an
/// epoch older than its own. A member that leads is asked under its own epoch, so that a master elected
/// while everyone was asked is told apart. Others are asked under the newest epoch of any believed
/// answer.
pub fn asked_under(question: &Question, verdict: &Verdict, from: u64) -> Epoch {
    let newest = || verdict.rows.iter().filter_map(|row| row.newest).max();
    leading(question, from).or_else(newest).unwrap_or_default()
}

/// The newest epoch of any log that counts. Votes do not count: a vote may have been given since, to a
/// master elected by it while everyone was asked.
pub fn newest_leadership(verdict: &Verdict) -> Epoch {
    let logs = verdict.rows.iter().filter_map(|row| row.position);
    logs.map(|last| last.epoch).max().unwrap_or_default()
}

/// Whether `member` says that it leads.
pub fn leads(question: &Question, member: u64) -> bool {
    leading(question, member).is_some()
}

/// The epoch in which `member` says that it leads.
fn leading(question: &Question, member: u64) -> Option<Epoch> {
    question.nodes.iter().find_map(|node| {
        node.member.as_ref().filter(|known| known.expected.member == member)?;
        let says = node.store.as_ref()?.as_ref().ok()?;
        says.leads.then_some(says.vote)
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;

    use model::NodeName;
    use model::node::NodeRole;
    use queue_format::Position;
    use rpc::FailureKind;
    use rpc::peer::control::PeerRole;
    use rpc::peer::{PeerFailure, PeerRefusal};

    use super::*;
    use membership::amnesia::Expected;
    use membership::confirm::{
        Asked, Attempt, Count, Decision, Member, Reached, Row, Voting, Waivers,
    };

    fn name() -> NodeName {
        "n3".parse().unwrap()
    }

    fn epoch(term: u64) -> Epoch {
        Epoch { term, node: 1 }
    }

    fn address() -> SocketAddr {
        "10.0.0.3:1811".parse().unwrap()
    }

    fn position() -> PeerPosition {
        PeerPosition {
            member: Some(3),
            incarnation: Some(Uuid::from_u128(3)),
            node: name(),
            last: Position { epoch: epoch(2), index: 9 },
            committed: Position { epoch: epoch(2), index: 8 },
            epoch: epoch(3),
            leader: None,
            voters: vec![1, 2, 3],
            changing: Vec::new(),
            learners: Vec::new(),
            role: Some(PeerRole { master: name(), epoch: epoch(2) }),
            leads: true,
            disk_full: true,
            state: PeerState::Standby,
            disk_free_mib: 0,
            last_job: None,
        }
    }

    fn told(silence: &Silence) -> String {
        match silence {
            Silence::Unreachable { why } => format!("unreachable: {why}"),
            Silence::Refused { why } => format!("refused: {why}"),
            Silence::AnotherCluster { which } => format!("another cluster: {which}"),
        }
    }

    #[test]
    fn what_agents_do_not_say() {
        let node = name();
        let refused = |refusal| RpcError::Refused { node: name(), refusal };
        let reason = "invalid peer certificate: UnknownIssuer".to_owned();
        let certificate = |fault| Refusal::Certificate { reason: reason.clone(), fault };
        let error = io::Error::from(io::ErrorKind::ConnectionRefused);
        let unknown = RpcError::Failed {
            node: name(),
            call: "master_view",
            kind: FailureKind::UnknownCall,
            message: "the call is not in the table".to_owned(),
            remedy: None,
        };
        let after = Duration::from_secs(5);
        for (error, wanted) in [
            (
                RpcError::Unreachable { node: name(), address: address(), error },
                "unreachable: its agent at 10.0.0.3:1811: connection refused",
            ),
            (
                RpcError::TimedOut { node, call: "master_view", after },
                "unreachable: node n3 did not answer `master_view` within 5 s",
            ),
            (
                refused(certificate(CertificateFault::Foreign)),
                "another cluster: whose authority signed its certificate",
            ),
            (
                refused(certificate(CertificateFault::NotAccepted)),
                "refused: node n3 and this one do not accept each other: certificate: invalid \
                 peer certificate: UnknownIssuer",
            ),
            (unknown, "refused: node n3, `master_view`: the call is not in the table"),
        ] {
            assert_eq!(told(&agent(Uuid::nil(), Err(error)).unwrap_err()), wanted);
        }
        let view =
            |uuid| MasterViewed { obeys: epoch(2), master: Some(name()), cluster_uuid: uuid };
        let ours = agent(Uuid::nil(), Ok(view(Uuid::nil()))).unwrap();
        assert_eq!(ours, AgentSays { obeys: epoch(2), master: Some(name()) });
        let other = agent(Uuid::nil(), Ok(view(Uuid::max()))).unwrap_err();
        assert!(told(&other).ends_with("ffffffffffff"), "{other:?}");
    }

    #[test]
    fn what_members_do_not_say() {
        let node = name();
        let refused = |reason| PeerError::Refused {
            node: name(),
            refusal: PeerRefusal::new(reason, "go away"),
        };
        let error = io::Error::from(io::ErrorKind::ConnectionRefused);
        let reason = "UnknownIssuer".to_owned();
        let cluster_uuid = Uuid::from_u128(9);
        for (error, wanted) in [
            (
                PeerError::Unreachable { node: name(), address: address(), error },
                "unreachable: its masterd at 10.0.0.3:1811: connection refused",
            ),
            (
                PeerError::Certificate { node: name(), reason, fault: CertificateFault::Foreign },
                "another cluster: whose authority signed its certificate",
            ),
            (
                refused(RefusalReason::WrongCluster { cluster_uuid }),
                "another cluster: 00000000-0000-0000-0000-000000000009",
            ),
            (refused(RefusalReason::Stranger), "refused: node n3 refused: go away"),
            (
                PeerError::Failed { node, failure: PeerFailure::not_now("ending") },
                "refused: masterd of node n3: ending",
            ),
        ] {
            assert_eq!(is_in_a_moment(&error), wanted.ends_with("ending"), "{error}");
            assert_eq!(told(&store(Err(error)).unwrap_err()), wanted);
        }
    }

    #[test]
    fn what_members_say() {
        let role = Some(RoleEntry { master: name(), epoch: epoch(2) });
        let (last, committed) = (position().last, position().committed);
        let found = Found::Store { member: 3, incarnation: Uuid::from_u128(3), last };
        let (leads, disk_full) = (true, true);
        let wanted =
            StoreSays { found, committed, vote: epoch(3), role, leads, disk_full, last_job: None };
        assert_eq!(store(Ok(position())).unwrap(), wanted);
        let found = |change: fn(&mut PeerPosition)| {
            let mut position = position();
            change(&mut position);
            says(&position).found
        };
        assert_eq!(found(|p| p.state = PeerState::Outside), Found::Nothing);
        assert_eq!(found(|p| p.member = None), Found::Nothing);
        assert_eq!(found(|p| p.incarnation = None), Found::Nothing);
        // A later version's word for what it is.
        assert!(matches!(found(|p| p.state = PeerState::Other), Found::Store { .. }));
        let why = "journal/2".to_owned();
        let broken = found(|p| p.state = PeerState::Damaged { why: "journal/2".to_owned() });
        assert_eq!(broken, Found::Broken { why });
    }

    fn row(newest: Option<Epoch>, position: Option<Position>) -> Row {
        Row {
            node: name(),
            role: NodeRole::Candidate,
            answer: Reached::Full,
            position,
            newest,
            master: None,
            counts_as_node: true,
            counts_as_voter: true,
            vote_is_missed: false,
            reason: None,
        }
    }

    fn verdict(rows: Vec<Row>) -> Verdict {
        let count = Count { answered: 2, of: 2 };
        Verdict { rows, nodes: count, voters: count, decision: Decision::Go }
    }

    /// Member 3 leads in epoch 3, member 1 follows, member 2 says nothing.
    fn question() -> Question {
        let asked = |member: u64, store| Asked {
            name: name(),
            role: NodeRole::Candidate,
            member: Some(Member {
                seat: Voting::Voter,
                witness: false,
                expected: Expected {
                    member,
                    incarnation: Uuid::from_u128(3),
                    acknowledged: Position::default(),
                },
            }),
            agent: Err(late(Duration::from_secs(5))),
            store: Some(store),
        };
        let leader = says(&position());
        let follower = StoreSays { leads: false, ..leader.clone() };
        let nodes = vec![
            asked(1, Ok(follower)),
            asked(2, Err(late(Duration::from_secs(5)))),
            asked(3, Ok(leader)),
        ];
        let (attempt, waivers) = (Attempt::Failover, Waivers::default());
        let (voters, later) = (Vec::new(), None);
        Question { attempt, waivers, taker: name(), next_member: 4, voters, later, nodes }
    }

    #[test]
    fn who_says_that_it_leads() {
        let told = [1, 2, 3, 4].map(|member| leads(&question(), member));
        assert_eq!(told, [false, false, true, false]);
    }

    #[test]
    fn who_leads_is_asked_under_its_own_epoch_and_all_others_under_the_newest() {
        let all =
            verdict(vec![row(Some(epoch(3)), None), row(Some(epoch(4)), None), row(None, None)]);
        // By epoch 4 somebody may have been elected since.
        assert_eq!(asked_under(&question(), &all, 3), epoch(3));
        assert_eq!(asked_under(&question(), &all, 1), epoch(4));
        assert_eq!(asked_under(&question(), &verdict(Vec::new()), 2), Epoch::default());
    }

    #[test]
    fn the_newest_leadership_is_that_of_a_log_and_no_vote() {
        let last = |term| Some(Position { epoch: epoch(term), index: 9 });
        let all = verdict(vec![row(Some(epoch(4)), last(2)), row(Some(epoch(3)), last(3))]);
        assert_eq!(newest_leadership(&all), epoch(3));
        assert_eq!(newest_leadership(&verdict(vec![row(Some(epoch(4)), None)])), Epoch::default());
    }
}
