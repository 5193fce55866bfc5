//! `gnt node network`.

use std::path::PathBuf;

use clap::Subcommand;
use model::opcode::{NodeNetworkApply, NodeNetworkRollback};
use model::{OpCode, Word};

use crate::error::CliError;
use crate::session::{Session, read_input};
use crate::submit::JobArguments;

/// The verbs of `gnt node network`.
#[derive(Debug, Subcommand)]
pub(crate) enum Network {
    /// Change it. Without a word of the master in time the node goes back by itself.
    ///
    /// --dry-run shows the steps and touches nothing. Interfaces that are not named stay as they are.
    #[command(group = clap::ArgGroup::new("wish").required(true))]
    Apply {
        /// The nodes; each is a job of its own.
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
        /// The network in YAML, in our form or that of os-net-config, netplan or nmstate; `-` reads
        /// standard input.
        #[arg(short = 'f', long, value_name = "FILE", group = "wish")]
        file: Option<PathBuf>,
        /// A template instead: the node claims addresses under its name.
        #[arg(long, value_name = "NAME", group = "wish")]
        template: Option<Word>,
        /// Instead what was applied last, where the host drifted from it.
        #[arg(long, group = "wish")]
        again: bool,
        /// Nodes at a time; those behind a failure are not begun.
        #[arg(
            long,
            value_name = "NUMBER",
            default_value_t = 1,
            value_parser = clap::value_parser!(u8).range(1..=100)
        )]
        parallel: u8,
        /// Seconds after which the node goes back if the master does not reach it.
        #[arg(
            long,
            value_name = "SECONDS",
            default_value_t = 60,
            value_parser = clap::value_parser!(u32).range(10..=3_600)
        )]
        deadline: u32,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Undo a change that waits for its commit.
    Rollback {
        /// The node.
        node: String,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// Carries out one verb.
pub(super) fn run(verb: Network, session: &Session) -> Result<(), CliError> {
    match verb {
        Network::Apply { nodes, file, template, again, parallel, deadline: seconds, job } => {
            let text = file.map(|file| read_input(&file)).transpose()?;
            let op = |node_name| {
                let (text, template) = (text.clone(), template.clone());
                OpCode::NodeNetworkApply(NodeNetworkApply {
                    node_name,
                    text,
                    template,
                    again,
                    seconds,
                })
            };
            job.run_in_waves(nodes.into_iter().map(op).collect(), parallel.into(), session)
        }
        Network::Rollback { node: node_name, job } => {
            let op = NodeNetworkRollback { node_name };
            job.run(OpCode::NodeNetworkRollback(op), session).map(drop)
        }
    }
}
