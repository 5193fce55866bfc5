//! Definitions of operating systems: directories with scripts, which run as the agent does
//! (ganeti-os-interface(7)).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::instance::os::{
    OS_API_PARAMETERS, OS_API_VARIANTS, OS_API_VERSIONS, OsDefinition, OsScript, os_parts,
};
use stdx::Clock;
use stdx::program::{self, Ended, Limits};

use crate::VirtError;
use crate::records::io as failed;

/// Definitions that a node may have.
const DEFINITIONS_MAX: usize = 64;
/// Bytes of a text of a definition.
const TEXT_MAX: u64 = 64 * 1024;
/// Lines of one that count.
const LINES_MAX: usize = 256;
/// Time of a script: less than the slow calls have, so that its end is told.
const SCRIPT_TIME: Duration = Duration::from_secs(3_300);
/// Bytes of each of its outputs that are kept.
const OUTPUT_MAX: u64 = 1 << 20;
/// Lines of its output that its failure tells (Ganeti: 20).
const LINES_TOLD: usize = 20;
/// Bytes of them: a job keeps them for ever.
const TOLD_BYTES_MAX: usize = 4_096;
/// Logs of scripts that are kept.
const LOGS_MAX: usize = 200;
/// Mode of a log: a script may print what only root is to know.
const LOG_MODE: u32 = 0o600;
/// The argument of `verify`.
const VERIFY_PARAMETERS: &str = "parameters";

/// The definitions of a node.
#[derive(Debug, Clone)]
pub struct Systems {
    /// Their directories; the first that has a name counts.
    directories: Vec<PathBuf>,
    /// The directory for the outputs of scripts.
    logs: PathBuf,
    clock: Clock,
}

/// A script that is to run.
#[derive(Debug, Clone, Copy)]
pub struct ScriptRun<'a> {
    pub script: OsScript,
    /// The system, with its variant.
    pub os: &'a str,
    /// The instance, for the name of the log.
    pub instance: &'a str,
    /// The variables that tell of the instance, but for those of the definition itself.
    pub environment: &'a BTreeMap<String, String>,
}

impl Systems {
    /// The definitions below these directories; outputs are kept in `logs`.
    pub fn new(directories: Vec<PathBuf>, logs: PathBuf, clock: Clock) -> Self {
        Self { directories, logs, clock }
    }

    /// All definitions, by name. Blocks.
    pub fn found(&self) -> Vec<OsDefinition> {
        let mut found: BTreeMap<String, OsDefinition> = BTreeMap::new();
        for directory in &self.directories {
            // A directory that is not there has none.
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let is_new = is_name(&name) && !found.contains_key(&name);
                if is_new && found.len() < DEFINITIONS_MAX && entry.path().is_dir() {
                    found.insert(name.clone(), definition(name, &entry.path()));
                }
            }
        }
        found.into_values().collect()
    }

    /// Runs a script to its end; it is killed with its children when nobody waits for it any more.
    ///
    /// # Errors
    /// There is none, or it fails.
    pub async fn run(&self, asked: ScriptRun<'_>) -> Result<(), VirtError> {
        let (name, variant) = os_parts(asked.os);
        let refuse = |why: String| VirtError::System { os: asked.os.to_owned(), why };
        let found = self.found().into_iter().find(|one| one.name == name);
        let found = found.ok_or_else(|| refuse("this node has no such definition".to_owned()))?;
        if let Some(fault) = found.fault {
            return Err(refuse(fault));
        }
        if !found.scripts.contains(&asked.script) {
            return Err(refuse(format!("its definition has no script `{}`", asked.script)));
        }
        let version = found.version().unwrap_or_default();
        let directory = PathBuf::from(&found.path);
        let mut command = tokio::process::Command::new(directory.join(asked.script.as_str()));
        command.env_clear().envs(asked.environment).current_dir(&directory);
        command.env("PATH", program::PATH).env("DEBUG_LEVEL", "0");
        command.env("OS_API_VERSION", version.to_string()).env("OS_NAME", name);
        if let Some(variant) = variant.or(found.variants.first().map(String::as_str)) {
            command.env("OS_VARIANT", variant);
        }
        if asked.script == OsScript::Verify {
            command.arg(VERIFY_PARAMETERS);
        }
        let limits = Limits { time: SCRIPT_TIME, told: OUTPUT_MAX, complained: OUTPUT_MAX };
        let ended = program::run(command, b"", limits).await;
        let ended = ended.map_err(|error| refuse(format!("{}: {error}", asked.script)))?;
        let output = output(&ended);
        let log = match asked.script {
            OsScript::Verify => None,
            _ => Some(self.kept(asked, &output)?),
        };
        if ended.status.success() {
            return Ok(());
        }
        let mut why = format!("OS {} script failed ({})", asked.script, ended.status);
        if let Some(log) = log {
            why.push_str(&format!(", its output is in {}", log.display()));
        }
        let lines: Vec<&str> = output.lines().collect();
        let last = lines.get(lines.len().saturating_sub(LINES_TOLD)..).unwrap_or_default();
        let last = last.join("\n");
        let begin = last.floor_char_boundary(last.len().saturating_sub(TOLD_BYTES_MAX));
        why.push_str(&format!(", its last lines:\n{}", &last[begin..]));
        Err(refuse(why))
    }

    /// Keeps the output of a script, and removes the oldest of too many.
    fn kept(&self, asked: ScriptRun<'_>, output: &str) -> Result<PathBuf, VirtError> {
        let now = self.clock.now_micros();
        let name = format!("{}-{}-{}-{now}.log", asked.script, asked.os, asked.instance);
        let path = self.logs.join(name.replace('/', "_"));
        fs::create_dir_all(&self.logs).map_err(failed("make the directory", &self.logs))?;
        stdx::atomic::write(&path, output.as_bytes(), LOG_MODE).map_err(failed("write", &path))?;
        let mut logs: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.logs).map_err(failed("read", &self.logs))?.flatten() {
            let written = entry.metadata().and_then(|log| log.modified());
            logs.extend(written.ok().map(|written| (written, entry.path())));
        }
        logs.sort();
        for (_, old) in logs.iter().take(logs.len().saturating_sub(LOGS_MAX)) {
            fs::remove_file(old).map_err(failed("remove", old))?;
        }
        Ok(path)
    }
}

fn output(ended: &Ended) -> String {
    format!("{}{}", String::from_utf8_lossy(&ended.told), ended.complained)
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain)
}

/// A definition as its directory tells it.
fn definition(name: String, directory: &Path) -> OsDefinition {
    let mut faults = Vec::new();
    let at = format!("under path '{}'", directory.display());
    let versions = text(directory, "ganeti_api_version", &mut faults);
    let mut api_versions: Vec<u32> = versions.iter().filter_map(|line| line.parse().ok()).collect();
    api_versions.sort_unstable_by(|one, other| other.cmp(one));
    let version = api_versions.iter().copied().find(|one| OS_API_VERSIONS.contains(one));
    if version.is_none() && faults.is_empty() {
        faults.push(format!(
            "API version mismatch for path '{}': found {api_versions:?}, want one of {OS_API_VERSIONS:?}.",
            directory.display()
        ));
    }
    let version = version.unwrap_or_default();
    let mut lines = |file: &str, since: u32| match version >= since {
        true => text(directory, file, &mut faults),
        false => Vec::new(),
    };
    let variants = lines("variants.list", OS_API_VARIANTS);
    let parameters = lines("parameters.list", OS_API_PARAMETERS);
    let mut scripts = Vec::new();
    for script in OsScript::ALL {
        match fs::metadata(directory.join(script.as_str())) {
            Ok(file) if file.is_file() && file.permissions().mode() & 0o100 != 0 => {
                scripts.push(script);
            }
            Ok(_) => faults.push(format!("File '{script}' {at} is not executable")),
            Err(error) => {
                let is_needed = script == OsScript::Create
                    || script == OsScript::Verify && version >= OS_API_PARAMETERS;
                if is_needed {
                    faults.push(format!("File '{script}' {at} is missing ({error})"));
                }
            }
        }
    }
    let described = |line: &String| {
        let (name, about) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        (name.to_owned(), about.trim().to_owned())
    };
    OsDefinition {
        name,
        path: directory.display().to_string(),
        fault: faults.into_iter().next(),
        api_versions,
        variants,
        parameters: parameters.iter().map(described).collect(),
        // It is a file that may be there (document 2).
        hypervisors: text(directory, "hypervisors", &mut Vec::new()),
        scripts,
    }
}

/// The lines of a text of a definition, without empty ones and comments.
fn text(directory: &Path, file: &str, faults: &mut Vec<String>) -> Vec<String> {
    let read = || {
        let mut text = String::new();
        let opened = fs::File::open(directory.join(file))?;
        io::Read::read_to_string(&mut io::Read::take(opened, TEXT_MAX), &mut text)?;
        Ok::<_, io::Error>(text)
    };
    match read() {
        Ok(text) => {
            let lines = text.lines().map(str::trim);
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            lines.take(LINES_MAX).map(str::to_owned).collect()
        }
        Err(error) => {
            let at = directory.display();
            faults.push(format!("File '{file}' under path '{at}' is missing ({error})"));
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, files: &[(&str, &str, u32)]) {
        fs::create_dir_all(directory).unwrap();
        for (name, text, mode) in files {
            stdx::atomic::write(&directory.join(name), text.as_bytes(), *mode).unwrap();
        }
    }

    const CREATE: &str = "#!/bin/sh\necho to be seen; echo $INSTANCE_NAME $OS_VARIANT $OS_API_VERSION \
        $HOME- >made; [ -z \"$OSP_FAIL\" ] || { echo broken >&2; exit 3; }\n";

    fn systems(root: &Path) -> Systems {
        Systems::new(
            vec![root.join("first"), root.join("second")],
            root.join("logs"),
            Clock::system(),
        )
    }

    fn whole(directory: &Path) {
        write(
            directory,
            &[
                ("ganeti_api_version", "20\n15\n5\n", 0o644),
                ("variants.list", "# of it\nsmall\n\nlarge\n", 0o644),
                ("parameters.list", "fail  Whether it fails\nbare\n", 0o644),
                ("create", CREATE, 0o755),
                ("verify", "#!/bin/sh\n[ \"$1$OSP_FAIL\" = parameters ]\n", 0o755),
            ],
        );
    }

    #[test]
    fn definitions_are_found_and_judged() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        whole(&at("first/whole"));
        write(&at("second/whole"), &[("ganeti_api_version", "5", 0o644)]);
        write(&at("second/old"), &[("ganeti_api_version", "5", 0o644), ("create", "", 0o755)]);
        write(&at("second/bare"), &[("ganeti_api_version", "10", 0o644)]);
        write(&at("second/soft"), &[("ganeti_api_version", "10", 0o644), ("create", "", 0o644)]);
        write(&at("second/noop"), &[("ganeti_api_version", "10", 0o644), ("create", "", 0o755)]);
        write(&at("second/noop"), &[("hypervisors", "kvm\n", 0o644)]);
        write(&at("second/.hidden"), &[]);
        let found = systems(root.path()).found();
        let of = |name: &str| found.iter().find(|one| one.name == name).unwrap();
        assert_eq!(found.len(), 5);
        let one = of("whole");
        assert_eq!((one.fault.as_ref(), one.version()), (None, Some(20)));
        assert_eq!(one.variants, ["small", "large"]);
        assert_eq!(one.parameters[0], ("fail".to_owned(), "Whether it fails".to_owned()));
        assert_eq!(one.scripts, [OsScript::Create, OsScript::Verify]);
        assert_eq!(
            (of("noop").fault.as_ref(), &of("noop").hypervisors[..]),
            (None, &["kvm".to_owned()][..])
        );
        for (name, fault) in [
            ("old", "API version mismatch"),
            ("bare", "File 'create' under path"),
            ("soft", "is not executable"),
        ] {
            assert!(of(name).fault.as_ref().unwrap().contains(fault), "{:?}", of(name));
        }
    }

    #[tokio::test]
    async fn a_script_runs_with_its_own_environment_alone() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("first/whole");
        whole(&directory);
        let systems = systems(root.path());
        let mut environment = BTreeMap::from([("INSTANCE_NAME".to_owned(), "web1".to_owned())]);
        async fn run(
            systems: &Systems,
            script: OsScript,
            os: &str,
            environment: &BTreeMap<String, String>,
        ) -> Result<(), VirtError> {
            systems.run(ScriptRun { script, os, instance: "web1", environment }).await
        }
        run(&systems, OsScript::Create, "whole+large", &environment).await.unwrap();
        assert_eq!(fs::read_to_string(directory.join("made")).unwrap(), "web1 large 20 -\n");
        run(&systems, OsScript::Create, "whole", &environment).await.unwrap();
        assert_eq!(fs::read_to_string(directory.join("made")).unwrap(), "web1 small 20 -\n");
        run(&systems, OsScript::Verify, "whole", &environment).await.unwrap();
        environment.insert("OSP_FAIL".to_owned(), "yes".to_owned());
        assert!(run(&systems, OsScript::Verify, "whole", &environment).await.is_err());
        let failed =
            run(&systems, OsScript::Create, "whole", &environment).await.unwrap_err().to_string();
        assert!(
            failed.contains("exit status: 3") && failed.ends_with("to be seen\nbroken"),
            "{failed}"
        );
        let none =
            run(&systems, OsScript::Rename, "whole", &environment).await.unwrap_err().to_string();
        assert!(none.contains("no script `rename`"), "{none}");
        assert!(run(&systems, OsScript::Create, "other", &environment).await.is_err());
        let logs = fs::read_dir(root.path().join("logs")).unwrap();
        assert_eq!(logs.count(), 3);
    }
}
