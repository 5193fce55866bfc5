//! `docs/luxi.md` says what the code says.

use luxi::{Request, limits};

const DOCS: &str = include_str!("../../../docs/luxi.md");
const LIMITS: &str = include_str!("../../src/limits.rs");

#[test]
fn every_method_has_its_row() {
    for (name, arguments, (class, access), doc) in Request::TABLE {
        let row = format!("| `{name}` | `{arguments}` | {class} | {access} |");
        assert!(DOCS.contains(&row), "missing: {row}");
        assert!(DOCS.contains(doc.trim()), "{name}: {doc}");
    }
}

#[test]
fn every_limit_has_its_row() {
    let seconds = |time: std::time::Duration| match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        millis => format!("{millis} ms"),
    };
    let rows = [
        ("MESSAGE_BYTES_MAX", format!("{} MiB", limits::MESSAGE_BYTES_MAX >> 20)),
        ("ANSWER_BYTES_MAX", format!("{} MiB", limits::ANSWER_BYTES_MAX >> 20)),
        ("SMALL_MESSAGE_BYTES", format!("{} KiB", limits::SMALL_MESSAGE_BYTES >> 10)),
        ("LARGE_MESSAGES_MAX", limits::LARGE_MESSAGES_MAX.to_string()),
        ("LARGE_MESSAGES_PER_USER_MAX", limits::LARGE_MESSAGES_PER_USER_MAX.to_string()),
        ("BACKLOG", limits::BACKLOG.to_string()),
        ("CONNECTIONS_MAX", limits::CONNECTIONS_MAX.to_string()),
        ("OTHER_FILES", limits::OTHER_FILES.to_string()),
        ("CONNECTIONS_PER_USER_MAX", limits::CONNECTIONS_PER_USER_MAX.to_string()),
        ("BUFFER_TIME", seconds(limits::BUFFER_TIME)),
        ("IDLE_TIME", seconds(limits::IDLE_TIME)),
        ("MESSAGE_TIME", seconds(limits::MESSAGE_TIME)),
        ("ANSWER_TIME", seconds(limits::ANSWER_TIME)),
        ("SMALL_ANSWER_BYTES", format!("{} KiB", limits::SMALL_ANSWER_BYTES >> 10)),
        ("UNREAD_BYTES_MAX", format!("{} MiB", limits::UNREAD_BYTES_MAX >> 20)),
        ("UNREAD_TIME", seconds(limits::UNREAD_TIME)),
        ("STOP_TIME", seconds(limits::STOP_TIME)),
        ("ACCEPT_PAUSE", seconds(limits::ACCEPT_PAUSE)),
        ("QUERY_DEADLINE", seconds(limits::QUERY_DEADLINE)),
        ("CHANGE_DEADLINE", seconds(limits::CHANGE_DEADLINE)),
        ("WAIT_SECONDS_MAX", format!("{} s", limits::WAIT_SECONDS_MAX)),
        ("WAIT_DEADLINE", seconds(limits::WAIT_DEADLINE)),
        ("CLIENT_GRACE", seconds(limits::CLIENT_GRACE)),
        ("CONNECT_TIME", seconds(limits::CONNECT_TIME)),
        ("FIELDS_MAX", limits::FIELDS_MAX.to_string()),
        ("FILTER_CONDITIONS_MAX", limits::FILTER_CONDITIONS_MAX.to_string()),
        ("FILTER_DEPTH_MAX", limits::FILTER_DEPTH_MAX.to_string()),
        ("FILTER_PATTERNS_MAX", limits::FILTER_PATTERNS_MAX.to_string()),
        ("PATTERN_BYTES_MAX", limits::PATTERN_BYTES_MAX.to_string()),
        ("PATTERN_COMPILED_BYTES_MAX", format!("{} KiB", limits::PATTERN_COMPILED_BYTES_MAX >> 10)),
    ];
    for (name, value) in &rows {
        let row = format!("| `{name}` | {value} |");
        assert!(DOCS.contains(&row), "missing: {row}");
    }
    assert_eq!(LIMITS.matches("pub const ").count(), rows.len(), "a limit is not in this list");
}
