//! `gnt node add`.

use std::io::{self, BufRead as _};
use std::net::{IpAddr, ToSocketAddrs as _};

use clap::Args;
use luxi::method::{GantryStageSecret, StagedSecret};
use model::enrol::{Token, secret_text};
use model::name::NameError;
use model::opcode::NodeAdd;
use model::{NodeName, OpCode, Serial};
use serde_json::Value;

use crate::error::{CliError, Exit};
use crate::keys;
use crate::output::say;
use crate::session::Session;
use crate::submit::JobArguments;

/// In what the master says of an agent that does not answer.
const UNREACHED: &str = "cannot reach the agent";

/// Arguments of `add`.
#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// Host name of the new node.
    name: String,
    /// The line that `noded enroll` shows on the new node; `-` asks for it, or reads it from
    /// standard input, which keeps it out of the list of processes.
    #[arg(long, value_name = "TOKEN", default_value = "-")]
    secret: String,
    /// Address of its agent; the one of the token where it is not given.
    #[arg(long, value_name = "IP")]
    primary_ip: Option<IpAddr>,
    /// Address for replication traffic; the primary one where it is not given.
    #[arg(short, long, value_name = "IP")]
    secondary_ip: Option<IpAddr>,
    /// Port of its agent; the one of the token where it is not given.
    #[arg(long, value_name = "PORT")]
    rpc_port: Option<u16>,
    /// Port where its masterd is asked by those of other candidates (`masterd --peers`); the usual
    /// one where it is not given.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    peer_port: Option<u16>,
    /// The machine of the inventory that it is, which was deployed with --node: its own token proves it,
    /// and no other one is asked for.
    #[arg(long, value_name = "SERIAL", conflicts_with = "secret")]
    machine: Option<Serial>,
    /// The rack that its agent serves.
    #[arg(long, value_name = "NUMBER")]
    rack: Option<u32>,
    /// The node group that it is put into; needed where there are several.
    #[arg(short = 'g', long, value_name = "GROUP")]
    node_group: Option<String>,
    /// Whether it may become the master.
    #[arg(long, value_name = "yes|no", hide_possible_values = true)]
    master_capable: Option<super::YesNo>,
    /// It votes, and is never the master: for a cluster of two nodes that can be.
    #[arg(long)]
    witness: bool,
    /// Whether it may run instances.
    #[arg(long, value_name = "yes|no", hide_possible_values = true)]
    vm_capable: Option<super::YesNo>,
    /// The node is a member already and lost its disk: it keeps its name, id and rack, gets another
    /// key, and is neither offline nor drained any more.
    #[arg(long)]
    readd: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// Hands over the secret, which must not be in a job, and submits the job.
pub(super) fn run(arguments: AddArguments, session: &Session) -> Result<(), CliError> {
    let wrong = |error: NameError| CliError::Usage(error.to_string());
    let name: NodeName = arguments.name.parse().map_err(wrong)?;
    let token = match &arguments.machine {
        Some(_) => None,
        None => Some(token(&arguments.secret)?),
    };
    let address = token.as_ref().map(resolve);
    let op = NodeAdd {
        node_name: name.to_string(),
        primary_ip: arguments.primary_ip.map(Ok).or(address).transpose()?,
        rpc_port: arguments.rpc_port.or(token.as_ref().map(|token| token.port)),
        peer_port: arguments.peer_port,
        fingerprint: token.as_ref().map(|token| token.fingerprint),
        machine: arguments.machine.map(|serial| serial.to_string()),
        rack: arguments.rack,
        master_capable: super::truth(arguments.master_capable),
        witness: arguments.witness.then_some(true),
        vm_capable: super::truth(arguments.vm_capable),
        secondary_ip: arguments.secondary_ip,
        readd: arguments.readd,
        group: arguments.node_group,
        ..NodeAdd::default()
    };
    if let Some(token) = token {
        let secret = StagedSecret(secret_text(&token.secret));
        session.ask(&GantryStageSecret { node_name: name.clone(), secret })?;
    }
    if arguments.job.run(OpCode::NodeAdd(op), session).map_err(doubted)?.is_some() {
        say(format_args!("Node {name} is a member of the cluster."))?;
    }
    Ok(())
}

fn token(text: &str) -> Result<Token, CliError> {
    if text != "-" {
        return Ok(text.parse()?);
    }
    let line = match keys::secret("Secret: ") {
        Ok(Some(line)) => line,
        Ok(None) => {
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line)?;
            line
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            return Err(CliError::Ended(Exit::INTERRUPTED));
        }
        Err(error) => return Err(CliError::Read { path: "-".into(), error }),
    };
    Ok(line.parse()?)
}

/// Adds to a failure to reach the agent what it often is.
fn doubted(error: CliError) -> CliError {
    let CliError::Job { id, mut exception, said } = error else { return error };
    if let Some(Value::String(told)) = exception.args.first_mut()
        && told.contains(UNREACHED)
    {
        told.push_str(
            "; if `noded enroll` has ended there, its token is no longer valid: run it again, or, \
             if it ended with `enrolled`, start noded there and repeat this command",
        );
    }
    CliError::Job { id, exception, said }
}

/// The address that the token's host name stands for on this machine.
fn resolve(token: &Token) -> Result<IpAddr, CliError> {
    let told = |why: &str| {
        CliError::Failed(format!(
            "the token's host `{}` {why}; give the address with --primary-ip",
            token.host
        ))
    };
    let addresses = (token.host.as_str(), token.port).to_socket_addrs();
    let mut addresses = addresses.map_err(|error| told(&format!("has no address ({error})")))?;
    addresses.next().map(|address| address.ip()).ok_or_else(|| told("has no address"))
}
