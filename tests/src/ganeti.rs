//! Ganeti's own programs, installed or unpacked: Debian's packages have them.

use std::path::Path;
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

    /// Copies a definition of an operating system that Debian has for it into a directory.
    ///
    /// # Panics
    /// It has no such definition.
    pub fn copy_definition(&self, name: &str, into: &Path) {
        std::fs::create_dir_all(into).unwrap();
        let mut copy = needs::beside("gnt-job", "/bin/cp");
        copy.arg("-rL").arg(format!("/usr/share/ganeti/os/{name}")).arg(into);
        run(copy).ok();
    }

    /// A tool that is no command of its own, by its path.
    pub fn tool(&self, path: &str) -> Command {
        needs::beside("gnt-job", path)
    }

    /// The interpreter that finds its modules.
    pub fn python(&self) -> Command {
        let mut python = needs::beside("gnt-job", "/usr/bin/python3");
        python.env("PYTHONPATH", &self.modules);
        python
    }
}
