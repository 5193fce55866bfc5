//! The agents of the model, what they tell each other, and the master that shares the range.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use model::shares::RackShares;
use model::{NodeName, Timestamp};

use super::clients::Clients;
use super::{MINUTE, Reach, SECOND};
use crate::dhcp::config::tests::sample;
use crate::dhcp::config::{OtherPart, ServedRange};
use crate::dhcp::leases::CLOCKS_DIFFER_US;
use crate::dhcp::{Config, Engine, LeaseRecord};

const FIRST: u8 = 32;
/// Behind relays, agents that live hear each other within this time.
const HEARD_WITHIN: i64 = 12 * 60 * MINUTE;

/// How far one question for leases comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Asks,
    Answers,
    Arrives,
    IsLost,
    AllAtOnce,
}

/// A question on its way, or its answer.
#[derive(Debug, Clone)]
struct Question {
    asked_us: i64,
    answer: Option<(u64, usize, Vec<LeaseRecord>)>,
}

/// The progress of one agent in the news of another: the run, and how many of its changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Upto {
    run: u64,
    changes: usize,
}

#[derive(Debug)]
pub(super) struct Agent {
    pub(super) engine: Option<Engine>,
    disk: BTreeMap<Ipv4Addr, LeaseRecord>,
    changes: Vec<LeaseRecord>,
    run: u64,
    document: (RackShares, Vec<NodeName>),
    skew: i64,
}

#[derive(Debug)]
pub(super) struct Rack {
    pub(super) agents: Vec<Agent>,
    pub(super) now: i64,
    pub(super) clients: Clients,
    relays_only: bool,
    last: u8,
    shares: RackShares,
    /// The agents that are not marked offline.
    present: Vec<NodeName>,
    questions: BTreeMap<(usize, usize), Question>,
    told: BTreeMap<(usize, usize), Upto>,
    heard: BTreeMap<(usize, usize), i64>,
}

fn name(agent: usize) -> NodeName {
    format!("n{agent}").parse().unwrap()
}

pub(super) fn address_of(agent: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 69, 0, 3 + u8::try_from(agent).unwrap())
}

impl Rack {
    pub(super) fn new(count: usize, relays_only: bool, skews: [i64; 3]) -> Self {
        let present: Vec<_> = (0..count).map(name).collect();
        let now = 1_000_000 * SECOND;
        let shares = RackShares::new(0).settled(&present, &[], Timestamp::from_micros(now));
        let agent = |skew| {
            let (disk, changes) = Default::default();
            let document = (shares.clone(), present.clone());
            Agent { engine: None, disk, changes, run: 0, document, skew }
        };
        let agents = skews.into_iter().take(count).map(agent).collect();
        let (clients, questions, told, heard) = Default::default();
        let mut rack = Self {
            agents,
            now,
            clients,
            relays_only,
            last: FIRST + 7,
            shares,
            present,
            questions,
            told,
            heard,
        };
        (0..count).for_each(|agent| rack.returns(agent));
        rack
    }

    /// Leaves one address, of the first agent.
    pub(super) fn only_one_address(&mut self) {
        self.last = FIRST;
        (0..self.agents.len()).for_each(|agent| self.configures(agent));
    }

    /// The time by the clock of an agent.
    pub(super) fn clock(&self, agent: usize) -> i64 {
        self.now + self.agents[agent].skew
    }

    /// As the agent's document is compiled.
    fn config(&self, agent: usize) -> Config {
        let (shares, agents) = &self.agents[agent].document;
        let own = name(agent);
        let (mut later, mut others) = (BTreeMap::new(), BTreeMap::new());
        let settled_us =
            shares.parts.iter().map(|part| part.from.micros() + CLOCKS_DIFFER_US).max();
        for (last, part) in (FIRST..=self.last).zip(shares.parts.iter().cycle()) {
            let (address, from_us) = (Ipv4Addr::new(10, 69, 0, last), part.from.micros());
            if part.owner.as_ref() == Some(&own) {
                later.insert(address, from_us + CLOCKS_DIFFER_US);
            } else {
                others.insert(address, OtherPart { agent: part.owner.clone(), from_us });
            }
        }
        let range = ServedRange {
            interface_address: address_of(agent),
            server_id: address_of(agent),
            dns: Vec::new(),
            last: Ipv4Addr::new(10, 69, 0, self.last),
            later,
            others,
            settled_us: settled_us.unwrap(),
            peers: agents.iter().filter(|peer| **peer != own).cloned().collect(),
            relays_only: self.relays_only,
            ..sample()
        };
        Config { ranges: vec![range] }
    }

    fn configures(&mut self, agent: usize) {
        let config = self.config(agent);
        if let Some(engine) = &mut self.agents[agent].engine {
            engine.configure(config).unwrap();
        }
    }

    pub(super) fn keeps(&mut self, agent: usize, record: LeaseRecord) {
        let agent = &mut self.agents[agent];
        agent.changes.push(record.clone());
        agent.disk.insert(record.address, record);
    }

    pub(super) fn dies(&mut self, agent: usize) {
        if let Some(agent) = self.agents.get_mut(agent) {
            agent.engine = None;
        }
        self.questions.retain(|(asking, telling), _| agent != *asking && agent != *telling);
    }

    /// An agent that was marked offline gets the document first.
    pub(super) fn returns(&mut self, agent: usize) {
        if self.agents.get(agent).is_none_or(|agent| agent.engine.is_some()) {
            return;
        }
        if !self.present.contains(&name(agent)) {
            self.present.push(name(agent));
            self.present.sort();
            self.settles(&[]);
            self.agents[agent].document = (self.shares.clone(), self.present.clone());
        }
        let config = self.config(agent);
        let one = &mut self.agents[agent];
        one.engine = Some(Engine::new(config, one.disk.values().cloned()).unwrap());
        (one.changes, one.run) = (one.disk.values().cloned().collect(), one.run + 1);
        self.told.retain(|(asking, _), _| *asking != agent);
    }

    pub(super) fn is_relayed(&self) -> bool {
        self.relays_only
    }

    fn settles(&mut self, took: &[NodeName]) {
        let now = Timestamp::from_micros(self.now);
        self.shares = self.shares.settled(&self.present, took, now);
    }

    pub(super) fn pushes(&mut self, reach: Reach, offline: Reach) {
        let is_in = |agent: usize, bits: Reach| bits & (1 << agent) != 0;
        for agent in 0..self.agents.len() {
            let goes = is_in(agent, offline) && self.agents[agent].engine.is_none();
            if goes && self.present.len() > 1 {
                self.present.retain(|one| *one != name(agent));
            }
        }
        self.settles(&[]);
        let mut took = Vec::new();
        for agent in (0..self.agents.len()).filter(|agent| is_in(*agent, reach)) {
            if self.agents[agent].engine.is_some() {
                self.agents[agent].document = (self.shares.clone(), self.present.clone());
                self.configures(agent);
                took.push(name(agent));
            }
        }
        self.settles(&took);
    }

    pub(super) fn waits(&mut self, seconds: i64) {
        self.now += seconds * SECOND;
        if !self.relays_only {
            return;
        }
        for (asking, telling) in self.pairs() {
            let heard = self.heard.entry((asking, telling)).or_insert(self.now);
            if self.now - *heard > HEARD_WITHIN {
                self.tells(asking, telling, Word::AllAtOnce);
            }
        }
    }

    fn pairs(&self) -> Vec<(usize, usize)> {
        let all = 0..self.agents.len();
        all.clone().flat_map(|one| all.clone().map(move |other| (one, other))).collect()
    }

    /// A question of `asking`: one after the other, as far as `word` says.
    pub(super) fn tells(&mut self, asking: usize, telling: usize, word: Word) {
        let lives =
            |agent: usize| self.agents.get(agent).is_some_and(|agent| agent.engine.is_some());
        if asking == telling || !lives(asking) || !lives(telling) {
            return;
        }
        let pair = (asking, telling);
        match word {
            Word::Asks => {
                let asked_us = self.clock(asking);
                self.questions.entry(pair).or_insert(Question { asked_us, answer: None });
            }
            Word::Answers => self.answers(pair),
            Word::Arrives => self.arrives(pair),
            Word::IsLost => drop(self.questions.remove(&pair)),
            Word::AllAtOnce => {
                self.questions.remove(&pair);
                for word in [Word::Asks, Word::Answers, Word::Arrives] {
                    self.tells(asking, telling, word);
                }
            }
        }
    }

    fn answers(&mut self, pair: (usize, usize)) {
        let Some(question) = self.questions.get_mut(&pair).filter(|one| one.answer.is_none())
        else {
            return;
        };
        let (telling, known) = (&self.agents[pair.1], self.told.get(&pair).copied());
        let known = known.filter(|known| known.run == telling.run).unwrap_or_default();
        let news = telling.changes[known.changes..].iter();
        // The last change of each address.
        let news: BTreeMap<_, _> = news.map(|record| (record.address, record.clone())).collect();
        let news = news.into_values().collect();
        question.answer = Some((telling.run, telling.changes.len(), news));
    }

    fn arrives(&mut self, pair: (usize, usize)) {
        let Some(question) = self.questions.remove(&pair) else { return };
        let Some((run, changes, news)) = question.answer else { return };
        let (asking, telling) = pair;
        let now = self.clock(asking);
        let engine = self.agents[asking].engine.as_mut().unwrap();
        let learned = engine.learn(&name(telling), news, now);
        engine.hear(name(telling), question.asked_us);
        for learned in learned {
            use crate::dhcp::Learned::{Kept, Yielded};
            assert!(!matches!(learned, Kept(_) | Yielded(_)), "two holders: {learned:?}");
            if let Some(record) = learned.taken() {
                self.keeps(asking, record.clone());
            }
        }
        self.told.insert(pair, Upto { run, changes });
        self.heard.insert(pair, self.now);
    }

    /// All agents live and hear each other, and know who holds what. When all leases have ended, every
    /// address can be given.
    pub(super) fn comes_to_rest(&mut self) {
        (0..self.agents.len()).for_each(|agent| self.returns(agent));
        for seconds in [0, 7_200, 7_200] {
            self.pushes(7, 0);
            self.pushes(7, 0);
            self.waits(seconds);
            for (asking, telling) in [self.pairs(), self.pairs()].concat() {
                self.tells(asking, telling, Word::AllAtOnce);
            }
            self.agree();
        }
        self.newcomers_get(usize::from(self.last - FIRST) + 1);
    }

    /// No two agents renew one address for two clients.
    fn agree(&self) {
        let mut clients = BTreeMap::new();
        for record in self.agents.iter().flat_map(|agent| agent.disk.values()) {
            if record.bound_until_us().is_some_and(|until| until > self.now + MINUTE) {
                let other = clients.insert(record.address, &record.client);
                assert!(other.is_none_or(|other| *other == record.client), "{record:?}");
            }
        }
    }
}
