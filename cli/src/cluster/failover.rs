//! `gnt cluster master-failover`.

use std::io::{self, IsTerminal as _};

use clap::Args;
use luxi::method::GantryMasterFailover;
use model::NodeName;
use model::role_check::{DRAIN_SECONDS, DRAIN_SECONDS_MAX, RoleCheck, RoleRequest};

use crate::error::CliError;
use crate::output::say;
use crate::session::{Session, confirm};

/// The message to an operator who can neither be asked nor has said yes.
const NOT_CONFIRMED: &str = "Not done: with --no-voting the node goes on alone with what it has. What \
    other nodes hold beyond that is cut, acknowledged jobs among it; they begin anew with its copy, and \
    keep theirs aside. See what would be lost with --dry-run, then add --yes-do-it";

/// Arguments of `master-failover`.
#[derive(Debug, Args)]
pub(crate) struct FailoverArguments {
    /// The candidate that is to be master; the one on which this is called where it is not given.
    #[arg(long, value_name = "NODE")]
    to: Option<NodeName>,
    /// Ask every node, show what they say and what would follow, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// How long the master of before may let opcodes end that run, in seconds; it stays the master
    /// if that does not do.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = DRAIN_SECONDS,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(DRAIN_SECONDS_MAX))
    )]
    drain_timeout: u32,
    /// Do not count this node, which is gone for good; may be given several times. Its vote still
    /// counts; and if its masterd answers after all, what it knows to be committed is not cut.
    #[arg(long, value_name = "NODE")]
    ignore_node: Vec<NodeName>,
    /// Do without the majority of all nodes; that of the voters is still needed. For a rack that
    /// comes up from the dark.
    #[arg(long)]
    candidates_only: bool,
    /// Do without any majority: this node goes on alone with what it has, and what others hold
    /// beyond that is cut. Asks first, unless --yes-do-it is given.
    #[arg(long)]
    no_voting: bool,
    /// Answer the question of --no-voting with yes.
    #[arg(long)]
    yes_do_it: bool,
}

/// Moves the role.
pub(super) fn run(arguments: FailoverArguments, session: &Session) -> Result<(), CliError> {
    let FailoverArguments { to, dry_run, drain_timeout, ignore_node, .. } = arguments;
    let mut request = RoleRequest {
        candidates_only: arguments.candidates_only,
        no_voting: arguments.no_voting,
        yes_do_it: arguments.yes_do_it,
        ignored: ignore_node,
        dry_run,
        drain_seconds: drain_timeout,
    };
    if request.no_voting && !request.yes_do_it {
        if !dry_run {
            ask(to.as_ref(), &request, session)?;
        }
        request.yes_do_it = true;
    }
    let taken = session.ask(&GantryMasterFailover { to, request })?;
    show(taken.check.as_ref())?;
    let code = taken.code();
    let may_proceed = taken.check.as_ref().is_some_and(RoleCheck::goes_on);
    match (taken.done, dry_run && may_proceed) {
        (true, _) | (_, true) => say(taken.message),
        (false, false) => Err(CliError::NotMoved { code, message: taken.message }),
    }
}

fn show(check: Option<&RoleCheck>) -> Result<(), CliError> {
    check.iter().flat_map(|check| check.lines()).try_for_each(say)
}

/// Shows what everyone says, and asks whether to go on whatever that is.
fn ask(to: Option<&NodeName>, request: &RoleRequest, session: &Session) -> Result<(), CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::NotConfirmed(NOT_CONFIRMED.to_owned()));
    }
    let request = RoleRequest { yes_do_it: true, dry_run: true, ..request.clone() };
    let asked = session.ask(&GantryMasterFailover { to: to.cloned(), request })?;
    show(asked.check.as_ref())?;
    confirm(
        "What other nodes hold beyond this one is cut, acknowledged jobs among it. Go on?",
        false,
    )
}
