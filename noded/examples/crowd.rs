//! Many agents in one process: what a cluster of a thousand nodes asks of its master, on one machine
//! (`cargo xtask bench replication` starts it).
#![expect(clippy::print_stdout, reason = "whoever starts it reads the tokens")]
#![expect(clippy::print_stderr, reason = "it has no log")]

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use noded::daemon::{Daemon, Settings};
use noded::enroll::enroll;
use noded::options::{Command, Options};
use stdx::daemon::{asked_to_end, chain};
use stdx::{Clock, Tasks};
use tokio::sync::mpsc;

/// A port for DHCP that needs no privilege.
const DHCP_PORT: u16 = 10_067;
/// Bytes of a journal segment: a thousand agents have two each, on the disk of one machine.
const SEGMENT_BYTES: u64 = 1 << 20;

/// Starts agents in this process, each with a root and an address of its own. Each waits to be taken
/// into a cluster, with a line of its name and its token, and then serves.
#[derive(Debug, Parser)]
#[command(name = "crowd")]
struct Arguments {
    /// Directory that has their roots
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Address to which each one's number is added
    #[arg(long, value_name = "IP")]
    network: Ipv4Addr,
    /// Number of the first
    #[arg(long, value_name = "N")]
    first: u32,
    /// How many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
}

impl Arguments {
    /// The command line of one agent.
    fn options(&self, number: u32) -> Result<Options, String> {
        let name = format!("a{number}.example");
        let root = self.dir.join(&name);
        std::fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        let address = Ipv4Addr::from(u32::from(self.network) + number).to_string();
        let (root, dhcp_port) = (root.to_string_lossy(), DHCP_PORT.to_string());
        let line = [
            "noded",
            "--root",
            &root,
            "--rpc-address",
            &address,
            "--boot-address",
            &address,
            "--boot-alias-port",
            "0",
            "--dhcp-address",
            &address,
            "--dhcp-port",
            &dhcp_port,
            "enroll",
            "--name",
            &name,
            "--address",
            &address,
        ];
        Options::try_parse_from(line).map_err(|error| error.to_string())
    }
}

/// Serves until it is asked to end, or an agent fails.
#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let tasks = Tasks::new();
    let (failed, mut failure) = mpsc::channel(1);
    for number in arguments.first..arguments.first + arguments.count {
        let (options, failed) = (arguments.options(number), failed.clone());
        tasks.spawn("agent", async move {
            let lived = match options {
                Ok(options) => live(&options).await,
                Err(why) => Err(why),
            };
            if let Err(why) = lived {
                // The first failure ends all.
                drop(failed.try_send(format!("a{number}.example: {why}")));
            }
        });
    }
    let code = tokio::select! {
        _signal = asked_to_end() => ExitCode::SUCCESS,
        why = failure.recv() => {
            eprintln!("crowd: {}", why.unwrap_or_default());
            ExitCode::FAILURE
        }
    };
    tasks.shutdown().await;
    code
}

/// From the enrolment to the end of one agent.
async fn live(options: &Options) -> Result<(), String> {
    let settings = Settings { segment_bytes: SEGMENT_BYTES, ..options.agent.settings() };
    let Some(Command::Enroll(enrolling)) = &options.command else { return Ok(()) };
    let name = enrolling.name.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut show = Shown { name, text: Vec::new() };
    let enrolled =
        enroll(&settings.layout, settings.rpc, enrolling, &Clock::system(), &mut show).await;
    enrolled.map_err(|error| chain(&error))?;
    let daemon = Daemon::start(settings).await.map_err(|error| chain(&error))?;
    daemon.left().await;
    daemon.stop().await.map_err(|error| chain(&error))
}

/// The output of an enrolment, of which one line is passed on.
struct Shown {
    name: String,
    text: Vec<u8>,
}

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.text);
        if let Some(token) = text.lines().find_map(|line| line.strip_prefix("token: ")) {
            println!("{} {token}", self.name);
        }
        self.text.clear();
        Ok(())
    }
}
