//! `gnt instance batch-create`.

use std::path::PathBuf;

use clap::Args;
use model::opcode::{InstanceMultiAlloc, OpCode};
use serde_json::{Map, Value, json};

use crate::error::CliError;
use crate::output::{say, warn};
use crate::python;
use crate::session::Session;
use crate::several::made_by;
use crate::submit::JobArguments;

/// Arguments of `batch-create`.
#[derive(Debug, Args)]
pub(crate) struct BatchArguments {
    /// A file with a JSON list of objects, each with the parameters of `OP_INSTANCE_CREATE`.
    file: PathBuf,
    /// The allocator; `.` is the cluster's.
    #[arg(short = 'I', long, value_name = "NAME")]
    iallocator: Option<String>,
    #[command(flatten)]
    job: JobArguments,
}

impl BatchArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), CliError> {
        let file = self.file.display();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| CliError::Usage(format!("cannot read {file}: {error}")))?;
        let told: Vec<Map<String, Value>> = serde_json::from_str(&text).map_err(|error| {
            CliError::Usage(format!(
                "{file} is no JSON list of objects, one for each instance: {error}"
            ))
        })?;
        let with_id = |mut one: Map<String, Value>| {
            one.entry("OP_ID").or_insert_with(|| json!("OP_INSTANCE_CREATE"));
            Value::Object(one)
        };
        let op = InstanceMultiAlloc {
            instances: told.into_iter().map(with_id).collect(),
            iallocator: self.iallocator,
            opportunistic_locking: false,
        };
        let Some(made) = self.job.run(OpCode::InstanceMultiAlloc(op), session)? else {
            return Ok(());
        };
        let full = made.get("failed").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut client = session.connect()?;
        let failed = made_by(&made).wait(session, &mut client, true)?.failed;
        for name in &full {
            warn(format_args!("{} was not made; the job's log says why", python::text(name)))?;
        }
        if failed == 0 && full.is_empty() {
            return say("All instances created successfully.");
        }
        warn(format_args!("There were {} errors during the creation.", failed + full.len()))?;
        Err(CliError::Told)
    }
}
