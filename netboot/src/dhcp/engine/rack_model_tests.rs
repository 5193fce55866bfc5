//! Random lives of a rack with two or three agents. They die and return, their parts of the range move,
//! and their messages to each other are late or lost. Whatever happens, an address has one holder.

use proptest::prelude::*;

mod agents;
mod clients;

use agents::{Rack, Word};

const CLIENTS: usize = 7;
const SECOND: i64 = 1_000_000;
/// How long a packet and its answer take.
const PACKET: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;

/// The agents that a client's broadcasts reach: one bit for each.
type Reach = u8;

#[derive(Debug, Clone)]
enum Step {
    /// DISCOVER, and REQUEST of the first offer.
    Boot {
        client: usize,
        reach: Reach,
    },
    /// It asks for its last address, whether it gave that back or not.
    Reboot {
        client: usize,
        reach: Reach,
    },
    /// It asks the agent that it knows.
    Renew {
        client: usize,
    },
    Rebind {
        client: usize,
        reach: Reach,
    },
    /// It tells the agent that it knows, which may not hear it.
    Release {
        client: usize,
        arrives: bool,
    },
    Decline {
        client: usize,
    },
    /// An agent asks another one, which answers, or the answer arrives, or is lost.
    Tell {
        asking: usize,
        telling: usize,
        word: Word,
    },
    Die {
        agent: usize,
    },
    Return {
        agent: usize,
    },
    /// The master sends the document to these agents, those of `offline` being marked so if they are dead.
    Push {
        reach: Reach,
        offline: Reach,
    },
    Wait {
        seconds: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (client, agent, reach) = (0..CLIENTS, 0..3_usize, 1..8_u8);
    let both = (client.clone(), reach.clone());
    let word = prop_oneof![
        4 => Just(Word::AllAtOnce), 2 => Just(Word::Asks), 2 => Just(Word::Answers),
        2 => Just(Word::Arrives), 1 => Just(Word::IsLost),
    ];
    let seconds = prop_oneof![3 => 1..90_i64, 2 => 90..4_000_i64];
    prop_oneof![
        6 => both.clone().prop_map(|(client, reach)| Step::Boot { client, reach }),
        2 => both.clone().prop_map(|(client, reach)| Step::Reboot { client, reach }),
        2 => client.clone().prop_map(|client| Step::Renew { client }),
        3 => both.prop_map(|(client, reach)| Step::Rebind { client, reach }),
        4 => (client.clone(), prop::bool::weighted(0.8))
            .prop_map(|(client, arrives)| Step::Release { client, arrives }),
        1 => client.prop_map(|client| Step::Decline { client }),
        9 => (agent.clone(), agent.clone(), word)
            .prop_map(|(asking, telling, word)| Step::Tell { asking, telling, word }),
        2 => agent.clone().prop_map(|agent| Step::Die { agent }),
        3 => agent.prop_map(|agent| Step::Return { agent }),
        1 => (reach.clone(), reach).prop_map(|(reach, offline)| Step::Push { reach, offline }),
        4 => seconds.prop_map(|seconds| Step::Wait { seconds }),
    ]
}

impl Rack {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Boot { client, reach } => self.boots(client, reach),
            Step::Reboot { client, reach } => self.reboots(client, reach),
            Step::Renew { client } => self.renews(client),
            Step::Rebind { client, reach } => self.rebinds(client, reach),
            Step::Release { client, arrives } => self.releases(client, arrives),
            Step::Decline { client } => self.declines(client),
            Step::Tell { asking, telling, word } => self.tells(asking, telling, word),
            Step::Die { agent } => self.dies(agent),
            Step::Return { agent } => self.returns(agent),
            Step::Push { reach, offline } => self.pushes(reach, offline),
            Step::Wait { seconds } => self.waits(seconds),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// Also with clocks that differ, and behind relays, where no host is asked for its address. There
    /// agents that live hear each other once in half a day.
    #[test]
    fn an_address_has_one_holder_whatever_befalls_agents(
        count in 2..4_usize,
        relays_only in any::<bool>(),
        skews in prop::array::uniform3(-25..25_i64),
        steps in prop::collection::vec(step(), 1..160),
    ) {
        let mut rack = Rack::new(count, relays_only, skews.map(|seconds| seconds * SECOND));
        for step in &steps {
            rack.step(step);
        }
        rack.comes_to_rest();
    }
}

/// A fault that was seen: the client released at one agent while the other was dead, and its address
/// went to another client. Then it booted at the agent that had come back.
#[test]
fn an_agent_that_was_away_does_not_offer_what_was_given_back_meanwhile() {
    for relays_only in [false, true] {
        let mut rack = Rack::new(2, relays_only, [0; 3]);
        rack.only_one_address();
        rack.boots(0, 0b11);
        rack.tells(1, 0, Word::AllAtOnce);
        rack.dies(1);
        rack.releases(0, true);
        rack.boots(1, 0b11);
        assert!(rack.holds(1), "it was given back");
        rack.returns(1);
        rack.boots(0, 0b11);
        rack.boots(0, 0b10);
        rack.reboots(0, 0b10);
        assert!(rack.holds(1) && !rack.holds(0));
        rack.tells(1, 0, Word::AllAtOnce);
        rack.tells(0, 1, Word::AllAtOnce);
        rack.boots(0, 0b11);
        rack.renews(1);
        assert!(rack.holds(1) && !rack.holds(0));
    }
}

/// The other agent renewed a lease again and again, and is not heard when the giver is back.
#[test]
fn an_agent_that_was_away_does_not_give_what_was_renewed_meanwhile() {
    for relays_only in [false, true] {
        let mut rack = Rack::new(2, relays_only, [0; 3]);
        rack.only_one_address();
        rack.boots(0, 0b11);
        rack.tells(1, 0, Word::AllAtOnce);
        rack.dies(0);
        for _ in 0..30 {
            rack.waits(3_500);
            rack.rebinds(0, 0b11);
        }
        rack.returns(0);
        rack.now += 3_000 * SECOND;
        rack.boots(1, 0b11);
        assert!(rack.holds(0) && !rack.holds(1));
        if !relays_only {
            // The host answered for its address.
            continue;
        }
        rack.now += 620 * SECOND;
        rack.tells(0, 1, Word::AllAtOnce);
        rack.waits(60);
        rack.boots(1, 0b11);
        assert!(!rack.holds(1), "it was not heard since a minute after the end");
        rack.tells(0, 1, Word::AllAtOnce);
        rack.boots(1, 0b11);
        assert!(rack.holds(1) && !rack.holds(0));
    }
}

/// An agent renewed a lease, died and was marked offline before the giver heard of it.
#[test]
fn what_an_agent_renewed_that_left_the_rack_is_not_given_meanwhile() {
    let mut rack = Rack::new(2, true, [0; 3]);
    rack.only_one_address();
    rack.boots(0, 0b01);
    rack.tells(1, 0, Word::AllAtOnce);
    rack.waits(365);
    rack.rebinds(0, 0b10);
    rack.waits(3_235);
    rack.dies(1);
    rack.pushes(0b01, 0b10);
    rack.boots(1, 0b01);
    assert!(rack.holds(0) && !rack.holds(1), "another agent renewed its lease");
    rack.waits(3_700);
    rack.boots(1, 0b01);
    assert!(rack.holds(1), "no lease of the agent that left lives any more");
}

/// The giver offered an address again to its client, which took another agent's.
#[test]
fn an_offer_that_nobody_took_is_no_reason_to_forget_a_lease() {
    let mut rack = Rack::new(3, true, [0; 3]);
    rack.boots(0, 0b100);
    rack.waits(1_371);
    rack.tells(0, 2, Word::AllAtOnce);
    rack.rebinds(0, 0b001);
    rack.waits(2_229);
    rack.boots(0, 0b101);
    rack.boots(1, 0b100);
    rack.comes_to_rest();
}
