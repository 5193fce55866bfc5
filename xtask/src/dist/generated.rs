//! Pages and completions, made from the command line's own words.

use std::io;

use crate::programs::Programs;

/// The objects of `gnt`, each of which has a name of its own among Ganeti's.
const OBJECTS: &[&str] = &["cluster", "debug", "ipam", "job", "machine", "node"];

/// Manual pages, as `gnt-job.8` with its content.
///
/// # Errors
/// `gnt` does not run.
pub fn man_pages(programs: &Programs) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = vec![("gnt.8".to_owned(), page(programs, "gnt", &[])?)];
    for object in OBJECTS {
        let name = format!("gnt-{object}");
        pages.push((format!("{name}.8"), page(programs, &name, &[object])?));
    }
    Ok(pages)
}

/// Completions, as a path below `/usr/share` with its content.
#[must_use]
pub fn completions() -> Vec<(String, Vec<u8>)> {
    Vec::new()
}

fn page(programs: &Programs, name: &str, arguments: &[&str]) -> io::Result<Vec<u8>> {
    let output = programs.command("gnt").args(arguments).arg("--help").output()?;
    let help = String::from_utf8_lossy(&output.stdout).replace('\\', "\\e");
    let title = name.to_uppercase();
    let text: String = help.lines().map(|line| format!("\\&{line}\n")).collect();
    let head = format!(".TH {title} 8 \"\" \"gantry {}\"\n", env!("CARGO_PKG_VERSION"));
    let body = format!(".SH NAME\n{name} \\- operate a cluster\n.SH DESCRIPTION\n.nf\n{text}.fi\n");
    Ok((head + &body).into_bytes())
}
