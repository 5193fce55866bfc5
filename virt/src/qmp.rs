//! QEMU's machine protocol (QMP): one client for each run, which asks, hears, and comes back when the
//! connection breaks.
//!
//! An event is taken as "something changed": whoever follows a guest asks for its status then. So a lost
//! event, or one that came while the agent was away, does no harm.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use stdx::process::Process;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

/// Commands that wait for their turn: a run has few askers, one after the other.
const WAITING_MAX: usize = 64;
/// Longest message: the whole schema of QEMU 10 has 0.4 MB.
const MESSAGE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// How long QEMU may take to say who it is.
const GREETING: Duration = Duration::from_secs(10);
/// How long it may take for a command, most of which take less than a millisecond.
pub(crate) const COMMAND: Duration = Duration::from_secs(20);
/// The pause before another try to reach it.
const AGAIN: Duration = Duration::from_millis(100);
/// Events after which the status may be another one.
const TELLING: [&str; 13] = [
    "SHUTDOWN",
    "STOP",
    "RESUME",
    "RESET",
    "SUSPEND",
    "WAKEUP",
    "BLOCK_IO_ERROR",
    COMPLAINT,
    "GUEST_PANICKED",
    "WATCHDOG",
    "DEVICE_DELETED",
    "BALLOON_CHANGE",
    "JOB_STATUS_CHANGE",
];

/// The event by which QEMU complains of one of several copies.
const COMPLAINT: &str = "QUORUM_REPORT_BAD";
/// Nodes of which complaints are kept: some for each disk of a guest. The names rise with no order, and those
/// of nodes that are gone do no harm.
const BAD_MAX: usize = 256;

/// The nodes of which QEMU complained, each with its last complaint.
type Bad = Arc<Mutex<BTreeMap<String, String>>>;

/// A question that QEMU did not answer as was hoped.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// It says no.
    #[error("QEMU refuses `{command}`: {why}")]
    Refused { command: String, why: String },
    /// It does not answer in time.
    #[error("QEMU does not answer `{command}` within {} s", .within.as_secs())]
    Silent { command: String, within: Duration },
    /// It cannot be reached, or has ended.
    #[error("QEMU cannot be asked for `{0}`: there is no connection to it")]
    Gone(String),
}

/// The way to the monitor of one run; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Qmp {
    asks: mpsc::Sender<Ask>,
    /// Counts what may have changed the status.
    changes: watch::Receiver<u64>,
    bad: Bad,
}

struct Ask {
    command: String,
    arguments: Value,
    /// A descriptor that goes with it.
    descriptor: Option<OwnedFd>,
    reply: oneshot::Sender<Result<Value, String>>,
}

/// A message of QEMU, whichever it is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message {
    id: Option<u64>,
    #[serde(rename = "return")]
    answer: Option<Value>,
    error: Option<Complaint>,
    event: Option<String>,
    data: EventData,
    #[serde(rename = "QMP")]
    greeting: Option<Value>,
}

/// The parts of an event that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EventData {
    #[serde(rename = "node-name")]
    node: Option<String>,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Complaint {
    desc: String,
}

impl Qmp {
    /// The monitor at `socket`, as long as `process` lives: gives the client, and its work.
    pub(crate) fn new(
        socket: PathBuf,
        process: Process,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (asks, asked) = mpsc::channel(WAITING_MAX);
        let (changed, changes) = watch::channel(0);
        let bad = Bad::default();
        let hears = Hears { changed, bad: Arc::clone(&bad) };
        (Self { asks, changes, bad }, serve(socket, process, asked, hears))
    }

    /// The nodes of disks with several copies of which QEMU complained since the agent began, each with its
    /// last complaint.
    pub(crate) fn bad_nodes(&self) -> BTreeMap<String, String> {
        self.bad.lock().clone()
    }

    /// Tells of what may have changed the status, and of each new connection.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// Forgets complaints about some nodes.
    pub(crate) fn forgive(&self, which: impl Fn(&str) -> bool) {
        self.bad.lock().retain(|node, _| !which(node));
    }

    /// Asks something.
    pub(crate) async fn ask(&self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        self.ask_within(command, arguments, COMMAND).await
    }

    /// Asks something, and hands a descriptor over.
    pub(crate) async fn give(
        &self,
        command: &str,
        arguments: Value,
        descriptor: OwnedFd,
    ) -> Result<Value, QmpError> {
        self.told(command, arguments, Some(descriptor), COMMAND).await
    }

    /// Asks something that may take this long.
    pub(crate) async fn ask_within(
        &self,
        command: &str,
        arguments: Value,
        within: Duration,
    ) -> Result<Value, QmpError> {
        self.told(command, arguments, None, within).await
    }

    async fn told(
        &self,
        command: &str,
        arguments: Value,
        descriptor: Option<OwnedFd>,
        within: Duration,
    ) -> Result<Value, QmpError> {
        let gone = || QmpError::Gone(command.to_owned());
        let talk = async {
            let (reply, answer) = oneshot::channel();
            let ask = Ask { command: command.to_owned(), arguments, descriptor, reply };
            self.asks.send(ask).await.map_err(|_closed| gone())?;
            let answer = answer.await.map_err(|_dropped| gone())?;
            answer.map_err(|why| QmpError::Refused { command: command.to_owned(), why })
        };
        let silent = |_elapsed| QmpError::Silent { command: command.to_owned(), within };
        timeout(within, talk).await.map_err(silent)?
    }
}

/// The effects of events.
struct Hears {
    changed: watch::Sender<u64>,
    bad: Bad,
}

impl Hears {
    fn event(&self, name: &str, data: EventData) {
        if let (COMPLAINT, Some(node)) = (name, data.node) {
            let mut bad = self.bad.lock();
            if bad.len() >= BAD_MAX && !bad.contains_key(&node) {
                bad.pop_first();
            }
            bad.insert(node, data.error.unwrap_or_else(|| "QEMU tells no reason".to_owned()));
        }
        if TELLING.contains(&name) {
            self.changed.send_modify(|count| *count += 1);
        }
    }
}

/// Talks with the monitor, again and again, until the process has ended or nobody asks any more.
async fn serve(socket: PathBuf, process: Process, mut asked: mpsc::Receiver<Ask>, hears: Hears) {
    while process.is_alive() && !asked.is_closed() {
        match greet(&socket).await {
            Ok((from, to)) => {
                hears.changed.send_modify(|count| *count += 1);
                if let Err(error) = talk(from, to, &mut asked, &hears).await {
                    tracing::debug!(socket = %socket.display(), %error, "the monitor's connection ended");
                }
            }
            Err(error) => tracing::debug!(socket = %socket.display(), %error, "no monitor yet"),
        }
        sleep(AGAIN).await;
    }
}

type Ends = (BufReader<OwnedReadHalf>, OwnedWriteHalf);

/// Connects, and agrees on the protocol.
async fn greet(socket: &PathBuf) -> io::Result<Ends> {
    let late = |_elapsed| io::Error::from(io::ErrorKind::TimedOut);
    let agree = async {
        let (from, mut to) = UnixStream::connect(socket).await?.into_split();
        let mut from = BufReader::new(from);
        while next(&mut from).await?.greeting.is_none() {}
        to.write_all(b"{\"execute\":\"qmp_capabilities\",\"id\":0}\n").await?;
        while next(&mut from).await?.id != Some(0) {}
        Ok((from, to))
    };
    timeout(GREETING, agree).await.map_err(late)?
}

/// Asks and hears until the connection ends.
async fn talk(
    from: BufReader<OwnedReadHalf>,
    mut to: OwnedWriteHalf,
    asked: &mut mpsc::Receiver<Ask>,
    effects: &Hears,
) -> io::Result<()> {
    let mut waiting: HashMap<u64, oneshot::Sender<Result<Value, String>>> = HashMap::new();
    let mut number = 0;
    // A line that is half read must not be lost when there is something to ask: the reader is a task of
    // its own within this one.
    let (heard, mut hears) = mpsc::channel(1);
    let listen = async move {
        let mut from = from;
        // The last answers are given before the end of the connection is: the channel holds them.
        while let Ok(message) = next(&mut from).await {
            if heard.send(message).await.is_err() {
                return;
            }
        }
    };
    let work = async {
        loop {
            tokio::select! {
                message = hears.recv() => match message {
                    Some(message) => take(message, &mut waiting, effects),
                    None => return Ok(()),
                },
                ask = asked.recv() => {
                    let Some(Ask { command, arguments, descriptor, reply }) = ask else {
                        return Ok(());
                    };
                    number += 1;
                    waiting.retain(|_, reply| !reply.is_closed());
                    waiting.insert(number, reply);
                    let mut line = json!({"execute": command, "arguments": arguments, "id": number})
                        .to_string();
                    line.push('\n');
                    send(&mut to, line.as_bytes(), descriptor).await?;
                }
            }
        }
    };
    tokio::select! {
        ended = work => ended,
        () = async { listen.await; std::future::pending().await } => Ok(()),
    }
}

/// Writes a line, with a descriptor beside its first byte if there is one.
async fn send(to: &mut OwnedWriteHalf, line: &[u8], descriptor: Option<OwnedFd>) -> io::Result<()> {
    let mut sent = 0;
    if let Some(descriptor) = descriptor {
        let (stream, rights) = (to.as_ref(), [descriptor.as_raw_fd()]);
        let message = || {
            let rights = [ControlMessage::ScmRights(&rights)];
            let socket = stream.as_raw_fd();
            Ok(sendmsg::<()>(socket, &[IoSlice::new(line)], &rights, MsgFlags::empty(), None)?)
        };
        sent = stream.async_io(Interest::WRITABLE, message).await?;
    }
    to.write_all(&line[sent..]).await
}

/// Gives an answer to whoever asked, and tells of events.
fn take(
    message: Message,
    waiting: &mut HashMap<u64, oneshot::Sender<Result<Value, String>>>,
    effects: &Hears,
) {
    if let Some(event) = message.event {
        effects.event(&event, message.data);
        return;
    }
    let Some(reply) = message.id.and_then(|id| waiting.remove(&id)) else { return };
    let answer = match message.error {
        Some(complaint) => Err(complaint.desc),
        None => Ok(message.answer.unwrap_or_default()),
    };
    // The asker may have given up.
    drop(reply.send(answer));
}

/// The next message.
async fn next(from: &mut BufReader<OwnedReadHalf>) -> io::Result<Message> {
    let mut line = Vec::new();
    let mut bounded = tokio::io::AsyncReadExt::take(&mut *from, MESSAGE_BYTES_MAX);
    bounded.read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&line).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
