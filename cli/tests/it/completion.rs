//! The words that shells offer, by the completions of a package and a master that knows some names.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::toy::{Master, start};

/// Typed text, and what a shell makes of it.
const COMPLETED: [(&str, &str); 12] = [
    ("gnt mach", "machine"),
    ("gnt job chan", "change-priority"),
    ("gnt-job chan", "change-priority"),
    ("gnt cluster queue un", "undrain"),
    ("gnt-filter add --action RA", "RATE_LIMIT"),
    ("gnt-node modify --offline y", "yes"),
    ("gnt-debug delay --no-l", "--no-locks"),
    ("gnt job info 10", "1042"),
    ("gnt-job watch 7", "7"),
    ("gnt node modify n2", "n2.example.com"),
    ("gnt-cluster master-failover --to n1", "n1.example.com"),
    ("gnt machine info 12", "1234abcd"),
];

/// A master, the programs, and their completions as a package has them.
struct Installed {
    master: Master,
    programs: tempfile::TempDir,
}

impl Installed {
    fn begin() -> Self {
        let programs = tempfile::tempdir().unwrap();
        let gnt = programs.path().join("gnt");
        symlink(env!("CARGO_BIN_EXE_gnt"), &gnt).unwrap();
        let mut generate = Command::new(&gnt);
        generate.arg("--generate-man").arg(programs.path());
        assert!(generate.status().unwrap().success());
        for file in std::fs::read_dir(programs.path().join("bash-completion/completions")).unwrap()
        {
            let name = file.unwrap().file_name();
            if name != "gnt" {
                symlink(&gnt, programs.path().join(name)).unwrap();
            }
        }
        Self { master: start(), programs }
    }

    fn path(&self, below: &str) -> String {
        self.programs.path().join(below).to_str().unwrap().to_owned()
    }

    fn shell(&self, program: &str, arguments: &[&str]) -> std::process::Output {
        let directory = self.programs.path();
        let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new(program);
        // Some keep a history at home.
        shell.args(arguments).env("PATH", path).env("HOME", directory);
        shell.env("GANTRY_ROOT", self.master.root.path()).output().unwrap()
    }

    /// The words that bash offers for the last word of a line.
    fn bash(&self, line: &str) -> Vec<String> {
        let (before, last) = line.rsplit_once(' ').unwrap();
        let program = line.split(' ').next().unwrap();
        let count = before.split(' ').count();
        let file = self.path(&format!("bash-completion/completions/{program}"));
        let script = format!(
            "source {file}\nread -ra how < <(complete -p {program})\n\
             for at in \"${{!how[@]}}\"; do [[ ${{how[at]}} == -F ]] && f=${{how[at+1]}}; done\n\
             COMP_WORDS=({before} '{last}'); COMP_CWORD={count}; COMPREPLY=()\n\
             $f {program} '{last}' x; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
        );
        let output = self.shell("bash", &["-c", &script]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn is_installed(shell: &str) -> bool {
    let answers = Command::new(shell).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !answers {
        eprintln!("skipped: {shell} is not installed");
    }
    answers
}

#[test]
fn bash_completes() {
    let installed = Installed::begin();
    for (line, completed) in COMPLETED {
        assert_eq!(installed.bash(line), [completed], "{line}");
    }
    for (line, words) in [
        ("gnt-filter add --action R", &["REJECT", "RATE_LIMIT"] as &[&str]),
        ("gnt debug delay --priority ", &["low", "normal", "high"]),
        ("gnt-node modify --offline ", &["yes", "no"]),
        ("gnt job watch ", &["1042", "7"]),
        // A node that is to be added is not there yet.
        ("gnt node add n", &[]),
        ("gnt node info x", &[]),
    ] {
        let mut offered = installed.bash(line);
        offered.retain(|word| !word.starts_with('-'));
        let mut words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        offered.sort();
        words.sort();
        assert_eq!(offered, words, "{line}");
    }
}

#[test]
fn without_a_master_words_are_completed_and_no_names() {
    let mut installed = Installed::begin();
    installed.master.root = tempfile::tempdir().unwrap();
    assert_eq!(installed.bash("gnt job chan"), ["change-priority"]);
    assert!(installed.bash("gnt node info n").is_empty());
}

#[test]
fn fish_completes() {
    if !is_installed("fish") {
        return;
    }
    let installed = Installed::begin();
    for (line, completed) in COMPLETED {
        let program = line.split(' ').next().unwrap();
        let file = installed.path(&format!("fish/vendor_completions.d/{program}.fish"));
        let script = format!("source {file}; complete -C '{line}'");
        let output = installed.shell("fish", &["--no-config", "-c", &script]);
        let offered = String::from_utf8(output.stdout).unwrap();
        let words: Vec<&str> = offered.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(words, [completed], "{line}");
    }
}

/// On a terminal of its own, as it completes nothing without one.
#[test]
fn zsh_completes() {
    if !is_installed("zsh") {
        return;
    }
    let installed = Installed::begin();
    let found = installed.path("found");
    let mut script = format!(
        "zmodload zsh/zpty\nzpty z 'zsh -f'\n\
         zpty -w z 'fpath=({functions} $fpath); autoload -U compinit; compinit -u -D'\n\
         zpty -w z 'keep() {{ print -r -- $BUFFER >> {found}; BUFFER=; }}; zle -N keep'\n\
         zpty -w z 'bindkey ^T keep; echo at''tention'\nzpty -r z shown '*attention*'\n",
        functions = installed.path("zsh/vendor-completions"),
    );
    for (line, _completed) in COMPLETED {
        script.push_str(&format!("zpty -n -w z $'{line}\\t\\x14'\n"));
    }
    script.push_str("zpty -w z exit\nwhile zpty -r z shown; do :; done\n");
    let output = installed.shell("zsh", &["-f", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    let found = std::fs::read_to_string(Path::new(&found)).unwrap();
    let expected = COMPLETED.map(|(line, completed)| {
        let (before, _word) = line.rsplit_once(' ').unwrap();
        format!("{before} {completed} ")
    });
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
}
