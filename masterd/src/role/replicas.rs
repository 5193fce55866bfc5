//! Core: whether members hold the same, and what is said where they do not.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeName;
use queue_format::digest::{Difference, differences, group_name};
use rpc::peer::control::PeerDigest;

use crate::config::finding::{Code, Finding};

/// Keys that a finding names; an operator with more keys to look at has to fetch everything anyway.
pub const NAMED_MAX: usize = 10;

/// Keys of one member that are set against those of others. A hand or a bad sector changes fewer, and
/// they are little beside the data read to find them.
pub const JUDGED_MAX: usize = 1_000;

/// A node whose store was compared with the master's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    pub node: NodeName,
    /// The differences, or why there was no comparison.
    pub outcome: Result<Differing, String>,
    /// Whether its machine answers and no `masterd` listens there.
    pub is_refused: bool,
}

/// A key of which a member has something else than the master.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Other {
    /// Its name.
    pub key: String,
    /// What differs.
    pub difference: Difference,
    /// The checksum of what the member has; none where it has nothing.
    pub theirs: Option<String>,
}

/// The differences between the master's store and another one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Differing {
    pub groups: Vec<String>,
    /// The first keys by name, at most [`JUDGED_MAX`].
    pub judged: Vec<Other>,
    /// How many keys there are.
    pub total: usize,
    /// Whether there are keys that were not compared.
    pub cut_short: bool,
}

impl Differing {
    /// Takes in what a further page of keys shows.
    pub fn take(&mut self, page: Page) {
        let room = JUDGED_MAX.saturating_sub(self.judged.len());
        self.total += page.total;
        self.judged.extend(page.first.into_iter().take(room));
    }

    /// Whether there are keys of which nothing else is known here.
    fn has_more(&self) -> bool {
        self.cut_short || self.total > self.judged.len()
    }

    fn keys(&self) -> String {
        let word = |difference: &Difference| match difference {
            Difference::OnlyFirst => "missing there",
            Difference::OnlySecond => "only there",
            Difference::Content => "other content",
        };
        let named = self.judged.iter().take(NAMED_MAX);
        let named: Vec<_> = named
            .map(|Other { key, difference, .. }| format!("{key} ({})", word(difference)))
            .collect();
        let mut text = named.join(", ");
        match self.total - named.len() {
            0 if self.cut_short => text.push_str(", and perhaps more"),
            0 => {}
            more if self.cut_short => text.push_str(&format!(" and at least {more} more")),
            more => text.push_str(&format!(" and {more} more")),
        }
        text
    }
}

/// The differences in a page of keys of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The first keys that differ, at most [`JUDGED_MAX`].
    pub first: Vec<Other>,
    /// How many there are in the page.
    pub total: usize,
    /// Behind which name the next page begins; none at the end.
    pub next: Option<String>,
}

/// The names, of groups or of keys, under which two stores differ, as far as both lists reach.
pub fn page(own: &PeerDigest, theirs: &PeerDigest) -> Page {
    let end = |list: &PeerDigest| {
        let last = list.digests.last_key_value().map(|(name, _)| name.clone());
        if list.complete { None } else { last }
    };
    // Behind the end of a list that goes on nothing is known.
    let next = [end(own), end(theirs)].into_iter().flatten().min();
    let reached = |list: &PeerDigest| -> BTreeMap<String, String> {
        let reached =
            list.digests.iter().filter(|(name, _)| next.as_ref().is_none_or(|end| *name <= end));
        reached.map(|(name, hash)| (name.clone(), hash.clone())).collect()
    };
    let theirs = reached(theirs);
    let found = differences(&reached(own), &theirs, JUDGED_MAX);
    let first = found.named.into_iter().map(|(key, difference)| {
        let theirs = theirs.get(&key).cloned();
        Other { key, difference, theirs }
    });
    Page { first: first.collect(), total: found.total, next }
}

/// The notice for operators where there is nothing to compare.
pub fn note(compared: &[Compared]) -> Option<String> {
    let alone = "  - NOTICE: no other node holds queue and configuration: nothing to compare";
    compared.is_empty().then(|| alone.to_owned())
}

/// The faults in the members' copies. Most of the copies, the master's among them, tell which copy of a
/// key is wrong; without a majority, as of two, nobody can tell. Nothing is known of a member's keys
/// behind those that were judged there.
pub fn check(master: &NodeName, compared: &[Compared]) -> Vec<Finding> {
    let told: Vec<&Differing> =
        compared.iter().filter_map(|one| one.outcome.as_ref().ok()).collect();
    let sides = Sides::of(&told);
    let mut findings: Vec<Finding> = stray_master(master, &sides).into_iter().collect();
    for Compared { node, outcome, .. } in compared {
        let found = match outcome {
            Err(why) => Some(not_compared(node, why)),
            Ok(differing) if differing.groups.is_empty() => None,
            Ok(differing) if differing.total == 0 => Some(passed(node, differing)),
            Ok(differing) => stray(master, node, differing, &sides),
        };
        findings.extend(found);
    }
    findings
}

fn not_compared(node: &NodeName, why: &str) -> Finding {
    let text = format!(
        "its copy of queue and configuration could not be compared ({why}); verify again when it is \
         there"
    );
    Finding::warning(Code::Reach, node.as_str(), text)
}

/// A member that differs in more keys than were judged.
struct Longer<'a> {
    listed: BTreeSet<&'a str>,
    /// Behind this one nothing is known; nothing is known at all where not all keys were compared.
    last: Option<(&'a str, &'a str)>,
}

impl<'a> Longer<'a> {
    fn of(differing: &'a Differing) -> Self {
        let last = differing.judged.last().filter(|_| !differing.cut_short);
        Self {
            listed: differing.judged.iter().map(|other| other.key.as_str()).collect(),
            last: last.map(|other| in_order(&other.key)),
        }
    }

    /// Whether it may have this key otherwise, too.
    fn may_have(&self, key: &str) -> bool {
        !self.listed.contains(key) && self.last.is_none_or(|last| in_order(key) > last)
    }
}

/// The place of a key in the order of all that are compared.
fn in_order(key: &str) -> (&str, &str) {
    (group_name(key), key)
}

/// Which copies of the keys that differ are right.
struct Sides {
    /// All copies that were compared, the master's among them.
    copies: usize,
    /// Keys that most copies have otherwise than the master.
    of_master: BTreeSet<Other>,
    /// Keys of which no content is that of most copies.
    contested: BTreeSet<String>,
    /// Whether there may be more of either.
    has_more: bool,
}

impl Sides {
    fn of(told: &[&Differing]) -> Self {
        let mut seen = BTreeMap::<&str, BTreeMap<&Other, usize>>::new();
        for other in told.iter().flat_map(|differing| &differing.judged) {
            *seen.entry(&other.key).or_default().entry(other).or_default() += 1;
        }
        let longer = told.iter().filter(|differing| differing.has_more());
        let longer: Vec<Longer<'_>> = longer.map(|differing| Longer::of(differing)).collect();
        let unknown = |key: &str| longer.iter().filter(|one| one.may_have(key)).count();
        let copies = told.len() + 1;
        let has_more = !longer.is_empty();
        let (of_master, contested) = (BTreeSet::new(), BTreeSet::new());
        let mut sides = Self { copies, of_master, contested, has_more };
        for (key, others) in seen {
            let masters = copies - others.values().sum::<usize>() - unknown(key);
            match others.iter().find(|(_, count)| **count * 2 > copies) {
                Some((other, _)) => drop(sides.of_master.insert((*other).clone())),
                None if masters * 2 > copies => {}
                None => drop(sides.contested.insert(key.to_owned())),
            }
        }
        sides
    }

    fn is_contested(&self, differing: &Differing) -> bool {
        differing.judged.iter().any(|other| self.contested.contains(&other.key))
    }
}

/// The master, whose copy of some keys most others do not have.
fn stray_master(master: &NodeName, sides: &Sides) -> Option<Finding> {
    let turned = |other: &Other| {
        let difference = match other.difference {
            Difference::OnlyFirst => Difference::OnlySecond,
            Difference::OnlySecond => Difference::OnlyFirst,
            Difference::Content => Difference::Content,
        };
        Other { difference, ..other.clone() }
    };
    let keys = &sides.of_master;
    let seen_from_there = Differing {
        judged: keys.iter().map(turned).collect(),
        total: keys.len(),
        cut_short: sides.has_more,
        ..Differing::default()
    };
    let text = format!(
        "its copy differs from that of most of {} others: {}. It was changed by hand, or its disk is \
         bad; have one of them take the role (`gnt cluster master-failover` there), then {}",
        sides.copies - 1,
        seen_from_there.keys(),
        anew(master)
    );
    (!keys.is_empty()).then(|| Finding::error(Code::Files, master.as_str(), text))
}

/// Another member, whose copy differs in more than what is wrong with the master's.
fn stray(
    master: &NodeName,
    node: &NodeName,
    differing: &Differing,
    sides: &Sides,
) -> Option<Finding> {
    let mut own = differing.clone();
    own.judged.retain(|judged| !sides.of_master.contains(judged));
    own.total -= differing.judged.len() - own.judged.len();
    let (groups, keys, anew) = (own.groups.join(", "), own.keys(), anew(node));
    if own.judged.is_empty() {
        let further = match own.cut_short {
            true => format!("at least {}", own.total),
            false => own.total.to_string(),
        };
        let text = format!(
            "its copy of {groups} differs from the master's in {further} further keys, which were not \
             set against other copies; verify again once the master's copy is right"
        );
        return (own.total > 0).then(|| Finding::error(Code::Files, node.as_str(), text));
    }
    let what = format!("its copy of {groups} differs from the master's: {keys}.");
    let text = if sides.is_contested(&own) {
        let copies = sides.copies;
        format!(
            "{what} One of the two was changed by hand, or has a bad disk, and of {copies} copies no \
             majority agrees, so nobody can tell which: look at these keys on all. If those of {node} \
             are wrong, have it fetch everything anew: {anew}. If the master's are: `gnt cluster \
             master-failover` on a node where they are right, then the same for {master}"
        )
    } else {
        let first = match sides.of_master.is_empty() {
            true => "",
            false => "once the master's copy is right, ",
        };
        format!(
            "{what} It was changed by hand, or its disk is bad; {first}have it fetch everything anew: \
             {anew}"
        )
    };
    Some(Finding::error(Code::Files, node.as_str(), text))
}

fn passed(node: &NodeName, differing: &Differing) -> Finding {
    let groups = differing.groups.join(", ");
    let text = format!(
        "its copy of {groups} differed from the master's, and no key of it does any more; verify \
         again, and check its disk"
    );
    Finding::warning(Code::Files, node.as_str(), text)
}

/// How a node gets everything from the others.
fn anew(node: &NodeName) -> String {
    format!("`gnt node modify -C no --force {node}`, then `gnt node modify -C yes {node}`")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> NodeName {
        text.parse().unwrap()
    }

    fn list(rows: &[(&str, &str)], complete: bool) -> PeerDigest {
        let rows = rows.iter().map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned()));
        PeerDigest { digests: rows.collect(), complete }
    }

    fn differing(total: usize) -> Differing {
        as_of("1", total)
    }

    /// Contents that are `theirs`.
    fn as_of(theirs: &str, total: usize) -> Differing {
        let other = |n: usize| Other {
            key: format!("ipam{n}"),
            difference: Difference::Content,
            theirs: Some(theirs.to_owned()),
        };
        let judged = (0..total.min(JUDGED_MAX)).map(other).collect();
        Differing { groups: vec!["ipam".to_owned()], judged, total, cut_short: false }
    }

    fn told(outcomes: &[Result<Differing, String>]) -> String {
        let compared = outcomes.iter().zip(2..).map(|(outcome, n)| Compared {
            node: name(&format!("n{n}")),
            outcome: outcome.clone(),
            is_refused: false,
        });
        let found = check(&name("n1"), &compared.collect::<Vec<_>>());
        let lines = found.iter().map(|found| found.line(&Default::default()));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn who_differs_is_named_with_the_keys_and_the_remedy() {
        assert_eq!(told(&[Ok(Differing::default()), Ok(Differing::default())]), "");
        let one = told(&[Ok(Differing::default()), Ok(differing(1))]);
        assert!(one.starts_with("  - ERROR: node n3: its copy of ipam differs"), "{one}");
        assert!(one.contains("ipam0 (other content)."), "{one}");
        assert!(one.contains("`gnt node modify -C no --force n3`"), "{one}");
        let many = told(&[Ok(differing(30)), Ok(Differing::default())]);
        assert!(many.contains("ipam9 (other content) and 20 more."), "{many}");
        let away = told(&[Err("cannot reach n2".to_owned()), Ok(Differing::default())]);
        assert!(away.starts_with("  - WARNING: node n2: "), "{away}");
        let gone = told(&[Ok(Differing { judged: Vec::new(), total: 0, ..differing(1) })]);
        assert!(gone.contains("no key of it does any more"), "{gone}");
    }

    #[test]
    fn what_most_copies_have_is_right() {
        let alike = told(&[Ok(differing(2)), Ok(differing(2)), Err("away".to_owned())]);
        let master =
            "node n1: its copy differs from that of most of 2 others: ipam0 (other content), ipam1";
        assert!(alike.contains(master) && !alike.contains("ERROR: node n2"), "{alike}");
        // A further difference of one of them changes nothing of that.
        let further = told(&[Ok(differing(2)), Ok(differing(3))]);
        assert!(further.contains(master) && !further.contains("ERROR: node n2"), "{further}");
        let own = "node n3: its copy of ipam differs from the master's: ipam2 (other content). It";
        assert!(further.contains(own), "{further}");
        assert!(further.contains("once the master's copy is right, have it fetch"), "{further}");
        let three = told(&[Ok(differing(1)), Ok(differing(1)), Ok(differing(1))]);
        assert!(three.contains("node n1: its copy differs from that of most of 3"), "{three}");
    }

    /// Ten keys are named, and far more judged.
    #[test]
    fn a_master_that_is_wrong_in_many_keys_is_named_with_them_alone() {
        let twelve = told(&[Ok(differing(12)), Ok(differing(12))]);
        assert!(!twelve.contains("node n2:") && !twelve.contains("node n3:"), "{twelve}");
        assert!(twelve.contains("of most of 2 others: ipam0 (other content)"), "{twelve}");
        assert!(twelve.contains("and 2 more."), "{twelve}");
        // Nothing is known of what lies behind the last key that was judged.
        let total = JUDGED_MAX + 5;
        let many = told(&[Ok(differing(total)), Ok(differing(total))]);
        assert!(many.contains("node n1: its copy differs from that of most of 2 others"), "{many}");
        assert!(many.contains("and at least 990 more."), "{many}");
        let further = "node n2: its copy of ipam differs from the master's in 5 further keys";
        assert!(
            many.contains(further)
                && !many.contains("was changed by hand, or its disk is bad; once"),
            "{many}"
        );
    }

    #[test]
    fn who_has_more_than_was_judged_is_nobodys_witness() {
        let mut early = differing(JUDGED_MAX + 1);
        for (n, other) in early.judged.iter_mut().enumerate() {
            other.key = format!("a{n}");
        }
        let third = |first: Differing| {
            let told = told(&[Ok(first), Ok(differing(1))]);
            told.lines().find(|line| line.contains("node n3:")).unwrap().to_owned()
        };
        let unknown = third(early.clone());
        assert!(unknown.contains("of 3 copies no majority agrees"), "{unknown}");
        // Keys before the last one that was judged were compared: it has them as the master does.
        for other in &mut early.judged {
            other.key.insert(0, 'z');
        }
        let known = third(early.clone());
        assert!(!known.contains("no majority agrees"), "{known}");
        early.cut_short = true;
        assert!(third(early).contains("no majority agrees"));
    }

    #[test]
    fn where_no_majority_agrees_nobody_can_tell() {
        let two = vec![Ok(differing(2))];
        let one_away = vec![Err("away".to_owned()), Ok(differing(2))];
        // Two of four copies against two, and three of which each is another one.
        let even = vec![Ok(differing(1)), Ok(differing(1)), Ok(Differing::default())];
        let all = vec![Ok(differing(1)), Ok(as_of("2", 1))];
        for (outcomes, copies) in [(two, 2), (one_away, 2), (even, 4), (all, 3)] {
            let told = told(&outcomes);
            let which = format!("of {copies} copies no majority agrees, so nobody can tell which");
            assert!(told.contains(&which) && !told.contains("node n1:"), "{told}");
            let role =
                "If the master's are: `gnt cluster master-failover` on a node where they are";
            assert!(told.contains(role), "{told}");
        }
        assert_eq!(told(&[Ok(Differing::default())]), "");
        // Two others that agree with the master tell of one that does not.
        let one = told(&[Ok(Differing::default()), Ok(as_of("2", 1))]);
        assert!(one.contains("ERROR: node n3") && !one.contains("nobody can tell"), "{one}");
    }

    #[test]
    fn alone_there_is_nothing_to_compare() {
        assert!(note(&[]).unwrap().contains("nothing to compare"));
        let outcome = Ok(Differing::default());
        let one = Compared { node: name("n2"), outcome, is_refused: false };
        assert_eq!((note(std::slice::from_ref(&one)), check(&name("n1"), &[one])), (None, vec![]));
    }

    #[test]
    fn a_page_reaches_as_far_as_both_lists() {
        let own = list(&[("a", "1"), ("c", "1")], false);
        let theirs = list(&[("a", "2"), ("b", "1"), ("d", "1")], true);
        let found = page(&own, &theirs);
        // Of `c` is known that it is missing there, of `d` nothing.
        let other = |key: &str, difference, theirs: Option<&str>| Other {
            key: key.to_owned(),
            difference,
            theirs: theirs.map(str::to_owned),
        };
        let expected = [
            other("a", Difference::Content, Some("2")),
            other("b", Difference::OnlySecond, Some("1")),
            other("c", Difference::OnlyFirst, None),
        ];
        assert_eq!((found.first.as_slice(), found.total), (&expected[..], 3));
        assert_eq!(found.next.as_deref(), Some("c"));
    }

    proptest! {
        #[test]
        fn pages_together_find_what_the_whole_does(
            own in proptest::collection::btree_map("[a-e]{1,2}", "[01]", 0..12),
            theirs in proptest::collection::btree_map("[a-e]{1,2}", "[01]", 0..12),
            size in 1..4_usize,
        ) {
            let cut = |all: &BTreeMap<String, String>, after: Option<&String>| {
                let rest = all.iter().filter(|(name, _)| after.is_none_or(|after| *name > after));
                let rest: Vec<_> = rest.map(|(k, v)| (k.clone(), v.clone())).collect();
                let complete = rest.len() <= size;
                PeerDigest { digests: rest.into_iter().take(size).collect(), complete }
            };
            let (mut total, mut after) = (0, None);
            loop {
                let found = page(&cut(&own, after.as_ref()), &cut(&theirs, after.as_ref()));
                total += found.total;
                prop_assert!(found.next.is_none() || found.next > after);
                after = found.next;
                if after.is_none() {
                    break;
                }
            }
            prop_assert_eq!(total, differences(&own, &theirs, 0).total);
        }
    }
}
