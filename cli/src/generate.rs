//! Manual pages and completions, generated from the definition of the command line.

use std::io;

use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::{command, command_of};

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
    let mut all = command().disable_help_subcommand(true);
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
        also.text([bold("gnt"), roman(format!("({SECTION}), which tells the exit statuses."))]);
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

/// Completions for bash, zsh and fish, for `gnt` and each `gnt-OBJECT`: path below `/usr/share` and
/// content.
#[must_use]
pub fn completions() -> Vec<(String, Vec<u8>)> {
    let all = command();
    let own = all.get_subcommands().filter_map(|object| command_of(object.get_name()));
    std::iter::once(command()).chain(own).flat_map(completions_of).collect()
}

/// The same for another program.
#[must_use]
pub fn completions_of(mut definition: Command) -> Vec<(String, Vec<u8>)> {
    let program = definition.get_bin_name().unwrap_or(definition.get_name()).to_owned();
    let files = [
        (Shell::Bash, "bash-completion/completions", "", ""),
        (Shell::Zsh, "zsh/vendor-completions", "_", ""),
        (Shell::Fish, "fish/vendor_completions.d", "", ".fish"),
    ];
    let file = |(shell, directory, prefix, suffix)| {
        let text = completion_of(&mut definition, &program, shell);
        (format!("{directory}/{prefix}{program}{suffix}"), text)
    };
    files.map(file).to_vec()
}

fn completion_of(definition: &mut Command, program: &str, shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    generate(shell, definition, program, &mut text);
    match shell {
        Shell::Bash => text = coherent(&text, program),
        Shell::Fish => text.extend(operands(definition, program).into_bytes()),
        _ => {}
    }
    text
}

/// The completion for bash with one name for each verb of `gnt-OBJECT`: the generator writes the
/// hyphen of the program in one way where a verb is found out and in another where it is completed.
fn coherent(text: &[u8], program: &str) -> Vec<u8> {
    let (there, here) = (program.replace('-', "__subcmd__"), program.replace('-', "__"));
    let cases =
        |text: &str| text.replace(&format!("{there}__subcmd__"), &format!("{here}__subcmd__"));
    cases(&String::from_utf8_lossy(text)).into_bytes()
}

/// What fish needs to complete operands of a fixed set, of which the generator says nothing to it.
fn operands(definition: &Command, program: &str) -> String {
    let mut lines = String::new();
    let mut add = |verb: &Command, condition: &str| {
        let operands = verb.get_positionals().flat_map(clap::Arg::get_possible_values);
        let words: Vec<String> = operands.map(|word| word.get_name().to_owned()).collect();
        if !words.is_empty() {
            let words = words.join(" ");
            lines
                .push_str(&format!("complete -c {program} -n \"{condition}\" -f -a \"{words}\"\n"));
        }
    };
    let function = program.replace('-', "_");
    for verb in definition.get_subcommands() {
        let condition = format!("__fish_{function}_using_subcommand {}", verb.get_name());
        add(verb, &condition);
        for below in verb.get_subcommands() {
            let name = below.get_name();
            add(below, &format!("{condition}; and __fish_seen_subcommand_from {name}"));
        }
    }
    lines
}

/// The completion of all of `gnt` for one shell.
pub(crate) fn completion(shell: Shell) -> Vec<u8> {
    completion_of(&mut command(), "gnt", shell)
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
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::process::{Command as Process, Stdio};

    use super::*;

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
        let reference = regex::Regex::new(r"gnt\\-([a-z]+)\(8\)").unwrap();
        let referred: Vec<String> =
            reference.captures_iter(&text).map(|found| format!("gnt-{}.8", &found[1])).collect();
        assert_eq!(referred.len(), objects().len(), "{text}");
        for name in referred {
            assert!(pages.iter().any(|(page, _text)| *page == name), "{name}");
        }
        assert!(text.contains("gnt completion\n"), "{text}");
    }

    #[test]
    fn every_program_is_completed_in_every_shell() {
        let files = completions();
        let paths: BTreeSet<&str> = files.iter().map(|(path, _text)| path.as_str()).collect();
        assert_eq!(paths.len(), files.len());
        for program in objects().into_iter().chain(["gnt".to_owned()]) {
            for path in [
                format!("bash-completion/completions/{program}"),
                format!("zsh/vendor-completions/_{program}"),
                format!("fish/vendor_completions.d/{program}.fish"),
            ] {
                assert!(paths.contains(path.as_str()), "{path}");
            }
        }
        for (path, text) in files {
            let text = String::from_utf8(text).unwrap();
            let name = path.rsplit('/').next().unwrap().trim_start_matches('_');
            let program = name.trim_end_matches(".fish");
            let definition = program
                .strip_prefix("gnt-")
                .map_or_else(command, |object| command_of(object).unwrap());
            for below in definition.get_subcommands() {
                assert!(text.contains(below.get_name()), "{path}: {}", below.get_name());
            }
        }
    }

    /// The files in a directory, as a package has them below `/usr/share`.
    fn installed() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in completions() {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            stdx::atomic::write(&path, &text, 0o644).unwrap();
        }
        root
    }

    /// What bash offers behind each of the lines, whose last word is the one to complete.
    fn offered(root: &Path, program: &str, lines: &[Vec<&str>]) -> Vec<Vec<String>> {
        let file = root.join("bash-completion/completions").join(program);
        let mut script =
            format!("source {}\nread -ra how < <(complete -p {program})\n", file.display());
        // The function's name is behind -F; the programs' words hold nothing that bash expands.
        script.push_str(
            "for at in \"${!how[@]}\"; do [[ ${how[at]} == -F ]] && f=${how[at+1]}; done\n",
        );
        for line in lines {
            let [.., before, last] = line.as_slice() else { panic!("{line:?}") };
            script.push_str(&format!(
                "COMP_WORDS=({words} '{last}'); COMP_CWORD={count}; COMPREPLY=()\n\
                 $f {program} '{last}' {before} 2>&1; echo \"${{COMPREPLY[@]}}\"\n",
                words = line[..line.len() - 1].join(" "),
                count = line.len() - 1,
            ));
        }
        let output = Process::new("bash").arg("-c").arg(script).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{program}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    }

    /// Every verb, also one below another, with its long options.
    fn verbs<'a>(
        before: &[&'a str],
        all: &'a Command,
        found: &mut Vec<(Vec<&'a str>, Vec<String>)>,
    ) {
        for verb in all.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let line = [before, &[verb.get_name()]].concat();
            let shown = verb.get_arguments().filter(|option| !option.is_hide_set());
            let longs = shown.filter_map(|option| Some(format!("--{}", option.get_long()?)));
            found.push((line.clone(), longs.collect()));
            verbs(&line, verb, found);
        }
    }

    #[test]
    fn bash_completes_the_options_of_every_verb() {
        let root = installed();
        for program in objects().into_iter().chain(["gnt".to_owned()]) {
            let definition = program
                .strip_prefix("gnt-")
                .map_or_else(command, |object| command_of(object).unwrap());
            let mut found = Vec::new();
            verbs(&[program.as_str()], &definition, &mut found);
            let lines: Vec<Vec<&str>> =
                found.iter().map(|(line, _longs)| [line.as_slice(), &["--"]].concat()).collect();
            let offered = offered(root.path(), &program, &lines);
            assert_eq!(offered.len(), lines.len());
            for ((line, longs), offered) in found.iter().zip(offered) {
                assert!(offered.contains(&"--root".to_owned()), "{line:?}: {offered:?}");
                for long in longs {
                    assert!(offered.contains(long), "{line:?} {long}: {offered:?}");
                }
            }
        }
    }

    #[test]
    fn bash_completes_words_of_a_fixed_set() {
        let root = installed();
        for (line, words) in [
            ("gnt j", vec!["job"]),
            ("gnt-job chan", vec!["change-priority"]),
            ("gnt cluster queue u", vec!["undrain"]),
            ("gnt-cluster watcher c", vec!["continue"]),
            ("gnt-filter add --action R", vec!["REJECT", "RATE_LIMIT"]),
            ("gnt debug delay --priority ", vec!["low", "normal", "high"]),
            ("gnt-node modify --offline ", vec!["yes", "no"]),
        ] {
            let split: Vec<&str> = line.split(' ').collect();
            let offered = offered(root.path(), split[0], std::slice::from_ref(&split));
            assert_eq!(offered[0], words, "{line}");
        }
    }

    /// Lines, and what their last word becomes.
    const COMPLETED: [(&str, &str); 7] = [
        ("gnt mach", "machine"),
        ("gnt job chan", "change-priority"),
        ("gnt-job chan", "change-priority"),
        ("gnt cluster queue un", "undrain"),
        ("gnt-filter add --action RA", "RATE_LIMIT"),
        ("gnt-node modify --offline y", "yes"),
        ("gnt-debug delay --no-l", "--no-locks"),
    ];

    fn is_installed(shell: &str) -> bool {
        let answers = Process::new(shell).arg("--version").stdout(Stdio::null()).status().is_ok();
        if !answers {
            eprintln!("skipped: {shell} is not installed");
        }
        answers
    }

    #[test]
    fn fish_completes() {
        if !is_installed("fish") {
            return;
        }
        let root = installed();
        for (line, completed) in COMPLETED {
            let program = line.split(' ').next().unwrap();
            let file = root.path().join(format!("fish/vendor_completions.d/{program}.fish"));
            let script = format!("source {}; complete -C '{line}'", file.display());
            let mut fish = Process::new("fish");
            // It keeps a history at home.
            fish.args(["--no-config", "-c", &script]).env("HOME", root.path());
            let output = fish.output().unwrap();
            let offered = String::from_utf8(output.stdout).unwrap();
            let words: Vec<&str> =
                offered.lines().filter_map(|line| line.split('\t').next()).collect();
            assert_eq!(words, [completed], "{line}");
        }
    }

    /// On a terminal of its own, as it completes nothing without one.
    #[test]
    fn zsh_completes() {
        if !is_installed("zsh") {
            return;
        }
        let root = installed();
        let found = root.path().join("found");
        let mut script = format!(
            "zmodload zsh/zpty\nzpty z 'zsh -f'\n\
             zpty -w z 'fpath=({functions} $fpath); autoload -U compinit; compinit -u -D'\n\
             zpty -w z 'keep() {{ print -r -- $BUFFER >> {found}; BUFFER=; }}; zle -N keep'\n\
             zpty -w z 'bindkey ^T keep; echo at''tention'\nzpty -r z shown '*attention*'\n",
            functions = root.path().join("zsh/vendor-completions").display(),
            found = found.display(),
        );
        for (line, _completed) in COMPLETED {
            script.push_str(&format!("zpty -n -w z $'{line}\\t\\x14'\n"));
        }
        script.push_str("zpty -w z exit\nwhile zpty -r z shown; do :; done\n");
        let mut zsh = Process::new("zsh");
        let output = zsh.args(["-f", "-c", &script]).env("HOME", root.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let found = std::fs::read_to_string(found).unwrap();
        let expected = COMPLETED.map(|(line, completed)| {
            let (before, _word) = line.rsplit_once(' ').unwrap();
            format!("{before} {completed} ")
        });
        assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    }
}
