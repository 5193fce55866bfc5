//! Open vSwitch by its database (RFC 7047), over a Unix socket, TCP or TLS.
//!
//! `connection` asks and listens, `splitter` cuts messages, `rows` says how ports stand in tables, `tls`
//! who is believed.
//!
//! Changes of many ports are one transaction. It says for each port what it must be like, so that it does
//! nothing where anything differs. The switch has a change when `cur_cfg` says so, which its daemon sets,
//! and when the row that the database tells is the one that is wanted.

mod connection;
mod rows;
mod splitter;
mod tls;

use std::time::Duration;

use model::Word;
use model::switch::{Actuals, OvsdbAt, PortChange, PortOutcome, SwitchTarget};
use serde_json::{Value, json};

use crate::SwitchError;
use crate::error::told;
use crate::provider::Provider;
use connection::Connection;

/// How long the switch's daemon may take until a change is in effect; a busy one takes a second.
const IN_EFFECT: Duration = Duration::from_secs(15);
/// How often a transaction is made anew that somebody else's came before.
const ROUNDS_MAX: u32 = 4;

/// An Open vSwitch.
pub(crate) struct Ovsdb {
    at: OvsdbAt,
    bridge: Word,
    target: SwitchTarget,
    connection: Option<Connection>,
}

/// The outcome of a transaction.
enum Committed {
    /// It is in the database, under this number of configuration.
    As(i64),
    /// A row was not as it was to be; nothing is done.
    Outrun,
    /// The database does not take it.
    Refused(String),
}

impl Ovsdb {
    pub(crate) fn new(at: OvsdbAt, bridge: Word, target: &SwitchTarget) -> Self {
        Self { at, bridge, target: target.clone(), connection: None }
    }

    fn open(&mut self) -> Result<&mut Connection, SwitchError> {
        let at = self.target.url.to_string();
        let lost = || SwitchError::Unreached { at, why: "there is no connection".to_owned() };
        self.connection.as_mut().ok_or_else(lost)
    }

    fn no_bridge(&self) -> SwitchError {
        let at = self.target.url.to_string();
        SwitchError::Other { at, why: format!("has no bridge {}", self.bridge) }
    }

    /// The outcome of a change without a transaction, where it has one.
    fn settled(&mut self, change: &PortChange) -> Result<Option<PortOutcome>, SwitchError> {
        let bridge = self.bridge.clone();
        let missing = self.no_bridge();
        let connection = self.open()?;
        let ports = connection.replica.ports(bridge.as_str()).ok_or(missing)?;
        let refused = |text: String| Ok(Some(PortOutcome::Refused(text)));
        let PortChange { port: name, wanted, if_current, .. } = change;
        let Some(port) = ports.get(name.as_str()) else {
            return refused(format!("bridge {bridge} has no port {name}"));
        };
        let actual = port.actual();
        if actual.is(wanted) {
            let (next, current) = connection.replica.configurations().unwrap_or_default();
            return Ok((current >= next).then_some(PortOutcome::Applied));
        }
        if if_current.as_ref().is_some_and(|expected| *expected != actual) {
            return Ok(Some(PortOutcome::Differs(actual)));
        }
        if !wanted.acl.is_empty() {
            return refused(format!("{name}: the provider ovsdb has no ACL rules"));
        }
        if wanted.disabled && !port.can_be_disabled() {
            return refused(format!(
                "{name}: this version of Open vSwitch has no protected ports, so that none can be disabled"
            ));
        }
        if wanted.mtu.is_some() && !port.has_interface() {
            return refused(format!(
                "{name} has several interfaces, of which none has an MTU alone"
            ));
        }
        if !wanted.disabled && wanted.vlans().is_empty() {
            return refused(format!("{name}: without a VLAN it would carry all of them"));
        }
        Ok(None)
    }

    /// Makes changes that all are to be made, in one transaction.
    async fn commit(&mut self, changes: &[&PortChange]) -> Result<Committed, SwitchError> {
        let bridge = self.bridge.clone();
        let missing = self.no_bridge();
        let connection = self.open()?;
        let ports = connection.replica.ports(bridge.as_str()).ok_or(missing)?;
        let mut transaction = vec![json!("Open_vSwitch")];
        for change in changes {
            let Some(port) = ports.get(change.port.as_str()) else { return Ok(Committed::Outrun) };
            transaction.extend(port.operations(&change.wanted));
        }
        transaction.extend([
            json!({"op": "mutate", "table": "Open_vSwitch", "where": [],
                "mutations": [["next_cfg", "+=", 1]]}),
            json!({"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["next_cfg"]}),
            json!({"op": "comment", "comment": "gantry: ports"}),
        ]);
        let asked = transaction.len() - 1;
        let answer = connection.call("transact", Value::Array(transaction)).await?;
        let results = answer.as_array().map(Vec::as_slice).unwrap_or_default();
        let failed = results.iter().find_map(|result| result.get("error")?.as_str());
        if failed == Some("timed out") {
            // The answer to this comes behind the rows that were changed before.
            connection.call("echo", json!([])).await?;
            return Ok(Committed::Outrun);
        }
        if let Some(error) = failed {
            let details = results.iter().find_map(|result| result.get("details")?.as_str());
            let text = format!("the database says {error}: {}", details.unwrap_or_default());
            return Ok(Committed::Refused(told(&text)));
        }
        let number = results
            .iter()
            .find_map(|result| result.pointer("/rows/0/next_cfg").and_then(Value::as_i64));
        match number.filter(|_| results.len() == asked) {
            Some(number) => Ok(Committed::As(number)),
            None => {
                let at = self.target.url.to_string();
                Err(SwitchError::protocol(&at, "its answer to a transaction is none"))
            }
        }
    }

    /// Waits until the switch has a configuration, and reads the ports back.
    async fn in_effect(
        &mut self,
        number: i64,
        changes: &[&PortChange],
    ) -> Result<Vec<PortOutcome>, SwitchError> {
        let bridge = self.bridge.clone();
        let connection = self.open()?;
        let is_there = |replica: &rows::Replica| {
            replica.configurations().is_some_and(|(_, current)| current >= number)
        };
        let is_there = connection.told_within(IN_EFFECT, is_there).await?;
        let actuals = connection.replica.actuals(bridge.as_str()).unwrap_or_default();
        let outcome = |change: &&PortChange| match actuals.get(&change.port) {
            Some(actual) if actual.is(&change.wanted) && is_there => PortOutcome::Applied,
            Some(actual) if actual.is(&change.wanted) => PortOutcome::Refused(format!(
                "the database has it, but the switch did not do it within {} s: does ovs-vswitchd run?",
                IN_EFFECT.as_secs()
            )),
            Some(actual) => PortOutcome::Differs(actual.clone()),
            None => PortOutcome::Refused(format!("bridge {bridge} has no port {}", change.port)),
        };
        Ok(changes.iter().map(outcome).collect())
    }
}

impl Provider for Ovsdb {
    async fn connect(&mut self) -> Result<(), SwitchError> {
        self.connection = None;
        self.connection = Some(Connection::open(&self.at, &self.target).await?);
        Ok(())
    }

    async fn ports(&mut self) -> Result<Actuals, SwitchError> {
        let (bridge, missing) = (self.bridge.clone(), self.no_bridge());
        self.open()?.replica.actuals(bridge.as_str()).ok_or(missing)
    }

    async fn apply(&mut self, changes: &[PortChange]) -> Result<Vec<PortOutcome>, SwitchError> {
        let mut outcomes: Vec<Option<PortOutcome>> = vec![None; changes.len()];
        for _round in 0..ROUNDS_MAX {
            for (change, outcome) in changes.iter().zip(&mut outcomes) {
                if outcome.is_none() {
                    *outcome = self.settled(change)?;
                }
            }
            let open: Vec<usize> = (0..changes.len()).filter(|n| outcomes[*n].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let left: Vec<&PortChange> = open.iter().map(|n| &changes[*n]).collect();
            let made = match self.commit(&left).await? {
                Committed::Outrun => continue,
                Committed::Refused(text) => vec![PortOutcome::Refused(text); left.len()],
                Committed::As(number) => self.in_effect(number, &left).await?,
            };
            for (place, outcome) in open.into_iter().zip(made) {
                outcomes[place] = Some(outcome);
            }
            break;
        }
        let outrun = || {
            let text = format!("somebody else changed the ports {ROUNDS_MAX} times meanwhile");
            PortOutcome::Refused(text)
        };
        Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(outrun)).collect())
    }

    async fn changed(&mut self) -> Result<(), SwitchError> {
        self.open()?.updated().await
    }
}
