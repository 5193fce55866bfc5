//! `noded enroll`: shows a token and waits until the master has used it.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpListener;

use model::enrol::Token;
use model::layout::{DAEMON_GROUP, Layout, MASTER_USER};
use model::{NodeName, Timestamp};
use rpc::calls::{Membership, WasNode};
use rpc::enrol::{Desk, EnrolmentEnd};
use rpc::identity::{IdentityError, is_enrolled, load_membership};
use stdx::Clock;
use stdx::net::interfaces;

use crate::facts::{self, FactsError};
use crate::options::EnrollOptions;

/// An enrolment that ended without an identity.
#[derive(Debug, thiserror::Error)]
pub enum EnrollError {
    /// There is nothing to do.
    #[error(
        "this machine is node {node} of cluster {cluster}. To be taken back there under its name, with new certificates: `noded enroll --again` here, `gnt node add --readd {node} --secret -` on the master. To go to another cluster: `gnt node remove {node}` there first, or, if that cluster is gone, remove what is in the directory of `{marker}` and in {data}"
    )]
    Enrolled {
        /// The node.
        node: String,
        /// The cluster.
        cluster: String,
        /// The file that says so.
        marker: String,
        /// What the machine holds of the cluster.
        data: String,
    },
    /// The identity that is there cannot be read.
    #[error("cannot tell whether this machine belongs to a cluster")]
    Identity(#[from] IdentityError),
    /// The machine's name is not known.
    #[error("cannot tell the machine's name; give one with --name")]
    Name(#[from] FactsError),
    /// The port cannot be had.
    #[error(
        "cannot wait on {address}: is an agent running on this machine already (`systemctl stop gantry-noded`)?"
    )]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The token cannot be shown.
    #[error("cannot show the token")]
    Show(#[source] io::Error),
    /// The identity has the wrong owner.
    #[error("this machine is enrolled, but its identity cannot be given to the daemons")]
    Owner(#[from] stdx::owner::OwnerError),
    /// Somebody guessed.
    #[error("the token is void after too many wrong secrets; run `noded enroll` again for another")]
    Void,
    /// The operator ended it.
    #[error("ended by {signal} before the master came; the token is void")]
    Ended {
        /// The signal.
        signal: &'static str,
    },
}

/// Waits on `rpc` until the master has enrolled this machine, after the token was written to
/// `show`.
///
/// # Errors
/// See [`EnrollError`]; the machine has no identity then.
pub async fn enroll(
    layout: &Layout,
    rpc: SocketAddr,
    options: &EnrollOptions,
    clock: &Clock,
    show: &mut (dyn Write + Send),
) -> Result<(), EnrollError> {
    let was = match options.again {
        true => enrolled_as(layout),
        false => {
            refuse_enrolled(layout)?;
            None
        }
    };
    let desk = Arc::new(desk(layout, options, clock, was)?);
    let address = SocketAddr::new(rpc.ip(), options.port.unwrap_or(rpc.port()));
    let listen = |error| EnrollError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let server = desk.serve(listener).map_err(listen)?;
    let token = Token {
        host: options.address.clone().unwrap_or_else(|| reachable(rpc.ip()).to_string()),
        port: server.address().port(),
        fingerprint: desk.fingerprint(),
        secret: desk.secret().clone(),
    };
    present(&token, options, show).map_err(EnrollError::Show)?;
    let ended = tokio::select! {
        outcome = desk.outcome() => Ok(outcome),
        signal = stdx::daemon::asked_to_end() => Err(signal.unwrap_or("a failure of the signals")),
    };
    // The last answer is on its way: stopping lets it out.
    server.stop().await;
    match ended {
        Ok(EnrolmentEnd::Enrolled) => give_to_users(layout),
        Ok(EnrolmentEnd::Void) => Err(EnrollError::Void),
        Err(signal) => Err(EnrollError::Ended { signal }),
    }
}

/// What waits for the master.
fn desk(
    layout: &Layout,
    options: &EnrollOptions,
    clock: &Clock,
    was: Option<Membership>,
) -> Result<Desk, EnrollError> {
    let hostname = match &options.name {
        Some(name) => name.to_string(),
        None => facts::hostname()?,
    };
    let now = Timestamp::from_micros(clock.now_micros());
    let software = env!("CARGO_PKG_VERSION").to_owned();
    let mut desk = Desk::new(layout.clone(), hostname, software, now)?;
    if let Some(name) = &options.name {
        desk = desk.under(name);
    }
    Ok(match was {
        Some(was) => desk.of_member(WasNode::of(&was)),
        None => desk,
    })
}

/// On an installed machine, root gives the identity to the users of the daemons.
fn give_to_users(layout: &Layout) -> Result<(), EnrollError> {
    if layout.root() == Path::new("/") {
        stdx::owner::give(&layout.pki(), MASTER_USER, DAEMON_GROUP, None)?;
    }
    Ok(())
}

/// What this machine is; nothing where it was never enrolled, or that cannot be read.
fn enrolled_as(layout: &Layout) -> Option<Membership> {
    if !is_enrolled(layout) {
        return None;
    }
    let read = load_membership(layout).inspect_err(|error| {
        let why = stdx::daemon::chain(error);
        tracing::warn!(why, "it cannot be told as which node this machine is to be taken back");
    });
    read.ok()
}

fn refuse_enrolled(layout: &Layout) -> Result<(), EnrollError> {
    if !is_enrolled(layout) {
        return Ok(());
    }
    let membership = load_membership(layout)?;
    Err(EnrollError::Enrolled {
        node: membership.node.to_string(),
        cluster: membership.cluster_name.to_string(),
        marker: layout.membership().display().to_string(),
        data: layout.data().display().to_string(),
    })
}

/// For people, and, on the line that begins with `token: `, for programs.
fn present(
    token: &Token,
    options: &EnrollOptions,
    show: &mut (dyn Write + Send),
) -> io::Result<()> {
    let name = options.name.as_ref().map_or("NAME", NodeName::as_str);
    let readd = if options.again { "--readd " } else { "" };
    writeln!(
        show,
        "Waiting on port {} to be taken into a cluster. On its master, run",
        token.port
    )?;
    writeln!(show, "  gnt node add {readd}{name} --secret -")?;
    writeln!(show, "and paste this line, which works once:")?;
    writeln!(show, "token: {}", token.to_text().expose())?;
    show.flush()
}

/// An address that others may reach us by: `listening`, unless that is every address; then the
/// first of an interface.
fn reachable(listening: IpAddr) -> IpAddr {
    if !listening.is_unspecified() {
        return listening;
    }
    let interfaces = interfaces().unwrap_or_default();
    let up = interfaces.iter().filter(|interface| interface.up && !interface.loopback);
    let first = up.flat_map(|interface| &interface.addresses).next();
    first.map_or(IpAddr::from([127, 0, 0, 1]), |address| address.address.into())
}

#[cfg(test)]
mod tests;
