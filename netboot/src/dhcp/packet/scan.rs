//! Core: reads option areas; total on any bytes.

use super::option;

/// Bit of option 52: `file` holds options.
const OVERLOAD_FILE: u8 = 1;
/// Bit of option 52: `sname` holds options.
const OVERLOAD_SNAME: u8 = 2;

/// All options of a message, every code once with its instances joined. They are in the order of first
/// appearance: the option area, then `file`, then `sname` (RFC 3396 section 5).
pub(super) fn scan(area: &[u8], file: &[u8], sname: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut options = Vec::new();
    collect(area, &mut options);
    let overload = match options.iter().find(|(code, _)| *code == option::OVERLOAD) {
        Some((_, value)) if value.len() == 1 => value.first().copied().unwrap_or(0),
        _ => 0,
    };
    if overload & OVERLOAD_FILE != 0 {
        collect(file, &mut options);
    }
    if overload & OVERLOAD_SNAME != 0 {
        collect(sname, &mut options);
    }
    options
}

fn collect(area: &[u8], options: &mut Vec<(u8, Vec<u8>)>) {
    for (code, value) in Options(area) {
        match options.iter_mut().find(|(present, _)| *present == code) {
            Some((_, joined)) => joined.extend_from_slice(value),
            None => options.push((code, value.to_vec())),
        }
    }
}

/// First sub-option `code` of an encapsulating option. Sub-options know neither pad nor end.
pub(super) fn find(area: &[u8], code: u8) -> Option<&[u8]> {
    let mut rest = area;
    loop {
        let (found, value, after) = split(rest)?;
        if found == code {
            return Some(value);
        }
        rest = after;
    }
}

/// Instances of options in one area. Ends at option 255, at the end of the bytes, and at an option
/// that claims more bytes than there are.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while let [option::PAD, rest @ ..] = self.0 {
            self.0 = rest;
        }
        if let [option::END, ..] = self.0 {
            return None;
        }
        let (code, value, rest) = split(self.0)?;
        self.0 = rest;
        Some((code, value))
    }
}

/// Code, value and what follows.
fn split(area: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [code, len, rest @ ..] = area else { return None };
    let (value, rest) = rest.split_at_checked(usize::from(*len))?;
    Some((*code, value, rest))
}
