//! Manual pages and completions: those of `gnt`, and those of the daemons from the definitions of
//! their own command lines.

use std::io;

use clap::{Command, CommandFactory as _};
use model::layout::{Layout, MASTER_USER, NODE_USER, RAPI_USER};

/// Names below a directory with their contents.
pub type Generated = Vec<(String, Vec<u8>)>;

/// A daemon with the user that it runs as, and what its manual page adds to its command line.
struct Daemon {
    definition: Command,
    user: &'static str,
    unit: &'static str,
}

/// The definitions as they are on a machine where nothing is set, whatever is set here.
fn daemons() -> [Daemon; 3] {
    let installed =
        |definition: Command| definition.mut_arg("root", |root| root.default_value("/"));
    [
        Daemon {
            definition: installed(masterd::options::Command::command()),
            user: MASTER_USER,
            unit: "gantry-masterd.service",
        },
        Daemon {
            definition: installed(noded::options::Options::command()),
            user: NODE_USER,
            unit: "gantry-noded.service",
        },
        Daemon {
            definition: installed(rapi::options::Options::command()),
            user: RAPI_USER,
            unit: "gantry-rapi.service",
        },
    ]
}

/// All pages of the manual, by file name as `gnt-job.8`.
///
/// # Errors
/// None that depends on anything outside: writing to memory.
pub fn man_pages() -> io::Result<Generated> {
    let mut pages = cli::man_pages()?;
    for daemon in daemons() {
        let sections = sections(&daemon);
        pages.push(cli::man_page_of(daemon.definition, &sections)?);
    }
    Ok(pages)
}

/// All completions, by path below `/usr/share`.
#[must_use]
pub fn completions() -> Generated {
    let own = daemons().into_iter().flat_map(|daemon| cli::completions_of(daemon.definition));
    cli::completions().into_iter().chain(own).collect()
}

fn sections(daemon: &Daemon) -> Vec<(&'static str, Vec<(String, String)>)> {
    let row = |term: &str, text: &str| (term.to_owned(), text.to_owned());
    let files = Layout::TABLE.iter().filter(|(path, owner, ..)| {
        let identity = path.starts_with("etc/gantry/pki/node") || path.ends_with("ca.pem");
        let identity =
            identity || (daemon.user == RAPI_USER && path.starts_with("etc/gantry/rapi"));
        *owner == daemon.user || identity
    });
    let files = files.map(|(path, _owner, _mode, about)| row(&format!("/{path}"), about));
    let options = format!("/etc/default/{}", daemon.unit.trim_end_matches(".service"));
    let options = row(&options, &format!("Further options of {}.", daemon.unit));
    vec![
        ("FILES", files.chain([options]).collect()),
        (
            "ENVIRONMENT",
            vec![row("GANTRY_ROOT", "As --root; set to nothing it counts as not set.")],
        ),
        (
            "SIGNALS",
            vec![
                row("TERM, INT", "Finishes what is short, writes what is left, and ends."),
                row("HUP", "Opens its log file anew."),
            ],
        ),
        (
            "SEE ALSO",
            vec![row("gnt(8)", "The command line. Documents are in /usr/share/doc/gantry.")],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::needs;

    #[test]
    fn each_daemon_has_a_page_with_its_commands_and_files() {
        let pages = man_pages().unwrap();
        let page = |name: &str| {
            let (_, text) = pages.iter().find(|(file, _)| file == name).expect(name);
            String::from_utf8(text.clone()).unwrap().replace("\\-", "-")
        };
        let master = page("masterd.8");
        for word in ["--ganeti-socket", "masterd check-upgrade", "/run/gantry/luxi.sock", "ca.key"]
        {
            assert!(master.contains(word), "{word}: {master}");
        }
        assert!(master.contains(".SH \"EXIT STATUS\"") && master.contains("11 not the master"));
        let agent = page("noded.8");
        for word in ["noded enroll", "--dhcp-address", "/var/lib/gantry/node", "node.key"] {
            assert!(agent.contains(word), "{word}: {agent}");
        }
        assert!(!agent.contains("ca.key"), "the authority's key is none of its files");
        let door = page("rapi.8");
        for word in ["--open-reads", "/etc/gantry/rapi.users", "rapi-access.log", "node.key"] {
            assert!(door.contains(word), "{word}: {door}");
        }
    }

    #[test]
    fn the_daemons_are_completed() {
        let files = completions();
        let text = |path: &str| {
            let (_, text) = files.iter().find(|(file, _)| file == path).expect(path);
            String::from_utf8(text.clone()).unwrap()
        };
        assert!(text("bash-completion/completions/noded").contains("--dhcp-address"));
        assert!(text("zsh/vendor-completions/_masterd").contains("check-upgrade"));
        assert!(text("fish/vendor_completions.d/masterd.fish").contains("ganeti-socket"));
    }

    #[test]
    fn every_page_is_set_without_a_warning() {
        let Some(man) = needs::find("man") else {
            println!("skipped: man is not installed");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in man_pages().unwrap() {
            let path = dir.path().join(&name);
            stdx::atomic::write(&path, &text, 0o644).unwrap();
            let mut command = Command::new(&man);
            command.env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "80");
            command.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(&path);
            let output = command.stdout(Stdio::null()).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && told.is_empty(), "{name}: {told}");
        }
    }
}
