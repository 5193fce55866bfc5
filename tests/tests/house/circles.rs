//! The top-level modules of a crate form no circle: each can be read before those that use it.

use std::collections::{BTreeMap, BTreeSet};

use crate::direction::members;
use crate::source::{self, SourceFile};

/// The module for other crates' tests: it may look into everything.
const FOR_TESTS: &str = "simulation";

/// The modules that each module uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_crate_has_a_circle_of_modules() {
    let files = source::files("rs");
    let mut complaints = Vec::new();
    for name in &members() {
        let own = files.iter().filter(|file| file.package() == *name).collect::<Vec<_>>();
        complaints.extend(circle(&uses(name, &own)).map(|circle| {
            format!("{name}: {} form a circle; cut it where it costs least", circle.join(" → "))
        }));
    }
    source::assert_none(&complaints);
}

#[test]
fn a_circle_is_found_with_all_that_is_on_it() {
    let uses = |pairs: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (from, to) in pairs {
            uses.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        uses
    };
    assert_eq!(circle(&uses(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let found = circle(&uses(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]));
    assert_eq!(found, Some(vec!["b".to_owned(), "c".to_owned(), "b".to_owned()]));
}

#[test]
fn paths_are_read_singly_and_in_groups() {
    let read = |text: &str| paths(text).into_iter().collect::<Vec<_>>();
    assert_eq!(read("use crate::a::B; fn f() { crate::c::d(); }"), ["a", "c"]);
    assert_eq!(read("use crate::{a, b::{C, D}, e::f};"), ["a", "b", "e"]);
    assert_eq!(read("use other::crate_name::a;"), Vec::<String>::new());
}

/// Which top-level module of a crate uses which, tests left out.
fn uses(name: &str, files: &[&SourceFile]) -> Uses {
    let code: BTreeMap<&str, String> =
        files.iter().map(|file| (file.path.as_str(), file.code())).collect();
    let mut uses = Uses::new();
    for (path, text) in &code {
        let Some(below) = path.strip_prefix(&format!("{name}/src/")) else { continue };
        let module: Vec<&str> = below.trim_end_matches(".rs").split('/').collect();
        if matches!(module[0], "lib" | "main" | "bin" | FOR_TESTS)
            || !is_built(name, &module, &code)
        {
            continue;
        }
        let used = paths(text).into_iter().filter(|used| used != module[0]);
        uses.entry(module[0].to_owned()).or_default().extend(used);
    }
    let modules: BTreeSet<String> = uses.keys().cloned().collect();
    for used in uses.values_mut() {
        used.retain(|used| modules.contains(used));
    }
    uses
}

/// Whether a module is more than a test: it and all above it are declared outside of tests.
fn is_built(name: &str, module: &[&str], code: &BTreeMap<&str, String>) -> bool {
    (0..module.len()).all(|depth| {
        let parents = match depth {
            0 => vec![format!("{name}/src/lib.rs"), format!("{name}/src/main.rs")],
            _ => vec![format!("{name}/src/{}.rs", module[..depth].join("/"))],
        };
        let declared = format!("mod {};", module[depth]);
        parents
            .iter()
            .filter_map(|path| code.get(path.as_str()))
            .any(|text| text.contains(&declared))
    })
}

/// The first segments behind `crate::`.
fn paths(text: &str) -> BTreeSet<String> {
    const ROOT: &str = "crate::";
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(ROOT) {
        if text[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        let rest = &text[at + ROOT.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(rest.chars().take_while(|c| is_word(*c)).collect());
            continue;
        };
        let (mut depth, mut word, mut is_first) = (1_u32, String::new(), true);
        for c in group.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if is_word(c) && depth == 1 && is_first {
                word.push(c);
            } else if !word.is_empty() {
                found.insert(std::mem::take(&mut word));
                is_first = false;
            }
            if depth == 0 {
                break;
            }
            is_first |= depth == 1 && c == ',';
        }
    }
    found.remove("");
    found
}

/// One circle, if there is any: its first module stands at both ends.
fn circle(uses: &Uses) -> Option<Vec<String>> {
    fn visit(at: &str, uses: &Uses, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        if let Some(begin) = way.iter().position(|on_it| on_it == at) {
            way.drain(..begin);
            way.push(at.to_owned());
            return true;
        }
        if !done.insert(at.to_owned()) {
            return false;
        }
        way.push(at.to_owned());
        if uses.get(at).into_iter().flatten().any(|next| visit(next, uses, way, done)) {
            return true;
        }
        way.pop();
        false
    }
    let mut done = BTreeSet::new();
    uses.keys().find_map(|from| {
        let mut way = Vec::new();
        visit(from, uses, &mut way, &mut done).then_some(way)
    })
}
