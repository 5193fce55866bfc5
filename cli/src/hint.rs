//! What to do when the master cannot be reached.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};

use luxi::ClientError;
use luxi::response::Failure;
use model::cluster::Role;
use model::document;
use model::layout::ADMIN_GROUP;
use model::node::Node;
use model::{JobId, NodeName};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use stdx::text;

use crate::error::Exit;
use crate::known::{self, Known};
use crate::session::Session;

/// How a machine comes to a cluster.
const BOTH_WAYS: &str = "\
To begin a cluster with this machine as its master: `gnt cluster init NAME`
To make this machine a node of one: `noded enroll` here, then `gnt node add` on its master";

/// What went wrong, as one line.
fn chain(error: &ClientError) -> String {
    text::line(&stdx::daemon::chain(error)).into_owned()
}

/// The message for a master that could not be asked, and the exit status.
pub(crate) fn unreachable(error: &ClientError, session: &Session) -> (String, Exit) {
    let what = chain(error);
    match error {
        ClientError::NoSocket { .. } | ClientError::Refused { .. } if session.has_own_socket() => (
            format!(
                "Failure: {what}.\nThis is the path of --socket; the master's socket of this root \
                 is `{}`.",
                session.layout().luxi_socket().display()
            ),
            Exit::FAILURE,
        ),
        ClientError::NoSocket { .. } | ClientError::Refused { .. } => no_master(&what, session),
        ClientError::Permission { .. } => (
            format!(
                "Failure: {what}.\nMembers of the group {ADMIN_GROUP} may: \
                 `sudo usermod -aG {ADMIN_GROUP} $USER`, then log in again."
            ),
            Exit::FAILURE,
        ),
        ClientError::TimedOut { .. } | ClientError::Closed { .. } | ClientError::Io { .. } => (
            format!(
                "Failure: {what}.\nWhat was asked for may have happened, and jobs go on: see \
                 `gnt job list` before trying again."
            ),
            Exit::FAILURE,
        ),
        ClientError::Failure(Failure::NotMaster { exception, .. }) => {
            let exit = if error.certainly_not_done() { Exit::NOT_MASTER } else { Exit::FAILURE };
            (format!("Failure: {}", text::line(exception.message())), exit)
        }
        ClientError::Connect { .. } | ClientError::Frame { .. } | ClientError::Failure(_) => {
            (format!("Failure: {what}"), Exit::FAILURE)
        }
    }
}

/// The message for a `masterd` that takes connections and answers nothing, and the exit status.
pub(crate) fn silent(told: &str, error: &ClientError, session: &Session) -> (String, Exit) {
    let what = chain(error);
    let next = match session.known().ok().flatten() {
        Some(known) if !session.is_master(&known.master) => {
            format!("The master is {known}. Run gnt there{}.", or_there(&known))
        }
        known => {
            let others = known.and_then(|known| known.others);
            let others = others.map(|others| format!(" ({others})")).unwrap_or_default();
            format!(
                "`gnt cluster status` on another candidate{others} tells who the master is by now; \
                 where that is still this node, `gnt cluster master-failover` there takes the role."
            )
        }
    };
    let told = format!(
        "Failure: {what}.\n{told}: it hangs or is paused, or finds no processor or disk: `systemctl \
         status gantry-masterd`.\n{next}"
    );
    (told, Exit::FAILURE)
}

/// The message for a submission that was not answered, and the exit status.
pub(crate) fn unsure(error: &ClientError) -> (String, Exit) {
    let what = chain(error);
    let told = format!(
        "Failure: {what}.\nIt is not known whether the job was accepted; look with `gnt job list` \
         before trying again."
    );
    (told, Exit::FAILURE)
}

/// The message for a master that was lost during the wait for a job, and the exit status: never the
/// one for what was not done.
pub(crate) fn lost(id: JobId, error: &ClientError, session: &Session) -> (String, Exit) {
    let (told, _nothing_done) = match error {
        ClientError::NoSocket { .. }
        | ClientError::Refused { .. }
        | ClientError::Permission { .. }
        | ClientError::Failure(Failure::NotMaster { .. }) => unreachable(error, session),
        _ => (format!("Failure: {}.", chain(error)), Exit::FAILURE),
    };
    let there = if error.not_master().is_some() { "there, " } else { "" };
    let more = format!(
        "This was while waiting for job {id}, which was submitted and may go on: {there}`gnt job \
         watch {id}` waits for it again, `gnt job info {id}` shows how far it came."
    );
    (format!("{told}\n{more}"), Exit::FAILURE)
}

/// Nobody serves here: is there a cluster, and who is its master?
fn no_master(what: &str, session: &Session) -> (String, Exit) {
    match session.known() {
        Ok(Some(known)) if session.is_master(&known.master) => (
            format!(
                "Failure: {what}.\nThis node is the master, but masterd does not run, or is still \
                 ending: `systemctl status gantry-masterd`"
            ),
            Exit::FAILURE,
        ),
        Ok(Some(known)) => (
            format!(
                "Failure: {what}.\nmasterd does not run here, or is no master: the master is \
                 {known}. Run gnt there{others}.\nIf this is '{master}': `systemctl status gantry-masterd`",
                master = known.master,
                others = or_there(&known)
            ),
            Exit::NOT_MASTER,
        ),
        Ok(None) => match session.membership() {
            Ok(Some(member)) => (format!("Failure: {what}.\n{}", member.hint()), Exit::NOT_MASTER),
            Ok(None) => (
                format!(
                    "Failure: {what}.\nThere is no cluster on this machine, or it holds no copy \
                     of it.\n{BOTH_WAYS}"
                ),
                Exit::NO_CLUSTER,
            ),
            Err(error) => unreadable(what, &session.layout().membership(), &error),
        },
        Err(error) => unreadable(what, &session.role_path(), &error),
    }
}

/// Where else gnt may be run.
fn or_there(known: &Known) -> String {
    let others = known.others.as_ref();
    others.map(|others| format!(", or on another candidate: {others}")).unwrap_or_default()
}

/// What would tell more is not to be read.
fn unreadable(what: &str, path: &Path, error: &io::Error) -> (String, Exit) {
    let told = format!(
        "Failure: {what}.\nWho is the master cannot be told: `{}`: {error}.\nIs masterd running \
         here? `systemctl status gantry-masterd`",
        path.display()
    );
    (told, Exit::FAILURE)
}

/// What this machine is, by the file that it has since it was enrolled.
#[derive(Debug, Deserialize)]
pub(crate) struct Membership {
    cluster_name: NodeName,
    node: NodeName,
    allow: Allowed,
}

/// Who could call the node when it was enrolled: the master candidates.
#[derive(Debug, Deserialize)]
struct Allowed {
    callers: Vec<Caller>,
}

#[derive(Debug, Deserialize)]
struct Caller {
    name: NodeName,
}

impl Membership {
    fn hint(&self) -> String {
        let Self { cluster_name, node, allow } = self;
        let others = allow.callers.iter().map(|caller| &caller.name).filter(|name| *name != node);
        let others: Vec<String> = others.map(|name| format!("'{name}'")).collect();
        let known = match others.as_slice() {
            [] => String::new(),
            [one] => format!("\nWhen this node was added, the only other candidate was {one}."),
            some => format!("\nWhen this node was added, candidates were {}.", some.join(", ")),
        };
        format!(
            "This is node '{node}' of the cluster '{cluster_name}', and masterd does not run \
             here: gnt is to be run on the master.{known}"
        )
    }
}

/// Whether a host name and a node's name are the same but for their domains.
fn is_same_host(host: &str, node: &str) -> bool {
    let shorter = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let host = host.to_ascii_lowercase();
    !host.is_empty() && (shorter(&host, node) || shorter(node, &host))
}

/// Whether the address is one of this machine's: only those can be bound.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

fn read_if_there<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Session {
    /// Who is master, as this machine's copy of the configuration knows it; `None` if it has none.
    ///
    /// # Errors
    /// The copy cannot be read.
    fn role(&self) -> io::Result<Option<Role>> {
        read_if_there(&self.role_path())
    }

    fn role_path(&self) -> PathBuf {
        self.layout().data().join(document::ROLE)
    }

    /// What this machine is; `None` if it was never enrolled.
    fn membership(&self) -> io::Result<Option<Membership>> {
        read_if_there(&self.layout().membership())
    }

    /// Who is master, as this machine knows it by its copy of the configuration or by the files of its
    /// agent, whichever is newer; `None` if it has neither.
    ///
    /// # Errors
    /// The copy is all that there could be, and cannot be read.
    pub(crate) fn known(&self) -> io::Result<Option<Known>> {
        let ours = self.membership().ok().flatten();
        let is_ours =
            |known: &Known| ours.as_ref().is_none_or(|ours| known.is_of(&ours.cluster_name));
        let me = ours.as_ref().map(|ours| &ours.node);
        let files = known::by_files(self.layout(), me).filter(is_ours);
        match self.role() {
            Ok(role) => Ok(Known::newest(role, files)),
            Err(error) if files.is_none() => Err(error),
            Err(_unreadable) => Ok(files),
        }
    }

    /// What to do on a machine that has nothing of a cluster; `None` where there is one.
    pub(crate) fn ways_in(&self) -> Option<&'static str> {
        let is_nowhere = matches!((self.known(), self.membership()), (Ok(None), Ok(None)));
        (is_nowhere && !self.layout().luxi_socket().exists()).then_some(BOTH_WAYS)
    }

    /// Whether the master runs on this machine, if it runs.
    pub(crate) fn is_masters_place(&self) -> bool {
        self.known().is_ok_and(|known| known.is_some_and(|known| self.is_master(&known.master)))
    }

    /// Whether this machine is the master node: by what it was enrolled as. Where that cannot be read,
    /// by its host name, or by the node's address.
    fn is_master(&self, master: &NodeName) -> bool {
        if let Ok(Some(member)) = self.membership() {
            return member.node == *master;
        }
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        if host.is_some_and(|host| is_same_host(&host, master.as_str())) {
            return true;
        }
        let document = self.layout().data().join(document::node(master));
        let node = std::fs::read(document).ok();
        let node: Option<Node> = node.and_then(|text| serde_json::from_slice(&text).ok());
        node.is_some_and(|node| is_own(node.primary_ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        for (host, node, same) in [
            ("n1", "n1.example.com", true),
            ("N1.example.com", "n1", true),
            ("n1.example.com", "n1.example.com", true),
            ("n1", "n10.example.com", false),
            ("n10", "n1", false),
            ("", "n1", false),
        ] {
            assert_eq!(is_same_host(host, node), same, "{host} {node}");
        }
    }
}
