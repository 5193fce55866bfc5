//! `gnt machine bmc`, `power` and `health`.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand, ValueEnum};
use luxi::method::{GantrySeal, StagedSecret};
use model::bmc::{BmcAccess, BmcPrivilege, BmcTrust, BmcUrl, BootOnce, Health, PowerAction};
use model::enrol::Fingerprint;
use model::opcode::{MachineBmcRemove, MachineBmcSet, MachineHealth, MachinePower};
use model::{OpCode, Secret, Serial};
use serde::Deserialize as _;
use stdx::terminal::hidden_line;

use super::chosen::Conditions;
use super::meant;
use crate::error::CliError;
use crate::output::{say, say_json, say_lines};
use crate::session::{Session, confirm, read_bytes};
use crate::submit::JobArguments;

/// The verbs of `gnt machine bmc`.
#[derive(Debug, Subcommand)]
pub(crate) enum BmcVerb {
    /// Set how the management controller of a machine is reached, and look whether it is.
    Set(Box<SetArguments>),
    /// Forget how the management controller of a machine is reached.
    Remove {
        /// The machine.
        serial: Serial,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// Arguments of `bmc set`.
#[derive(Debug, Args)]
pub(crate) struct SetArguments {
    /// The machine.
    serial: Serial,
    /// The address of its controller: `https://HOST[:PORT]` for Redfish, `ipmi://HOST[:PORT]`.
    #[arg(long, value_name = "URL")]
    url: BmcUrl,
    /// The user by which the controller knows us.
    #[arg(long, value_name = "NAME")]
    user: String,
    /// The level at which the user acts, for `ipmi://` alone. Without it, that of an administrator, which a
    /// controller refuses to a user who is none.
    #[arg(long, value_enum, value_name = "LEVEL")]
    privilege: Option<Privilege>,
    /// File with the user's password in its first line; `-` reads standard input. Without it, the
    /// terminal is asked.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The certificate that the controller may show: its SHA-256 in hexadecimal digits, `authority` for
    /// one that a public authority signed for its name, or `any`. Without it, the one that it shows now.
    #[arg(long, value_name = "FINGERPRINT", value_parser = trust)]
    certificate: Option<BmcTrust>,
    /// Do not ask the controller whether this is right.
    #[arg(long)]
    no_check: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// The level at which a user acts.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Privilege {
    /// It reads.
    User,
    /// It switches the power, too.
    Operator,
    /// It may do everything.
    Administrator,
}

fn trust(text: &str) -> Result<BmcTrust, String> {
    match text {
        "any" => Ok(BmcTrust::Any),
        "authority" => Ok(BmcTrust::Authority),
        other => {
            let pinned = other.parse::<Fingerprint>().map(BmcTrust::Certificate);
            pinned.map_err(|error| format!("{error}; `any` and `authority` are taken as well"))
        }
    }
}

/// What `power` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PowerVerb {
    /// Switch it on.
    On,
    /// Switch it off at once.
    Off,
    /// Ask its operating system to switch it off.
    SoftOff,
    /// Switch it off at once, and on again.
    Cycle,
    /// Tell whether it runs.
    Status,
}

impl PowerVerb {
    const fn action(self) -> Option<PowerAction> {
        match self {
            Self::On => Some(PowerAction::On),
            Self::Off => Some(PowerAction::Off),
            Self::SoftOff => Some(PowerAction::SoftOff),
            Self::Cycle => Some(PowerAction::Cycle),
            Self::Status => None,
        }
    }
}

/// From where a machine boots once.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum From {
    /// The network.
    Network,
    /// Its disk.
    Disk,
}

/// Arguments of `power`.
#[derive(Debug, Args)]
pub(crate) struct PowerArguments {
    /// What to do.
    #[arg(value_enum)]
    verb: PowerVerb,
    /// Serial numbers; or conditions instead.
    #[arg(required_unless_present = "Conditions", conflicts_with = "Conditions")]
    serials: Vec<Serial>,
    #[command(flatten)]
    conditions: Box<Conditions>,
    /// From where it boots at its next start, and only then.
    #[arg(long, value_enum, value_name = "FROM")]
    boot_once: Option<From>,
    #[command(flatten)]
    pace: Pace,
    /// Do not ask.
    #[arg(short = 'f', long, visible_alias = "force")]
    yes: bool,
    #[command(flatten)]
    job: JobArguments,
}

/// How many machines at a time.
#[derive(Debug, Args)]
pub(crate) struct Pace {
    /// Machines at a time, each with a job of its own; none is begun behind those among which one failed.
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 8,
        value_parser = clap::value_parser!(u8).range(1..=100)
    )]
    pub(super) parallel: u8,
}

/// Carries out `bmc`.
pub(super) fn run(verb: BmcVerb, session: &Session) -> Result<(), CliError> {
    match verb {
        BmcVerb::Set(arguments) => set(*arguments, session),
        BmcVerb::Remove { serial, job } => {
            let op = MachineBmcRemove { serial: serial.to_string() };
            job.run(OpCode::MachineBmcRemove(op), session).map(drop)
        }
    }
}

fn set(arguments: SetArguments, session: &Session) -> Result<(), CliError> {
    let SetArguments { serial, url, user, privilege, password_file, certificate, no_check, job } =
        arguments;
    let password = match password_file {
        Some(file) => {
            let bytes = read_bytes(&file)?;
            let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            line.strip_suffix(b"\r").unwrap_or(line).to_vec()
        }
        None => {
            let line = hidden_line(&format!("Password of {user} at {url}: "));
            let line =
                line.map_err(|error| CliError::Read { path: "the terminal".into(), error })?;
            line.unwrap_or_default().into_bytes()
        }
    };
    if password.is_empty() {
        return Err(CliError::Usage(
            "the password is empty; type it at the terminal, or name a file by --password-file"
                .to_owned(),
        ));
    }
    let secret = StagedSecret(Secret::new(STANDARD.encode(password)));
    let purpose = BmcAccess::purpose(&serial);
    let sealed = session.ask(&GantrySeal { purpose, secret })?;
    let serial = serial.to_string();
    let privilege = privilege.map(|level| match level {
        Privilege::User => BmcPrivilege::User,
        Privilege::Operator => BmcPrivilege::Operator,
        Privilege::Administrator => BmcPrivilege::Administrator,
    });
    let (trust, unchecked) = (certificate, no_check);
    let op = MachineBmcSet { serial, url, trust, user, privilege, sealed, unchecked };
    job.run(OpCode::MachineBmcSet(op), session).map(drop)
}

/// Carries out `power`.
pub(super) fn power(arguments: PowerArguments, session: &Session) -> Result<(), CliError> {
    let PowerArguments { verb, serials, conditions, boot_once, pace, yes, job } = arguments;
    let serials = meant(&serials, conditions.filters(), session)?;
    let stops = matches!(verb, PowerVerb::Off | PowerVerb::SoftOff | PowerVerb::Cycle);
    if stops {
        let question = format!("This stops {}. Go on?", serials.join(", "));
        confirm(&question, yes || job.dry_run)?;
    }
    let boot_once = boot_once.map(|from| match from {
        From::Network => BootOnce::Network,
        From::Disk => BootOnce::Disk,
    });
    let op = |serial: String| MachinePower { serial, action: verb.action(), boot_once };
    if let ([serial], PowerVerb::Status) = (serials.as_slice(), verb) {
        let told = job.run(OpCode::MachinePower(op(serial.clone())), session)?;
        let state = told.as_ref().and_then(serde_json::Value::as_str);
        return state.map_or(Ok(()), |state| say(format_args!("{serial}: {state}")));
    }
    let ops = serials.into_iter().map(|serial| OpCode::MachinePower(op(serial)));
    job.run_in_waves(ops.collect(), pace.parallel.into(), session)
}

/// Carries out `health`.
pub(super) fn health(
    serial: &Serial,
    json: bool,
    job: &JobArguments,
    session: &Session,
) -> Result<(), CliError> {
    let op = MachineHealth { serial: serial.to_string() };
    let Some(told) = job.run(OpCode::MachineHealth(op), session)? else { return Ok(()) };
    if json {
        return say_json(&told);
    }
    let health = Health::deserialize(&told);
    let health = health.map_err(|error| CliError::Failed(format!("the job's result: {error}")))?;
    let mut lines = vec![format!("power: {}", health.power)];
    lines.extend(health.health.map(|word| format!("health: {word}")));
    let width = health.sensors.iter().map(|sensor| sensor.name.chars().count()).max().unwrap_or(0);
    lines.extend(health.sensors.iter().map(|sensor| {
        let reading = sensor.reading.as_deref().unwrap_or("-");
        format!("{:width$}  {:8}  {reading}", sensor.name, sensor.health)
    }));
    lines.extend(health.unread.iter().map(|why| format!("not read: {why}")));
    say_lines(&lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_told_in_three_ways() {
        assert_eq!(trust("any"), Ok(BmcTrust::Any));
        assert_eq!(trust("authority"), Ok(BmcTrust::Authority));
        assert!(matches!(trust(&"ab:".repeat(32)), Ok(BmcTrust::Certificate(_))));
        assert!(trust("none").unwrap_err().contains("authority"));
    }
}
