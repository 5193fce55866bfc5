//! The screen of a guest, by VNC: the agent listens, and hands each viewer to QEMU, which listens nowhere.
//!
//! A connection is QEMU's own then. So a viewer stays when the agent ends, and the next agent listens again.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use model::Secret;
use model::instance::launch::Launch;
use model::instance::screen::Screen;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::desktop::screen;
use super::words::Filled;
use crate::qmp::{Qmp, QmpError};

/// Most viewers of a guest: QEMU paints the screen for each of them, in the thread that moves its disks.
const VIEWERS_MAX: usize = 16;
/// Most bytes of a file with a password, of which eight count: so few are what VNC encrypts with.
const PASSWORD_FILE_BYTES_MAX: u64 = 4_096;
/// The pause before another try to listen, or to take a viewer: descriptors come back in less.
const AGAIN: Duration = Duration::from_secs(1);
/// The name of a viewer on its way to QEMU.
const VIEWER: &str = "viewer";

/// A place at which viewers arrive.
#[derive(Debug)]
pub(super) enum Listener {
    Address(tokio::net::TcpListener),
    Socket(tokio::net::UnixListener),
}

impl Listener {
    fn at(screen: &Screen) -> io::Result<Self> {
        match screen {
            Screen::Address(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Address(tokio::net::TcpListener::from_std(listener)?))
            }
            Screen::Socket(path) => {
                remove(path)?;
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(Self::Socket(tokio::net::UnixListener::from_std(listener)?))
            }
        }
    }

    /// The next viewer.
    async fn accept(&self) -> io::Result<OwnedFd> {
        Ok(match self {
            Self::Address(listener) => {
                let (viewer, _) = listener.accept().await?;
                // One whose network is gone gives its place back.
                setsockopt(&viewer, sockopt::KeepAlive, &true)?;
                viewer.into_std()?.into()
            }
            Self::Socket(listener) => listener.accept().await?.0.into_std()?.into(),
        })
    }
}

/// Listens where a launch has its screen, if it has one.
///
/// # Errors
/// The place is taken, or there is no such place; the text says which.
pub(super) fn listen(launch: &Launch) -> Result<Option<Listener>, String> {
    let Some(screen) = screen(launch).map_err(|error| error.to_string())? else { return Ok(None) };
    let place = match &screen {
        Screen::Address(address) => address.to_string(),
        Screen::Socket(path) => path.display().to_string(),
    };
    let listener = Listener::at(&screen);
    listener.map(Some).map_err(|error| format!("cannot listen for viewers at {place}: {error}"))
}

/// The password of a launch's screen, if it has one.
///
/// # Errors
/// Its file cannot be read, or holds none.
pub(super) fn password(launch: &Launch) -> Result<Option<Secret<String>>, String> {
    let parameters = Filled(&launch.hvparams);
    let path = parameters.text("vnc_password_file");
    if path.is_empty() || parameters.text("vnc_bind_address").is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(PASSWORD_FILE_BYTES_MAX).read_to_string(&mut text));
    let text = Secret::new(text);
    read.map_err(|error| format!("cannot read the password of its screen from {path}: {error}"))?;
    match text.expose().lines().next() {
        None | Some("") => {
            Err(format!("the first line of {path} holds no password for its screen"))
        }
        Some(line) => Ok(Some(Secret::new(line.to_owned()))),
    }
}

/// The arguments by which QEMU lets in viewers with this password alone.
pub(super) fn with_password(password: &Secret<String>) -> Value {
    json!({"protocol": "vnc", "password": password.expose()})
}

/// Hands viewers to a guest that starts, as long as it is followed.
pub(super) async fn serve(qmp: Qmp, listener: Option<Listener>) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok(viewer) => {
                if let Err(error) = admit(&qmp, viewer).await {
                    tracing::warn!(%error, "a viewer does not reach its guest");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a viewer of a guest is not taken");
                sleep(AGAIN).await;
            }
        }
    }
}

/// The same for a guest that an earlier life of the agent started. It lives, so that a place which is taken
/// meanwhile is waited for.
pub(super) async fn resume(qmp: Qmp, launch: Launch) {
    let mut last = String::new();
    let listener = loop {
        match listen(&launch) {
            Ok(listener) => break listener,
            Err(error) => {
                if error != last {
                    tracing::warn!(instance = %launch.name, error, "a guest has no screen; trying again");
                    last = error;
                }
                sleep(AGAIN).await;
            }
        }
    };
    serve(qmp, listener).await;
}

/// Gives a viewer to QEMU, unless there are too many.
async fn admit(qmp: &Qmp, viewer: OwnedFd) -> Result<(), QmpError> {
    let there = viewers(&qmp.ask("query-vnc-servers", json!({})).await?);
    if there >= VIEWERS_MAX {
        tracing::warn!(there, "a guest has as many viewers as it may; another one is refused");
        return Ok(());
    }
    qmp.give("getfd", json!({"fdname": VIEWER}), viewer).await?;
    let added = qmp.ask("add_client", json!({"protocol": "vnc", "fdname": VIEWER})).await;
    if added.is_err() {
        // It may be gone with the connection to the monitor.
        drop(qmp.ask("closefd", json!({"fdname": VIEWER})).await);
    }
    added.map(drop)
}

fn viewers(servers: &Value) -> usize {
    let clients = |server: &Value| server["clients"].as_array().map_or(0, Vec::len);
    servers.as_array().into_iter().flatten().map(clients).sum()
}

/// Removes the socket of a run that is over, which nobody listens at.
pub(super) fn clean(launch: &Launch) {
    if let Ok(Some(Screen::Socket(path))) = screen(launch)
        && let Err(error) = remove(&path)
    {
        tracing::warn!(path = %path.display(), %error, "the socket of a screen stays");
    }
}

/// Removes a socket, and nothing else that an operator may have there.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
