//! Runs `xl`, each time within limits of time and output.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::InstanceName;
use stdx::program::{Limits, PATH, ProgramError, run};
use tokio::process::Command;

use super::list::{Domains, ListError, read};

/// Most bytes of `xl`'s words: lists of several thousand domains.
const TOLD_BYTES_MAX: u64 = 1 << 20;
/// How much of its complaints an error repeats: the last ones, which tell why it gave up.
const COMPLAINT_BYTES_MAX: usize = 600;
/// Time for a question or an order: `xl` waits for xenstore alone.
const ASK: Duration = Duration::from_secs(20);
/// Time for a new domain: libxl waits up to 60 s for a device model, and 40 s for each script.
const CREATE: Duration = Duration::from_secs(180);
/// The words by which `xl domid` says that it looked, and found none.
const NO_SUCH_NAME: &str = "maybe this domain does not exist";

/// Why `xl` did not do something.
#[derive(Debug, thiserror::Error)]
pub(crate) enum XlError {
    #[error("xl {words}: {error}")]
    Run { words: String, error: ProgramError },
    #[error("xl {words} failed: {why}")]
    Fails { words: String, why: String },
    #[error(transparent)]
    List(#[from] ListError),
    #[error("Xen has no domain of it that lives")]
    NoDomain,
    /// The last trouble with it, where there was one.
    #[error("its domain is not gone{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Stays(Option<String>),
}

/// The program.
#[derive(Debug, Clone)]
pub(crate) struct Xl(PathBuf);

impl Xl {
    pub(crate) fn new(program: PathBuf) -> Self {
        Self(program)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Runs it to its end; gives its words, and whether it succeeded or why not.
    async fn run(
        &self,
        words: &[&str],
        time: Duration,
    ) -> Result<(String, Result<(), XlError>), XlError> {
        let line = || words.join(" ");
        let mut command = Command::new(&self.0);
        command.args(words).env_clear().env("PATH", PATH).env("LC_ALL", "C").current_dir("/");
        let limits = Limits { time, told: TOLD_BYTES_MAX, complained: TOLD_BYTES_MAX };
        let ended = run(command, b"", limits).await;
        let ended = ended.map_err(|error| XlError::Run { words: line(), error })?;
        if ended.told.len() as u64 >= TOLD_BYTES_MAX {
            return Err(XlError::List(ListError::Cut));
        }
        let told = String::from_utf8_lossy(&ended.told).into_owned();
        if ended.status.success() {
            return Ok((told, Ok(())));
        }
        let complaint = ended.complained.trim();
        let tail = complaint.len().saturating_sub(COMPLAINT_BYTES_MAX);
        let tail = (tail..=complaint.len()).find(|at| complaint.is_char_boundary(*at));
        let why = complaint.get(tail.unwrap_or_default()..).unwrap_or_default();
        let why = if why.is_empty() { ended.status.to_string() } else { why.replace('\n', "; ") };
        Ok((told, Err(XlError::Fails { words: line(), why })))
    }

    /// The domains that there are.
    pub(crate) async fn list(&self) -> Result<Domains, XlError> {
        let (told, done) = self.run(&["list", "-v"], ASK).await?;
        done?;
        Ok(read(&told)?)
    }

    /// The number of the domain of this name, if there is one.
    pub(crate) async fn domid(&self, name: &InstanceName) -> Result<Option<u32>, XlError> {
        let (told, done) = self.run(&["domid", name.as_str()], ASK).await?;
        match done {
            Ok(()) => {
                let odd = || XlError::List(ListError::Line(told.chars().take(100).collect()));
                told.trim().parse().map(Some).map_err(|_not_a_number| odd())
            }
            Err(XlError::Fails { why, .. }) if why.contains(NO_SUCH_NAME) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a domain, which stands still. Nobody of Xen waits for its end (`-e`): the agent does.
    pub(crate) async fn create(&self, config: &Path) -> Result<(), XlError> {
        let config = config.display().to_string();
        let (_, done) = self.run(&["create", "-e", "-p", "-q", &config], CREATE).await?;
        done
    }

    /// Gives a domain an order.
    pub(crate) async fn tell(
        &self,
        words: &[&str],
        id: u32,
        last: Option<&str>,
    ) -> Result<(), XlError> {
        let id = id.to_string();
        let words = [words, &[id.as_str()], last.as_slice()].concat();
        let (_, done) = self.run(&words, ASK).await?;
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with this script.
    fn xl(directory: &tempfile::TempDir, script: &str) -> Xl {
        let path = directory.path().join("xl");
        stdx::atomic::write(&path, format!("#!/bin/sh\n{script}\n").as_bytes(), 0o755).unwrap();
        Xl::new(path)
    }

    #[tokio::test]
    async fn words_without_an_end_are_no_answer() {
        let directory = tempfile::tempdir().unwrap();
        let late = xl(&directory, "sleep 1000").run(&["list"], Duration::from_millis(200)).await;
        let late = late.unwrap_err().to_string();
        assert_eq!(late, "xl list: it did not end within 0 s");
        let flood = "echo Name Reason-Code; yes | head -c 2000000";
        let cut = xl(&directory, flood).list().await.unwrap_err();
        assert!(matches!(cut, XlError::List(ListError::Cut)), "{cut}");
        let complains = xl(&directory, "for i in $(seq 500); do echo no äöü >&2; done; exit 1");
        let XlError::Fails { why, .. } = complains.list().await.unwrap_err() else { panic!() };
        assert!(why.len() <= 3 * COMPLAINT_BYTES_MAX && why.ends_with("no äöü"), "{why}");
    }
}
