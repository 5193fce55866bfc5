use model::access::Role;
use model::opcode::TokenEnd;
use model::token::{KEPT_DAYS, RANDOM_BYTES, TokenText};

use super::*;
use crate::testing::{NOW, config};

fn op(name: &str, byte: u8, expires: Option<Timestamp>) -> TokenAdd {
    let sha256 = TokenText::of_random([byte; RANDOM_BYTES]).digest();
    let expires = expires.map_or(TokenEnd::NEVER, TokenEnd::At);
    TokenAdd { token_name: name.parse().unwrap(), sha256, role: Role::Operator, expires }
}

fn add(config: &mut Config, op: &TokenAdd, now: Timestamp) -> Result<usize, String> {
    let changes = added(op, config, now).map_err(|error| error.to_string())?;
    let count = changes.len();
    config.apply(changes);
    Ok(count)
}

fn remove(config: &mut Config, name: &str, now: Timestamp) -> Result<usize, String> {
    let op = TokenRemove { token_name: name.parse().unwrap() };
    let changes = ended(&op, config, now).map_err(|error| error.to_string())?;
    let count = changes.len();
    config.apply(changes);
    Ok(count)
}

fn days(days: u16) -> i64 {
    i64::from(days) * SECONDS_PER_DAY
}

#[test]
fn a_token_is_added_and_ended_once() {
    let mut config = config(&[]);
    let end = Some(NOW.plus_seconds(days(90)));
    assert_eq!(add(&mut config, &op("ci", 1, end), NOW), Ok(1));
    assert_eq!(add(&mut config, &op("ci", 1, end), NOW.plus_seconds(5)), Ok(0), "the same again");
    let other = add(&mut config, &op("ci", 2, end), NOW).unwrap_err();
    assert!(other.contains("Token 'ci' exists"), "{other}");
    let same = add(&mut config, &op("other", 1, end), NOW).unwrap_err();
    assert!(same.contains("token 'ci' is the same"), "{same}");
    assert_eq!(remove(&mut config, "ci", NOW.plus_seconds(5)), Ok(1));
    assert_eq!(remove(&mut config, "ci", NOW.plus_seconds(9)), Ok(0), "the same again");
    assert_eq!(config.tokens["ci"].revoked, Some(NOW.plus_seconds(5)));
    assert!(remove(&mut config, "cd", NOW).unwrap_err().contains("Token 'cd' not known"));
    let again = add(&mut config, &op("ci", 1, end), NOW).unwrap_err();
    assert!(again.contains("is the same"), "what was ended does not come back: {again}");
    assert_eq!(add(&mut config, &op("ci", 2, None), NOW), Ok(1), "its name is free");
    assert_eq!(config.tokens["ci"].revoked, None);
}

#[test]
fn a_token_of_which_nobody_says_when_it_ends_is_the_same_when_it_is_added_again() {
    let mut config = config(&[]);
    let op = TokenAdd { expires: TokenEnd::Usual, ..op("ci", 1, None) };
    assert_eq!(add(&mut config, &op, NOW), Ok(1));
    assert_eq!(config.tokens["ci"].expires, Some(NOW.plus_seconds(days(90))));
    assert_eq!(add(&mut config, &op, NOW.plus_seconds(5)), Ok(0));
}

#[test]
fn names_and_ends_that_cannot_be_meant_are_refused() {
    let mut config = config(&[]);
    for (name, seconds, told) in [
        ("local", None, "choose another name"),
        ("nobody", None, "choose another name"),
        ("ci", Some(0), "would have ended already"),
        ("ci", Some(-1), "would have ended already"),
        ("ci", Some(days(DAYS_MAX) + 1), "in more than 3650 days"),
    ] {
        let end = seconds.map(|seconds| NOW.plus_seconds(seconds));
        let error = add(&mut config, &op(name, 1, end), NOW).unwrap_err();
        assert!(error.contains(told), "{told}: {error}");
    }
    assert_eq!(add(&mut config, &op("ci", 1, Some(NOW.plus_seconds(days(DAYS_MAX)))), NOW), Ok(1));
}

#[test]
fn there_is_a_limit_and_what_ended_long_ago_does_not_count() {
    let mut config = config(&[]);
    let end = NOW.plus_seconds(days(1));
    let tokens = (0..TOKENS_MAX).map(|number| {
        let mut random = [0; RANDOM_BYTES];
        random[..8].copy_from_slice(&number.to_be_bytes());
        let sha256 = TokenText::of_random(random).digest();
        let name = format!("t{number}").parse().unwrap();
        ConfigChange::Token(Token {
            name,
            sha256,
            role: Role::Read,
            expires: Some(end),
            revoked: None,
            ctime: NOW,
        })
    });
    config.apply(tokens);
    let more = op("more", 255, None);
    assert!(add(&mut config, &more, NOW).unwrap_err().contains("which is the limit"));
    let kept = end.plus_seconds(days(KEPT_DAYS) - 1);
    assert!(add(&mut config, &more, kept).unwrap_err().contains("which is the limit"));
    assert_eq!(add(&mut config, &op("t7", 254, None), kept), Ok(1), "it replaces one");
    let later = kept.plus_seconds(1);
    assert_eq!(add(&mut config, &more, later), Ok(TOKENS_MAX), "all but t7 are forgotten");
    assert_eq!(config.tokens.len(), 2);
    assert!(remove(&mut config, "t8", later).is_err());
}
