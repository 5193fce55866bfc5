//! Answers to clients where no master is: the master, as far as is known, and the fate of the request
//! (`docs/luxi.md`, "Where the master is"). Serves `door`.

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use luxi::Response;
use luxi::response::{NotMaster, Unserved};
use model::cluster_status::StoreMissing;
use model::error::{ErrorCode, ExceptionKind};
use model::layout::Layout;
use model::ssconf::{self, MasterHint};
use model::{Code, Exception, NodeName};
use queue_format::store::is_headless;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::forwarding_client::NotForwarded;

/// How long a store takes at most to give way to another one, mostly.
const GOING_MAX: Duration = Duration::from_secs(10);
/// How long a candidate without a store waits for its master, mostly: that invites it within a second, and
/// tries again every five.
const INVITED_MAX: Duration = Duration::from_secs(60);

/// How long requests wait while it is not known yet who is master. A start takes a tenth of a second;
/// Ganeti's tools repeat what could not connect, and nothing that was refused.
const HELD_MAX: Duration = Duration::from_secs(5);

/// The answer where the client's node passes nothing on.
const NO_CANDIDATE: &str = "This node is no candidate";

/// The master's place, as a process that is none knows it.
#[derive(Debug, Clone)]
pub(super) struct Redirect {
    /// The newest role entry's.
    pub(super) master: Option<NodeName>,
    /// The role of this process, in words.
    pub(super) here: &'static str,
    /// Cancelled when this is so no longer: work under way there is given up.
    pub(super) moved: CancellationToken,
    /// Since when this is so.
    since: Instant,
}

impl Redirect {
    pub(super) fn new(master: Option<NodeName>, here: &'static str) -> Self {
        Self { master, here, moved: CancellationToken::new(), since: Instant::now() }
    }

    /// Waits until this is so no longer, if it may change soon: `me` is about to be master, or nobody is
    /// known to be. False if that did not happen within a bounded time.
    pub(super) async fn changes_soon(&self, me: &NodeName) -> bool {
        let is_open = self.master.as_ref().is_none_or(|master| master == me);
        is_open && timeout_at(self.since + HELD_MAX, self.moved.cancelled()).await.is_ok()
    }

    /// Why `me` does not answer, and passes nothing on.
    pub(super) fn words(&self, me: &NodeName) -> String {
        let here = self.here;
        match &self.master {
            Some(master) if master == me => format!(
                "{me} was the master last and is {here}: it is not confirmed yet; `gnt cluster \
                 status` tells what it waits for"
            ),
            Some(master) => format!(
                "{me} is {here}, and {master} is the master as far as it knows: ask there, or try \
                 again"
            ),
            None => format!("{me} is {here}, and knows no master yet: try again"),
        }
    }

    /// The answer to a client of `me` whose request `master` did not answer; it may change something if
    /// it `changes`.
    pub(super) fn not_passed(
        &self,
        (me, master): (&NodeName, &NodeName),
        address: IpAddr,
        changes: bool,
        why: &NotForwarded,
    ) -> Response {
        if why.is_too_long() {
            let text = format!(
                "The answer is longer than what {me}, a standby, passes on; ask for fewer objects \
                 or fewer fields, or ask on {master}"
            );
            let refusal = Exception::new(ExceptionKind::GenericError, text);
            return Response::failure(&refusal.coded(Code::ChangeTooLarge));
        }
        let known = format!("{master} is the master, as far as {me} ({}) knows", self.here);
        let (outcome, text) = if why.is_no_candidate() {
            let place = format!("{master} ({address})");
            (Unserved::Elsewhere, format!("{NO_CANDIDATE}: run it on {place}"))
        } else if !changes || why.certainly_not_done() {
            let text = format!(
                "{known}, and cannot be asked: {why}. Nothing was done; `gnt cluster status` tells \
                 how it stands"
            );
            (Unserved::Again, text)
        } else {
            let text = format!(
                "{known}, and was lost before it answered: {why}. It is not known whether this was \
                 done; look before you try again"
            );
            (Unserved::Unknown, text)
        };
        self.answer(me, Some(address), outcome, text)
    }

    /// The answer with this `text`.
    pub(super) fn answer(
        &self,
        me: &NodeName,
        address: Option<IpAddr>,
        outcome: Unserved,
        text: String,
    ) -> Response {
        let is_mine = self.master.as_ref() == Some(me);
        let master = self.master.clone().filter(|master| master != me);
        let about = NotMaster { outcome, master, address };
        let exception = match outcome {
            Unserved::Unknown => Exception::new(ExceptionKind::GenericError, text),
            Unserved::Again | Unserved::Elsewhere => Exception::prereq(text, ErrorCode::WrongState),
        };
        Response::not_master(&exception.coded(is_mine.then_some(Code::NotConfirmed)), &about)
    }
}

/// The machine-readable part beside the words of a master that does not answer as one.
pub(super) fn of_master(me: &NodeName, outcome: Unserved) -> NotMaster {
    NotMaster { outcome, master: Some(me.clone()), address: None }
}

/// The answer to a client whose request was running when the leadership of `me` ended.
pub(super) fn lost(me: &NodeName) -> Response {
    let text = format!(
        "{me} is no longer the master, and it is not known whether this was done; look on the new \
         master before you try again"
    );
    let about = NotMaster { outcome: Unserved::Unknown, master: None, address: None };
    Response::not_master(&Exception::new(ExceptionKind::GenericError, text), &about)
}

/// The answer to a client whose request comes when the leadership of `me` is over already.
pub(super) fn ceasing(me: &NodeName) -> Response {
    let text = format!(
        "{me} ceases to be the master: nothing was done; try again, here or on the next master"
    );
    let about = NotMaster { outcome: Unserved::Again, master: None, address: None };
    Response::not_master(&Exception::prereq(text, ErrorCode::WrongState), &about)
}

/// The answer to clients on a node without a store. Reads files.
pub(super) fn outside(me: &NodeName, layout: &Layout) -> Response {
    let invited = was_candidate(me, layout);
    let known = by_agent(layout);
    let (master, address) =
        known.as_ref().map(|known| (known.master.clone(), known.address)).unzip();
    let address = address.flatten();
    let others = known.as_ref().and_then(|known| known.others(Some(me)));
    let others = others.map(|others| format!("; other candidates: {others}")).unwrap_or_default();
    let place = match (&master, address) {
        (Some(master), Some(address)) => format!("{master} ({address})"),
        (Some(master), None) => master.to_string(),
        (None, _) => "the master node, which is not known here".to_owned(),
    };
    // Its agent was told by a leadership of its own, which ended without it.
    let is_mine = master.as_ref() == Some(me);
    let (outcome, text) = if is_mine {
        let text = format!(
            "{me} was the master, as its agent knows, and has no store any more: `gnt cluster status` here says \
             what to do{others}"
        );
        (Unserved::Elsewhere, text)
    } else if invited {
        let text = format!(
            "{me} is a candidate that has no copy of the store yet: run it on {place}, or try again{others}"
        );
        (Unserved::Again, text)
    } else {
        (Unserved::Elsewhere, format!("{NO_CANDIDATE}: run it on {place}{others}"))
    };
    let (master, address) =
        master.filter(|master| master != me).map(|name| (name, address)).unzip();
    let about = NotMaster { outcome, master, address: address.flatten() };
    let code = if is_mine { Code::StoreMissing } else { Code::WrongNode };
    Response::not_master(&Exception::prereq(text, ErrorCode::WrongState).coded(code), &about)
}

/// Whether `me` was a candidate when this machine was enrolled. Reads a file.
fn was_candidate(me: &NodeName, layout: &Layout) -> bool {
    let allowed = rpc::identity::load_membership(layout).map(|membership| membership.allow);
    allowed.is_ok_and(|list| list.callers.iter().any(|caller| caller.name == *me))
}

/// The store that `me` should have, and has not had for so long; none where there is to be none, or it may be
/// about to come. Reads files.
pub(super) fn store_missing(
    me: &NodeName,
    layout: &Layout,
    since: Duration,
) -> Option<StoreMissing> {
    if since < GOING_MAX {
        return None;
    }
    let known = by_agent(layout);
    let was_master = known.as_ref().is_some_and(|known| known.master == *me);
    let headless = is_headless(&layout.data());
    // Nobody invites the former master, and a store without a header is in the way of a new one.
    let is_stuck = was_master || headless || since >= INVITED_MAX;
    // Without the agent's files, the first role of the node is all there is.
    let is_candidate = || match &known {
        Some(known) => known.candidates.iter().any(|candidate| candidate.name == *me),
        None => was_candidate(me, layout),
    };
    let is_missing = was_master || is_stuck && is_candidate();
    is_missing.then(|| StoreMissing {
        was_master,
        headless: headless.then(|| layout.data().display().to_string()),
        others: known.as_ref().and_then(|known| others(known, me)),
    })
}

/// The candidates besides `me`, for a message.
fn others(known: &MasterHint, me: &NodeName) -> Option<String> {
    ssconf::listed(known.candidates.iter().filter(|candidate| candidate.name != *me))
}

/// Why a failover that is asked for on `me`, a node without a store, is none: where to ask for one.
/// Reads files.
pub(super) fn no_taker(me: &NodeName, layout: &Layout) -> String {
    let known = by_agent(layout);
    let candidates = known.as_ref().and_then(|known| others(known, me));
    let place = candidates.map_or_else(
        || "a candidate; which nodes those are is not known here".to_owned(),
        |candidates| format!("a candidate: {candidates}"),
    );
    format!("{me} is no master candidate: it has no store; run this on {place}")
}

/// The master's place by the files of this machine's agent.
fn by_agent(layout: &Layout) -> Option<MasterHint> {
    // Followed once: the link may be replaced meanwhile.
    let directory = fs::canonicalize(layout.ssconf()).ok()?;
    MasterHint::of(|name| fs::read_to_string(directory.join(name)).ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use luxi::method::QueryClusterInfo;
    use luxi::response::{self, Failure};
    use queue_format::Epoch;
    use rpc::calls::{self, AllowList, Membership};
    use rpc::peer::{PeerError, PeerFailure, PeerFailureKind};

    use super::*;

    fn read(answer: &Response) -> (String, NotMaster) {
        let bytes = answer.as_bytes();
        match response::read::<QueryClusterInfo>(&bytes[..bytes.len() - 1]) {
            Err(Failure::NotMaster { exception, about }) => (exception.message().to_owned(), about),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_node_that_is_no_candidate_says_where_to_go() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let me = "n4.example".parse().unwrap();
        let (text, about) = read(&outside(&me, &layout));
        assert_eq!(about, NotMaster { outcome: Unserved::Elsewhere, master: None, address: None });
        assert!(text.contains("not known here"), "{text}");
        let directory = layout.ssconf().with_file_name(".ssconf-1");
        fs::create_dir_all(&directory).unwrap();
        symlink(".ssconf-1", layout.ssconf()).unwrap();
        let tell = |name: &str, text: &str| {
            stdx::atomic::write(&directory.join(name), text.as_bytes(), 0o644).unwrap();
        };
        tell(ssconf::MASTER_NODE, "n1.example\n");
        tell(ssconf::MASTER_IP, "10.0.0.1\n");
        let (text, about) = read(&outside(&me, &layout));
        assert_eq!(text, "This node is no candidate: run it on n1.example (10.0.0.1)");
        assert_eq!(about.address, Some("10.0.0.1".parse().unwrap()));
        let print = "0".repeat(64);
        let (text, about) = read(&outside(&"n1.example".parse().unwrap(), &layout));
        assert!(text.contains("n1.example was the master"), "{text}");
        assert_eq!(about, NotMaster { outcome: Unserved::Elsewhere, master: None, address: None });
        let line = |at: u8| format!("n{at}.example 10.0.0.{at}:1817 {print}\n");
        tell(ssconf::PEERS, &(line(1) + &line(2)));
        let (text, _) = read(&outside(&me, &layout));
        let place = "run it on n1.example (10.0.0.1); other candidates: n2.example (10.0.0.2)";
        assert_eq!(text, format!("This node is no candidate: {place}"));
        let told = no_taker(&me, &layout);
        let place = "run this on a candidate: n1.example (10.0.0.1), n2.example (10.0.0.2)";
        assert!(told.ends_with(place), "{told}");
        // An invited node is among the candidates, and is not sent to itself.
        let told = no_taker(&"n2.example".parse().unwrap(), &layout);
        assert!(told.ends_with("run this on a candidate: n1.example (10.0.0.1)"), "{told}");
    }

    #[test]
    fn who_should_have_a_store_and_has_none_is_told() {
        const EPOCH: Epoch = Epoch { term: 1, node: 1 };
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let [n1, n2, n3] = ["n1.example", "n2.example", "n3.example"]
            .map(|name| name.parse::<NodeName>().unwrap());
        let missing = |me: &NodeName, since| {
            let missing = store_missing(me, &layout, since)?;
            Some((missing.was_master, missing.headless.is_some()))
        };
        let write = |path: std::path::PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            stdx::atomic::write(&path, text.as_bytes(), 0o644).unwrap();
        };
        let at_all = |wanted: [Option<(bool, bool)>; 3], since, why: &str| {
            assert_eq!([&n1, &n2, &n3].map(|me| missing(me, since)), wanted, "{why}");
        };
        at_all([None, None, None], INVITED_MAX, "nobody is a candidate");

        // n1 and n2 are candidates. The disk with the agent's files is not there.
        let print = "0".repeat(64);
        let callers = [&n1, &n2]
            .map(|name| calls::Caller { name: name.clone(), fingerprint: print.parse().unwrap() });
        let membership = Membership {
            cluster_uuid: uuid::Uuid::nil(),
            cluster_name: "c.example".parse().unwrap(),
            node: n1.clone(),
            node_id: 1,
            allow: AllowList { epoch: EPOCH, callers: callers.to_vec() },
            epoch: EPOCH,
            enrolled: Default::default(),
        };
        write(layout.membership(), &serde_json::to_string(&membership).unwrap());
        at_all([None, None, None], GOING_MAX, "it may be invited");
        let lacks = Some((false, false));
        at_all([lacks, lacks, None], INVITED_MAX, "nobody invited it");

        // n2 is none any more, and n3 is one.
        let line = |at: u8| format!("n{at}.example 10.0.0.{at}:1817 {print}\n");
        write(layout.ssconf().join(ssconf::MASTER_NODE), "n1.example\n");
        write(layout.ssconf().join(ssconf::PEERS), &(line(1) + &line(3)));
        let told = store_missing(&n1, &layout, GOING_MAX).unwrap();
        assert_eq!((told.was_master, told.headless), (true, None));
        assert_eq!(told.others.unwrap(), "n3.example (10.0.0.3)");
        at_all([None, None, None], Duration::ZERO, "another one may come");
        at_all([Some((true, false)), None, None], GOING_MAX, "nobody invites the master");
        at_all([Some((true, false)), None, lacks], INVITED_MAX, "nobody invited it");

        // A directory is not a journal.
        fs::create_dir_all(layout.data().join("journal")).unwrap();
        at_all([Some((true, false)), None, None], GOING_MAX, "there is no store");
        write(layout.data().join("journal/segment-0"), "x");
        at_all([Some((true, true)), None, Some((false, true))], GOING_MAX, "nothing says whose");
        write(layout.data().join(".wiped-store.json"), "{}");
        at_all([Some((true, false)), None, None], GOING_MAX, "it is being wiped");
    }

    #[test]
    fn what_is_told_of_a_request_that_was_not_answered_is_of_one_mind() {
        let node: NodeName = "n1.example".parse().unwrap();
        let failed = |kind, text: &str| {
            let failure = PeerFailure::new(kind, text);
            NotForwarded::Peer(PeerError::Failed { node: node.clone(), failure })
        };
        let lost = || {
            let error = std::io::ErrorKind::ConnectionReset.into();
            NotForwarded::Peer(PeerError::Lost { node: node.clone(), error })
        };
        let after = std::time::Duration::from_secs(20);
        let late = || NotForwarded::Peer(PeerError::TimedOut { node: node.clone(), after });
        let demoted = || failed(PeerFailureKind::NoCandidate, "n4 is no master candidate");
        let (again, unknown) = (Unserved::Again, Unserved::Unknown);
        let me: NodeName = "n4.example".parse().unwrap();
        let there = Redirect::new(Some(node.clone()), "a standby");
        for (why, changes, outcome) in [
            (lost(), false, again),
            (lost(), true, unknown),
            (late(), false, again),
            (late(), true, unknown),
            (NotForwarded::Moved, true, unknown),
            (NotForwarded::Busy, true, again),
            (failed(PeerFailureKind::NotNow, "n1 is a standby"), true, again),
            (demoted(), false, Unserved::Elsewhere),
            (demoted(), true, Unserved::Elsewhere),
        ] {
            let address = "10.0.0.1".parse().unwrap();
            let answer = there.not_passed((&me, &node), address, changes, &why);
            let (text, about) = read(&answer);
            assert_eq!((about.outcome, about.address), (outcome, Some(address)), "{why:?}");
            assert_eq!(about.master.as_ref(), Some(&node));
            assert_eq!(text.contains("Nothing was done"), outcome == again, "{text}");
            let times = usize::from(outcome == unknown);
            assert_eq!(text.matches("not known").count(), times, "{text}");
            let elsewhere = "This node is no candidate: run it on n1.example (10.0.0.1)";
            assert_eq!(text == elsewhere, outcome == Unserved::Elsewhere, "{text}");
        }
    }

    #[test]
    fn who_was_master_last_names_no_other_one() {
        let me: NodeName = "n1.example".parse().unwrap();
        let there = Redirect::new(Some(me.clone()), "a standby");
        let answer = there.answer(&me, None, Unserved::Again, there.words(&me));
        let (text, about) = read(&answer);
        assert!(text.contains("not confirmed yet"), "{text}");
        assert_eq!(about.master, None);
    }
}
