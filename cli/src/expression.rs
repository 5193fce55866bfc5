//! Core: the filter expressions of `-F`, in the words of Ganeti:
//! `status == "error" and not ("tag" in tags or name =~ m/^web/)`.

use luxi::query::Filter;
use luxi::query::filter::{Comparison, FilterError, Operand};

/// Nesting of parentheses and `not`; far from what anyone writes, and safe for the stack.
const DEPTH_MAX: usize = luxi::limits::FILTER_DEPTH_MAX;

/// The marks that may stand around a regular expression.
const PATTERN_MARKS: &str = "/#^|";

/// An expression that does not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExpressionError {
    #[error("expected {wanted} at `{rest}`")]
    Expected { wanted: &'static str, rest: String },
    #[error("expected {wanted} at its end")]
    Short { wanted: &'static str },
    #[error("{what} is never closed")]
    Open { what: &'static str },
    #[error("nested too deeply")]
    Deep,
    #[error("{0}")]
    Pattern(String),
}

/// Reads an expression.
pub(crate) fn read(text: &str) -> Result<Filter, ExpressionError> {
    let mut reader = Reader { rest: text.trim_start() };
    let filter = reader.any(0)?;
    if reader.rest.is_empty() { Ok(filter) } else { Err(reader.expected("`and`, `or` or the end")) }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// `a or b or c`.
    fn any(&mut self, depth: usize) -> Result<Filter, ExpressionError> {
        let mut parts = vec![self.all(depth)?];
        while self.word("or") || self.take("|") {
            parts.push(self.all(depth)?);
        }
        Ok(single(parts, Filter::Or))
    }

    /// `a and b and c`.
    fn all(&mut self, depth: usize) -> Result<Filter, ExpressionError> {
        let mut parts = vec![self.one(depth)?];
        while self.word("and") || self.take("&") {
            parts.push(self.one(depth)?);
        }
        Ok(single(parts, Filter::And))
    }

    /// `not a`, `(a)`, or a condition.
    fn one(&mut self, depth: usize) -> Result<Filter, ExpressionError> {
        if depth >= DEPTH_MAX {
            return Err(ExpressionError::Deep);
        }
        if self.word("not") || self.take("!") {
            return Ok(Filter::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.take("(") {
            let inner = self.any(depth + 1)?;
            return if self.take(")") { Ok(inner) } else { Err(self.expected("`)`")) };
        }
        if self.rest.starts_with(|c: char| "\"'+-".contains(c) || c.is_ascii_digit()) {
            return self.membership();
        }
        let field = self.name()?;
        self.condition(field)
    }

    /// `"value" in field`.
    fn membership(&mut self) -> Result<Filter, ExpressionError> {
        let value = self.operand()?;
        let negative = self.word("not");
        if !self.word("in") {
            return Err(self.expected("`in` or `not in`"));
        }
        let contains = Filter::Contains(self.name()?, value);
        Ok(if negative { Filter::Not(Box::new(contains)) } else { contains })
    }

    /// The condition that follows the name of a field.
    fn condition(&mut self, field: String) -> Result<Filter, ExpressionError> {
        for (operator, negative) in [("=~", false), ("!~", true)] {
            if self.take(operator) {
                let pattern = self.pattern()?;
                return matching(&field, &pattern, negative);
            }
        }
        for (operator, negative) in [("=*", false), ("!*", true)] {
            if self.take(operator) {
                let Operand::Text(glob) = self.operand()? else {
                    return Err(self.expected("a pattern in quotes"));
                };
                return matching(&field, &glob_pattern(&glob), negative);
            }
        }
        let comparisons = [
            ("==", Comparison::Equal),
            ("=", Comparison::Equal),
            ("!=", Comparison::Different),
            ("<=", Comparison::AtMost),
            ("<", Comparison::Less),
            (">=", Comparison::AtLeast),
            (">", Comparison::Greater),
        ];
        for (operator, how) in comparisons {
            if self.take(operator) {
                return Ok(Filter::Compare(how, field, self.operand()?));
            }
        }
        Ok(Filter::True(field))
    }

    /// A text in quotes, or a number.
    fn operand(&mut self) -> Result<Operand, ExpressionError> {
        if let Some(quote) = self.rest.chars().next().filter(|c| "\"'".contains(*c)) {
            return self.quoted(quote, "the text in quotes").map(Operand::Text);
        }
        let end = self.rest.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c)));
        let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        match serde_json::from_str(number.strip_prefix('+').unwrap_or(number)) {
            Ok(number) => {
                self.rest = rest.trim_start();
                Ok(Operand::Number(number))
            }
            Err(_no_number) => Err(self.expected("a text in quotes or a number")),
        }
    }

    /// `m/…/` or `/…/`, with one of [`PATTERN_MARKS`] in place of the slash and the flags `i` and
    /// `s` behind it. A backslash makes the mark part of the pattern.
    fn pattern(&mut self) -> Result<String, ExpressionError> {
        let behind = self.rest.strip_prefix('m').unwrap_or(self.rest).trim_start();
        let Some(mark) = behind.chars().next().filter(|mark| PATTERN_MARKS.contains(*mark)) else {
            return Err(self.expected("a regular expression as m/…/"));
        };
        let inner = behind.get(1..).unwrap_or_default();
        let mut escaped = false;
        let end = inner.find(|c| {
            let ends = c == mark && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let (body, rest) = inner
            .split_at_checked(end.unwrap_or(usize::MAX))
            .ok_or(ExpressionError::Open { what: "the regular expression" })?;
        let body = body.replace(&format!("\\{mark}"), mark.encode_utf8(&mut [0; 4]));
        self.rest = rest.get(1..).unwrap_or_default();
        let end = self.rest.find(|c| !"is".contains(c)).unwrap_or(self.rest.len());
        let (flags, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        Ok(if flags.is_empty() { body } else { format!("(?{flags}){body}") })
    }

    /// The text up to the next `mark`; the first one is skipped.
    fn quoted(&mut self, mark: char, what: &'static str) -> Result<String, ExpressionError> {
        let inner = self.rest.strip_prefix(mark).unwrap_or(self.rest);
        let (text, rest) = inner.split_once(mark).ok_or(ExpressionError::Open { what })?;
        self.rest = rest.trim_start();
        Ok(text.to_owned())
    }

    fn name(&mut self) -> Result<String, ExpressionError> {
        let known = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
        let end = self.rest.find(|c| !known(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(self.expected("the name of a field"));
        }
        self.rest = rest.trim_start();
        Ok(name.to_owned())
    }

    /// Takes `word` if it stands here as a whole word.
    fn word(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        let rest = rest.filter(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
        if let Some(rest) = rest {
            self.rest = rest.trim_start();
        }
        rest.is_some()
    }

    fn take(&mut self, mark: &str) -> bool {
        let rest: Option<&'a str> = self.rest.strip_prefix(mark);
        if let Some(rest) = rest {
            self.rest = rest.trim_start();
        }
        rest.is_some()
    }

    fn expected(&self, wanted: &'static str) -> ExpressionError {
        if self.rest.is_empty() {
            return ExpressionError::Short { wanted };
        }
        ExpressionError::Expected { wanted, rest: self.rest.chars().take(20).collect() }
    }
}

fn single(mut parts: Vec<Filter>, join: impl Fn(Vec<Filter>) -> Filter) -> Filter {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            parts.extend(last);
            join(parts)
        }
    }
}

fn matching(field: &str, pattern: &str, negative: bool) -> Result<Filter, ExpressionError> {
    let matches = Filter::matching(field, pattern).map_err(|error| {
        ExpressionError::Pattern(match &error {
            FilterError::Pattern { error: why, .. } => format!("{error}: {why}"),
            _ => error.to_string(),
        })
    })?;
    Ok(if negative { Filter::Not(Box::new(matches)) } else { matches })
}

/// A pattern of host names as Ganeti reads it: `*` is any text within one part of the name, `?` any
/// one character but the dot, and parts may follow.
pub(crate) fn glob_pattern(glob: &str) -> String {
    let body: String = glob
        .chars()
        .map(|c| match c {
            '*' => "[^.]*".to_owned(),
            '?' => "[^.]".to_owned(),
            other => regex::escape(other.encode_utf8(&mut [0; 4])),
        })
        .collect();
    format!("^{body}(\\..*)?$")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str) -> String {
        match read(text) {
            Ok(filter) => serde_json::to_string(&filter).unwrap(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn expressions() {
        for (text, expected) in [
            ("offline", r#"["?","offline"]"#),
            (r#"status == "error""#, r#"["==","status","error"]"#),
            (" id=5 ", r#"["==","id",5]"#),
            ("a<=1 and b>2", r#"["&",["<=","a",1],[">","b",2]]"#),
            ("a or b and not c", r#"["|",["?","a"],["&",["?","b"],["!",["?","c"]]]]"#),
            ("(a or b)&!c", r#"["&",["|",["?","a"],["?","b"]],["!",["?","c"]]]"#),
            ("android and order", r#"["&",["?","android"],["?","order"]]"#),
            ("'x' in tags", r#"["=[]","tags","x"]"#),
            ("'x' not in tags", r#"["!",["=[]","tags","x"]]"#),
            ("name =~ m/^web-\\d+$/", r#"["=~","name","^web-\\d+$"]"#),
            ("name !~ m#a/b#i and x", r#"["&",["!",["=~","name","(?i)a/b"]],["?","x"]]"#),
            (r"name =~ m/a\/b\./", r#"["=~","name","a/b\\."]"#),
            ("name =~ /n1/", r#"["=~","name","n1"]"#),
            ("name =~ m ^n1^s and x", r#"["&",["=~","name","(?s)n1"],["?","x"]]"#),
            ("name =* 'n?.*'", r#"["=~","name","^n[^.]\\.[^.]*(\\..*)?$"]"#),
            ("name !* 'a'", r#"["!",["=~","name","^a(\\..*)?$"]]"#),
            ("10 in oppriority", r#"["=[]","oppriority",10]"#),
            ("-1 not in oppriority", r#"["!",["=[]","oppriority",-1]]"#),
            ("pinst_cnt > +1", r#"[">","pinst_cnt",1]"#),
        ] {
            assert_eq!(wire(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_none() {
        for (text, told) in [
            ("", "the name of a field"),
            ("a b", "`and`, `or` or the end at `b`"),
            ("a ==", "a text in quotes or a number at its end"),
            ("a == 'x", "never closed"),
            ("(a", "expected `)`"),
            ("'x' tags", "`in` or `not in`"),
            ("a =~ 'x'", "m/…/"),
            ("a =~ m/(/", "no usable regular expression"),
        ] {
            let error = wire(text);
            assert!(error.contains(told), "{text}: {error}");
        }
        assert!(wire(&format!("{}a", "(".repeat(1_000))).contains("too deeply"));
    }
}
