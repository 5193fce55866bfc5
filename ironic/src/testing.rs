//! Some machines, for tests.

use model::power_cycle::{ExpectedRamdisk, Ramdisk, RamdiskToken};
use model::rack::Observation;
use model::{MacAddress, Serial, Timestamp, Uuid};
use serde_json::Value;

use crate::{Answer, Effect, Machines, Node, Origin, Outcome, Request, answer, read};

pub(crate) const TOKEN: &str = "dG9rZW4tb2YtczE";
pub(crate) const BASE: &str = "http://10.69.0.3:10080";
pub(crate) const UUID: &str = "00000000-0000-4000-8000-000000000001";
pub(crate) const OTHER_UUID: &str = "00000000-0000-4000-8000-000000000002";
pub(crate) const MAC: &str = "52:54:00:00:00:01";
pub(crate) const OTHER_MAC: &str = "52:54:00:00:00:02";

/// S1 and S2 expect a ramdisk; S3 has the card `:03` and expects none.
pub(crate) struct World {
    pub(crate) nodes: Vec<(Node, Vec<MacAddress>)>,
    /// The owner of the address from which requests about this machine come.
    pub(crate) origin: Option<(&'static str, Origin)>,
    /// Whether the next lookup was claimed with other servers.
    pub(crate) claims: bool,
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

impl World {
    pub(crate) fn new() -> Self {
        let node = |number: u128, ramdisk| {
            let node = Node {
                rack: 0,
                serial: format!("S{number}").parse().unwrap(),
                uuid: Uuid::from_u128(0x4000_8000_0000_0000_0000 + number),
                registered: Some(at(1)),
                cycle: 7,
                ramdisk,
            };
            (node, vec![format!("52:54:00:00:00:0{number}").parse().unwrap()])
        };
        let expected = |token: &str| {
            let token = RamdiskToken::new(token.to_owned());
            Some(ExpectedRamdisk { token, boots: true, enrols: None, heard: Ramdisk::default() })
        };
        let nodes = vec![node(1, expected(TOKEN)), node(2, expected("b3RoZXI")), node(3, None)];
        Self { nodes, origin: None, claims: false }
    }

    /// The token of S1 in this boot.
    pub(crate) fn token(&self, booted: Option<Timestamp>) -> String {
        let expected = self.nodes[0].0.ramdisk.as_ref().unwrap();
        expected.token.of_boot(booted).expose().to_owned()
    }

    /// S1 boots.
    pub(crate) fn boots(&mut self, at: Timestamp) {
        self.nodes[0].0.ramdisk.as_mut().unwrap().heard.booted = Some(at);
    }

    /// Asks, and keeps what is heard.
    pub(crate) fn ask(&mut self, request: Request<'_>, seconds: i64) -> Outcome {
        let request = Request { base: BASE, ..request };
        let asked = match read(&request) {
            Ok(asked) => asked,
            Err(answer) => return Outcome::plain(*answer),
        };
        let outcome = answer(&asked, self, at(seconds));
        if let Effect::Heard { observation, .. } = &outcome.effect
            && let Observation::Ramdisk { serial, heard, .. } = &**observation
        {
            let node = self.nodes.iter_mut().find(|(node, _)| node.serial == *serial).unwrap();
            node.0.ramdisk.as_mut().unwrap().heard = heard.clone();
        }
        outcome
    }

    pub(crate) fn get(&mut self, path: &str, version: &str, seconds: i64) -> Outcome {
        let (path, query) = path.split_once('?').map_or((path, None), |(p, q)| (p, Some(q)));
        let request =
            Request { method: "GET", path, query, version: Some(version), ..Request::default() };
        self.ask(request, seconds)
    }

    pub(crate) fn post(&mut self, path: &str, version: &str, body: &str, seconds: i64) -> Outcome {
        let (path, query) = path.split_once('?').map_or((path, None), |(p, q)| (p, Some(q)));
        let (version, body) = (Some(version).filter(|v| !v.is_empty()), body.as_bytes());
        self.ask(Request { method: "POST", path, query, version, body, base: BASE }, seconds)
    }
}

impl Machines for World {
    fn by_uuid(&self, uuid: Uuid) -> Vec<Node> {
        let nodes = self.nodes.iter().filter(|(node, _)| node.uuid == uuid);
        nodes.map(|(node, _)| node.clone()).collect()
    }

    fn by_macs(&self, macs: &[MacAddress]) -> Vec<Node> {
        let has = |cards: &Vec<MacAddress>| cards.iter().any(|card| macs.contains(card));
        let nodes = self.nodes.iter().filter(|(_, cards)| has(cards));
        nodes.map(|(node, _)| node.clone()).collect()
    }

    fn by_serial(&self, serial: &Serial) -> Vec<Node> {
        let nodes = self.nodes.iter().filter(|(node, _)| node.serial == *serial);
        nodes.map(|(node, _)| node.clone()).collect()
    }

    fn origin(&self, node: &Node) -> Origin {
        let origin = self.origin.filter(|(serial, _)| *serial == node.serial.as_str());
        origin.map_or(Origin::Itself, |(_, origin)| origin)
    }

    fn has_claimed(&self, _node: &Node) -> bool {
        self.claims
    }
}

pub(crate) fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap()
}

/// The text of a refusal.
pub(crate) fn why(answer: &Answer) -> String {
    let body = json(answer);
    let inner: Value = serde_json::from_str(body["error_message"].as_str().unwrap()).unwrap();
    let text = inner.get("faultstring").or_else(|| inner.get("description"));
    text.and_then(Value::as_str).unwrap().to_owned()
}
