//! Two agents of one rack that tell each other of leases, or not.

use proptest::prelude::*;

use super::*;

const LEASE: i64 = 3_600 * 1_000_000;

#[derive(Debug, Clone)]
enum Step {
    /// A client asks one agent for an address, and takes what it is offered.
    Take { agent: usize, client: u8 },
    /// A client renews what it has, at one agent.
    Renew { agent: usize, client: u8 },
    /// One agent hears all that the other one knows.
    Tell { to: usize },
    /// Time passes.
    Wait { minutes: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..2_usize, 1..9_u8).prop_map(|(agent, client)| Step::Take { agent, client }),
        3 => (0..2_usize, 1..9_u8).prop_map(|(agent, client)| Step::Renew { agent, client }),
        2 => (0..2_usize).prop_map(|to| Step::Tell { to }),
        2 => (1..50_i64).prop_map(|minutes| Step::Wait { minutes }),
    ]
}

/// The range as the agent sees it that leases every other address of it.
fn seen_by(agent: usize) -> ServedRange {
    let mut range = sample();
    let all = range.addresses().enumerate();
    range.others = all.filter(|(at, _)| at % 2 != agent).map(|(_, a)| (a, 0)).collect();
    range
}

fn take(leases: &mut Leases, range: &ServedRange, who: &Identity, now: i64) -> Option<LeaseRecord> {
    let address = leases.offer(range, who, None, now)?;
    Some(leases.bind(who, address, now + LEASE))
}

fn renew(
    leases: &mut Leases,
    range: &ServedRange,
    held: &LeaseRecord,
    now: i64,
) -> Option<LeaseRecord> {
    let standing = leases.standing(range, &held.client, held.address, now);
    let is_bound = standing == Standing::Bound;
    is_bound.then(|| leases.bind(&held.client, held.address, now + LEASE))
}

proptest! {
    /// An agent that hears of every renewal before the lease that it knows has ended gives no
    /// address away that a client holds.
    #[test]
    fn no_address_has_two_holders(steps in prop::collection::vec(step(), 1..120)) {
        let ranges = [seen_by(0), seen_by(1)];
        let mut agents = [Leases::default(), Leases::default()];
        let mut held: BTreeMap<u8, LeaseRecord> = BTreeMap::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Take { agent, client: number } => {
                    let (leases, range) = (&mut agents[agent], &ranges[agent]);
                    if let Some(record) = take(leases, range, &client(number), now) {
                        held.insert(number, record);
                    }
                }
                Step::Renew { agent, client: number } => {
                    let (leases, range) = (&mut agents[agent], &ranges[agent]);
                    let renewed = held.get(&number).and_then(|held| renew(leases, range, held, now));
                    if let Some(record) = renewed {
                        held.insert(number, record);
                    }
                }
                Step::Tell { to } => tell(&mut agents, to, now),
                Step::Wait { minutes } => {
                    // What is told within a lease is told in time.
                    for to in [0, 1] {
                        tell(&mut agents, to, now);
                    }
                    now += minutes * MINUTE;
                }
            }
            let live = held.values().filter(|record| record.bound_until_us() > Some(now));
            let mut addresses: Vec<_> = live.map(|record| record.address).collect();
            addresses.sort();
            let count = addresses.len();
            addresses.dedup();
            prop_assert_eq!(addresses.len(), count, "{:?}", held);
        }
    }
}

fn tell(agents: &mut [Leases; 2], to: usize, now: i64) {
    let told: Vec<_> = agents[1 - to].records().collect();
    for record in told {
        let learned = agents[to].learn(record, LEASE, now);
        assert!(!matches!(learned, Learned::Contradicted(_)), "{learned:?}");
    }
}

#[test]
fn the_later_one_of_two_is_right() {
    let mut leases = Leases::default();
    let record = |number, state| LeaseRecord { address: at(33), client: client(number), state };
    let bound = |until_us| LeaseState::Bound { until_us };
    let first = record(1, bound(LEASE));
    assert_eq!(leases.learn(first.clone(), LEASE, 0), Learned::Taken(first.clone()));
    assert_eq!(leases.learn(first, LEASE, 0), Learned::Known);
    let renewed = record(1, bound(LEASE + 9));
    assert_eq!(leases.learn(renewed.clone(), LEASE, 9), Learned::Taken(renewed));
    let another = record(2, bound(LEASE + 20));
    assert_eq!(leases.learn(another.clone(), LEASE, 20), Learned::Contradicted(another.clone()));
    let before = record(1, LeaseState::Released { at_us: 8 });
    assert_eq!(leases.learn(before, LEASE, 30), Learned::Known, "it was renewed since");
    let released = record(1, LeaseState::Released { at_us: 10 });
    assert_eq!(leases.learn(released.clone(), LEASE, 30), Learned::Taken(released));
    assert_eq!(leases.learn(another.clone(), LEASE, 30), Learned::Taken(another));
    // A clock that is ahead does not make a lease last longer.
    let ahead = record(2, bound(9 * LEASE));
    let capped = record(2, bound(LEASE + 40));
    assert_eq!(leases.learn(ahead, LEASE, 40), Learned::Taken(capped));
}
