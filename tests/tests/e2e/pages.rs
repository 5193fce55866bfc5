//! Manual pages and completions, as the programs write them for a package.

use std::path::Path;
use std::process::{Command, Stdio};

use tests::run::run;
use tests::{place, skip};
use xtask::needs;

/// A directory as `/usr/share`, with what all programs write there.
fn written() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for program in ["gnt", "masterd", "noded", "rapi"] {
        let mut command = place::programs().command(program);
        command.arg("--generate-man").arg(dir.path());
        let _written = run(command).ok();
    }
    dir
}

fn text(dir: &Path, file: &str) -> String {
    std::fs::read_to_string(dir.join(file)).unwrap().replace("\\-", "-")
}

#[test]
fn each_daemon_has_a_page_with_its_commands_and_files_and_is_completed() {
    let dir = written();
    let page = |name: &str| text(dir.path(), &format!("man/man8/{name}"));
    let master = page("masterd.8");
    for word in ["--ganeti-socket", "masterd check-upgrade", "/run/gantry/luxi.sock", "ca.key"] {
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
    assert!(page("gnt.8").contains("gnt-job(8)"));
    for (file, word) in [
        ("bash-completion/completions/noded", "--dhcp-address"),
        ("zsh/vendor-completions/_masterd", "check-upgrade"),
        ("fish/vendor_completions.d/masterd.fish", "ganeti-socket"),
        ("bash-completion/completions/gnt-job", "GANTRY_COMPLETE"),
    ] {
        assert!(text(dir.path(), file).contains(word), "{file}");
    }
}

#[test]
fn every_page_is_set_without_a_warning() {
    let Some(man) = needs::find("man") else {
        skip("every page is set without a warning", "man is not installed");
        return;
    };
    let dir = written();
    for page in std::fs::read_dir(dir.path().join("man/man8")).unwrap() {
        let path = page.unwrap().path();
        let mut command = Command::new(&man);
        command.env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "80");
        command.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(&path);
        let output = command.stdout(Stdio::null()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && told.is_empty(), "{}: {told}", path.display());
    }
}
