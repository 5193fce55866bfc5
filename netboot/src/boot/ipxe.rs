//! Core: texts in scripts of iPXE, which knows no quotes. It splits a line at blanks, ends a command at a word
//! such as `||` or `#…`, and only then puts in the values of settings. So the name of a setting that nobody set
//! hides what such a word begins with.

/// Columns of a console of firmware.
const COLUMNS: usize = 80;
/// A setting that nobody sets: iPXE puts nothing in its place.
const NOTHING: &str = "${none}";

/// A text as the arguments of a command that joins them by single blanks, as `echo` and `kernel` do.
pub(super) fn literal(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let begins = match word {
            "" | "||" | "&&" | ";" => NOTHING,
            _ if word.starts_with('#') => NOTHING,
            _ => "",
        };
        // At the end of a line it would take in the next one.
        let ends = if word.ends_with('\\') { NOTHING } else { "" };
        format!("{begins}{word}{ends}")
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A script that shows a text, and ends as a failure.
pub(super) fn shown(text: &str) -> String {
    let mut script = "#!ipxe\n".to_owned();
    for line in text.lines() {
        let plain = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
        let line: String = line.chars().map(plain).collect();
        let (mut row, mut length) = (Vec::new(), 0);
        for word in line.split(' ') {
            if !row.is_empty() && length + 1 + word.len() >= COLUMNS {
                script.push_str(&echo(&row.join(" ")));
                (row, length) = (Vec::new(), 0);
            }
            length += word.len() + usize::from(!row.is_empty());
            row.push(word);
        }
        script.push_str(&echo(&row.join(" ")));
    }
    script + "exit 1\n"
}

/// The commands that show one row of a console.
fn echo(row: &str) -> String {
    // iPXE would take `${` for a setting, so two commands show it.
    let mut pieces = row.split("${").peekable();
    let (mut commands, mut opened) = (String::new(), "");
    while let Some(piece) = pieces.next() {
        let (option, end) = if pieces.peek().is_some() { (" -n", "$") } else { ("", "") };
        let text = literal(&format!("{opened}{piece}{end}"));
        let options_end = if text.starts_with('-') { " --" } else { "" };
        commands.push_str(&format!("echo{option}{options_end} {text}\n"));
        opened = "{";
    }
    commands
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The arguments that iPXE makes of a line, of each command in turn, as its source has it.
    fn arguments(line: &str) -> Vec<String> {
        let words = line.split_ascii_whitespace();
        let mut command = Vec::new();
        for word in words {
            assert!(!matches!(word, "||" | "&&" | ";"), "a second command: {line}");
            if word.starts_with('#') {
                break;
            }
            command.push(expanded(word));
        }
        command
    }

    fn expanded(word: &str) -> String {
        let mut word = word.to_owned();
        loop {
            let Some((start, end)) = setting(&word) else { return word };
            assert_eq!(&word[start..=end], NOTHING, "a setting of iPXE is read");
            word.replace_range(start..=end, "");
        }
    }

    /// The first `}` behind a `${`, and the last of these before it.
    fn setting(word: &str) -> Option<(usize, usize)> {
        let first = word.find("${")?;
        let end = first + word[first..].find('}')?;
        Some((word[..end].rfind("${")?, end))
    }

    /// The text that a script shows.
    fn console(script: &str) -> String {
        let mut shown = String::new();
        for line in script.lines().skip(1).take_while(|line| *line != "exit 1") {
            assert!(!line.ends_with('\\'), "the next line is of this one: {line}");
            let words = arguments(line);
            let mut words = words.iter().map(String::as_str).skip(1).peekable();
            let goes_on = words.next_if_eq(&"-n").is_some();
            if words.next_if_eq(&"--").is_none() {
                assert!(!words.peek().is_some_and(|word| word.starts_with('-')), "{line}");
            }
            shown.push_str(&words.collect::<Vec<_>>().join(" "));
            shown.push_str(if goes_on { "" } else { "\n" });
        }
        shown
    }

    #[test]
    fn texts_are_shown_as_they_are() {
        for text in [
            "register SN-0001#ABU with\n",
            "#1 || shell && exit ; # no\n",
            "--rack RACK\n",
            "-n\n",
            "${serial} a${x}b ${${y}} $ { } ${\n",
            "a  b   c\n",
            "50% \"a\\b\" 'c' ~`^=|<>&\n",
        ] {
            assert_eq!(console(&shown(text)), text);
        }
        assert_eq!(console(&shown("a\u{7}ü\tb\\")), "a???b\\\n");
        assert_eq!(shown(""), "#!ipxe\nexit 1\n");
        let long = format!("{} {}", "a".repeat(70), "b".repeat(20));
        assert_eq!(console(&shown(&long)), long.replace(' ', "\n") + "\n");
    }

    proptest! {
        #[test]
        fn no_text_is_syntax(text in "[ -~]{0,70}", words in "(\\$\\{|\\}|#|\\|\\||&&|;|-|--|-n| |a){0,20}") {
            for text in [text, words] {
                prop_assume!(!text.is_empty());
                prop_assert_eq!(console(&shown(&text)), text + "\n");
            }
        }

        #[test]
        fn parameters_reach_the_kernel_as_they_are(text in "[ -~]{1,40}|[ab\"#|&; ]{1,20}") {
            let Ok(parameter) = text.parse::<model::image::Parameter>() else { return Ok(()) };
            let line = format!("kernel {} x", literal(parameter.as_str()));
            prop_assert_eq!(arguments(&line).join(" "), format!("kernel {text} x"));
        }
    }
}
