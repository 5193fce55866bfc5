//! Core: the text of a unit, as Ignition reads it. It refuses a section or an option without an end, and a
//! line that systemd once cut.

/// Bytes of a line that Ignition refuses, where it sees as many at once.
const LINE_BYTES: usize = 2_048;
/// Bytes that Ignition sees at once.
const SEEN_BYTES: usize = 4_096;

/// Whether a unit has an option in its section `[Install]`.
///
/// # Errors
/// Ignition refuses the text.
pub(super) fn has_install(text: &str) -> Result<bool, &'static str> {
    let mut reader = Reader { text, at: 0, seen: 0 };
    let (mut section, mut has_install) = (None, false);
    loop {
        reader.check_line()?;
        let Some(first) = reader.next() else { return Ok(has_install) };
        match (first, section) {
            ('[', _) => section = Some(reader.section()?),
            ('#' | ';', _) => {
                reader.check_line()?;
                while goes_on(reader.line()) {}
            }
            // Text before the first section says nothing.
            (_, None) => {}
            (blank, Some(_)) if blank.is_whitespace() => {}
            (first, Some(name)) => {
                reader.at -= first.len_utf8();
                reader.option()?;
                has_install |= name == "Install";
            }
        }
    }
}

/// Whether a comment goes on in the next line.
fn goes_on(line: &str) -> bool {
    line.strip_suffix(' ').unwrap_or(line).ends_with('\\')
}

/// A text, read through a buffer: whether a line is too long depends on how much of it is there.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// How far the buffer goes.
    seen: usize,
}

impl<'a> Reader<'a> {
    fn check_line(&self) -> Result<(), &'static str> {
        let next = self.text.as_bytes().get(self.at..self.at + LINE_BYTES);
        let is_long = next.is_some_and(|next| !next.iter().any(|byte| b"\r\n".contains(byte)));
        match is_long && self.seen - self.at >= LINE_BYTES {
            true => Err("has a line of more than 2,048 bytes"),
            false => Ok(()),
        }
    }

    /// Sees as much as there is room for.
    fn fill(&mut self) {
        self.seen = self.text.len().min(self.at + SEEN_BYTES);
    }

    fn next(&mut self) -> Option<char> {
        let next = self.text.get(self.at..)?.chars().next()?;
        if self.at + next.len_utf8() > self.seen {
            self.fill();
        }
        self.at += next.len_utf8();
        Some(next)
    }

    /// The text before the next `end`, which is passed over; none where there is no `end`.
    fn to(&mut self, end: u8) -> Option<&'a str> {
        let begin = self.at;
        loop {
            let seen = &self.text.as_bytes()[self.at..self.seen];
            if let Some(place) = seen.iter().position(|byte| *byte == end) {
                let found = &self.text[begin..self.at + place];
                self.at += place + 1;
                return Some(found);
            }
            if seen.len() >= SEEN_BYTES {
                self.at = self.seen;
            } else if self.seen == self.text.len() {
                return None;
            }
            self.fill();
        }
    }

    fn line(&mut self) -> &'a str {
        let begin = self.at;
        self.to(b'\n').unwrap_or_else(|| {
            self.at = self.text.len();
            let rest = &self.text[begin..];
            rest.strip_suffix('\r').unwrap_or(rest)
        })
    }

    /// The name of a section, behind its bracket.
    fn section(&mut self) -> Result<&'a str, &'static str> {
        self.check_line()?;
        let name = self.to(b']').ok_or("has a section without its `]`")?;
        self.check_line()?;
        match self.line().trim().is_empty() {
            true => Ok(name),
            false => Err("has more than the name of a section on its line"),
        }
    }

    /// Passes over an option, whose value may have several lines.
    fn option(&mut self) -> Result<(), &'static str> {
        self.check_line()?;
        loop {
            match self.next() {
                Some('=') => break,
                Some('\n' | '\r') | None => return Err("has an option without `=`"),
                Some(_) => {}
            }
        }
        self.check_line()?;
        while self.line().ends_with('\\') {
            self.check_line()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_read_as_ignition_reads_them() {
        let long = "x".repeat(LINE_BYTES);
        for (text, told) in [
            ("", Ok(false)),
            ("no section\n", Ok(false)),
            ("[Unit]\nA=b\n[Install]\nWantedBy=x\n", Ok(true)),
            ("[Install]\n", Ok(false)),
            ("[Service]\nExecStart=/a \\\n  [Install] \\\n\n", Ok(false)),
            ("# [Install] \\\n[Install]\n[Unit]\nA=b", Ok(false)),
            ("[Unit", Err("has a section without its `]`")),
            ("[Unit] x\n", Err("has more than the name of a section on its line")),
            ("[Unit]\nA\nB=c\n", Err("has an option without `=`")),
            ("[Unit]\nA", Err("has an option without `=`")),
            (&format!("[Unit]\nA={long}\n"), Err("has a line of more than 2,048 bytes")),
            (
                &format!("[Unit]\nA=b\n#{}\n", "ä".repeat(2_000)),
                Err("has a line of more than 2,048 bytes"),
            ),
            (&format!("[Unit]\nA=b\n#{}\n", "ä".repeat(900)), Ok(false)),
        ] {
            assert_eq!(has_install(text), told, "{text}");
        }
    }
}
