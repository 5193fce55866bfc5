//! Manual pages and completions, as the programs write them.

use std::path::{Path, PathBuf};

use super::{DistError, said};
use crate::programs::Programs;

/// Names below a directory with their contents.
pub type Generated = Vec<(String, Vec<u8>)>;

/// Programs with pages, and what they are told to write them below a directory.
const PROGRAMS: &[&str] = &["gnt", "masterd", "noded", "rapi"];
const ASKED: &str = "--generate-man";
/// The directory of the pages below it.
const MANUAL: &str = "man/man8";

/// Has all programs write their pages and completions below a directory as `/usr/share`.
///
/// # Errors
/// A program does not, and says why.
pub fn write(programs: &Programs, directory: &Path) -> Result<(), DistError> {
    for program in PROGRAMS {
        let mut command = programs.command(program);
        said(command.arg(ASKED).arg(directory), (program, "gantry"))?;
    }
    Ok(())
}

/// All pages of the manual, by file name as `gnt-job.8`, and all completions, by path below `/usr/share`.
///
/// # Errors
/// As [`write()`], or what is written cannot be read.
pub fn generate(
    programs: &Programs,
    directory: &Path,
) -> Result<(Generated, Generated), DistError> {
    write(programs, directory)?;
    let mut files = Vec::new();
    collect(directory, &mut files)?;
    files.sort();
    let (mut pages, mut completions) = (Vec::new(), Vec::new());
    for path in files {
        let bytes = std::fs::read(&path).map_err(|error| DistError::file("read", &path, error))?;
        let below = path.strip_prefix(directory).unwrap_or(&path);
        match below.strip_prefix(MANUAL) {
            Ok(page) => pages.push((page.display().to_string(), bytes)),
            Err(_) => completions.push((below.display().to_string(), bytes)),
        }
    }
    Ok((pages, completions))
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), DistError> {
    let failed = |error| DistError::file("read", directory, error);
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
