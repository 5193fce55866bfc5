//! Core: documents whose fields stay in their order, as YAML or JSON.

/// A value of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(u64),
    Flag(bool),
    List(Vec<Self>),
    Map(Map),
}

/// Fields in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Map(Vec<(String, Value)>);

impl Map {
    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.set(key, value);
        self
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.0.push((key.to_owned(), value.into()));
    }

    /// Leaves out what is not there.
    pub(super) fn set_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    /// Leaves out a flag that is down.
    pub(super) fn set_flag(&mut self, key: &str, flag: bool) {
        self.set_some(key, Some(true).filter(|_| flag));
    }

    /// Leaves out an empty list.
    pub(super) fn set_list<V: Into<Value>>(
        &mut self,
        key: &str,
        list: impl IntoIterator<Item = V>,
    ) {
        let list: Vec<Value> = list.into_iter().map(Into::into).collect();
        if !list.is_empty() {
            self.set(key, Value::List(list));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn yaml(&self) -> String {
        let mut text = String::new();
        write_map(&mut text, self, 0);
        text
    }

    pub(super) fn json(&self) -> String {
        let mut text = String::new();
        write_json(&mut text, &Value::Map(self.clone()), 0);
        text.push('\n');
        text
    }
}

impl Value {
    /// A number where the text is one.
    pub(super) fn number_or_text(text: String) -> Self {
        text.parse().map_or(Self::Text(text), Self::Number)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}
impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}
impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(u64::from(number))
    }
}
impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Number(u64::from(number))
    }
}
impl From<u8> for Value {
    fn from(number: u8) -> Self {
        Self::Number(u64::from(number))
    }
}

fn indent(text: &mut String, depth: usize) {
    text.push_str(&"  ".repeat(depth));
}

fn write_map(text: &mut String, map: &Map, depth: usize) {
    for (at, (key, value)) in map.0.iter().enumerate() {
        // The first field of an item stands behind its hyphen.
        if at > 0 || text.is_empty() || text.ends_with('\n') {
            indent(text, depth);
        }
        text.push_str(&scalar(key));
        text.push(':');
        write_value(text, value, depth);
    }
}

fn write_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Map(map) if map.is_empty() => text.push_str(" {}\n"),
        Value::Map(map) => {
            text.push('\n');
            write_map(text, map, depth + 1);
        }
        Value::List(list) if list.is_empty() => text.push_str(" []\n"),
        Value::List(list) => {
            text.push('\n');
            for item in list {
                indent(text, depth);
                text.push('-');
                match item {
                    Value::Map(map) if !map.is_empty() => {
                        text.push(' ');
                        write_map(text, map, depth + 1);
                    }
                    Value::Map(_)
                    | Value::List(_)
                    | Value::Text(_)
                    | Value::Number(_)
                    | Value::Flag(_) => write_value(text, item, depth + 1),
                }
            }
        }
        Value::Text(word) => text.push_str(&format!(" {}\n", scalar(word))),
        Value::Number(number) => text.push_str(&format!(" {number}\n")),
        Value::Flag(flag) => text.push_str(&format!(" {flag}\n")),
    }
}

/// A text as every version of YAML reads it: whatever could be a number, a date or a flag is quoted.
fn scalar(text: &str) -> String {
    const FLAGS: &[&str] = &["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./+".contains(c))
        && !FLAGS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// A string in double quotes, which JSON and YAML read alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn write_json(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Map(map) => {
            let fields = map.0.iter().map(|(key, value)| (Some(key.as_str()), value));
            write_items(text, ('{', '}'), fields.collect(), depth);
        }
        Value::List(list) => {
            let items = list.iter().map(|value| (None, value));
            write_items(text, ('[', ']'), items.collect(), depth);
        }
        Value::Text(word) => text.push_str(&quoted(word)),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::Flag(flag) => text.push_str(&flag.to_string()),
    }
}

fn write_items(
    text: &mut String,
    (open, close): (char, char),
    items: Vec<(Option<&str>, &Value)>,
    depth: usize,
) {
    text.push(open);
    let is_empty = items.is_empty();
    for (at, (key, value)) in items.into_iter().enumerate() {
        text.push_str(if at == 0 { "\n" } else { ",\n" });
        indent(text, depth + 1);
        if let Some(key) = key {
            text.push_str(&quoted(key));
            text.push_str(": ");
        }
        write_json(text, value, depth + 1);
    }
    if !is_empty {
        text.push('\n');
        indent(text, depth);
    }
    text.push(close);
}
