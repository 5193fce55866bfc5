//! Manual pages and completions of a program, from the definition of its command line. A program writes
//! its own when its only arguments are [`ASKED`] and a directory.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::{Generator, Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// The option by which a package asks for them; no help tells of it.
pub const ASKED: &str = "--generate-man";
/// The section of the manual for what administrators use.
pub const SECTION: &str = "8";
/// The title at the top of every page.
const MANUAL: &str = "Gantry";
/// How the preamble of each piece of a page begins, of which one is enough.
const PREAMBLE: [&str; 2] = [".ie ", ".el "];
/// The directory of pages below one such as `/usr/share`.
const PAGES: &str = "man/man8";
/// Mode of what is written.
const MODE: u32 = 0o644;

/// Files with their contents.
pub type Generated = Vec<(String, Vec<u8>)>;

/// The content of a daemon's page.
#[derive(Debug)]
pub struct Daemon {
    /// Its command line.
    pub definition: Command,
    /// The unit that starts it.
    pub unit: &'static str,
    /// Paths that it uses, and what they are.
    pub files: Vec<(String, &'static str)>,
}

impl Daemon {
    /// Writes page and completions if that is asked for; whether it was, and how it ended.
    pub fn write_if_asked(self) -> Option<ExitCode> {
        let directory = asked(std::env::args_os())?;
        Some(ended(self.write(&directory)))
    }

    fn write(mut self, directory: &Path) -> io::Result<()> {
        // As on a machine where nothing is set, whatever is set here.
        self.definition = self.definition.mut_arg("root", |root| root.default_value("/"));
        let page = page_of(self.definition.clone(), &self.sections())?;
        write(directory, vec![page], completions_of(self.definition))
    }

    fn sections(&self) -> [(&'static str, Vec<(String, String)>); 4] {
        let row = |term: &str, text: &str| (term.to_owned(), text.to_owned());
        let options = format!("/etc/default/{}", self.unit.trim_end_matches(".service"));
        let options = row(&options, &format!("Further options of {}.", self.unit));
        let files = self.files.iter().map(|(path, about)| row(path, about));
        [
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
}

/// The directory for pages and completions, if these arguments ask for them.
pub fn asked(arguments: impl IntoIterator<Item = OsString>) -> Option<PathBuf> {
    let arguments: Vec<OsString> = arguments.into_iter().skip(1).take(3).collect();
    match arguments.as_slice() {
        [asked, directory] if asked == ASKED => Some(directory.into()),
        _ => None,
    }
}

/// The exit of a program that wrote them.
#[expect(clippy::print_stderr, reason = "whoever makes a package must see why there is none")]
pub fn ended(written: io::Result<()>) -> ExitCode {
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write manual pages and completions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes pages and completions below a directory as `/usr/share`.
///
/// # Errors
/// A file cannot be written.
pub fn write(directory: &Path, pages: Generated, completions: Generated) -> io::Result<()> {
    let pages = pages.into_iter().map(|(file, text)| (format!("{PAGES}/{file}"), text));
    for (file, text) in pages.chain(completions) {
        let path = directory.join(file);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        crate::atomic::write(&path, &text, MODE).map_err(io::Error::other)?;
    }
    Ok(())
}

/// The page of a program: file name and content. `sections` are titles with their paragraphs, each a term
/// and what is to be said of it; they follow what the definition gives.
fn page_of(
    definition: Command,
    sections: &[(&str, Vec<(String, String)>)],
) -> io::Result<(String, Vec<u8>)> {
    let program = definition.get_name().to_owned();
    let definition = definition.disable_help_subcommand(true).bin_name(&program);
    let after = definition.get_after_help().map(ToString::to_string);
    let mut page = Vec::new();
    render(&mut page, definition, &program, "COMMANDS")?;
    if let Some(text) = after {
        let (title, text) = text.split_once(": ").unwrap_or(("NOTES", &text));
        heading(&mut page, "SH", &title.to_uppercase())?;
        let mut told = Roff::new();
        told.text([roman(text)]);
        told.to_writer(&mut page)?;
    }
    for (title, paragraphs) in sections {
        heading(&mut page, "SH", title)?;
        let mut told = Roff::new();
        for (term, text) in paragraphs {
            told.control("TP", []).text([bold(term)]).text([roman(text)]);
        }
        told.to_writer(&mut page)?;
    }
    Ok((format!("{program}.{SECTION}"), once(&page)))
}

/// Completions of a program whose words are all known beforehand.
fn completions_of(mut definition: Command) -> Generated {
    let program = definition.get_name().to_owned();
    let file = |shell: Shell| {
        let mut text = Vec::new();
        generate(shell, &mut definition, &program, &mut text);
        (completion_path(shell, &program), text)
    };
    [Shell::Bash, Shell::Zsh, Shell::Fish].map(file).to_vec()
}

/// The path of a program's completion below `/usr/share`.
pub fn completion_path(shell: Shell, program: &str) -> String {
    let name = shell.file_name(program);
    match shell {
        Shell::Bash => format!("bash-completion/completions/{program}"),
        Shell::Zsh => format!("zsh/vendor-completions/{name}"),
        Shell::Fish => format!("fish/vendor_completions.d/{name}"),
        _ => name,
    }
}

/// A definition as a page of the manual.
pub fn man(command: Command) -> Man {
    let source = concat!("gantry ", env!("CARGO_PKG_VERSION"));
    Man::new(command).section(SECTION).manual(MANUAL).source(source)
}

/// Writes the page of a definition: name, synopsis, description, each verb, options.
///
/// # Errors
/// Of the writer.
pub fn render(
    page: &mut Vec<u8>,
    definition: Command,
    program: &str,
    verbs: &str,
) -> io::Result<()> {
    let head = man(definition.clone());
    head.render_title(page)?;
    head.render_name_section(page)?;
    head.render_synopsis_section(page)?;
    head.render_description_section(page)?;
    heading(page, "SH", verbs)?;
    for verb in definition.get_subcommands() {
        describe(page, program, verb)?;
    }
    head.render_options_section(page)
}

/// One verb and those below it, as a section of the page.
fn describe(page: &mut Vec<u8>, program: &str, verb: &Command) -> io::Result<()> {
    if verb.is_hide_set() {
        return Ok(());
    }
    let name = format!("{program} {}", verb.get_name());
    let verb = verb.clone().disable_help_flag(true).disable_help_subcommand(true).bin_name(&name);
    let man = Man::new(verb.clone()).section(SECTION);
    heading(page, "SS", &name)?;
    let mut piece = Vec::new();
    man.render_synopsis_section(&mut piece)?;
    // A line may break between options of which one must be given.
    let mut piece = String::from_utf8_lossy(&piece).replace('|', " | ").into_bytes();
    piece.extend(b".PP\n");
    man.render_description_section(&mut piece)?;
    let aliases: Vec<&str> = verb.get_visible_aliases().collect();
    if !aliases.is_empty() {
        let mut also = Roff::new();
        also.control("PP", []).text([roman(format!("Also called {}.", aliases.join(", ")))]);
        also.to_writer(&mut piece)?;
    }
    man.render_options_section(&mut piece)?;
    // Each verb is one section: its parts need no headings.
    let lines = piece.split_inclusive(|byte| *byte == b'\n');
    page.extend(lines.filter(|line| !line.starts_with(b".SH")).flatten());
    for below in verb.get_subcommands() {
        describe(page, &name, below)?;
    }
    Ok(())
}

/// A heading of this level.
///
/// # Errors
/// Of the writer.
pub fn heading(page: &mut Vec<u8>, level: &str, text: &str) -> io::Result<()> {
    let mut heading = Roff::new();
    heading.control(level, [text]);
    heading.to_writer(page)
}

/// The page with its first preamble only.
pub fn once(page: &[u8]) -> Vec<u8> {
    let is_preamble = |line: &[u8]| PREAMBLE.iter().any(|begin| line.starts_with(begin.as_bytes()));
    let mut seen = 0;
    let lines = page.split_inclusive(|byte| *byte == b'\n').filter(|line| {
        seen += usize::from(is_preamble(line));
        !is_preamble(line) || seen <= PREAMBLE.len()
    });
    lines.flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_asked_for_by_these_arguments_alone() {
        let asked = |words: &[&str]| asked(words.iter().map(OsString::from));
        assert_eq!(asked(&["x", ASKED, "/usr/share"]), Some("/usr/share".into()));
        for words in [&["x"][..], &["x", ASKED], &["x", "/usr/share"], &["x", ASKED, "a", "b"]] {
            assert_eq!(asked(words), None, "{words:?}");
        }
    }
}
