//! Core: what a program for allocation says. Nothing of it is believed that is not of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::error::ErrorCode;
use model::instance::Instance;
use model::opcode::{OpCode, OpInput};
use model::{Exception, NodeName};
use serde::Deserialize;
use serde_json::Value;

use super::fault;
use crate::config::Config;

/// Characters of a program's words that are shown.
const SHOWN_MAX: usize = 300;

#[derive(Deserialize)]
struct ProgramAnswer {
    success: bool,
    #[serde(default)]
    info: Value,
    #[serde(default)]
    result: Value,
}

/// New instances with their nodes, and the names of those that have no room.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) nodes: BTreeMap<String, NodeName>,
    pub(crate) failed: BTreeSet<String>,
}

fn shown(text: &str) -> String {
    let text = stdx::text::line(text);
    let short: String = text.chars().take(SHOWN_MAX).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// The result of an answer.
///
/// # Errors
/// It is no answer, or says that there is no room.
pub(super) fn read(program: &str, said: &[u8]) -> Result<Value, Exception> {
    let answer: ProgramAnswer = serde_json::from_slice(said).map_err(|error| {
        let began = shown(&String::from_utf8_lossy(said));
        fault(format!("Can't parse iallocator results of '{program}': {error}; it said: {began}"))
    })?;
    if answer.success {
        return Ok(answer.result);
    }
    let info = answer.info.as_str().map_or_else(|| answer.info.to_string(), str::to_owned);
    let text = format!("Can't compute nodes using iallocator '{program}': {}", shown(&info));
    Err(Exception::prereq(text, ErrorCode::InsufficientResources))
}

fn nonsense(program: &str, wanted: &str, result: &Value) -> Exception {
    let result = shown(&result.to_string());
    fault(format!(
        "iallocator '{program}' returned an invalid result: {wanted} is wanted, not {result}"
    ))
}

/// The one node that was asked for.
///
/// # Errors
/// It is not one, or none of the cluster.
pub(super) fn node(program: &str, result: &Value, config: &Config) -> Result<NodeName, Exception> {
    let names: Option<Vec<String>> = serde_json::from_value(result.clone()).ok();
    match names.as_deref() {
        Some([name]) => known(program, name, config),
        Some(names) => Err(fault(format!(
            "iallocator '{program}' returned invalid number of nodes ({}), required 1",
            names.len()
        ))),
        None => Err(nonsense(program, "a list of nodes", result)),
    }
}

fn known(program: &str, name: &str, config: &Config) -> Result<NodeName, Exception> {
    let node = config.nodes.values().find(|node| node.name.as_str() == name);
    node.map(|node| node.name.clone()).ok_or_else(|| {
        fault(format!(
            "iallocator '{program}' returned the node '{}', which there is not",
            shown(name)
        ))
    })
}

/// The nodes of several new instances.
///
/// # Errors
/// They are not in Ganeti's form, or not of the cluster.
pub(super) fn placed(program: &str, result: &Value, config: &Config) -> Result<Placed, Exception> {
    type Parts = (Vec<(String, Vec<String>)>, BTreeSet<String>);
    let read = serde_json::from_value::<Parts>(result.clone());
    let (allocated, failed) = read.map_err(|_error| {
        nonsense(program, "a pair of the instances with their nodes and of those without", result)
    })?;
    let mut nodes = BTreeMap::new();
    for (instance, names) in allocated {
        let [name] = names.as_slice() else {
            let text = format!(
                "iallocator '{program}' returned invalid number of nodes ({}) for {}, required 1",
                names.len(),
                shown(&instance)
            );
            return Err(fault(text));
        };
        nodes.insert(instance, known(program, name, config)?);
    }
    Ok(Placed { nodes, failed })
}

/// The jobs that take instances elsewhere.
///
/// # Errors
/// They are not in Ganeti's form, do what was not asked for, or leave instances where they are.
pub(super) fn jobs(
    program: &str,
    result: &Value,
    instances: &[Arc<Instance>],
) -> Result<Vec<Vec<OpInput>>, Exception> {
    type Parts = (Vec<Value>, Vec<(String, String)>, Vec<Vec<Value>>);
    let (_moved, failed, jobs): Parts = serde_json::from_value(result.clone())
        .map_err(|_error| nonsense(program, "moved, failed and jobs", result))?;
    if !failed.is_empty() {
        let one = |(name, why): &(String, String)| format!("{} ({})", shown(name), shown(why));
        let names: Vec<String> = failed.iter().map(one).collect();
        let text = format!("Unable to evacuate instances {}", names.join(", "));
        return Err(Exception::prereq(text, ErrorCode::InsufficientResources));
    }
    let job = |ops: Vec<Value>| ops.iter().map(|op| moving(program, op, instances)).collect();
    jobs.into_iter().map(job).collect()
}

/// An opcode of a program, which may move the instances that were asked for and do nothing else.
fn moving(program: &str, told: &Value, instances: &[Arc<Instance>]) -> Result<OpInput, Exception> {
    let refuse = |why: String| {
        let text = format!("iallocator '{program}' returned an opcode that is not taken: {why}");
        Err(fault(text))
    };
    let input = match OpInput::parse(&told.to_string()) {
        Ok(input) => input,
        Err(error) => return refuse(error.to_string()),
    };
    let name = match &input.op {
        OpCode::InstanceMigrate(op) => &op.instance_name,
        OpCode::InstanceFailover(op) => &op.instance_name,
        _ => return refuse(format!("{} moves no instance", input.op.id())),
    };
    match instances.iter().any(|instance| instance.name.as_str() == name) {
        true => Ok(input),
        false => refuse(format!("'{}' was not asked for", shown(name))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{config, instance};

    fn why(result: Result<impl std::fmt::Debug, Exception>) -> String {
        result.unwrap_err().message().to_owned()
    }

    #[test]
    fn answers_that_are_none_are_refused_with_their_words() {
        let long = "x".repeat(5_000);
        for (said, wanted) in [
            ("", "Can't parse iallocator results of 'hail': EOF"),
            ("rubbish \u{1b}[2J", "it said: rubbish "),
            ("[]", "it said: []"),
            (r#"{"info": "no success"}"#, "missing field `success`"),
            (r#"{"success": "yes"}"#, "Can't parse"),
            (r#"{"success": false, "info": "no room"}"#, "using iallocator 'hail': no room"),
            (r#"{"success": false}"#, "using iallocator 'hail': null"),
            (&long, "xxx…"),
        ] {
            let told = why(read("hail", said.as_bytes()));
            assert!(told.contains(wanted) && told.len() < 2 * SHOWN_MAX, "{said}: {told}");
            assert!(!told.contains('\u{1b}'), "{told:?}");
        }
        let said = br#"{"success": true, "result": ["n1.example"], "more": 1}"#;
        assert_eq!(read("hail", said).unwrap(), json!(["n1.example"]));
    }

    #[test]
    fn a_node_is_one_of_the_cluster() {
        let config = config(&[]);
        assert_eq!(node("x", &json!(["n1.example"]), &config).unwrap().as_str(), "n1.example");
        for (result, wanted) in [
            (json!([]), "invalid number of nodes (0), required 1"),
            (json!(["n1.example", "n1.example"]), "invalid number of nodes (2)"),
            (json!(["n9.example"]), "the node 'n9.example', which there is not"),
            (json!("n1.example"), "a list of nodes is wanted"),
            (json!(null), "a list of nodes is wanted"),
        ] {
            let told = why(node("x", &result, &config));
            assert!(told.contains(wanted), "{told}");
        }
        let several = placed("x", &json!([[["a", ["n1.example"]]], ["b"]]), &config).unwrap();
        assert_eq!(several.nodes["a"].as_str(), "n1.example");
        assert!(several.failed.contains("b"));
        for (result, wanted) in [
            (json!([[["a", []]], []]), "invalid number of nodes (0) for a"),
            (json!([[["a", ["n9"]]], []]), "the node 'n9'"),
            (json!([["a"], []]), "is wanted, not"),
        ] {
            let told = why(placed("x", &result, &config));
            assert!(told.contains(wanted), "{told}");
        }
    }

    #[test]
    fn jobs_move_what_was_asked_for_and_do_nothing_else() {
        let asked = [Arc::new(instance("a", "n1.example"))];
        let migrate = json!({"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "a"});
        let failover = json!({"OP_ID": "OP_INSTANCE_FAILOVER", "instance_name": "a"});
        let good = json!([[["a", "default", ["n1.example"]]], [], [[migrate], [failover]]]);
        assert_eq!(jobs("x", &good, &asked).unwrap().len(), 2);
        let other = json!({"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": "b"});
        let remove = json!({"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "a"});
        for (result, wanted) in [
            (json!([[], [["a", "no room"]], []]), "Unable to evacuate instances a (no room)"),
            (json!([[], [], [[other]]]), "'b' was not asked for"),
            (json!([[], [], [[remove]]]), "OP_INSTANCE_REMOVE moves no instance"),
            (json!([[], [], [[{"OP_ID": "OP_NOPE"}]]]), "an opcode that is not taken"),
            (json!([[], []]), "moved, failed and jobs is wanted"),
        ] {
            let told = why(jobs("x", &result, &asked));
            assert!(told.contains(wanted), "{told}");
        }
    }
}
