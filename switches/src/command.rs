//! A program of the operator's as a switch: it takes a question as JSON on its standard input, and answers
//! JSON. docs/switches.md has both.

use std::path::PathBuf;
use std::time::Duration;

use model::switch::{Actuals, PortChange, PortOutcome, SwitchTarget};
use serde::{Deserialize, Serialize};
use stdx::program::{Ended, Limits, ProgramError, run};
use tokio::time::sleep;

use crate::SwitchError;
use crate::error::told;
use crate::provider::Provider;

/// Between two looks at the ports, as a program tells nothing unasked.
const LOOK: Duration = Duration::from_secs(60);
/// The limits of a program. A playbook on a slow switch takes a minute; the answer of the largest switch has
/// some MiB.
const LIMITS: Limits =
    Limits { time: Duration::from_secs(120), told: 16 * 1024 * 1024, complained: 4_096 };
/// The version of question and answer.
const VERSION: u32 = 1;

/// A switch that is reached by a program.
pub(crate) struct Command {
    program: PathBuf,
    target: SwitchTarget,
}

#[derive(Serialize)]
struct ProgramQuestion<'q> {
    version: u32,
    switch: &'q str,
    options: &'q std::collections::BTreeMap<model::Word, String>,
    user: Option<&'q str>,
    password: Option<&'q str>,
    /// Absent where the ports are only to be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'q [PortChange]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramAnswer {
    /// The ports, after the changes.
    ports: Actuals,
    /// Why a change was not made, by port.
    #[serde(default)]
    refused: std::collections::BTreeMap<String, String>,
}

impl Command {
    pub(crate) fn new(program: PathBuf, target: &SwitchTarget) -> Self {
        Self { program, target: target.clone() }
    }

    fn other(&self, why: String) -> SwitchError {
        SwitchError::Other { at: self.target.url.to_string(), why }
    }

    async fn ask(&self, changes: Option<&[PortChange]>) -> Result<ProgramAnswer, SwitchError> {
        let question = ProgramQuestion {
            version: VERSION,
            switch: self.target.name.as_str(),
            options: &self.target.options,
            user: self.target.user.as_deref(),
            password: self.target.secret.as_ref().map(|secret| secret.0.expose().as_str()),
            changes,
        };
        let question = model::Secret::new(serde_json::to_vec(&question).unwrap_or_default());
        let at = self.target.url.to_string();
        let ended = run(self.command(), question.expose(), LIMITS).await;
        let Ended { status, told: said, complained } = ended.map_err(|error| match error {
            ProgramError::Late(within) => {
                SwitchError::Silent { at: at.clone(), what: "its question", within }
            }
            ProgramError::Run(error) => SwitchError::Unreached {
                at: at.clone(),
                why: format!("{}: {error}", self.program.display()),
            },
        })?;
        if !status.success() {
            let why = format!("ended with {status}: {}", told(&complained));
            return Err(self.other(why));
        }
        serde_json::from_slice(&said).map_err(|error| {
            SwitchError::protocol(&at, told(&format!("its answer does not read: {error}")))
        })
    }

    fn command(&self) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.env_clear().env("PATH", stdx::program::PATH).env("LC_ALL", "C.UTF-8");
        command.current_dir("/");
        command
    }
}

impl Provider for Command {
    async fn connect(&mut self) -> Result<(), SwitchError> {
        Ok(())
    }

    async fn ports(&mut self) -> Result<Actuals, SwitchError> {
        self.ask(None).await.map(|answer| answer.ports)
    }

    async fn apply(&mut self, changes: &[PortChange]) -> Result<Vec<PortOutcome>, SwitchError> {
        let before = self.ports().await?;
        let mut outcomes: Vec<Option<PortOutcome>> = Vec::new();
        for PortChange { port, wanted, if_current, .. } in changes {
            outcomes.push(match before.get(port) {
                None => Some(PortOutcome::Refused(format!("the switch has no port {port}"))),
                Some(actual) if actual.is(wanted) => Some(PortOutcome::Applied),
                Some(actual) if if_current.as_ref().is_some_and(|expected| expected != actual) => {
                    Some(PortOutcome::Differs(actual.clone()))
                }
                Some(_) => None,
            });
        }
        let open: Vec<PortChange> = changes
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| outcome.is_none())
            .map(|(change, _)| change.clone())
            .collect();
        let answer = if open.is_empty() { None } else { Some(self.ask(Some(&open)).await?) };
        let outcome = |port: &str, change: &PortChange| {
            let answer = answer.as_ref()?;
            Some(match (answer.refused.get(port), answer.ports.get(port)) {
                (_, Some(actual)) if actual.is(&change.wanted) => PortOutcome::Applied,
                (Some(why), _) => PortOutcome::Refused(told(why)),
                (None, Some(actual)) => PortOutcome::Differs(actual.clone()),
                (None, None) => {
                    PortOutcome::Refused(format!("the switch has no port {port} any more"))
                }
            })
        };
        let unknown = || PortOutcome::Refused("the program does not tell of it".to_owned());
        Ok(changes
            .iter()
            .zip(outcomes)
            .map(|(change, done)| {
                done.or_else(|| outcome(&change.port, change)).unwrap_or_else(unknown)
            })
            .collect())
    }

    async fn changed(&mut self) -> Result<(), SwitchError> {
        sleep(LOOK).await;
        Ok(())
    }
}
