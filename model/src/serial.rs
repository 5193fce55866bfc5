//! Core: serial numbers, as vendors print them.

use crate::name::{NameError, text_name};

/// Longest serial number: escaped, it must fit a file name.
const SERIAL_MAX: usize = 64;
/// The same where nothing has to be escaped, which older inventories may hold.
const PLAIN_SERIAL_MAX: usize = 128;

text_name!(
    /// A machine's serial number: 1 to 64 printable ASCII characters, without blanks around them.
    /// Vendors print blanks, slashes, `#` and `?` within it.
    Serial,
    serial
);

fn serial(text: &str) -> Result<&str, NameError> {
    let wrong = |why| Err(NameError::new(text, "serial number", why));
    // Firmware pads with blanks, and with NUL.
    let inner = text.trim_matches(['\0', ' ', '\t', '\r', '\n']);
    let max = if inner.bytes().all(is_plain) { PLAIN_SERIAL_MAX } else { SERIAL_MAX };
    if inner.is_empty() || inner.len() > max {
        return wrong("it must have 1 to 64 characters");
    }
    if !inner.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) {
        return wrong("only printable ASCII characters are allowed");
    }
    Ok(inner)
}

/// Whether a byte stands for itself in file names, URLs and scripts.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

impl Serial {
    /// The name of the machine as a host: in lower case, with a dash for whatever a name cannot have.
    pub fn host_name(&self) -> String {
        let lower = self.as_str().to_ascii_lowercase();
        let name = lower.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        name.trim_matches('-').to_owned()
    }

    /// The serial number as a file name, a part of a URL and a word of a script. Letters, digits, `.`,
    /// `_` and `-` stay; every other byte, and a dot at the beginning, is in percent form. Two serial
    /// numbers never have the same form.
    pub fn escaped(&self) -> String {
        let bytes = self.as_str().bytes().enumerate();
        bytes.fold(String::new(), |mut text, (at, byte)| {
            if is_plain(byte) && (at, byte) != (0, b'.') {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
            text
        })
    }

    /// The serial number that [`Self::escaped`] wrote so; none has any other form.
    pub fn from_escaped(text: &str) -> Option<Self> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'%' => {
                    let digit = |b: Option<u8>| char::from(b?).to_digit(16);
                    u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?
                }
                _ => byte,
            });
        }
        let serial: Self = String::from_utf8(bytes).ok()?.parse().ok()?;
        (serial.escaped() == text).then_some(serial)
    }

    /// Why the serial number identifies no machine: vendors leave it so in many machines.
    pub fn placeholder(&self) -> Option<&'static str> {
        let text = self.as_str().to_ascii_lowercase();
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let words = words.join(" ");
        let made_of =
            |marks: &str| text.chars().all(|c| marks.contains(c) || " .-_/:*".contains(c));
        if PLACEHOLDERS.contains(&words.trim_matches(['.', '<', '>', '[', ']', '(', ')'])) {
            Some("is what vendors leave where they set no serial number")
        } else if COUNTED.contains(&words.as_str()) {
            Some("only counts digits up, as vendors do where they set no serial number")
        } else if ["0", "x", "?#"].into_iter().any(made_of) || (text.len() >= 8 && made_of("f")) {
            Some("has nothing but zeroes, or marks that fill a field")
        } else {
            None
        }
    }
}

/// Texts that stand in the firmware of machines without a serial number, in lower case.
const PLACEHOLDERS: [&str; 33] = [
    "base board serial number",
    "bsn12345678901234567",
    "chassis serial number",
    "csn12345678901234567",
    "default",
    "default string",
    "empty",
    "invalid",
    "mb-1234567890",
    "n/a",
    "na",
    "nil",
    "no serial number",
    "none",
    "not applicable",
    "not available",
    "not provided",
    "not set",
    "not specified",
    "null",
    "o.e.m",
    "oem",
    "serial",
    "serial number",
    "serialnumber",
    "ssn12345678901234567",
    "system product name",
    "system serial number",
    "to be filled by o.e.m",
    "to be filled by oem",
    "tbd",
    "undefined",
    "unknown",
];

/// Texts of the same kind that count.
const COUNTED: [&str; 9] = [
    "01234567",
    "012345678",
    "0123456789",
    "01234567890123456789",
    "0123456789abcdef",
    "12345678",
    "123456789",
    "1234567890",
    "123456789012345678",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn serial(text: &str) -> Serial {
        text.parse().unwrap()
    }

    #[test]
    fn what_vendors_print_is_taken_and_escaped() {
        for (given, kept, escaped) in [
            ("1234abcd", "1234abcd", "1234abcd"),
            ("A-1_x.y", "A-1_x.y", "A-1_x.y"),
            ("sn lower", "sn lower", "sn%20lower"),
            (" SN1  ", "SN1", "SN1"),
            ("SN1\0\0", "SN1", "SN1"),
            ("..CN7204…".trim_end_matches('…'), "..CN7204", "%2E.CN7204"),
            ("/5Q4Q7Y1/CN72/", "/5Q4Q7Y1/CN72/", "%2F5Q4Q7Y1%2FCN72%2F"),
            ("SN-0001#ABU", "SN-0001#ABU", "SN-0001%23ABU"),
            ("SN-0001?x", "SN-0001?x", "SN-0001%3Fx"),
            ("50%", "50%", "50%25"),
            ("a || shell ${x}", "a || shell ${x}", "a%20%7C%7C%20shell%20%24%7Bx%7D"),
        ] {
            let taken = serial(given);
            assert_eq!((taken.as_str(), taken.escaped().as_str()), (kept, escaped), "{given}");
            assert_eq!(Serial::from_escaped(escaped), Some(taken), "{given}");
        }
        assert!("x".repeat(128).parse::<Serial>().is_ok(), "older inventories may hold it");
        for bad in ["", "  ", "a\nb", "a\tb", "ü", &"x".repeat(129), &"x ".repeat(33)] {
            assert!(bad.parse::<Serial>().is_err(), "{bad:?}");
        }
        for other in ["%", "%2", "%zz", "%41", "a b", "%2f", ".a", "", "%20a", "a%", "%C3%BC"] {
            assert_eq!(Serial::from_escaped(other), None, "{other}");
        }
    }

    #[test]
    fn placeholders_identify_nothing() {
        for placeholder in [
            "To be filled by O.E.M.",
            "To Be Filled By O.E.M.",
            "TO  BE FILLED BY OEM",
            "Default string",
            "System Serial Number",
            "None",
            "N/A",
            "Not Specified",
            "<none>",
            "0123456789",
            "123456789",
            "0",
            "00000000-0000",
            "..........",
            "--",
            "XXXXXXXX",
            "xx-xx.xx",
            "FFFFFFFF",
            "????",
        ] {
            assert!(serial(placeholder).placeholder().is_some(), "{placeholder}");
        }
        for good in ["1234abcd", "SN-0001", "a", "S0", "X1", "0001", "None1", "F", "CN7204", "1111"]
        {
            assert_eq!(serial(good).placeholder(), None, "{good}");
        }
    }

    proptest! {
        #[test]
        fn escaped_ones_are_keys_and_read_back(text in "[ -~]{1,64}") {
            if let Ok(serial) = text.parse::<Serial>() {
                let escaped = serial.escaped();
                prop_assert!(escaped.len() <= 192 && !escaped.starts_with('.'));
                prop_assert!(escaped.bytes().all(|b| is_plain(b) || b == b'%'));
                prop_assert_eq!(Serial::from_escaped(&escaped), Some(serial));
            }
        }

        #[test]
        fn reading_is_total(text in ".{0,80}") {
            if let Some(serial) = Serial::from_escaped(&text) {
                prop_assert_eq!(serial.escaped(), text);
            }
        }
    }
}
