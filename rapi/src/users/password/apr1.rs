//! Core: Apache's variant of the MD5 crypt of FreeBSD (`apr_md5.c`), which `htpasswd` makes by default.

use md5::{Digest as _, Md5};

/// The mark that distinguishes it from FreeBSD's.
const MAGIC: &[u8] = b"$apr1$";
/// Characters of a salt that count.
const SALT_MAX: usize = 8;
const ROUNDS: usize = 1_000;
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The hash of a password, as it stands behind the salt.
pub(super) fn hash(password: &[u8], salt: &[u8]) -> String {
    let salt = salt.get(..SALT_MAX).unwrap_or(salt);
    let mut digest = first(password, salt);
    for round in 0..ROUNDS {
        let mut next = Md5::new();
        let parts = (password, digest.as_slice());
        let (begin, end) = if round % 2 == 1 { parts } else { (parts.1, parts.0) };
        next.update(begin);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(end);
        digest = next.finalize().into();
    }
    encode(&digest)
}

fn first(password: &[u8], salt: &[u8]) -> [u8; 16] {
    let mixed =
        Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut hash = Md5::new().chain_update(password).chain_update(MAGIC).chain_update(salt);
    for chunk in password.chunks(mixed.len()) {
        hash.update(&mixed[..chunk.len()]);
    }
    let mut bits = password.len();
    while bits > 0 {
        let byte = if bits & 1 == 1 { 0 } else { password[0] };
        hash.update([byte]);
        bits >>= 1;
    }
    hash.finalize().into()
}

/// Six bits a character, in the order of FreeBSD.
fn encode(digest: &[u8; 16]) -> String {
    const GROUPS: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
    let mut text = String::new();
    let mut push = |mut value: u32, characters: usize| {
        for _character in 0..characters {
            text.push(char::from(ALPHABET[(value & 0x3f) as usize]));
            value >>= 6;
        }
    };
    for [high, middle, low] in GROUPS {
        let byte = |at: usize| u32::from(digest[at]);
        push(byte(high) << 16 | byte(middle) << 8 | byte(low), 4);
    }
    push(u32::from(digest[11]), 2);
    text
}
