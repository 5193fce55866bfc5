//! Manual pages, generated from the definition of the command line.

use std::io;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::{Arguments, command_of};

/// The section of the manual for what administrators use.
const SECTION: &str = "8";
/// What stands at the top of every page.
const MANUAL: &str = "Gantry";
/// How the preamble of each piece of a page begins, of which one is enough.
const PREAMBLE: [&str; 2] = [".ie ", ".el "];

/// The pages of the manual: file name, as `gnt-job.8`, and content. `gnt` has one, and each of its
/// objects has one with all its verbs.
///
/// # Errors
/// None that depends on anything outside: writing to memory.
pub fn man_pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut all = Arguments::command().disable_help_subcommand(true);
    all.build();
    let mut page = Vec::new();
    man(all.clone()).render(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    // Only objects with verbs have pages of their own.
    for object in all.get_subcommands().filter(|object| !object.has_subcommands()) {
        let name = object.get_name();
        page = page.replace(&format!("gnt\\-{name}({SECTION})"), &format!("gnt {name}"));
    }
    let mut pages = vec![(format!("gnt.{SECTION}"), page.into_bytes())];
    for definition in all.get_subcommands().filter_map(|object| command_of(object.get_name())) {
        let definition = definition.disable_help_subcommand(true).subcommand_value_name("VERB");
        let program = definition.get_bin_name().unwrap_or_default().to_owned();
        let mut page = Vec::new();
        render(&mut page, definition, &program, "VERBS")?;
        heading(&mut page, "SH", "SEE ALSO")?;
        let mut also = Roff::new();
        let told = "which tells the exit statuses and the options of every command";
        also.text([bold("gnt"), roman(format!("({SECTION}), {told}."))]);
        also.to_writer(&mut page)?;
        pages.push((format!("{program}.{SECTION}"), once(&page)));
    }
    Ok(pages)
}

/// The page of another program, as a daemon, in the same form: file name and content. `sections`
/// are titles with their paragraphs, each a term and what is to be said of it; they follow what the
/// definition gives.
///
/// # Errors
/// None that depends on anything outside: writing to memory.
pub fn man_page_of(
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

fn man(command: Command) -> Man {
    let source = concat!("gantry ", env!("CARGO_PKG_VERSION"));
    Man::new(command).section(SECTION).manual(MANUAL).source(source)
}

/// What a definition says: name, synopsis, description, each verb, options.
fn render(page: &mut Vec<u8>, definition: Command, program: &str, verbs: &str) -> io::Result<()> {
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

fn heading(page: &mut Vec<u8>, level: &str, text: &str) -> io::Result<()> {
    let mut heading = Roff::new();
    heading.control(level, [text]);
    heading.to_writer(page)
}

/// The page with its first preamble only.
fn once(page: &[u8]) -> Vec<u8> {
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
    use crate::command;

    fn objects() -> Vec<String> {
        let all = command();
        let objects = all.get_subcommands().filter(|object| object.has_subcommands());
        objects.map(|object| format!("gnt-{}", object.get_name())).collect()
    }

    #[test]
    fn every_program_has_a_page_with_its_verbs() {
        let pages = man_pages().unwrap();
        assert_eq!(pages[0].0, "gnt.8");
        assert_eq!(pages.len(), objects().len() + 1);
        for (name, page) in pages {
            let text = String::from_utf8(page).unwrap();
            assert_eq!(text.matches("\n.TH").count() + text.matches("\n.el").count(), 2, "{name}");
            let program = name.trim_end_matches(".8");
            let Some(definition) = program.strip_prefix("gnt-").and_then(command_of) else {
                continue;
            };
            for verb in definition.get_subcommands().filter(|verb| !verb.is_hide_set()) {
                let heading = format!(".SS \"{program} {}\"\n", verb.get_name());
                assert!(text.contains(&heading), "{name} has no {heading}");
            }
        }
    }

    #[test]
    fn pages_that_are_referred_to_exist() {
        let pages = man_pages().unwrap();
        let text = String::from_utf8(pages[0].1.clone()).unwrap();
        let reference = regex::Regex::new(r"gnt\\-([a-z\\-]+)\(8\)").unwrap();
        let referred: Vec<String> = reference
            .captures_iter(&text)
            .map(|found| format!("gnt-{}.8", found[1].replace('\\', "")))
            .collect();
        assert_eq!(referred.len(), objects().len(), "{text}");
        for name in referred {
            assert!(pages.iter().any(|(page, _text)| *page == name), "{name}");
        }
        assert!(text.contains("gnt completion\n"), "{text}");
        // The options of every command are on this page alone.
        for (name, page) in &pages {
            let page = String::from_utf8_lossy(page);
            assert_eq!(page.contains("\\-\\-master\\-wait"), name == "gnt.8", "{name}: {page}");
        }
    }
}
