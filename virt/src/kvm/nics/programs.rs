//! Programs that make a part of a card: `nft`, `ovs-vsctl`, and one of the operator's own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use model::InstanceName;
use model::instance::launch::NicLaunch;
use stdx::program::{Ended, Limits, PATH, ProgramError, run_for_network};
use tokio::process::Command;

use super::plan::{self, CardPlan, Place, parameter};

/// A program of a package, with the time that it has.
#[derive(Debug, Clone, Copy)]
struct Tool {
    program: &'static str,
    package: &'static str,
    time: Duration,
}

/// A transaction of a table takes some ms, also beside a thousand others.
const NFT: Tool = Tool { program: "nft", package: "nftables", time: Duration::from_secs(10) };
/// It waits until the switch has done what the database says, which takes less than 1 s.
const OVS_VSCTL: Tool =
    Tool { program: "ovs-vsctl", package: "openvswitch-switch", time: Duration::from_secs(10) };
/// The time after which it ends by itself: longer, for an agent that was ended meanwhile.
const SWITCH_ENDS: &str = "--timeout=15";
/// How long the operator's program may take: a start of a guest waits for it.
const HOOK_TIME: Duration = Duration::from_secs(30);
/// How much of a program's words is kept: its complaint goes into an error, which is read as one line.
const WORDS_BYTES_MAX: u64 = 2_000;
/// How `ovs-vsctl` begins to say that the switch did not take a port; its exit status says nothing of it.
const SWITCH_REFUSES: &str = "Error detected";
/// The type of a bridge whose frames pass the kernel by.
const USERSPACE: &str = "netdev";
/// The variable that tells programs of Open vSwitch where its sockets are.
const SWITCH_DIRECTORY: &str = "OVS_RUNDIR";

/// A program that did not do its part.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("there is no program `{program}` on this node: install the package {package}")]
    Missing { program: &'static str, package: &'static str },
    #[error("`{program}`: {error}")]
    Run { program: String, error: ProgramError },
    #[error("`{program}` says: {words}")]
    Refuses { program: String, words: String },
}

/// A change of a card that the operator's program is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Up,
    Down,
}

/// The programs of this node.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    environment: BTreeMap<&'static str, OsString>,
    /// The operator's, which need not be there.
    hook: PathBuf,
}

impl Programs {
    /// The programs that this process finds, and the operator's `hook`.
    pub(super) fn new(hook: PathBuf) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_else(|| PATH.into());
        let mut environment = BTreeMap::from([("PATH", path), ("LC_ALL", "C.UTF-8".into())]);
        let directory = std::env::var_os(SWITCH_DIRECTORY);
        environment.extend(directory.map(|directory| (SWITCH_DIRECTORY, directory)));
        Self { environment, hook }
    }

    /// The same where the sockets of Open vSwitch lie elsewhere, and other programs are found.
    #[cfg(test)]
    pub(super) fn with(mut self, variable: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.insert(variable, value.into());
        self
    }

    /// Has `nft` do a transaction.
    pub(super) async fn filter(&self, rules: &str) -> Result<(), Trouble> {
        self.run(NFT, &["-f", "-"], rules).await.map(drop)
    }

    /// Makes the interface of a card a port of its bridge of Open vSwitch.
    pub(super) async fn plug(&self, card: &CardPlan) -> Result<(), Trouble> {
        let Place::Switch { bridge, vlans } = &card.place else { return Ok(()) };
        let interface = card.interface.as_str();
        // A record that was left would be kept, with its VLANs.
        let removal = ["--if-exists", "del-port", interface, "--"];
        let question = ["--if-exists", "get", "Bridge", bridge, "datapath_type"];
        let told = self.switch(&[&removal[..], &question].concat()).await?.told;
        if String::from_utf8_lossy(&told).trim().trim_matches('"') == USERSPACE {
            tracing::warn!(
                interface,
                bridge,
                "nothing filters the frames of this card: its switch takes them past the kernel"
            );
        }
        let columns = plan::columns(vlans.as_ref());
        let mut words = vec!["--may-exist", "add-port", bridge, interface];
        words.extend(columns.iter().map(String::as_str));
        let ended = self.switch(&words).await?;
        if ended.complained.contains(SWITCH_REFUSES) {
            return Err(refuses(OVS_VSCTL.program, &ended));
        }
        Ok(())
    }

    /// Removes the port of an interface, if there is one.
    pub(super) async fn unplug(&self, interface: &str) -> Result<(), Trouble> {
        self.switch(&["--if-exists", "del-port", interface]).await.map(drop)
    }

    async fn switch(&self, words: &[&str]) -> Result<Ended, Trouble> {
        self.run(OVS_VSCTL, &[&[SWITCH_ENDS, "--"], words].concat(), "").await
    }

    /// Tells the operator's program of a card, where there is one.
    pub(super) async fn tell(
        &self,
        event: Event,
        instance: &InstanceName,
        nic: &NicLaunch,
    ) -> Result<(), Trouble> {
        let runs = std::fs::metadata(&self.hook)
            .is_ok_and(|hook| hook.is_file() && hook.permissions().mode() & 0o111 != 0);
        if !runs {
            return Ok(());
        }
        let mut command = Command::new(&self.hook);
        command.env_clear().env("PATH", PATH).current_dir("/");
        command.arg(if event == Event::Up { "up" } else { "down" });
        command.envs(variables(instance, nic));
        let program = self.hook.display().to_string();
        let limits = limits(HOOK_TIME);
        let ended = run_for_network(command, b"", limits).await;
        let ended = ended.map_err(|error| Trouble::Run { program: program.clone(), error })?;
        if ended.status.success() { Ok(()) } else { Err(refuses(&program, &ended)) }
    }

    async fn run(&self, tool: Tool, words: &[&str], question: &str) -> Result<Ended, Trouble> {
        let Tool { program, package, time } = tool;
        let mut command = Command::new(program);
        command.args(words).env_clear().envs(&self.environment).current_dir("/");
        let ended = run_for_network(command, question.as_bytes(), limits(time)).await;
        let ended = ended.map_err(|error| match error {
            ProgramError::Run(error) if error.kind() == io::ErrorKind::NotFound => {
                Trouble::Missing { program, package }
            }
            error => Trouble::Run { program: program.to_owned(), error },
        })?;
        if ended.status.success() { Ok(ended) } else { Err(refuses(program, &ended)) }
    }
}

const fn limits(time: Duration) -> Limits {
    Limits { time, told: WORDS_BYTES_MAX, complained: WORDS_BYTES_MAX }
}

/// The variables by which Ganeti tells its scripts of a card.
fn variables(instance: &InstanceName, nic: &NicLaunch) -> Vec<(&'static str, String)> {
    let (mode, link) = (parameter(nic, "mode"), parameter(nic, "link"));
    let mut variables = vec![
        ("INSTANCE", instance.to_string()),
        ("INTERFACE", plan::interface(nic)),
        ("INTERFACE_UUID", nic.uuid.to_string()),
        ("MODE", mode.to_owned()),
        ("LINK", link.to_owned()),
        ("VLAN", parameter(nic, "vlan").to_owned()),
        ("MAC", nic.mac.to_string()),
        ("IP", nic.ip.map(|ip| ip.to_string()).unwrap_or_default()),
    ];
    if mode == "bridged" {
        variables.push(("BRIDGE", link.to_owned()));
    }
    let network = nic.network.as_ref().map(ToString::to_string);
    variables.extend(network.map(|network| ("NETWORK_NAME", network)));
    variables
}

fn refuses(program: &str, ended: &Ended) -> Trouble {
    let words = ended.complained.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = if words.is_empty() { ended.status.to_string() } else { words };
    Trouble::Refuses { program: program.to_owned(), words }
}
