//! Core: bytes as letters and digits that survive being typed: Crockford's base 32.

/// Without I, L, O and U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// `bytes` as text; the last character is filled with zero bits.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let mut window = 0_u16;
    let mut bits = 0;
    for &byte in bytes {
        window = window << 8 | u16::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(letter(window >> bits));
        }
    }
    if bits > 0 {
        text.push(letter(window << (5 - bits)));
    }
    text
}

/// The `length` bytes that `text` stands for; dashes and blanks are passed over, the letters that
/// look like digits are read as those.
pub(crate) fn decode(text: &str, length: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    let mut window = 0_u16;
    let mut bits = 0;
    for letter in text.bytes().filter(|b| !b"- ".contains(b)) {
        window = (window << 5 | value(letter)?) & 0x0FFF;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(window >> bits & 0xFF).ok()?);
            if bytes.len() > length {
                return None;
            }
        }
    }
    let filling = window & ((1 << bits) - 1);
    (bytes.len() == length && bits < 5 && filling == 0).then_some(bytes)
}

fn letter(value: u16) -> char {
    char::from(ALPHABET[usize::from(value & 0x1F)])
}

fn value(letter: u8) -> Option<u16> {
    let plain = match letter.to_ascii_uppercase() {
        b'O' => b'0',
        b'I' | b'L' => b'1',
        other => other,
    };
    ALPHABET.iter().position(|b| *b == plain).and_then(|at| u16::try_from(at).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let text = encode(&bytes);
            prop_assert_eq!(decode(&text.to_lowercase(), bytes.len()), Some(bytes.clone()));
            prop_assert_eq!(decode(&format!("{text}0"), bytes.len()), None);
        }

        #[test]
        fn reading_is_total(text in ".{0,60}", length in 0_usize..40) {
            if let Some(bytes) = decode(&text, length) {
                prop_assert_eq!(bytes.len(), length);
            }
        }
    }

    #[test]
    fn look_alikes_are_one() {
        assert_eq!(decode("oO-iL 11", 3), decode("00111 1", 3));
        assert_eq!(encode(b"\xFF"), "ZW");
    }
}
