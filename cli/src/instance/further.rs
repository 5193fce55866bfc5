//! Verbs of `gnt instance` that are one opcode each.

use clap::Subcommand;
use model::opcode::instance::{Told, Withheld};
use model::opcode::{
    InstanceActivateDisks, InstanceChangeGroup, InstanceConsole, InstanceDeactivateDisks,
    InstanceReinstall, InstanceRename, InstanceResync, OpCode,
};
use serde_json::Value;

use super::console;
use crate::error::CliError;
use crate::output::say;
use crate::parameters::system_keys;
use crate::python;
use crate::session::{Session, confirm};
use crate::several::spread;
use crate::submit::JobArguments;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Further {
    /// Give an instance that is stopped another name.
    Rename {
        /// Its name.
        name: String,
        /// Its new name.
        new_name: String,
        /// Do not look whether the resolver knows the new name.
        #[arg(long)]
        no_name_check: bool,
        /// Do not look whether its address answers.
        #[arg(long)]
        no_ip_check: bool,
        /// Nothing is asked.
        #[arg(short, long, hide = true)]
        force: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Write an operating system anew onto the first disk of an instance that is stopped.
    #[command(after_help = "All that is on that disk is lost.")]
    Reinstall {
        /// Its name.
        name: String,
        /// Another operating system than it has, with its variant behind a `+`.
        #[arg(short = 'o', long, value_name = "NAME")]
        os_type: Option<String>,
        /// Take a variant that the operating system does not list.
        #[arg(long)]
        force_variant: bool,
        /// Parameters of the operating system; a value `@FILE` is read from a file.
        #[arg(short = 'O', long, value_name = "NAME=VALUE,...", value_parser = system_keys)]
        os_parameters: Option<Told>,
        /// Do not ask.
        #[arg(short, long, visible_alias = "yes")]
        force: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Have the disks of an instance active on its node; says where each is.
    ActivateDisks {
        /// Its name.
        name: String,
        /// Take disks whose size is not that of their record.
        #[arg(long)]
        ignore_size: bool,
        /// Wait until its copies are in step.
        #[arg(long)]
        wait_for_sync: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Have the disks of an instance inactive.
    DeactivateDisks {
        /// Its name.
        name: String,
        /// Also where it runs.
        #[arg(short, long)]
        force: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Have a running instance fill copies of its disks that lack writes.
    #[command(after_help = "The cluster does so by itself when the node of a copy answers.")]
    Resync {
        /// Its name.
        name: String,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Talk with an instance on its serial console; Ctrl-] ends that.
    #[command(
        after_help = "Where standard input is no terminal, it is typed, and the command ends with it."
    )]
    Console {
        /// Its name.
        name: String,
        /// Print the command by which Ganeti's clients reach it.
        #[arg(long)]
        show_cmd: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Print what an instance wrote to its serial console, as far as it is kept.
    Log {
        /// Its name.
        name: String,
        /// Go on with what it writes; Ctrl-C ends that.
        #[arg(short, long)]
        follow: bool,
    },
    /// Take an instance to a node of another group, by a job.
    ChangeGroup {
        /// Its name.
        name: String,
        /// A group that it may go to; may be given several times. Any other without it.
        #[arg(long = "to", value_name = "GROUP")]
        groups: Vec<String>,
        /// The allocator; `.` is the cluster's.
        #[arg(short = 'I', long, value_name = "NAME")]
        iallocator: Option<String>,
        /// Give up old copies early.
        #[arg(long, hide = true)]
        early_release: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

impl Further {
    pub(crate) fn run(self, session: &Session) -> Result<(), CliError> {
        let instance_uuid = None;
        match self {
            Self::Rename { name, new_name, no_name_check, no_ip_check, force: _, job } => {
                let op = InstanceRename {
                    instance_name: name,
                    instance_uuid,
                    new_name,
                    name_check: !no_name_check,
                    ip_check: !no_ip_check,
                };
                match job.run(OpCode::InstanceRename(op), session)? {
                    Some(Value::String(name)) => say(format_args!("Instance renamed to '{name}'")),
                    _ => Ok(()),
                }
            }
            Self::Reinstall { name, os_type, force_variant, os_parameters, force, job } => {
                let question = format!("Reinstall {name}? All that is on its first disk is lost.");
                confirm(&question, force || job.dry_run)?;
                let op = InstanceReinstall {
                    instance_name: name,
                    instance_uuid,
                    os_type,
                    force_variant,
                    osparams: os_parameters,
                    osparams_private: Withheld,
                    osparams_secret: Withheld,
                };
                job.run(OpCode::InstanceReinstall(op), session).map(drop)
            }
            Self::ActivateDisks { name, ignore_size, wait_for_sync, job } => {
                let instance_name = name;
                let op = InstanceActivateDisks {
                    instance_name,
                    instance_uuid,
                    ignore_size,
                    wait_for_sync,
                };
                let told = job.run(OpCode::InstanceActivateDisks(op), session)?;
                for disk in told.as_ref().and_then(Value::as_array).into_iter().flatten() {
                    let of = |at: usize| python::text(disk.get(at).unwrap_or(&Value::Null));
                    say(format_args!("{}:{}:{}", of(0), of(1), of(2)))?;
                }
                Ok(())
            }
            Self::DeactivateDisks { name, force, job } => {
                let op = InstanceDeactivateDisks { instance_name: name, instance_uuid, force };
                job.run(OpCode::InstanceDeactivateDisks(op), session).map(drop)
            }
            Self::Resync { name, job } => {
                let op = InstanceResync { instance_name: name, instance_uuid };
                job.run(OpCode::InstanceResync(op), session).map(drop)
            }
            Self::Console { name, show_cmd: true, job } => {
                let op = InstanceConsole { instance_name: name, instance_uuid };
                let told = job.run(OpCode::InstanceConsole(op), session)?.unwrap_or_default();
                say(console::command(&told))
            }
            Self::Console { name, show_cmd: false, job: _ } => console::open(&name, session),
            Self::Log { name, follow } => console::log(&name, follow, session),
            Self::ChangeGroup { name, groups, iallocator, early_release, job } => {
                let op = InstanceChangeGroup {
                    instance_name: name,
                    instance_uuid,
                    early_release,
                    iallocator,
                    target_groups: Some(groups).filter(|groups| !groups.is_empty()),
                };
                spread(OpCode::InstanceChangeGroup(op), &job, session)
            }
        }
    }
}
