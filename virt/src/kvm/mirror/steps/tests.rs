use super::*;

const DISK: Uuid = Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef);
const BYTES: u64 = 1 << 20;

fn node(end: &str) -> String {
    format!("{}{end}", node_name(DISK))
}

/// The answers of a QEMU whose quorum has these children, with these bitmaps at the own copy, and these other
/// nodes.
fn told(children: &[&str], bitmaps: &[&str], more: &[&str]) -> (Value, Value) {
    let all: Vec<String> = ["", "q"].iter().chain(children).map(|end| node(end)).collect();
    let ids = all.iter().zip(1_u64..);
    let nodes: Vec<Value> = ids.map(|(name, id)| json!({"id": id, "name": name})).collect();
    let mut edges = vec![json!({"parent": 1, "child": 2, "name": "file"})];
    // Places are not used again.
    let places = (3_u64..).zip([0, 4, 7, 8]).take(children.len());
    let child =
        |(id, place)| json!({"parent": 2, "child": id, "name": format!("children.{place}")});
    edges.extend(places.map(child));
    let graph = json!({"nodes": nodes, "edges": edges});
    let named = all.into_iter().chain(more.iter().map(|end| node(end)));
    let bitmaps: Vec<Value> =
        bitmaps.iter().map(|name| json!({"name": name, "count": 65_536})).collect();
    let named = named.map(|name| {
        let mut told = json!({"node-name": name, "image": {"virtual-size": BYTES}});
        if name == node("l") {
            told["dirty-bitmaps"] = bitmaps.clone().into();
        }
        told
    });
    (graph, named.collect())
}

fn seen(children: &[&str], bitmaps: &[&str], more: &[&str]) -> View {
    let (graph, nodes) = told(children, bitmaps, more);
    view(DISK, &graph, &nodes).unwrap()
}

/// Commands in short: the command, with what tells them apart.
fn short(commands: Vec<Command>) -> Vec<String> {
    let word = |(command, arguments): Command| {
        let names = ["name", "child", "node-name", "node"].map(|name| arguments[name].clone());
        let name = names.iter().find_map(Value::as_str).unwrap_or_default();
        format!("{command} {}", name.replace(&node_name(DISK), "D"))
    };
    commands.into_iter().map(word).collect()
}

fn name(text: &str) -> NodeName {
    text.parse().unwrap()
}

#[test]
fn an_odd_answer_is_no_disk() {
    let (graph, nodes) = told(&["l", "s"], &[], &[]);
    assert!(view(DISK, &graph, &nodes).is_some());
    let other = Uuid::from_u128(5);
    assert_eq!(view(other, &graph, &nodes), None);
    for odd in [json!(null), json!({}), json!([]), json!({"nodes": [], "edges": []})] {
        assert_eq!(view(DISK, &odd, &nodes), None, "{odd}");
        assert_eq!(view(DISK, &graph, &odd), None, "{odd}");
    }
    let (graph, nodes) = told(&["l"], &[], &[]);
    assert_eq!(view(DISK, &graph, &nodes), None, "a disk is never without something beside it");
}

#[test]
fn the_state_follows_from_the_children_and_the_complaints() {
    let bad: BTreeMap<String, String> =
        [(node("r1"), "it is full".to_owned()), (node("l"), "it burns".to_owned())].into();
    let none = BTreeMap::new();
    let lost = CopyState::Lost("it is full".to_owned());
    let table = [
        (seen(&["l", "s"], &[], &[]), &bad, false, CopyState::Alone),
        (seen(&["l", "s"], &[], &["r1"]), &bad, true, CopyState::Filling),
        (seen(&["l", "r1"], &[], &[]), &none, false, CopyState::InStep),
        (seen(&["l", "r1"], &[], &[]), &bad, false, lost.clone()),
        (seen(&["l", "r2"], &[], &["r1"]), &bad, false, CopyState::InStep),
        (seen(&["l", "s", "r2"], &[], &[]), &bad, false, CopyState::Alone),
        (seen(&["l", "r1", "s"], &[], &[]), &bad, false, lost),
    ];
    for (view, bad, is_filling, wanted) in table {
        assert_eq!(view.state(bad, None, is_filling), wanted, "{view:?}");
    }
    let lost = CopyState::Lost("an earlier agent heard why".to_owned());
    let view = seen(&["l", "r1"], &[], &[]);
    assert_eq!(view.state(&none, Some(&lost), false), lost);
    assert_eq!(view.state(&none, Some(&CopyState::Filling), false), CopyState::InStep);
    let without = seen(&["l", "s"], &[], &[]);
    assert_eq!(without.state(&none, Some(&lost), false), CopyState::Alone);
    assert!(["l", "f"].iter().all(|end| is_own(DISK, &node(end))) && !is_own(DISK, &node("r1")));
}

#[test]
fn what_the_other_copy_lacks_is_noted_before_it_leaves() {
    let b = name("b");
    let all = [
        "block-dirty-bitmap-add behind:b",
        "blockdev-add Ds",
        "x-blockdev-change Ds",
        "x-blockdev-change children.4",
    ];
    assert_eq!(short(seen(&["l", "r1"], &[], &[]).detach(Some(&b))), all);
    let left = short(seen(&["l", "r1"], &["behind:b"], &["s"]).detach(Some(&b)));
    assert_eq!(left, all[2..], "it was cut short after the second command");
    let left = short(seen(&["l", "r1", "s"], &["behind:b"], &[]).detach(Some(&b)));
    assert_eq!(left, all[3..]);
    assert!(seen(&["l", "s"], &["behind:b"], &["r1"]).detach(Some(&b)).is_empty());
    assert_eq!(short(seen(&["l", "s"], &["behind:b"], &["r1"]).close()), ["blockdev-del Dr1"]);
    assert!(seen(&["l", "r1"], &[], &[]).close().is_empty());
    // A bitmap about another copy says nothing of this one.
    let left = short(seen(&["l", "r1"], &["behind:c"], &[]).detach(Some(&b)));
    assert_eq!(left[..2], [all[0], "block-dirty-bitmap-remove behind:c"]);
    let unknown = short(seen(&["l", "r1"], &[], &[]).detach(None));
    assert_eq!(unknown[0], "block-dirty-bitmap-add filling");
}

#[test]
fn a_copy_is_filled_by_what_is_known_of_it_or_whole() {
    let b = name("b");
    let known = seen(&["l", "s"], &["behind:b"], &["r1"]);
    let fill = known.fill(&b, false);
    assert_eq!((fill.is_whole, fill.bitmap.as_str(), fill.first.len()), (false, "behind:b", 0));
    assert_eq!(known.lacks("behind:b"), Some(65_536));
    let begin = ["block-dirty-bitmap-remove behind:b", "block-dirty-bitmap-add filling"];
    for whole in [known.fill(&b, true), known.fill(&name("c"), false)] {
        assert!(whole.is_whole);
        assert_eq!(
            (whole.bitmap.as_str(), short(whole.first)),
            ("filling", begin.map(str::to_owned).into())
        );
    }
    // A try that failed says nothing of the copy.
    assert!(seen(&["l", "s"], &["filling"], &["r1"]).fill(&b, false).is_whole);
    let (_, whole) = known.pass(&node("r1"), None);
    assert_eq!((&whole["sync"], &whole["bitmap"]), (&json!("full"), &json!(null)));
    let (_, part) = known.pass(&node("r1"), Some("behind:b"));
    assert_eq!((&part["sync"], &part["bitmap-mode"]), (&json!("bitmap"), &json!("always")));
    let swap = short(known.swap(&node("r1")));
    let wanted = [
        "x-blockdev-change Dr1",
        "x-blockdev-change children.4",
        "block-dirty-bitmap-remove behind:b",
        "blockdev-del Ds",
    ];
    assert_eq!(swap, wanted);
}

#[test]
fn somebody_who_ended_between_two_steps_is_noticed() {
    assert!(seen(&["l", "s", "r1"], &[], &[]).is_half_done());
    assert!(seen(&["l", "r1", "s"], &[], &[]).is_half_done());
    assert!(!seen(&["l", "s"], &[], &["r1"]).is_half_done());
    assert!(!seen(&["l", "r1"], &[], &["s"]).is_half_done());
}

#[test]
fn a_copy_of_another_size_does_not_fit() {
    let (graph, mut nodes) = told(&["l", "s"], &[], &["r1"]);
    let fits = |nodes: &Value| view(DISK, &graph, nodes).unwrap().fits(&node("r1"));
    assert_eq!(fits(&nodes), Ok(()));
    let replica = nodes.as_array_mut().unwrap().last_mut().unwrap();
    replica["image"]["virtual-size"] = 5.into();
    let why = fits(&nodes).unwrap_err();
    assert!(why.contains("it has 5 bytes") && why.contains("has 1048576"), "{why}");
}

#[test]
fn passes_are_told_from_other_jobs() {
    let jobs = json!([
        {"id": "copy-1", "status": "running"},
        {"id": job(DISK), "status": "concluded", "current-progress": 3, "total-progress": 4,
            "error": "No space left on device"},
    ]);
    let error = Some("No space left on device".to_owned());
    assert_eq!(pass(&jobs, DISK), Some(Pass { is_over: true, error, done: 3, all: 4 }));
    assert_eq!(pass(&jobs, Uuid::nil()), None);
    let all: Vec<Value> = COMMANDS.iter().map(|name| json!({"name": name})).collect();
    assert_eq!(lacking(&json!(all)), Some(Vec::new()));
    assert_eq!(lacking(&json!(all[1..])), Some(vec![COMMANDS[0]]));
    assert_eq!(lacking(&json!({})), None);
}

#[test]
fn names_fit_qemu_and_none_comes_twice() {
    let [first, second] = [replica_name(DISK), replica_name(DISK)];
    assert!(first.len() <= 31 && first != second, "{first} {second}");
    assert!(first.starts_with(&replicas_begin(DISK)));
}
