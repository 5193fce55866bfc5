//! The whole table, and what holds in every row.

use super::*;

fn arounds() -> [(&'static str, Around); 5] {
    let plain = Around::default();
    [
        ("otherwise", plain),
        ("not master capable", Around { master_capable: false, pool_has_room: true, ..plain }),
        ("pool has room", Around { pool_has_room: true, ..plain }),
        ("leaves a gap", Around { gap: Gap::of(1, 3, 10), ..plain }),
        ("primary instances", Around { primary_instances: 2, ..plain }),
    ]
}

fn told(next: Result<Standing, Illegal>) -> String {
    match next {
        Ok(standing) => standing.to_string(),
        Err(Illegal::Never(..)) => "-".to_owned(),
        Err(illegal) => format!("! {illegal}"),
    }
}

/// Everything without anything around; then, for each thing around, the rows that differ.
#[test]
fn the_whole_table() {
    let mut table = String::new();
    let plain = Around::default();
    for (name, around) in arounds() {
        table.push_str(&format!("{name}:\n"));
        for standing in Standing::ALL {
            for event in Event::ALL {
                let next = standing.next(event, &around);
                if around == plain || next != standing.next(event, &plain) {
                    table.push_str(&format!("  {standing:<10}{event:<11?} {}\n", told(next)));
                }
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn what_holds_in_every_row() {
    for (_, around) in arounds() {
        for standing in Standing::ALL {
            for event in Event::ALL {
                let next = standing.next(event, &around);
                if standing == Standing::Master && event != Event::LoseMaster {
                    assert!(!matches!(next, Ok(other) if other != Standing::Master));
                }
                if next == Ok(Standing::Master) {
                    assert!(matches!(standing, Standing::Master | Standing::Candidate));
                }
                if next == Ok(Standing::Offline) && standing != Standing::Offline {
                    assert_eq!(around.primary_instances, 0);
                }
                if next == Ok(Standing::Candidate) && standing != Standing::Master {
                    assert!(around.master_capable);
                }
            }
        }
    }
}

#[test]
fn roles_of_documents_and_standings_agree() {
    for role in [NodeRole::Candidate, NodeRole::Regular, NodeRole::Drained, NodeRole::Offline] {
        assert_eq!(Standing::of(role, false).role(), role);
        assert_eq!(Standing::of(role, true), Standing::Master);
    }
    assert!(Standing::Drained.is_called() && !Standing::Offline.is_called());
}

#[test]
fn flags_ask_for_one_thing() {
    use Event::{ComeOnline, Demote, Drain, GoOffline, Promote, Undrain};
    use Standing::{Candidate, Drained, Offline, Regular};
    let (yes, no) = (Some(true), Some(false));
    let flags = |candidate, drained, offline| Flags { candidate, drained, offline };
    for (standing, flags, event) in [
        (Regular, flags(None, None, None), None),
        (Regular, flags(yes, None, None), Some(Promote)),
        (Regular, flags(None, yes, None), Some(Drain)),
        (Offline, flags(no, None, yes), Some(GoOffline)),
        (Regular, flags(no, no, no), None),
        (Candidate, flags(no, None, None), Some(Demote)),
        (Drained, flags(None, no, None), Some(Undrain)),
        (Offline, flags(no, None, no), Some(ComeOnline)),
        (Offline, flags(None, no, None), None),
    ] {
        assert_eq!(flags.event(standing), Ok(event), "{standing} {flags:?}");
    }
    assert_eq!(flags(yes, yes, None).event(Regular), Err(SeveralAtOnce));
    assert_eq!(flags(None, yes, yes).event(Regular), Err(SeveralAtOnce));
}
