//! Core: what Gantry knows of a switch's database, and how settings of a port stand in its rows.
//!
//! Open vSwitch's schema (ovs-vswitchd.conf.db(5)): a port is in a VLAN by `tag`, `trunks` and `vlan_mode`.
//! A port without them carries all VLANs, so Gantry never leaves it so. A port that is disabled is in
//! VLAN 4,095, which is nobody's, and `protected`: such ports do not reach each other either.

use std::collections::{BTreeMap, HashMap};

use model::switch::{Actual, Actuals, PortSettings, Vlan};
use serde_json::{Map, Value, json};

/// The tables and columns that are watched.
pub(super) const COLUMNS: &[(&str, &[&str])] = &[
    ("Bridge", &["name", "ports"]),
    ("Port", &["name", "tag", "trunks", "vlan_mode", "protected", "interfaces"]),
    ("Interface", &["name", "mtu_request"]),
    ("Open_vSwitch", &["cur_cfg", "next_cfg"]),
];
/// The columns of a port that say what it carries.
const VLAN_COLUMNS: [&str; 4] = ["tag", "trunks", "vlan_mode", "protected"];
/// The VLAN of ports that carry nothing: the standard keeps it for itself.
const NOWHERE: u16 = 4_095;

/// The rows of a table by their UUIDs.
type Rows = HashMap<String, Map<String, Value>>;

/// A copy of the watched columns.
#[derive(Debug, Default)]
pub(super) struct Replica {
    tables: HashMap<String, Rows>,
}

/// A port of the bridge.
#[derive(Debug, Clone, Copy)]
pub(super) struct PortRow<'r> {
    row: &'r Map<String, Value>,
    /// Its interface, where it has just one.
    interface: Option<&'r Map<String, Value>>,
}

impl Replica {
    /// Takes an update (RFC 7047 section 4.1.6), the first of which has all rows.
    pub(super) fn update(&mut self, tables: &Value) -> Result<(), String> {
        let tables = tables.as_object().ok_or("an update is no object")?;
        for (table, rows) in tables {
            let rows = rows.as_object().ok_or("an update of a table is no object")?;
            let known = self.tables.entry(table.clone()).or_default();
            for (uuid, change) in rows {
                match change.get("new") {
                    Some(Value::Object(row)) => drop(known.insert(uuid.clone(), row.clone())),
                    None | Some(Value::Null) => drop(known.remove(uuid)),
                    Some(_) => return Err(format!("a row of {table} is no object")),
                }
            }
        }
        Ok(())
    }

    fn row(&self, table: &str, uuid: &str) -> Option<&Map<String, Value>> {
        self.tables.get(table)?.get(uuid)
    }

    /// Numbers of the last configuration that was asked for, and of that which is in effect.
    pub(super) fn configurations(&self) -> Option<(i64, i64)> {
        let row = self.tables.get("Open_vSwitch")?.values().next()?;
        Some((row.get("next_cfg")?.as_i64()?, row.get("cur_cfg")?.as_i64()?))
    }

    /// The ports of a bridge by name, without that which is the bridge itself; none without the bridge.
    pub(super) fn ports(&self, bridge: &str) -> Option<BTreeMap<&str, PortRow<'_>>> {
        let mut bridges = self.tables.get("Bridge")?.values();
        let is_it = |row: &&Map<String, Value>| text(row, "name") == Some(bridge);
        let ports = references(bridges.find(is_it)?.get("ports")?);
        let found = ports.filter_map(|uuid| {
            let row = self.row("Port", uuid)?;
            let mut interfaces = references(row.get("interfaces")?);
            let interface = interfaces.next().filter(|_| interfaces.next().is_none());
            let interface = interface.and_then(|uuid| self.row("Interface", uuid));
            Some((text(row, "name")?, PortRow { row, interface }))
        });
        Some(found.filter(|(name, _)| *name != bridge).collect())
    }

    /// How the ports of a bridge are.
    pub(super) fn actuals(&self, bridge: &str) -> Option<Actuals> {
        let ports = self.ports(bridge)?;
        Some(ports.into_iter().map(|(name, port)| (name.to_owned(), port.actual())).collect())
    }
}

fn text<'r>(row: &'r Map<String, Value>, column: &str) -> Option<&'r str> {
    row.get(column)?.as_str()
}

/// The values of a column: a set of one is told by its value alone (RFC 7047 section 5.1).
fn values(column: Option<&Value>) -> Vec<&Value> {
    match column {
        Some(Value::Array(pair)) => match pair.as_slice() {
            [Value::String(kind), Value::Array(all)] if kind == "set" => all.iter().collect(),
            _ => vec![column.expect("it is there")],
        },
        Some(value) => vec![value],
        None => Vec::new(),
    }
}

/// The UUIDs of a column.
fn references(column: &Value) -> impl Iterator<Item = &str> {
    values(Some(column)).into_iter().filter_map(|value| match value.as_array()?.as_slice() {
        [Value::String(kind), Value::String(uuid)] if kind == "uuid" => Some(uuid.as_str()),
        _ => None,
    })
}

fn set(numbers: impl Iterator<Item = u16>) -> Value {
    json!(["set", numbers.collect::<Vec<_>>()])
}

impl PortRow<'_> {
    /// How the port is.
    pub(super) fn actual(&self) -> Actual {
        let numbers = |column| {
            let all = values(self.row.get(column)).into_iter();
            all.filter_map(Value::as_u64).collect::<Vec<_>>()
        };
        let (tag, trunks) = (numbers("tag").first().copied(), numbers("trunks"));
        let modes = values(self.row.get("vlan_mode"));
        let mode = modes.first().and_then(|mode| mode.as_str());
        let is_protected = self.row.get("protected").and_then(Value::as_bool) == Some(true);
        let other = |text: String| Actual::Other(text);
        if is_protected {
            return match (mode, tag, trunks.as_slice()) {
                (Some("access"), Some(tag), []) if tag == u64::from(NOWHERE) => {
                    Actual::Set(PortSettings::disabled())
                }
                _ => other("protected, which Gantry sets on disabled ports alone".to_owned()),
            };
        }
        let vlan = |number: u64| u16::try_from(number).ok().and_then(|n| Vlan::try_from(n).ok());
        let untagged = match tag.map(vlan) {
            Some(None) => return other(format!("tag {}", tag.unwrap_or_default())),
            known => known.flatten(),
        };
        let tagged = trunks.iter().map(|number| vlan(*number)).collect::<Option<_>>();
        let (mode, tagged) = match (mode, tagged) {
            (_, None) => return other(format!("trunks {trunks:?}")),
            // Without a mode, a tag alone is access, and anything else a trunk.
            (None, Some(tagged)) if untagged.is_some() && trunks.is_empty() => ("access", tagged),
            (None, Some(tagged)) if untagged.is_none() => ("trunk", tagged),
            (None, Some(_)) => return other("a tag and trunks without vlan_mode".to_owned()),
            (Some(mode), Some(tagged)) => (mode, tagged),
        };
        let mtu = self.interface.map(|row| values(row.get("mtu_request")));
        let mtu = mtu.and_then(|all| all.first().and_then(|mtu| mtu.as_u64()));
        let mtu = mtu.and_then(|mtu| u16::try_from(mtu).ok());
        let plain = PortSettings { mtu, ..PortSettings::default() };
        match (mode, untagged, trunks.is_empty()) {
            ("access", Some(_), true) => Actual::Set(PortSettings { untagged, ..plain }),
            ("trunk", None, false) => Actual::Set(PortSettings { tagged, ..plain }),
            ("native-untagged", Some(vlan), false) => {
                Actual::Set(PortSettings { untagged, tagged: tagged.without(vlan), ..plain })
            }
            ("trunk", None, true) => other("trunk of all VLANs".to_owned()),
            _ => other(format!("vlan_mode {mode}")),
        }
    }

    /// Whether the database of the switch can disable a port.
    pub(super) fn can_be_disabled(&self) -> bool {
        self.row.contains_key("protected")
    }

    /// Whether the port can be given a packet size: it has one interface.
    pub(super) fn has_interface(&self) -> bool {
        self.interface.is_some()
    }

    /// The operations that set the port if it is still as it is here.
    pub(super) fn operations(&self, wanted: &PortSettings) -> Vec<Value> {
        let name = self.row.get("name").cloned().unwrap_or_default();
        let is_it = json!([["name", "==", name]]);
        let columns: Vec<&str> =
            VLAN_COLUMNS.into_iter().filter(|column| self.row.contains_key(*column)).collect();
        let now: Map<String, Value> = columns
            .iter()
            .filter_map(|column| Some(((*column).to_owned(), self.row.get(*column)?.clone())))
            .collect();
        let mut row = columns_of(wanted);
        row.retain(|column, _| columns.contains(&column.as_str()));
        let mut operations = vec![
            json!({"op": "wait", "timeout": 0, "table": "Port", "where": is_it, "columns": columns,
                "until": "==", "rows": [now]}),
            json!({"op": "update", "table": "Port", "where": is_it, "row": row}),
        ];
        let interface = self.interface.and_then(|row| row.get("name"));
        if let Some(name) = interface.filter(|_| !wanted.disabled) {
            let mtu = set(wanted.mtu.into_iter());
            operations.push(json!({"op": "update", "table": "Interface",
                "where": [["name", "==", name]], "row": {"mtu_request": mtu}}));
        }
        operations
    }
}

/// The columns of a port that is set so.
fn columns_of(wanted: &PortSettings) -> Map<String, Value> {
    let (mode, tag, trunks) = match (wanted.disabled, wanted.untagged) {
        (true, _) => ("access", Some(NOWHERE), Vec::new()),
        (false, Some(vlan)) if wanted.tagged.is_empty() => {
            ("access", Some(vlan.number()), Vec::new())
        }
        (false, Some(vlan)) => {
            let all = wanted.vlans().iter().map(Vlan::number).collect();
            ("native-untagged", Some(vlan.number()), all)
        }
        (false, None) => ("trunk", None, wanted.tagged.iter().map(Vlan::number).collect()),
    };
    let columns = json!({"vlan_mode": mode, "tag": set(tag.into_iter()),
        "trunks": set(trunks.into_iter()), "protected": wanted.disabled});
    match columns {
        Value::Object(columns) => columns,
        _ => unreachable!("it is written so"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replica(port: &Value) -> Replica {
        let mut replica = Replica::default();
        let update = json!({
            "Bridge": {"b": {"new": {"name": "br0", "ports": ["set", [["uuid", "p"], ["uuid", "l"]]]}}},
            "Port": {"p": {"new": port},
                "l": {"new": {"name": "br0", "interfaces": ["uuid", "j"]}}},
            "Interface": {"i": {"new": {"name": "eth1", "mtu_request": ["set", []]}}},
            "Open_vSwitch": {"o": {"new": {"cur_cfg": 4, "next_cfg": 5}}},
        });
        replica.update(&update).unwrap();
        replica
    }

    fn port(rest: Value) -> Value {
        let mut port = json!({"name": "eth1", "interfaces": ["uuid", "i"], "tag": ["set", []],
            "trunks": ["set", []], "vlan_mode": ["set", []], "protected": false});
        let Value::Object(rest) = rest else { panic!("an object") };
        port.as_object_mut().unwrap().extend(rest);
        port
    }

    fn shown(rest: Value) -> String {
        let replica = replica(&port(rest));
        let actuals = replica.actuals("br0").unwrap();
        assert_eq!(actuals.keys().collect::<Vec<_>>(), ["eth1"], "the bridge is none of its ports");
        actuals["eth1"].to_string()
    }

    #[test]
    fn rows_as_switches_have_them() {
        for (row, told) in [
            (json!({}), "trunk of all VLANs"),
            (json!({"tag": 10}), "10"),
            (json!({"tag": 0}), "tag 0"),
            (json!({"tag": 10, "vlan_mode": "access"}), "10"),
            (json!({"trunks": ["set", [10, 11]]}), "- tagged 10-11"),
            (json!({"trunks": 10, "vlan_mode": "trunk"}), "- tagged 10"),
            (
                json!({"tag": 5, "trunks": ["set", [5, 10]], "vlan_mode": "native-untagged"}),
                "5 tagged 10",
            ),
            (json!({"tag": 5, "vlan_mode": "native-untagged"}), "vlan_mode native-untagged"),
            (json!({"tag": 5, "vlan_mode": "native-tagged"}), "vlan_mode native-tagged"),
            (json!({"tag": 5, "trunks": 6}), "a tag and trunks without vlan_mode"),
            (json!({"tag": 4095, "vlan_mode": "access", "protected": true}), "disabled"),
            (json!({"tag": 5, "protected": true}), "protected, which Gantry sets"),
        ] {
            let shown = shown(row.clone());
            assert!(shown.starts_with(told), "{row}: {shown}");
        }
        assert_eq!(replica(&port(json!({}))).configurations(), Some((5, 4)));
        assert!(replica(&port(json!({}))).actuals("br1").is_none());
    }

    #[test]
    fn a_row_that_goes_is_gone_and_nonsense_is_told() {
        let mut replica = replica(&port(json!({})));
        replica.update(&json!({"Port": {"p": {"old": {"name": "eth1"}}}})).unwrap();
        assert!(replica.actuals("br0").unwrap().is_empty());
        for wrong in [json!([]), json!({"Port": 5}), json!({"Port": {"p": {"new": 5}}})] {
            assert!(replica.update(&wrong).is_err(), "{wrong}");
        }
    }

    fn settings() -> impl Strategy<Value = PortSettings> {
        let vlan = (1_u16..=4_094).prop_map(|number| Vlan::try_from(number).unwrap());
        let parts = (prop::option::of(vlan.clone()), prop::collection::vec(vlan, 0..5));
        parts.prop_filter_map("some VLAN", |(untagged, tagged)| {
            let tagged = tagged.into_iter().filter(|vlan| Some(*vlan) != untagged).collect();
            let settings = PortSettings { untagged, tagged, ..PortSettings::default() };
            (!settings.vlans().is_empty()).then_some(settings)
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_as_what_was_wanted(wanted in settings(), disabled in any::<bool>()) {
            let wanted = if disabled { PortSettings::disabled() } else { wanted };
            let row = port(Value::Object(columns_of(&wanted)));
            let actuals = replica(&row).actuals("br0").unwrap();
            prop_assert_eq!(&actuals["eth1"], &Actual::Set(wanted));
        }
    }
}
