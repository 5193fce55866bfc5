//! Advice for an operator whose master cannot be reached.

use std::io;
use std::path::Path;

use luxi::ClientError;
use luxi::response::Failure;
use model::JobId;
use model::layout::{ADMIN_GROUP, Layout, OPERATOR_GROUP, READ_GROUP};
use stdx::text;

use crate::error::Exit;
use crate::known::{self, Known};
use crate::membership::{self, Membership};
use crate::session::Session;

/// How a machine comes to a cluster.
const BOTH_WAYS: &str = "\
To begin a cluster with this machine as its master: `gnt cluster init NAME`
To make this machine a node of one: `noded enroll` here, then `gnt node add` on its master";

/// The error and its causes, as one line.
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
            not_reached(session),
        ),
        ClientError::NoSocket { .. } | ClientError::Refused { .. } => no_master(&what, session),
        ClientError::Permission { .. } => (
            format!(
                "Failure: {what}.\nMembers of the group {READ_GROUP} may look, those of \
                 {OPERATOR_GROUP} operate, those of {ADMIN_GROUP} administer: \
                 `sudo usermod -aG {ADMIN_GROUP} $USER`, then log in again."
            ),
            Exit::FAILURE,
        ),
        ClientError::TimedOut { .. } | ClientError::Closed { .. } | ClientError::Io { .. } => {
            let next = match session.lists_jobs() {
                true => "Nothing was changed; try again.",
                false => {
                    "What was asked for may have happened, and jobs go on: see `gnt job list` before \
                     trying again."
                }
            };
            (format!("Failure: {what}.\n{next}"), Exit::FAILURE)
        }
        ClientError::Failure(Failure::NotMaster { exception, .. }) => {
            let exit = if error.certainly_not_done() { Exit::NOT_MASTER } else { Exit::FAILURE };
            (format!("Failure: {}", text::line(exception.message())), exit)
        }
        ClientError::Connect { .. } | ClientError::Frame { .. } | ClientError::Failure(_) => {
            (format!("Failure: {what}"), Exit::FAILURE)
        }
    }
}

/// The exit status where nobody serves the socket: Ganeti's tools end as for any other failure.
fn not_reached(session: &Session) -> Exit {
    if session.is_as_ganeti() { Exit::FAILURE } else { Exit::NOT_MASTER }
}

/// The message for a `masterd` that takes connections and answers nothing, and the exit status.
pub(crate) fn silent(told: &str, error: &ClientError, session: &Session) -> (String, Exit) {
    let what = chain(error);
    let next = match Known::on(session.layout()).ok().flatten() {
        Some(known) if !membership::is_master(session.layout(), &known.master) => {
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
    match Known::on(session.layout()) {
        Ok(Some(known)) if membership::is_master(session.layout(), &known.master) => (
            format!(
                "Failure: {what}.\nThis node is the master, but masterd does not run, or is still \
                 ending: `systemctl status gantry-masterd`"
            ),
            not_reached(session),
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
        Ok(None) => match Membership::on(session.layout()) {
            Ok(Some(member)) => {
                (format!("Failure: {what}.\n{}", on_node(&member)), Exit::NOT_MASTER)
            }
            Ok(None) => (
                format!(
                    "Failure: {what}.\nThere is no cluster on this machine, or it holds no copy \
                     of it.\n{BOTH_WAYS}"
                ),
                Exit::NO_CLUSTER,
            ),
            Err(error) => unreadable(what, &session.layout().membership(), &error),
        },
        Err(error) => unreadable(what, &known::role_path(session.layout()), &error),
    }
}

/// The other candidates on which gnt may be run.
fn or_there(known: &Known) -> String {
    let others = known.others.as_ref();
    others.map(|others| format!(", or on another candidate: {others}")).unwrap_or_default()
}

/// The message where the file that would tell more cannot be read.
fn unreadable(what: &str, path: &Path, error: &io::Error) -> (String, Exit) {
    let told = format!(
        "Failure: {what}.\nWho is the master cannot be told: `{}`: {error}.\nIs masterd running \
         here? `systemctl status gantry-masterd`",
        path.display()
    );
    (told, Exit::FAILURE)
}

/// Advice on a node without a master.
fn on_node(member: &Membership) -> String {
    let Membership { cluster_name, node, allow: _ } = member;
    let others: Vec<String> = member.others().map(|name| format!("'{name}'")).collect();
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

/// Advice on a machine that has nothing of a cluster; `None` where there is one.
pub(crate) fn ways_in(layout: &Layout) -> Option<&'static str> {
    let is_nowhere = matches!((Known::on(layout), Membership::on(layout)), (Ok(None), Ok(None)));
    (is_nowhere && !layout.luxi_socket().exists()).then_some(BOTH_WAYS)
}
