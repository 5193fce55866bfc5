//! Ganeti's own programs, installed or unpacked: Debian's packages have them.

use std::process::Command;

use xtask::needs;

use crate::run::run;
use crate::skip;

/// Prints where the modules of the programs lie, from inside their installation.
const MODULES: &str = r#"PATH=/usr/sbin:$PATH; dirname "$(readlink -f "$(command -v gnt-job)")""#;

/// Ganeti's programs and modules.
#[derive(Debug)]
pub struct Ganeti {
    modules: String,
}

impl Ganeti {
    /// None where it is not there, which is said.
    pub fn find(what: &str) -> Option<Self> {
        if let Some(why) = needs::missing(&["gnt-job"]) {
            skip(what, &why);
            return None;
        }
        let mut sh = needs::beside("gnt-job", "/bin/sh");
        sh.args(["-c", MODULES]);
        Some(Self { modules: run(sh).ok().trim().to_owned() })
    }

    /// One of its programs.
    pub fn command(&self, program: &str) -> Command {
        needs::command(program)
    }

    /// A script that runs one of its programs by its path, for who starts programs of a directory.
    pub fn script(&self, path: &str) -> String {
        needs::script_beside("gnt-job", path)
    }

    /// The interpreter that finds its modules.
    pub fn python(&self) -> Command {
        let mut python = needs::beside("gnt-job", "/usr/bin/python3");
        python.env("PYTHONPATH", &self.modules);
        python
    }
}
