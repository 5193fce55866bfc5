//! The agent in a guest (QEMU's `qemu-ga`): it tells what the guest calls itself, and stills its file systems.
//!
//! The guest's owner has this agent in hand, too. So its words are shown and nothing more, and each question
//! has its limits.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use model::instance::launch::GuestFacts;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// How long it may take for an answer: a guest that boots has no agent yet.
const ANSWER: Duration = Duration::from_secs(5);
/// How long the guest may take to write what it has in memory.
const FREEZE: Duration = Duration::from_secs(60);
/// Most bytes of an answer: a guest with a hundred cards has less.
const ANSWER_BYTES_MAX: u64 = 256 * 1024;
/// Addresses that are kept: more are no help in a list.
const ADDRESSES_MAX: usize = 32;
/// Characters of a name that are kept.
const NAME_MAX: usize = 128;
/// The byte that divides an answer from all that the agent said before (`guest-sync-delimited`).
const DELIMITER: u8 = 0xff;

/// Why the agent in a guest did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    #[error("the agent in the guest does not answer `{command}` within {} s", .within.as_secs())]
    Silent { command: &'static str, within: Duration },
    #[error("the agent in the guest refuses `{0}`: {1}")]
    Refused(&'static str, String),
    #[error("cannot talk with the agent in the guest")]
    Talk(#[from] io::Error),
}

impl AgentError {
    /// Whether it answered, and said no.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(..))
    }
}

/// The agent in one guest.
#[derive(Debug, Clone)]
pub(crate) struct GuestAgent {
    socket: PathBuf,
}

impl GuestAgent {
    pub(super) fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Asks what the guest is.
    ///
    /// # Errors
    /// It has no agent that answers.
    pub(crate) async fn facts(&self) -> Result<GuestFacts, AgentError> {
        let cards = self.ask("guest-network-get-interfaces", ANSWER).await?;
        // Old agents lack these two.
        let host = self.ask("guest-get-host-name", ANSWER).await.unwrap_or_default();
        let system = self.ask("guest-get-osinfo", ANSWER).await.unwrap_or_default();
        Ok(facts(&cards, &host, &system))
    }

    /// Has the guest write what it has in memory, and write nothing more until [`Self::thaw`].
    ///
    /// # Errors
    /// It does not; then it may still come to that, so that it is thawed all the same.
    pub(crate) async fn freeze(&self) -> Result<(), AgentError> {
        self.ask("guest-fsfreeze-freeze", FREEZE).await.map(drop)
    }

    /// Lets the guest write again. It does no harm where it does already.
    ///
    /// # Errors
    /// It has no agent that answers.
    pub(crate) async fn thaw(&self) -> Result<(), AgentError> {
        self.ask("guest-fsfreeze-thaw", ANSWER).await.map(drop)
    }

    async fn ask(&self, command: &'static str, within: Duration) -> Result<Value, AgentError> {
        let late = |_elapsed| AgentError::Silent { command, within };
        let answer = timeout(within, self.talk(command)).await.map_err(late)??;
        match answer.get("error") {
            Some(error) => {
                let why = error["desc"].as_str().unwrap_or("it does not say why");
                Err(AgentError::Refused(command, name(why)))
            }
            None => Ok(answer["return"].clone()),
        }
    }

    /// Asks on a connection of its own: QEMU has one for all, and others wait for their turn.
    async fn talk(&self, command: &'static str) -> io::Result<Value> {
        let (from, mut to) = UnixStream::connect(&self.socket).await?.into_split();
        let mut from = BufReader::new(from.take(ANSWER_BYTES_MAX));
        let id = u32::from_le_bytes(new_number());
        let sync = json!({"execute": "guest-sync-delimited", "arguments": {"id": id}});
        to.write_all(&[&[DELIMITER], sync.to_string().as_bytes(), b"\n"].concat()).await?;
        loop {
            // Answers to others, who gave up, come before it.
            skip(&mut from).await?;
            if line(&mut from).await?["return"] == json!(id) {
                break;
            }
        }
        to.write_all(format!("{}\n", json!({"execute": command})).as_bytes()).await?;
        line(&mut from).await
    }
}

/// A number that answers to earlier questions do not have.
fn new_number() -> [u8; 4] {
    let [a, b, c, d, ..] = *model::Uuid::new_v4().as_bytes();
    // The agent takes signed numbers.
    [a, b, c, d & 0x7f]
}

type Answers = BufReader<tokio::io::Take<tokio::net::unix::OwnedReadHalf>>;

/// Drops everything up to the delimiter.
async fn skip(from: &mut Answers) -> io::Result<()> {
    let mut dropped = Vec::new();
    from.read_until(DELIMITER, &mut dropped).await?;
    match dropped.last() {
        Some(&DELIMITER) => Ok(()),
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}

/// The next line, which is to be JSON.
async fn line(from: &mut Answers) -> io::Result<Value> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line).await?;
    serde_json::from_slice(&line).map_err(io::Error::other)
}

/// Text of a guest, as it may be shown.
fn name(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(NAME_MAX).collect()
}

/// The facts in three answers of the agent; an odd one has none.
fn facts(cards: &Value, host: &Value, system: &Value) -> GuestFacts {
    let text = |value: &Value| value.as_str().map(name).filter(|text| !text.is_empty());
    let cards = cards.as_array().into_iter().flatten();
    let all = cards.flat_map(|card| card["ip-addresses"].as_array().into_iter().flatten());
    let parsed = all.filter_map(|one| one["ip-address"].as_str()?.parse::<IpAddr>().ok());
    let addresses: BTreeSet<IpAddr> = parsed.filter(|address| !address.is_loopback()).collect();
    GuestFacts {
        hostname: text(&host["host-name"]),
        system: text(&system["pretty-name"]).or_else(|| text(&system["name"])),
        kernel: text(&system["kernel-release"]),
        addresses: addresses.into_iter().take(ADDRESSES_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    use stdx::Tasks;
    use tokio::net::UnixListener;

    use super::*;

    /// An agent that says `noise` before each answer, and answers by `answers`.
    fn agent(
        noise: &'static [u8],
        answers: fn(&str) -> Value,
    ) -> (tempfile::TempDir, Tasks, GuestAgent) {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("agent");
        let listener = UnixListener::bind(&socket).unwrap();
        let tasks = Tasks::new();
        tasks.spawn("agent in a guest", async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (from, mut to) = stream.into_split();
                let mut lines = BufReader::new(from).split(b'\n');
                while let Ok(Some(line)) = lines.next_segment().await {
                    let start = usize::from(line.first() == Some(&DELIMITER));
                    let ask: Value = serde_json::from_slice(&line[start..]).unwrap();
                    let mut said = noise.to_vec();
                    let answer = match ask["execute"].as_str().unwrap() {
                        "guest-sync-delimited" => {
                            said.push(DELIMITER);
                            json!({"return": ask["arguments"]["id"]})
                        }
                        other => {
                            said.clear();
                            answers(other)
                        }
                    };
                    said.extend(format!("{answer}\n").bytes());
                    // The asker may have had enough.
                    drop(to.write_all(&said).await);
                }
            }
        });
        (root, tasks, GuestAgent::new(socket))
    }

    fn debian(command: &str) -> Value {
        match command {
            "guest-network-get-interfaces" => json!({"return": [
                {"name": "lo", "ip-addresses": [{"ip-address": "127.0.0.1", "prefix": 8}]},
                {"name": "eth0", "ip-addresses": [{"ip-address": "10.0.0.5"}, {"ip-address": "odd"}]},
                {"name": "eth1"},
            ]}),
            "guest-get-host-name" => json!({"return": {"host-name": "web1\u{1b}[31m"}}),
            "guest-get-osinfo" => json!({"return": {"pretty-name": "Debian GNU/Linux 12",
                "kernel-release": "6.1.0"}}),
            _ => json!({"error": {"class": "CommandNotFound", "desc": "no such thing"}}),
        }
    }

    #[tokio::test]
    async fn a_guest_tells_what_it_is() {
        let old = b"{\"return\": 7}\nhalf an answ";
        for noise in [&b""[..], &old[..]] {
            let (_root, _tasks, agent) = agent(noise, debian);
            let told = agent.facts().await.unwrap();
            assert_eq!(told.hostname.as_deref(), Some("web1[31m"));
            assert_eq!(told.system.as_deref(), Some("Debian GNU/Linux 12"));
            assert_eq!(told.addresses, ["10.0.0.5".parse::<IpAddr>().unwrap()]);
            let refused = agent.freeze().await.unwrap_err();
            assert!(matches!(refused, AgentError::Refused(..)), "{refused}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_guest_that_floods_or_says_nothing_is_given_up() {
        const FLOOD: &[u8] = &[b'x'; 2 * 256 * 1024];
        let (_root, _tasks, flooding) = agent(FLOOD, debian);
        assert!(matches!(flooding.facts().await, Err(AgentError::Talk(_))));
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("agent");
        let _listener = UnixListener::bind(&socket).unwrap();
        let silent = GuestAgent::new(socket).thaw().await;
        assert!(matches!(silent, Err(AgentError::Silent { .. })), "{silent:?}");
    }

    #[test]
    fn odd_answers_are_no_facts() {
        let odd = json!([1, {"ip-addresses": "x"}, null]);
        assert_eq!(facts(&odd, &json!(5), &Value::Null), GuestFacts::default());
        let long = json!({"host-name": "x".repeat(1_000)});
        assert_eq!(facts(&odd, &long, &Value::Null).hostname.unwrap().len(), NAME_MAX);
    }
}
