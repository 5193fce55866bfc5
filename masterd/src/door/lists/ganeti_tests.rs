//! The tables of fields against Ganeti's own, which `tests/tests/e2e/ganeti/fields.py` prints, and what
//! its daemon has otherwise than its Python modules.

use luxi::query::FieldDefinition;

use super::without_rows::{EXT_STORAGE, OS};
use super::{filter, job, lock};
use crate::cluster::group::fields as group;
use crate::cluster::node::fields as node;
use crate::cluster::settings::fields as cluster;
use crate::instances::backup::fields as export;
use crate::instances::fields as instance;
use crate::machines::network::fields as network;
use crate::units::list::Field;

/// Kind of object, field, title and kind of value of each.
const GANETI: &str = include_str!("ganeti-fields.txt");

/// Fields of which Ganeti's daemon, which answers clients, gives another kind than its Python modules.
const OF_LUXID: [(&str, &str); 4] = [
    ("filter\tpriority\tPriority\tnumber", "filter\tpriority\tPriority\tother"),
    ("filter\tuuid\tUUID\ttext", "filter\tuuid\tUUID\tother"),
    ("filter\twatermark\tWatermark\tnumber", "filter\twatermark\tWatermark\tother"),
    ("lock\tname\tName\ttext", "lock\tname\tName\tother"),
];

/// The line that clients of Ganeti are given.
fn of_luxid(line: &'static str) -> &'static str {
    OF_LUXID.iter().find(|(python, _)| *python == line).map_or(line, |(_, luxid)| luxid)
}

fn own<T>(fields: &[Field<T>]) -> Vec<&FieldDefinition> {
    fields.iter().map(|field| &field.definition).collect()
}

fn line(what: &str, field: &FieldDefinition) -> String {
    let kind = serde_json::to_value(field.kind).unwrap();
    format!("{what}\t{}\t{}\t{}", field.name, field.title, kind.as_str().unwrap())
}

/// Every table has Ganeti's fields first, in its order, and none of ours takes one of its names.
#[test]
fn fields_are_those_of_ganeti() {
    let tables: Vec<(&str, Vec<&FieldDefinition>)> = vec![
        ("node", own(node::FIELDS)),
        ("group", own(group::FIELDS)),
        ("job", own(job::FIELDS)),
        ("lock", own(lock::FIELDS)),
        ("instance", own(instance::all())),
        ("network", own(network::FIELDS)),
        ("export", own(export::FIELDS)),
        ("filter", own(filter::FIELDS)),
        ("cluster", own(cluster::FIELDS)),
        ("os", OS.iter().collect()),
        ("extstorage", EXT_STORAGE.iter().collect()),
    ];
    let mut compared = 0;
    for (what, fields) in tables {
        let begin = format!("{what}\t");
        let wanted: Vec<&str> =
            GANETI.lines().filter(|line| line.starts_with(&begin)).map(of_luxid).collect();
        let found: Vec<String> = fields.iter().map(|field| line(what, field)).collect();
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found, wanted);
        }
        assert!(found.len() >= wanted.len(), "{what} lacks {:?}", wanted.get(found.len()..));
        let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_ref()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), fields.len(), "{what} has a name twice");
        assert!(fields.iter().all(|f| !f.title.is_empty() && !f.doc.is_empty()), "{what}");
        compared += wanted.len();
    }
    assert_eq!(compared, GANETI.lines().count(), "a kind of object was left out");
    assert!(OF_LUXID.iter().all(|(python, _)| GANETI.lines().any(|line| line == *python)));
}
