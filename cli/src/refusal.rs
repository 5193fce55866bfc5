//! The message on a wrong command line.

use std::ffi::OsString;
use std::io::Write as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::Exit;
use crate::{absent, command, object_in_name};

/// A tip of the parser that never helps here: no word of `gnt` begins with a hyphen.
const IDLE_TIP: &str = "as a value, use";

/// Tells what is wrong with the command line, or shows the help that was asked for; the exit
/// status.
pub(crate) fn refuse(mut error: clap::Error, arguments: &[OsString]) -> u8 {
    let given = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let words: Vec<&str> = object_in_name(arguments)
        .into_iter()
        .chain(given.filter(|word| !word.starts_with('-')))
        .collect();
    if error.kind() == ErrorKind::InvalidSubcommand {
        let verb = words.get(1).copied().unwrap_or_default();
        if let Some(why) = words.first().and_then(|object| absent::why(object, verb)) {
            let told = writeln!(std::io::stderr(), "Not in Gantry: {why}.");
            return if told.is_ok() { Exit::FAILURE } else { Exit::CLOSED_PIPE }.0;
        }
    }
    improve(&mut error, &words);
    if error.print().is_err() {
        return Exit::CLOSED_PIPE.0;
    }
    // As Ganeti's tools: what is wrong with an option is 2, and with other words 1.
    let of_option = matches!(
        error.get(ContextKind::InvalidArg),
        Some(ContextValue::String(argument)) if argument.starts_with('-')
    );
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
        ErrorKind::InvalidSubcommand
        | ErrorKind::MissingSubcommand
        | ErrorKind::MissingRequiredArgument
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Exit::FAILURE.0,
        ErrorKind::UnknownArgument | ErrorKind::InvalidValue | ErrorKind::ValueValidation
            if !of_option =>
        {
            Exit::FAILURE.0
        }
        _ => Exit::CONFIGURATION.0,
    }
}

/// Leaves out the tip that never helps, and adds the word that was meant.
fn improve(error: &mut clap::Error, words: &[&str]) {
    if let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested) {
        let tips: Vec<_> =
            tips.into_iter().filter(|tip| !tip.to_string().contains(IDLE_TIP)).collect();
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    let none = |known: Option<&ContextValue>| match known {
        Some(ContextValue::Strings(known)) => known.is_empty(),
        Some(_) => false,
        None => true,
    };
    if error.kind() == ErrorKind::InvalidSubcommand
        && none(error.get(ContextKind::SuggestedSubcommand))
    {
        let meant = meant(words);
        if !meant.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(meant));
        }
    }
}

/// The objects, or verbs of the object, that have the letters of the wrong word in another order,
/// or begin with it. The parser itself finds other similar words.
fn meant(words: &[&str]) -> Vec<String> {
    let all = command();
    let object = words.first().and_then(|name| all.find_subcommand(name));
    let (among, word) = match object {
        Some(object) => (object, words.get(1)),
        None => (&all, words.first()),
    };
    let Some(word) = word.filter(|word| !word.is_empty()) else { return Vec::new() };
    let sorted = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let names = among.get_subcommands().map(clap::Command::get_name);
    let alike = |name: &&str| name.starts_with(word) || sorted(name) == sorted(word);
    names.filter(alike).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_were_meant() {
        for (line, words) in [
            ("jbo list", &["job"] as &[&str]),
            ("mach", &["machine"]),
            ("job ifno 5", &["info"]),
            ("job l", &["list", "list-fields"]),
            ("nothing", &[]),
            ("", &[]),
        ] {
            let given: Vec<&str> = line.split(' ').collect();
            assert_eq!(meant(&given), words, "{line}");
        }
    }

    #[test]
    fn a_tip_is_one_that_helps() {
        for (line, tip) in [
            ("gnt jbo list", "a similar subcommand exists: 'job'"),
            ("gnt debug submit-job --submi x", ""),
            ("gnt node add --group x", ""),
            ("gnt job list --runing", "a similar argument exists: '--running'"),
        ] {
            let mut error = command().try_get_matches_from(line.split(' ')).unwrap_err();
            let words: Vec<&str> = line.split(' ').skip(1).collect();
            improve(&mut error, &words);
            let told = error.to_string();
            assert_eq!(told.contains("tip:"), !tip.is_empty(), "{told}");
            assert!(told.contains(tip) && !told.contains(IDLE_TIP), "{told}");
        }
    }
}
