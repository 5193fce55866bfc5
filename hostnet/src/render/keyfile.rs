//! Core: files of sections, keys and values, as systemd and NetworkManager have them.

use std::fmt::Display;

#[derive(Debug, Default)]
pub(super) struct KeyFile(Vec<Section>);

#[derive(Debug)]
struct Section {
    name: String,
    lines: Vec<String>,
}

impl KeyFile {
    /// Begins a section. An empty section is left out.
    pub(super) fn section(&mut self, name: &str) {
        self.0.push(Section { name: name.to_owned(), lines: Vec::new() });
    }

    /// Adds a line to the section that was begun last.
    pub(super) fn set(&mut self, key: &str, value: impl Display) {
        if let Some(section) = self.0.last_mut() {
            section.lines.push(format!("{key}={value}"));
        }
    }

    pub(super) fn set_some(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    pub(super) fn text(&self) -> String {
        let full = self.0.iter().filter(|section| !section.lines.is_empty());
        let texts = full.map(|one| format!("[{}]\n{}\n", one.name, one.lines.join("\n")));
        texts.collect::<Vec<_>>().join("\n")
    }
}
