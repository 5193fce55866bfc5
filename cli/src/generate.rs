//! Manual pages, generated from the definition of the command line.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_mangen::roff::{Roff, bold, roman};
use stdx::pages::{self, Generated, SECTION, heading, man, once, render};

use crate::completion::completions;
use crate::{Arguments, command_of};

/// Writes pages and completions if these arguments ask for them; how it ended.
pub(crate) fn write_if_asked(arguments: &[OsString]) -> Option<ExitCode> {
    let directory = pages::asked(arguments.iter().cloned())?;
    let written = man_pages().and_then(|made| pages::write(&directory, made, completions()));
    Some(pages::ended(written))
}

/// The pages of the manual: file name, as `gnt-job.8`, and content. `gnt` has one, and each of its
/// objects has one with all its verbs.
///
/// # Errors
/// None that depends on anything outside: writing to memory.
pub(crate) fn man_pages() -> io::Result<Generated> {
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
