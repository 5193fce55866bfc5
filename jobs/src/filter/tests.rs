use model::opcode::Input;
use model::{JobId, OpInput, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn job(id: u64, ops: &[Value]) -> Job {
    let inputs = ops.iter().map(|op| {
        let input = OpInput::parse(&op.to_string()).unwrap();
        Arc::new(Input::Known(Box::new(input)))
    });
    Job::new(JobId(id), inputs, Timestamp::from_micros(1))
}

fn delay(reason: &str) -> Value {
    json!({"OP_ID": "OP_TEST_DELAY", "duration": 5, "on_nodes": ["n1"],
        "reason": [["gnt:user", reason, 700], ["gnt:client:gnt-debug", "", 800]]})
}

fn document(uuid: &str, predicates: &Value, action: &Value) -> FilterRule {
    serde_json::from_value(json!({"uuid": uuid, "watermark": 10, "priority": 0,
        "predicates": predicates, "action": action, "reason_trail": []}))
    .unwrap()
}

fn rule(predicates: &Value) -> Result<Rule, String> {
    Rule::new(document("u", predicates, &json!("PAUSE"))).map_err(|error| error.to_string())
}

fn holds(predicates: &Value, job: &Job) -> bool {
    rule(predicates).unwrap().is_for(&Subject::new(job))
}

#[test]
fn predicates() {
    let two = job(10, &[delay("pink bunny"), json!({"OP_ID": "OP_CLUSTER_QUERY"})]);
    for (predicates, expected) in [
        (json!([]), true),
        (json!([["jobid", [">", "id", "watermark"]]]), false),
        (json!([["jobid", ["<=", "id", "watermark"]]]), true),
        (json!([["jobid", ["&", ["=", "id", 10], ["!", [">", "id", "watermark"]]]]]), true),
        (json!([["jobid", ["=", "id", 11]]]), false),
        (json!([["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]]), true),
        (json!([["opcode", ["=", "OP_ID", "OP_NODE_ADD"]]]), false),
        (json!([["opcode", ["=", "duration", 5]]]), true),
        (json!([["opcode", ["=[]", "on_nodes", "n1"]]]), true),
        (json!([["opcode", ["=[]", "on_nodes", "n2"]]]), false),
        // Both in one opcode, not one in each.
        (
            json!([["opcode", ["&", ["=", "OP_ID", "OP_CLUSTER_QUERY"], ["=", "duration", 5]]]]),
            false,
        ),
        (
            json!([
                ["opcode", ["=", "OP_ID", "OP_CLUSTER_QUERY"]],
                ["opcode", ["=", "duration", 5]]
            ]),
            true,
        ),
        // An opcode without the field is not meant, whatever is said of it.
        (json!([["opcode", ["!", ["=", "nothing", 5]]]]), false),
        (json!([["opcode", ["!", ["=", "on_node_uuids.x", 5]]]]), false),
        (json!([["opcode", ["!", ["=", "duration", 6]]]]), true),
        (json!([["reason", ["=~", "reason", "bunny$"]]]), true),
        (json!([["reason", ["=~", "reason", "^bunny"]]]), false),
        (json!([["reason", ["&", ["=", "source", "gnt:user"], ["=", "timestamp", 700]]]]), true),
        (json!([["reason", ["&", ["=", "source", "gnt:user"], ["=", "timestamp", 800]]]]), false),
        (json!([["reason", [">", "timestamp", 799]], ["jobid", ["=", "id", 10]]]), true),
        (json!([["reason", [">", "timestamp", 799]], ["jobid", ["=", "id", 11]]]), false),
    ] {
        assert_eq!(holds(&predicates, &two), expected, "{predicates}");
    }
}

#[test]
fn what_is_no_rule_is_told() {
    for (predicates, told) in [
        (json!([["jobid", ["=", "OP_ID", "x"]]]), "predicate 1 names `OP_ID`"),
        (json!([["jobid", []], ["jobid", []]]), "predicate 1 is no condition"),
        (json!([["jobid", ["&"]], ["reason", ["=", "text", "x"]]]), "predicate 2 names `text`"),
        (json!([["jobid", ["=", "id", "water"]]]), "with `water`; write a number"),
        (json!([["opcode", ["^", "OP_ID", "x"]]]), "predicate 1 is no condition"),
    ] {
        let error = rule(&predicates).unwrap_err();
        assert!(error.contains(told), "{predicates}: {error}");
    }
    let many = vec![json!(["jobid", ["&"]]); PREDICATES_MAX + 1];
    assert!(rule(&json!(many)).unwrap_err().contains("33 predicates in one rule; at most 32"));
    let long = json!([["reason", ["=", "reason", "x".repeat(RULE_BYTES_MAX)]]]);
    assert!(rule(&long).unwrap_err().contains("bytes in one rule"));
}

#[test]
fn all_rules_share_limits() {
    let of = |uuid: String, predicate: Value| {
        Arc::new(Rule::new(document(&uuid, &json!([predicate]), &json!("PAUSE"))).unwrap())
    };
    let map = |count: usize, predicate: &Value| -> RuleMap {
        (0..count).map(|n| (n.to_string(), of(n.to_string(), predicate.clone()))).collect()
    };
    let simple = json!(["jobid", ["&"]]);
    let all = map(RULES_MAX, &simple);
    assert!(of("0".to_owned(), simple.clone()).fits(&all).is_ok(), "it replaces one");
    let told = of("new".to_owned(), simple).fits(&all).unwrap_err().to_string();
    assert!(told.contains("1001 filter rules; at most 1000"), "{told}");
    let pattern = json!(["reason", ["=~", "reason", "x"]]);
    let told =
        of("new".to_owned(), pattern.clone()).fits(&map(PATTERNS_MAX, &pattern)).unwrap_err();
    assert!(told.to_string().contains("257 regular expressions"), "{told}");
    let wide: Vec<Value> = std::iter::once(json!("|"))
        .chain(std::iter::repeat_n(json!(["=", "id", 1]), CONDITIONS_MAX / 8))
        .collect();
    let wide = json!(["jobid", wide]);
    let told = of("new".to_owned(), wide.clone()).fits(&map(7, &wide)).unwrap_err().to_string();
    assert!(told.contains("conditions in all filter rules"), "{told}");
}

fn map(rules: &[Arc<Rule>]) -> RuleMap {
    let named = |rule: &Arc<Rule>| (rule.document.uuid.clone(), Arc::clone(rule));
    rules.iter().map(named).collect()
}

fn made(uuid: &str, priority: u32, watermark: u64, from: u64, action: Value) -> Arc<Rule> {
    let predicates = json!([["jobid", [">=", "id", from]]]);
    let mut rule = document(uuid, &predicates, &action);
    (rule.priority, rule.watermark) = (priority, watermark);
    Arc::new(Rule::new(rule).unwrap())
}

#[test]
fn the_first_rule_that_says_something_decides() {
    let mut rules = Rules::default();
    let decides = |rules: &Rules, id| {
        rules.decide(&job(id, &[delay("")])).map(|rule| rule.document.uuid.clone())
    };
    assert_eq!(decides(&rules, 1), None);
    rules.set(map(&[
        made("a", 1, 5, 0, json!("PAUSE")),
        made("c", 0, 7, 20, json!("REJECT")),
        made("b", 0, 7, 20, json!("ACCEPT")),
        made("d", 0, 6, 30, json!(["RATE_LIMIT", 3])),
        made("e", 0, 0, 0, json!("CONTINUE")),
    ]));
    assert_eq!(decides(&rules, 1).as_deref(), Some("a"));
    assert_eq!(decides(&rules, 20).as_deref(), Some("b"), "by id, of one watermark");
    assert_eq!(decides(&rules, 30).as_deref(), Some("d"), "by watermark, of one priority");
}

fn any_rules() -> impl Strategy<Value = Vec<(usize, u32, u64, usize)>> {
    proptest::collection::vec((0usize..6, 0u32..3, 0u64..6, 0usize..4), 0..6)
}

proptest! {
    /// Working out again only what a change can have changed gives what working out all gives.
    #[test]
    fn a_change_is_worked_out_in_full(changes in proptest::collection::vec(any_rules(), 1..6)) {
        let actions = [json!("ACCEPT"), json!("PAUSE"), json!("CONTINUE"), json!(["RATE_LIMIT", 1])];
        let jobs: Vec<Job> = (0..6).map(|id| job(id, &[delay("")])).collect();
        let mut rules = Rules::default();
        let mut kept = RuleMap::new();
        let mut decided: Vec<Option<Arc<Rule>>> = vec![None; jobs.len()];
        for change in changes {
            for (name, priority, from, action) in change {
                // The last value stands for taking the rule away.
                if from == 5 {
                    kept.remove(&name.to_string());
                    continue;
                }
                let made = made(&name.to_string(), priority, 3, from, actions[action].clone());
                kept.insert(name.to_string(), made);
            }
            let change = rules.set(kept.clone());
            for (job, decided) in jobs.iter().zip(&mut decided) {
                *decided = rules.decide_again(job, decided.as_ref(), &change);
                let fresh = rules.decide(job);
                let same = match (&fresh, &*decided) {
                    (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                    (a, b) => a.is_none() && b.is_none(),
                };
                prop_assert!(same, "{:?} and not {:?}", decided, fresh);
            }
        }
    }
}
