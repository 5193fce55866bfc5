//! A model of who is master: every order of events within bounds, and every rule shown to be needed.
//!
//! `world` is what a state holds, `steps` what can happen, `ask` how the model asks the real cores,
//! `explore` visits every state. Bounds and results are told in `docs/replication.md`.

use super::confirm::Attempt;

mod ask;
mod explore;
mod seats;
mod steps;
mod world;

use ask::{epoch_of, name};
use explore::explore;
use world::{Bounds, Kind, NODES, Node, World, members};

/// A rule that a test switches off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// The vote check, and with it the second look.
    VoteCheck,
    /// The second look, as elected leader, at who is to be master.
    LookAgain,
    /// A leader is master only once its role entry is committed.
    RoleEntryFirst,
    /// Agents refuse lower epochs, and never run calls of two together.
    Fencing,
    /// A master that does not hear a majority starts nothing.
    CutOff,
    /// A voter that starts again waits as long as it would keep to a leader.
    WaitAfterRestart,
    /// Another store than the one that was invited neither votes nor acknowledges.
    Incarnation,
    /// An acknowledged entry was flushed.
    FlushFirst,
    /// The policy says how voters change.
    Policy,
    /// A change of the voters is committed before the next one begins.
    OneChange,
    /// Two voters keep their votes while a third one gets its copy.
    WaitsForCopies,
    /// An override takes a term far above any that was seen.
    TermJump,
    /// An override leaves a gap in the ids of jobs.
    IdJump,
    /// An override says what it cuts.
    SaysWhatIsCut,
}

/// The model with its bounds, and the rule that does not hold in it.
struct Leadership {
    bounds: Bounds,
    without: Option<Rule>,
    /// The only property to look at.
    only: Option<&'static str>,
    asked: ask::Asking,
    policy: seats::Policy,
}

impl Leadership {
    fn new(bounds: Bounds) -> Self {
        let (asked, policy) = (ask::Asking::default(), seats::Policy::default());
        Self { bounds, without: None, only: None, asked, policy }
    }

    fn off(&self, rule: Rule) -> bool {
        self.without == Some(rule)
    }

    /// Looks at one property, or at all of them.
    fn broken_property(&self, world: &World) -> Option<&'static str> {
        let masters = (0..NODES).filter(|&node| self.is_master(node, world));
        let masters = masters.fold(0, |set, node| set | 1 << node);
        let looked_at = |name: &str| self.only.is_none_or(|only| only == name);
        let broken = PROPERTIES
            .iter()
            .find(|(name, is_broken)| looked_at(name) && is_broken(self, masters, world));
        broken.map(|(name, _)| *name)
    }
}

/// Whether a property is broken in a state with this set of masters.
type IsBroken = fn(&Leadership, u8, &World) -> bool;

const ONE_IN_AN_EPOCH: &str = "one master in a term";
const ONE_ACTS: &str = "one master acts at a time";
const NOT_UNDONE: &str = "no acknowledged batch is undone, unless an override says so";
const OVERRIDE_ABOVE: &str = "an override is above all other leaderships";
const NOT_MOVED: &str = "a start does not move the role";
const ONE_CALLS: &str = "no agent runs calls of two epochs";
const KNOWN_OBEYED: &str = "agents obey nobody whom no store knows";
const ID_ONCE: &str = "an id is given once";
const TWO_DISKS: &str = "three candidates have what is acknowledged on two disks";

const PROPERTIES: [(&str, IsBroken); 9] = [
    (ONE_IN_AN_EPOCH, |_, masters, world| {
        let same = |a: usize, b: usize| a != b && world.nodes[a].term == world.nodes[b].term;
        members(masters).any(|a| members(masters).any(|b| same(a, b)))
    }),
    (ONE_ACTS, |leadership, masters, world| {
        // An override does not wait for a master that is out of sight: it says that it may lose.
        let acting = members(masters).filter(|&node| leadership.acts(node, world));
        world.overridden.is_none() && acting.count() > 1
    }),
    (NOT_UNDONE, |_, masters, world| members(masters).any(|node| undoes(node, world))),
    (OVERRIDE_ABOVE, |_, masters, world| {
        members(masters).any(|node| knows_no_override(node, world))
    }),
    (NOT_MOVED, |_, masters, world| members(masters).any(|node| moved_by_a_start(node, world))),
    (ONE_CALLS, |_, _, world| world.nodes.iter().any(runs_two)),
    (KNOWN_OBEYED, |_, _, world| {
        let roles = world.nodes.iter().filter_map(|node| node.log.role());
        let newest = roles.map(world::Entry::epoch).max().unwrap_or_default();
        world.nodes.iter().any(|node| node.obeys > newest)
    }),
    (ID_ONCE, |_, _, world| {
        let told = || world.acknowledged.iter().flatten();
        told().any(|a| told().any(|b| a.1.kind == b.1.kind && a != b))
    }),
    (TWO_DISKS, |_, _, world| world.on_one_disk && !world.left.roles && world.overridden.is_none()),
];

fn runs_two(node: &Node) -> bool {
    let mut epochs = node.running.iter().flatten();
    epochs.next().is_some_and(|first| epochs.any(|other| other != first))
}

/// A later master lacks what was acknowledged, and no override has said so.
fn undoes(node: usize, world: &World) -> bool {
    let member = &world.nodes[node];
    let epoch = epoch_of(node, member.term);
    world.acknowledged.iter().flatten().any(|(index, entry)| {
        let is_later = epoch > entry.epoch();
        let is_told = world
            .overridden
            .is_some_and(|(at, says_so)| says_so && epoch >= at && entry.epoch() < at);
        is_later && !is_told && member.log.get(*index) != Some(*entry)
    })
}

/// A master of a later epoch than the override's does not have its cut.
fn knows_no_override(node: usize, world: &World) -> bool {
    let member = &world.nodes[node];
    let cut = || member.log.iter().any(|entry| matches!(entry.kind, Kind::Cut(_)));
    world.overridden.is_some_and(|(at, _)| epoch_of(node, member.term) > at && !cut())
}

/// A leadership began by a mere start, after another node's.
fn moved_by_a_start(node: usize, world: &World) -> bool {
    let mut before = None;
    world.nodes[node].log.iter().any(|entry| match entry.kind {
        Kind::Role { start } => {
            let other = before.replace(entry.leader).is_some_and(|before| before != entry.leader);
            start && other
        }
        Kind::Batch(_) | Kind::Voters(_) | Kind::Cut(_) | Kind::Admitted(_) => false,
    })
}

/// The most states of one scenario; see `docs/replication.md`.
const STATES_MAX: usize = 8_000_000;

/// The bounds of most scenarios.
const LEADERSHIPS: Bounds = Bounds {
    elections: 2,
    batches: 2,
    crashes: 1,
    emptied: 0,
    changes: 0,
    calls: 0,
    overrides: 0,
    apart: false,
    roles: false,
};
/// More batches than the others, and no crash.
const BATCHES: Bounds = Bounds { elections: 2, batches: 3, crashes: 0, ..LEADERSHIPS };
/// Three leads, three batches and a change of the voters in one history.
const TOGETHER: Bounds = Bounds { changes: 1, roles: true, ..BATCHES };
/// Anything may happen between check and election.
const STARTS: Bounds = Bounds { batches: 0, crashes: 0, apart: true, ..LEADERSHIPS };
/// The voters change.
const VOTERS: Bounds = Bounds { elections: 1, changes: 2, crashes: 0, roles: true, ..LEADERSHIPS };
/// A member loses its disk, and gets a seat again.
const SEATS: Bounds =
    Bounds { elections: 1, batches: 1, changes: 3, crashes: 0, emptied: 1, ..LEADERSHIPS };
/// A disk that is emptied.
const DISKS: Bounds = Bounds { batches: 1, crashes: 0, emptied: 1, ..LEADERSHIPS };
/// Calls to agents.
const CALLS: Bounds = Bounds { batches: 0, calls: 2, ..LEADERSHIPS };
/// An override.
const OVERRIDE: Bounds = Bounds { elections: 1, crashes: 0, overrides: 1, ..LEADERSHIPS };

/// The bounds of a long run, which take minutes, or those of a usual one.
fn by_effort(usual: Bounds, long: Bounds) -> Bounds {
    if std::env::var_os("GANTRY_TEST_LONG").is_some() { long } else { usual }
}

fn holds(name: &str, bounds: Bounds) {
    let begun = std::time::Instant::now();
    let explored = explore(&Leadership::new(bounds), STATES_MAX);
    println!("{name}: {} states in {:?}", explored.states, begun.elapsed());
    assert!(explored.broken.is_none(), "{name}: {:#?}", explored.broken);
}

/// Without the rule, the property breaks.
fn is_needed(rule: Rule, bounds: Bounds, property: &'static str) {
    let (without, only) = (Some(rule), Some(property));
    let explored = explore(&Leadership { without, only, ..Leadership::new(bounds) }, STATES_MAX);
    let (broken, way) = explored.broken.expect("without the rule something breaks");
    println!("without {rule:?}, after {} states: {broken}: {way:?}", explored.states);
}

#[test]
fn reigns_follow_one_another() {
    holds("leaderships", LEADERSHIPS);
}

#[test]
fn batches_outlive_their_reign() {
    holds("batches", BATCHES);
}

#[test]
fn batches_outlive_two_reigns_and_a_change_of_the_voters() {
    holds("together", by_effort(Bounds { batches: 2, ..TOGETHER }, TOGETHER));
}

#[test]
fn batches_outlive_a_crash_among_all_that() {
    let long = Bounds { crashes: 1, ..TOGETHER };
    holds("together, with a crash", by_effort(Bounds { batches: 1, ..long }, long));
}

#[test]
fn something_happens_between_check_and_election() {
    holds("starts", STARTS);
}

#[test]
fn voters_change_under_a_reign() {
    holds("voters", VOTERS);
}

#[test]
fn who_lost_its_disk_gets_a_seat_again() {
    holds("seats", SEATS);
}

#[test]
fn a_disk_is_emptied() {
    holds("disks", DISKS);
}

#[test]
fn calls_of_two_masters_are_on_their_way() {
    holds("calls", CALLS);
}

#[test]
fn calls_are_on_their_way_among_all_that() {
    let long = Bounds { batches: 3, calls: 2, changes: 1, crashes: 0, ..LEADERSHIPS };
    holds("calls, together", by_effort(Bounds { batches: 1, ..long }, long));
}

#[test]
fn calls_and_a_crash_among_all_that() {
    let long = Bounds { changes: 1, roles: true, ..CALLS };
    holds("calls, with a crash", by_effort(Bounds { calls: 1, ..long }, long));
}

#[test]
fn one_node_overrides_the_others() {
    holds("override", OVERRIDE);
}

#[test]
fn without_the_vote_check_a_start_moves_the_role() {
    is_needed(Rule::VoteCheck, STARTS, NOT_MOVED);
}

#[test]
fn without_a_second_look_a_start_moves_the_role() {
    is_needed(Rule::LookAgain, STARTS, NOT_MOVED);
}

#[test]
fn without_the_role_entry_agents_obey_who_never_was_master() {
    is_needed(Rule::RoleEntryFirst, CALLS, KNOWN_OBEYED);
}

#[test]
fn without_fencing_an_agent_runs_calls_of_two_masters() {
    is_needed(Rule::Fencing, CALLS, ONE_CALLS);
}

#[test]
fn without_the_cut_off_two_masters_act() {
    is_needed(Rule::CutOff, LEADERSHIPS, ONE_ACTS);
}

#[test]
fn without_a_wait_after_a_restart_two_masters_act() {
    is_needed(Rule::WaitAfterRestart, LEADERSHIPS, ONE_ACTS);
}

#[test]
fn without_incarnations_an_emptied_disk_undoes_a_batch() {
    is_needed(Rule::Incarnation, DISKS, NOT_UNDONE);
}

#[test]
fn without_a_flush_a_crash_undoes_a_batch() {
    is_needed(Rule::FlushFirst, LEADERSHIPS, NOT_UNDONE);
}

#[test]
fn without_the_policy_voters_change_so_that_a_batch_is_undone() {
    is_needed(Rule::Policy, VOTERS, NOT_UNDONE);
}

#[test]
fn without_one_change_at_a_time_a_batch_is_undone() {
    is_needed(Rule::OneChange, VOTERS, NOT_UNDONE);
}

#[test]
fn without_a_wait_for_copies_a_batch_is_on_one_disk() {
    is_needed(Rule::WaitsForCopies, SEATS, TWO_DISKS);
}

#[test]
fn without_the_jump_of_the_term_an_override_is_overtaken() {
    is_needed(Rule::TermJump, OVERRIDE, OVERRIDE_ABOVE);
}

#[test]
fn without_the_jump_of_ids_an_id_is_given_twice() {
    is_needed(Rule::IdJump, OVERRIDE, ID_ONCE);
}

#[test]
fn an_override_that_says_nothing_undoes_a_batch() {
    is_needed(Rule::SaysWhatIsCut, OVERRIDE, NOT_UNDONE);
}
