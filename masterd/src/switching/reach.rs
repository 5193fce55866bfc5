//! The way to a switch: the agents that reach it, one after the other.

use std::sync::Arc;

use model::error::ErrorCode;
use model::node::{Node, NodeRole};
use model::switch::change::CarriedSecret;
use model::switch::{Actuals, PortChange, PortOutcome, Switch, SwitchAccess, SwitchTarget};
use model::{Exception, Secret};
use rpc::Call;
use rpc::calls::{SwitchApplied, SwitchApply, SwitchPorts, SwitchSeen, SwitchWatch};

use crate::agents::{Agents, Behalf};
use crate::config::Config;
use crate::config::vault;

/// Why a switch did not answer.
#[derive(Debug, Clone)]
pub(crate) struct NoAnswer {
    pub(crate) why: String,
    /// Whether the same may succeed soon.
    pub(crate) passing: bool,
}

impl NoAnswer {
    /// The same fails again until somebody mends it.
    pub(crate) fn lasting(why: String) -> Self {
        Self { why, passing: false }
    }
}

/// A switch as agents need to know it.
///
/// # Errors
/// Its secret cannot be opened.
pub(crate) fn target(
    config: &Config,
    switch: &Switch,
    access: Option<&SwitchAccess>,
) -> Result<SwitchTarget, Exception> {
    let open = |access: &SwitchAccess| {
        let purpose = SwitchAccess::purpose(&switch.name);
        let opened = vault::open(config, &purpose, &access.sealed);
        let unreadable = |why: String| {
            let text = format!(
                "The secret of switch {} cannot be opened: {why}; set it anew with `gnt switch modify`",
                switch.name
            );
            Exception::prereq(text, ErrorCode::WrongState)
        };
        let secret = opened.map_err(|error| unreadable(error.to_string()))?;
        let secret = String::from_utf8(secret.expose().clone());
        let secret = secret.map_err(|_bytes| unreadable("it is no text".to_owned()))?;
        Ok::<_, Exception>(CarriedSecret(Secret::new(secret)))
    };
    Ok(SwitchTarget {
        name: switch.name.clone(),
        url: switch.url.clone(),
        options: switch.options.clone(),
        user: access.and_then(|access| access.user.clone()),
        secret: access.map(open).transpose()?,
        certificate: access.and_then(|access| access.certificate.clone()),
        authority: access.and_then(|access| access.authority.clone()),
    })
}

/// The nodes whose agents are asked for a switch, the first one first.
pub(crate) fn nodes(config: &Config, switch: &Switch) -> Vec<Arc<Node>> {
    let named = switch.agents.iter().filter_map(|name| config.nodes.get(name)).cloned();
    let of_rack = switch.rack.into_iter().flat_map(|rack| config.nodes.by.rack.of(rack)).cloned();
    let mut nodes: Vec<Arc<Node>> = named.collect();
    if nodes.is_empty() {
        nodes = of_rack.collect();
    }
    if nodes.is_empty() {
        nodes = config.nodes.get(&config.role.master).cloned().into_iter().collect();
    }
    nodes.retain(|node| node.role != NodeRole::Offline);
    nodes
}

/// A switch with its agents.
#[derive(Debug, Clone)]
pub(crate) struct Reached {
    target: SwitchTarget,
    nodes: Vec<Arc<Node>>,
}

impl Reached {
    /// # Errors
    /// Its secret cannot be opened.
    pub(crate) fn of(config: &Config, switch: &Switch) -> Result<Self, Exception> {
        let access = config.switch_access.get(&switch.name);
        let target = target(config, switch, access.map(|access| &**access))?;
        Ok(Self { target, nodes: nodes(config, switch) })
    }

    /// The same of a switch that is not in the configuration yet.
    ///
    /// # Errors
    /// Its secret cannot be opened.
    pub(crate) fn with(
        config: &Config,
        switch: &Switch,
        access: Option<&SwitchAccess>,
    ) -> Result<Self, Exception> {
        Ok(Self { target: target(config, switch, access)?, nodes: nodes(config, switch) })
    }

    /// All ports.
    pub(crate) async fn ports(
        &self,
        agents: &Agents,
        behalf: Option<Behalf>,
    ) -> Result<Actuals, NoAnswer> {
        let call = || SwitchPorts { target: self.target.clone() };
        self.ask(agents, behalf, call, seen).await
    }

    /// All ports, once they are not those with this digest, or after a while.
    pub(crate) async fn watch(
        &self,
        agents: &Agents,
        known: Option<String>,
        wait_ms: u32,
    ) -> Result<Actuals, NoAnswer> {
        let target = || self.target.clone();
        let call = || SwitchWatch { target: target(), known: known.clone(), wait_ms };
        self.ask(agents, None, call, seen).await
    }

    /// Changes ports; an outcome for each.
    pub(crate) async fn apply(
        &self,
        agents: &Agents,
        behalf: Option<Behalf>,
        changes: &[PortChange],
    ) -> Result<Vec<PortOutcome>, NoAnswer> {
        let call = || SwitchApply { target: self.target.clone(), changes: changes.to_vec() };
        let outcomes = self.ask(agents, behalf, call, |reply| match reply {
            SwitchApplied::Outcomes(outcomes) => Ok(outcomes),
            SwitchApplied::Failed { why, passing } => Err(NoAnswer { why, passing }),
        });
        let outcomes = outcomes.await?;
        if outcomes.len() == changes.len() {
            return Ok(outcomes);
        }
        let told = outcomes.len();
        Err(NoAnswer::lasting(format!("the agent tells {told} outcomes of {}", changes.len())))
    }

    /// Asks one agent after the other until one has an answer of the switch.
    async fn ask<C: Call, T>(
        &self,
        agents: &Agents,
        behalf: Option<Behalf>,
        call: impl Fn() -> C,
        read: impl Fn(C::Reply) -> Result<T, NoAnswer>,
    ) -> Result<T, NoAnswer> {
        let name = &self.target.name;
        let none = format!("no agent that is online reaches switch {name}");
        let mut last = NoAnswer { why: none, passing: true };
        for node in &self.nodes {
            let answer = agents.call(node, call(), behalf).await;
            let answer = answer.map_err(|error| {
                let why = format!("{}: {}", node.name, stdx::daemon::chain(&error));
                NoAnswer { why, passing: true }
            });
            match answer.and_then(&read) {
                Err(error) if error.passing => last = error,
                answer => return answer,
            }
        }
        Err(last)
    }
}

fn seen(reply: SwitchSeen) -> Result<Actuals, NoAnswer> {
    match reply {
        SwitchSeen::Ports(ports) => Ok(ports),
        SwitchSeen::Failed { why, passing } => Err(NoAnswer { why, passing }),
    }
}
