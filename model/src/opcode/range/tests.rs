use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::ipam::IpamConfig;
use crate::machine::MachineSpec;
use crate::opcode::{
    ClusterSetParams, Common, NodeAdd, NodeNetworkApply, NodeSetParams, OpInput, RackPush,
    TestDelay,
};
use crate::range::Range;

/// A struct with numbers: its name, its ranges, an opcode that has it, and where it lies therein.
type Row = (&'static str, &'static [(&'static str, Range)], Value, &'static str);

fn table() -> Vec<Row> {
    let node = |id: &str| json!({"OP_ID": id, "node_name": "n1"});
    let rules = json!({"OP_ID": "OP_IPAM_SET", "config": {
        "max-nodes-in-rack": 28, "node-ipv4-pool": "10.69.0.0/16", "node-ipv4-range-size": 6,
        "node-ipv4-range-mask": 26, "node-ip-per-node": 3, "node-index-offset": 3,
        "bmc-ipv4-pool": "10.72.16.0/20", "bmc-ipv4-range-size": 5, "bmc-ipv4-range-mask": 20}});
    let machine = json!({"serial": "s1", "role": "worker", "rack": 1});
    let machines = json!({"OP_ID": "OP_MACHINE_ADD", "machines": [machine.clone(), machine]});
    let delay = json!({"OP_ID": "OP_TEST_DELAY", "duration": 1});
    vec![
        ("Common", Common::RANGES, delay.clone(), ""),
        (
            "ClusterSetParams",
            ClusterSetParams::RANGES,
            json!({"OP_ID": "OP_CLUSTER_SET_PARAMS"}),
            "",
        ),
        ("NodeAdd", NodeAdd::RANGES, node("OP_NODE_ADD"), ""),
        ("NodeNetworkApply", NodeNetworkApply::RANGES, node("OP_NODE_NETWORK_APPLY"), ""),
        ("NodeSetParams", NodeSetParams::RANGES, node("OP_NODE_SET_PARAMS"), ""),
        ("IpamConfig", IpamConfig::RANGES, rules, "/config"),
        ("MachineSpec", MachineSpec::RANGES, machines, "/machines/1"),
        ("RackPush", RackPush::RANGES, json!({"OP_ID": "OP_RACK_PUSH", "racks": []}), ""),
        ("TestDelay", TestDelay::RANGES, delay, ""),
    ]
}

/// Whether an opcode is taken with this number, else the reason.
fn taken(base: &Value, place: &str, parameter: &str, number: i64) -> Result<(), String> {
    let mut op = base.clone();
    let object = op.pointer_mut(place).unwrap();
    object[parameter] = match object.get(parameter) {
        Some(Value::Array(_)) => json!([0, number]),
        _ => json!(number),
    };
    let input = OpInput::parse(&op.to_string()).map_err(|error| error.to_string())?;
    input.check_ranges().map_err(|error| error.to_string())
}

#[test]
fn every_number_is_taken_up_to_both_ends_and_refused_beyond() {
    for (name, ranges, base, place) in table() {
        for (parameter, range) in ranges {
            let (min, max) = (i64::from(range.min), i64::from(range.max));
            for number in [min, max] {
                assert_eq!(taken(&base, place, parameter, number), Ok(()), "{name} {parameter}");
            }
            for number in [min - 1, max + 1, i64::from(i32::MIN), i64::from(i32::MAX)] {
                let why = taken(&base, place, parameter, number).unwrap_err();
                // The type itself refuses a number that it cannot hold.
                let wanted = format!("{parameter} is {number}");
                assert!(why.contains(&wanted) || why.contains("malformed"), "{number}: {why}");
            }
            let is_told = |number| match taken(&base, place, parameter, number) {
                Err(why) => why.contains(&format!("it must be {range}")),
                Ok(()) => false,
            };
            assert!(
                is_told(min - 1) || is_told(max + 1) || (min, max) == (1, 65_535),
                "{parameter}"
            );
        }
    }
}

/// The files with parameters of opcodes.
const SOURCES: &[&str] = &[
    include_str!("../cluster.rs"),
    include_str!("../common.rs"),
    include_str!("../machine.rs"),
    include_str!("../node.rs"),
    include_str!("../query.rs"),
    include_str!("../tags.rs"),
    include_str!("../test.rs"),
    include_str!("../verify.rs"),
    include_str!("../../ipam.rs"),
    include_str!("../../machine.rs"),
];

/// Public structs beside parameters in those files, and a parameter that is no range but three values.
const OTHERS: &[&str] =
    &["LeaseRange", "Machine", "Addresses", "Boot", "StageSeen", "Common priority"];

/// Each numeric field of a struct with its documentation: `(struct, field, text)`.
fn numbers(source: &str) -> Vec<(String, String, String)> {
    let (mut found, mut of, mut text) = (Vec::new(), String::new(), String::new());
    for line in source.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("/// ") {
            text = format!("{text} {words}");
            continue;
        }
        let (line, is_public) =
            line.strip_prefix("pub ").map_or((line, false), |line| (line, true));
        if line.starts_with("struct ") && !is_public {
            of.clear();
        } else if let Some(rest) = line.strip_prefix("struct ") {
            of = rest.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
        } else if line.starts_with("enum ") || line.starts_with("impl ") {
            of.clear();
        } else if line.starts_with("cluster_set_params! {") {
            of = "ClusterSetParams".to_owned();
        }
        if let Some((field, kind)) = line.strip_suffix(',').and_then(|line| line.split_once(": "))
            && !of.is_empty()
            && kind.split(['<', '>', '(', ')', ' ']).any(|word| {
                ["u8", "u16", "u32", "u64", "i32", "i64", "f64", "usize"].contains(&word)
            })
        {
            found.push((of.clone(), field.to_owned(), text.clone()));
        }
        if !line.starts_with('#') {
            text.clear();
        }
    }
    found
}

#[test]
fn every_number_of_an_opcode_has_its_range_and_says_so() {
    let table = table();
    let mut seen = BTreeSet::new();
    for (of, field, text) in SOURCES.iter().flat_map(|source| numbers(source)) {
        if OTHERS.contains(&of.as_str()) || OTHERS.contains(&format!("{of} {field}").as_str()) {
            continue;
        }
        let row = table.iter().find(|(name, ..)| *name == of);
        let named = field.replace('_', "-");
        let found = row.and_then(|(_, ranges, ..)| {
            ranges.iter().find(|(name, _)| *name == field || *name == named)
        });
        let (name, range) = found.unwrap_or_else(|| panic!("{of}.{field} has no range"));
        assert!(text.contains(&range.to_string()), "{of}.{field} does not say {range}:{text}");
        seen.insert((of, *name));
    }
    let known: usize = table.iter().map(|(_, ranges, ..)| ranges.len()).sum();
    assert_eq!(seen.len(), known, "{seen:?}");
}
