//! The files of each package, and their places.

use std::path::Path;

use super::licences::{self, Library};
use super::pages::{self, Generated};
use super::symbols::{self, Split};
use super::tree::{Content, READABLE, RUNNABLE, Tree};
use super::{DistError, Release};
use crate::programs::Programs;
use crate::root;

/// One package.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: &'static str,
    /// The architecture, in Debian's words.
    pub architecture: String,
    /// The section, in Debian's words.
    pub section: &'static str,
    /// Fields about other packages; `@VERSION@` is this one's version.
    pub relations: Vec<(&'static str, String)>,
    /// Its description in one line.
    pub summary: &'static str,
    /// Its description in some more lines.
    pub description: &'static str,
    /// Its files.
    pub tree: Tree,
    /// Scripts that dpkg runs: name, text.
    pub scripts: Vec<(&'static str, String)>,
}

/// The source that all packages come from.
pub const SOURCE: &str = "gantry";

/// The package of Ganeti's names.
const NAMES: &str = "gantry-ganeti-names";

/// Programs with where they go.
const PROGRAMS: &[(&str, &str)] =
    &[("masterd", "usr/sbin"), ("noded", "usr/sbin"), ("rapi", "usr/sbin"), ("gnt", "usr/bin")];

/// Files of `packaging/` with where they go.
const SYSTEM: &[(&str, &str)] = &[
    ("gantry-masterd.service", "usr/lib/systemd/system/gantry-masterd.service"),
    ("gantry-noded.service", "usr/lib/systemd/system/gantry-noded.service"),
    ("gantry-rapi.service", "usr/lib/systemd/system/gantry-rapi.service"),
    ("gantry.sysusers", "usr/lib/sysusers.d/gantry.conf"),
    ("gantry.tmpfiles", "usr/lib/tmpfiles.d/gantry.conf"),
    ("gantry.logrotate", "etc/logrotate.d/gantry"),
    ("gantry-masterd.default", "etc/default/gantry-masterd"),
    ("gantry-noded.default", "etc/default/gantry-noded"),
    ("gantry-rapi.default", "etc/default/gantry-rapi"),
    // For machines that have Ganeti's own clients, and so not the package that installs it.
    ("ganeti-socket.conf", "usr/share/doc/gantry/examples/ganeti-socket.conf"),
    // For nodes that run guests: the agent needs more rights there than elsewhere.
    ("gantry-noded-guests.conf", "usr/share/doc/gantry/examples/gantry-noded-guests.conf"),
    ("gantry-noded-scripts.conf", "usr/share/doc/gantry/examples/gantry-noded-scripts.conf"),
];

/// Has the master listen where Ganeti's tools look.
const GANETI_SOCKET: (&str, &str) =
    ("ganeti-socket.conf", "usr/lib/systemd/system/gantry-masterd.service.d/ganeti-socket.conf");

/// Links from where Ganeti's tools look for files to those of the master.
const GANETI_FILES: (&str, &str) =
    ("gantry-ganeti-names.tmpfiles", "usr/lib/tmpfiles.d/gantry-ganeti-names.conf");

/// The directory where Ganeti has its programs, and the one where an ordinary user finds them.
const NAMES_LIE: &[(&str, &str)] = &[("usr/sbin", "../bin/gnt"), ("usr/bin", "gnt")];

/// Documents for operators.
const DOCUMENTS: &[&str] = &[
    "failover.md",
    "gnt.md",
    "grafana/gantry.json",
    "ignition.md",
    "install.md",
    "locking.md",
    "luxi.md",
    "metrics.md",
    "machines.md",
    "netboot.md",
    "ramdisks.md",
    "networks.md",
    "power.md",
    "secrets.md",
    "node-rpc.md",
    "nodes.md",
    "performance.md",
    "queue-format.md",
    "rapi.md",
    "replication.md",
    "runbook.md",
    "upgrade.md",
];

/// Scripts that dpkg runs.
const SCRIPTS: &[&str] = &["preinst", "postinst", "prerm", "postrm"];

/// All packages, from programs that are built and are split into `directory`.
///
/// # Errors
/// A file cannot be read, or pages cannot be generated.
pub fn packages(
    programs: &Programs,
    architecture: &str,
    release: &Release,
    directory: &Path,
) -> Result<Vec<Package>, DistError> {
    let (pages, completions) = pages::generate(programs, &directory.join("share"))?;
    let libraries = licences::libraries()?;
    let (names, own): (Vec<_>, Vec<_>) = pages.into_iter().partition(|(file, _)| alias(file));
    let (name_words, own_words): (Vec<_>, Vec<_>) =
        completions.into_iter().partition(|(path, _)| alias(base(path)));
    let split = |(program, _): &(&str, _)| symbols::split(&programs.dir().join(program), directory);
    let programs = PROGRAMS.iter().map(split).collect::<Result<Vec<_>, _>>()?;
    let mut main = main(&programs, architecture, &libraries, (own, own_words))?;
    let mut names = aliases(names, name_words)?;
    for package in [&mut main, &mut names] {
        add_legal(package, release, &libraries)?;
    }
    Ok(vec![main, names, symbols_of(&programs, architecture)])
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a page or completion is of one of Ganeti's names, as `gnt-job.8`, `_gnt-job`.
fn alias(file: &str) -> bool {
    file.trim_start_matches('_').starts_with("gnt-")
}

fn main(
    programs: &[Split],
    architecture: &str,
    libraries: &[Library],
    (pages, completions): (Generated, Generated),
) -> Result<Package, DistError> {
    let mut tree = Tree::default();
    let mut glibc = (2, 0);
    for ((name, directory), Split { program, .. }) in PROGRAMS.iter().zip(programs) {
        let read = std::fs::read(program);
        let bytes = read.map_err(|error| DistError::file("read", program, error))?;
        glibc = glibc.max(glibc_needed(&bytes));
        tree.add(&format!("{directory}/{name}"), RUNNABLE, Content::File(program.clone()));
    }
    for file in SYSTEM {
        add_packaging(&mut tree, *file);
    }
    for document in DOCUMENTS {
        let from = root().join("docs").join(document);
        tree.add(&format!("usr/share/doc/gantry/{document}"), READABLE, Content::File(from));
    }
    add_generated(&mut tree, pages, completions);
    let texts = licences::texts(libraries)?;
    let told = Content::Gzip(texts.into_bytes());
    tree.add("usr/share/doc/gantry/licences.txt.gz", READABLE, told);
    let libc = format!("libc6 (>= {}.{}), libgcc-s1", glibc.0, glibc.1);
    Ok(Package {
        name: SOURCE,
        architecture: architecture.to_owned(),
        section: "admin",
        relations: vec![
            ("Depends", format!("{libc}, systemd (>= 247), init-system-helpers (>= 1.54)")),
            ("Recommends", "ipmitool, ipxe, logrotate, nftables".to_owned()),
            (
                "Suggests",
                "gantry-ganeti-names, openvswitch-switch, prometheus, qemu-system-x86, qemu-utils, \
                 swtpm"
                    .to_owned(),
            ),
        ],
        summary: "cluster manager: bare machines to running work by one durable job queue",
        description: "Master daemon, agent, HTTPS front door and command line. A machine is master or node only after\n\
                      `gnt cluster init` or `noded enroll`; until then nothing runs.",
        tree,
        scripts: scripts(SOURCE, SCRIPTS)?,
    })
}

fn add_packaging(tree: &mut Tree, (from, to): (&str, &str)) {
    tree.add(to, READABLE, Content::File(root().join("packaging").join(from)));
}

/// Names and lines of the programs, for who looks into a crash.
fn symbols_of(programs: &[Split], architecture: &str) -> Package {
    let mut tree = Tree::default();
    for Split { symbols, place, .. } in programs {
        tree.add(place, READABLE, Content::File(symbols.clone()));
    }
    // It is installed with `gantry` only, of the same version, whose papers are its own.
    let papers = Content::Link(SOURCE.to_owned());
    tree.add("usr/share/doc/gantry-dbgsym", RUNNABLE, papers);
    let ids: Vec<&str> = programs.iter().map(|program| program.build_id.as_str()).collect();
    Package {
        name: "gantry-dbgsym",
        architecture: architecture.to_owned(),
        section: "debug",
        relations: vec![
            ("Depends", "gantry (= @VERSION@)".to_owned()),
            ("Auto-Built-Package", "debug-symbols".to_owned()),
            ("Build-Ids", ids.join(" ")),
        ],
        summary: "debug symbols for gantry",
        description: "With them, debuggers and the backtraces of panics have names and lines.",
        tree,
        scripts: Vec::new(),
    }
}

/// Ganeti's own names for what `gnt` does. A package apart: on a machine that still has Ganeti they
/// are Ganeti's, in files of the same names.
fn aliases(pages: Generated, completions: Generated) -> Result<Package, DistError> {
    let mut tree = Tree::default();
    for (page, _) in &pages {
        let name = page.split('.').next().unwrap_or(page);
        for (directory, target) in NAMES_LIE {
            let link = Content::Link((*target).to_owned());
            tree.add(&format!("{directory}/{name}"), RUNNABLE, link);
        }
    }
    add_generated(&mut tree, pages, completions);
    add_packaging(&mut tree, GANETI_SOCKET);
    add_packaging(&mut tree, GANETI_FILES);
    Ok(Package {
        name: NAMES,
        architecture: "all".to_owned(),
        section: "admin",
        relations: vec![
            ("Depends", "gantry (>= @VERSION@)".to_owned()),
            ("Conflicts", "ganeti".to_owned()),
        ],
        summary: "Gantry's command line under the names of Ganeti's",
        description: "Links gnt-job, gnt-node, … to gnt, with manual pages and completions, for\n\
                      scripts that were written for Ganeti, and the master's socket and ssconf\n\
                      files where Ganeti's clients look for them.",
        tree,
        scripts: scripts(NAMES, &["postinst", "postrm"])?,
    })
}

fn add_generated(tree: &mut Tree, pages: Generated, completions: Generated) {
    for (page, text) in pages {
        let to = format!("usr/share/man/man8/{page}.gz");
        tree.add(&to, READABLE, Content::Gzip(text));
    }
    for (path, text) in completions {
        tree.add(&format!("usr/share/{path}"), READABLE, Content::Bytes(text));
    }
}

/// Files that policy asks of every package: copyright and changelog.
fn add_legal(
    package: &mut Package,
    release: &Release,
    libraries: &[Library],
) -> Result<(), DistError> {
    let Package { name, tree, .. } = package;
    let mut copyright = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: Gantry\n\n\
         Files: *\n\
         Copyright: The Gantry developers\n\
         License: MIT or Apache-2.0\n",
    );
    for line in read(&root().join("LICENSE-MIT"))?.lines() {
        let line = line.trim_end();
        copyright.push_str(&format!(" {}\n", if line.is_empty() { "." } else { line }));
    }
    copyright.push_str(
        " .\n On Debian, the text of the Apache License, version 2.0, is in\n \
         /usr/share/common-licenses/Apache-2.0.\n",
    );
    if *name == SOURCE {
        copyright.push_str("\nComment:\n");
        copyright.push_str(" The programs have these libraries built in; the texts of their\n");
        copyright.push_str(&format!(" licences are in /usr/share/doc/{name}/licences.txt.gz.\n"));
        for Library { name, licence, .. } in libraries {
            copyright.push_str(&format!("  {name}: {licence}\n"));
        }
    }
    tree.text(&format!("usr/share/doc/{name}/copyright"), READABLE, copyright);
    let changes = read(&root().join("CHANGELOG.md"))?.into_bytes();
    let to = format!("usr/share/doc/{name}/changelog.gz");
    tree.add(&to, READABLE, Content::Gzip(changes));
    let Release { version, maintainer, source_date_words, .. } = release;
    let entry = format!(
        "{SOURCE} ({version}) unstable; urgency=medium\n\n  * What changed is in changelog.gz.\n\n -- \
         {maintainer}  {source_date_words}\n"
    );
    let to = format!("usr/share/doc/{name}/changelog.Debian.gz");
    tree.add(&to, READABLE, Content::Gzip(entry.into_bytes()));
    Ok(())
}

fn read(path: &Path) -> Result<String, DistError> {
    std::fs::read_to_string(path).map_err(|error| DistError::file("read", path, error))
}

/// The scripts of a package that dpkg runs.
fn scripts(
    package: &str,
    names: &[&'static str],
) -> Result<Vec<(&'static str, String)>, DistError> {
    let script = |name: &&'static str| {
        let text = read(&root().join(format!("packaging/debian/{package}.{name}")))?;
        let text = text.replace("@FORMAT@", &queue_format::store::FORMAT.to_string());
        let text = text.replace("@OLDEST@", &queue_format::store::FORMAT_OLDEST.to_string());
        Ok((*name, text))
    };
    names.iter().map(script).collect()
}

/// The newest version of the C library whose symbols a program names.
fn glibc_needed(program: &[u8]) -> (u32, u32) {
    const MARK: &[u8] = b"GLIBC_";
    let found = program.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let versions = found.filter_map(|(at, _)| {
        let rest = &program[at + MARK.len()..];
        let end = rest.iter().position(|b| !b.is_ascii_digit() && *b != b'.')?;
        let mut numbers = std::str::from_utf8(&rest[..end]).ok()?.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max().unwrap_or((2, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_counts() {
        let program = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_PRIVATE\0GLIBC_2.9\0GLIBCXX_3.4\0";
        assert_eq!(glibc_needed(program), (2, 34));
        assert_eq!(glibc_needed(b"static"), (2, 0));
    }

    #[test]
    fn scripts_know_the_format_of_the_store() {
        let names = scripts(NAMES, &["postinst", "postrm"]).unwrap();
        for (name, text) in scripts(SOURCE, SCRIPTS).unwrap().into_iter().chain(names) {
            assert!(text.starts_with("#!/bin/sh\n") && text.contains("\nset -e\n"), "{name}");
            assert!(!text.contains("@"), "{name} has a place that nobody filled");
        }
        let preinst = scripts(SOURCE, &["preinst"]).unwrap().remove(0).1;
        assert!(preinst.contains("FORMAT=1\n") && preinst.contains("OLDEST=1\n"), "{preinst}");
    }

    #[test]
    fn names_of_ganeti_are_told_from_our_own() {
        let ganetis = ["gnt-job.8", "_gnt-job", "gnt-job", "gnt-job.fish"];
        assert!(ganetis.iter().all(|file| alias(file)));
        assert!(!["gnt.8", "_gnt", "gnt", "noded.8"].iter().any(|file| alias(file)));
    }
}
