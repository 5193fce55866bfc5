//! `noded enroll`: shows a token and waits until the master has used it.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::enrol::{Token, TokenError};
use model::layout::{DAEMON_GROUP, Layout, MASTER_USER};
use model::power_cycle::ENROLMENT_SECONDS;
use model::power_cycle::MachineToken;
use model::{NodeName, Secret, Timestamp};
use rpc::calls::{Membership, WasNode};
use rpc::enrol::{Desk, EnrolmentEnd};
use rpc::identity::{IdentityError, is_enrolled, load_membership};
use stdx::Clock;
use stdx::net::{ListenError, Listening, interfaces};

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
        node: String,
        cluster: String,
        /// The file that says so.
        marker: String,
        /// The machine's data of the cluster.
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
        "cannot wait on {}; if an agent runs on this machine, end it first: `systemctl stop gantry-noded`",
        .0.of.address
    )]
    Listen(#[from] ListenError),
    /// The token cannot be shown.
    #[error("cannot show the token")]
    Show(#[source] io::Error),
    /// The file of the token is not read.
    #[error("cannot read the token from `{}`", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The file has no token.
    #[error("`{}` has no token: does the configuration of this machine have {{{{ EnrolToken }}}}?", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// The fault in its text.
        #[source]
        error: TokenError,
    },
    /// The master did not come.
    #[error(
        "the master did not come for {} min, and the token of `{}` is void by now; `gnt machine deploy \
         --node` deploys this machine anew, with another one", ENROLMENT_SECONDS / 60, path.display()
    )]
    Late {
        /// The file.
        path: PathBuf,
    },
    /// The identity has the wrong owner.
    #[error("this machine is enrolled, but its identity cannot be given to the daemons")]
    Owner(#[from] stdx::owner::OwnerError),
    /// Somebody guessed.
    #[error("the token is void after too many wrong secrets; run `noded enroll` again for another")]
    Void,
    /// The operator ended it.
    #[error("ended by {signal} before the master came; the token is void")]
    Ended { signal: &'static str },
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
    let mut desk = desk(layout, options, clock, was)?;
    if let Some(path) = &options.token_file {
        desk = desk.by_token(&token_of(path)?);
    }
    let desk = Arc::new(desk);
    let address = SocketAddr::new(rpc.ip(), options.port.unwrap_or(rpc.port()));
    let place = Listening { address, purpose: "the enrolment", option: "--rpc-address" };
    let server = desk.serve(place.listen()?).map_err(|error| ListenError { of: place, error })?;
    if place.is_missing() {
        writeln!(show, "{place}").map_err(EnrollError::Show)?;
    }
    match &options.token_file {
        Some(_) => tell(server.address().port(), show),
        None => {
            let token = token(&desk, server.address().port(), rpc, options);
            present(&token, options, show)
        }
    }
    .map_err(EnrollError::Show)?;
    let ended = tokio::select! {
        outcome = desk.outcome() => Ok(outcome),
        signal = stdx::daemon::asked_to_end() => {
            let signal = signal.unwrap_or("a failure of the signals");
            Err(EnrollError::Ended { signal })
        }
        late = late(options) => Err(late),
    };
    // The last answer is on its way: stopping lets it out.
    server.stop().await;
    match ended? {
        EnrolmentEnd::Enrolled => {
            give_to_users(layout)?;
            options.token_file.as_deref().map_or(Ok(()), forget)
        }
        EnrolmentEnd::Void => Err(EnrollError::Void),
    }
}

/// The token that the operator gives to the master.
fn token(desk: &Desk, port: u16, rpc: SocketAddr, options: &EnrollOptions) -> Token {
    Token {
        host: options.address.clone().unwrap_or_else(|| reachable(rpc.ip()).to_string()),
        port,
        fingerprint: desk.fingerprint(),
        secret: desk.secret().clone(),
    }
}

/// The token that the machine's configuration wrote.
fn token_of(path: &Path) -> Result<MachineToken, EnrollError> {
    let read = std::fs::read_to_string(path);
    let text = read.map_err(|error| EnrollError::TokenFile { path: path.to_owned(), error })?;
    let text = Secret::new(text);
    let token = text.expose().parse();
    token.map_err(|error| EnrollError::Token { path: path.to_owned(), error })
}

/// A used token is worth nothing; its file would only have the next start fail.
fn forget(path: &Path) -> Result<(), EnrollError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(EnrollError::TokenFile { path: path.to_owned(), error })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Comes when the token of a file is void in any case; the clock of a new machine may be wrong.
async fn late(options: &EnrollOptions) -> EnrollError {
    let Some(path) = &options.token_file else { return std::future::pending().await };
    let seconds = u64::try_from(ENROLMENT_SECONDS).unwrap_or_default();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    EnrollError::Late { path: path.clone() }
}

fn tell(port: u16, show: &mut (dyn Write + Send)) -> io::Result<()> {
    writeln!(show, "Waiting on port {port} for the master, which knows the token of this machine")?;
    show.flush()
}

/// The desk that waits for the master.
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

/// The membership of this machine; none where it was never enrolled, or that cannot be read.
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
