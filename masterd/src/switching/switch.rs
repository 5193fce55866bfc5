//! Opcodes on switches.

use std::collections::{BTreeMap, BTreeSet};

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::opcode::switch::Login;
use model::opcode::{SwitchAdd, SwitchRemove, SwitchSetParams, SwitchSettle, SwitchVerify};
use model::switch::{
    Actuals, PORTS_MAX, PortKey, PortSpec, PortState, PortVerified, SWITCHES_MAX, Switch,
    SwitchAccess, SwitchPort, VlanSet,
};
use model::{Code, Exception, Timestamp, Uuid, Word};

use super::desired::Desired;
use super::reach::{NoAnswer, Reached};
use super::settle::{How, settle};
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

/// Ports that a job's log names one by one.
const TOLD_MAX: usize = 64;

impl Config {
    /// The switch with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn switch(&self, name: &str) -> Result<&std::sync::Arc<Switch>, Exception> {
        self.switches.get(name).ok_or_else(|| {
            let text = format!("Switch '{name}' not known");
            Exception::prereq(text, ErrorCode::UnknownEntity)
        })
    }
}

fn lock(name: &str, mode: Mode, level: Level) -> Wanted {
    match level {
        Level::Switch => vec![(LockName::member(Level::Switch, name), mode)],
        _ => Vec::new(),
    }
}

/// The secret of a switch once it is told, beside what is known.
fn access_after(
    name: &Word,
    login: &Login,
    before: Option<&SwitchAccess>,
) -> Result<Option<SwitchAccess>, Exception> {
    let Login { user, sealed, certificate, authority } = login;
    for (what, text) in [("certificate", certificate), ("authority", authority)] {
        let length = text.as_ref().map_or(0, String::len);
        if length > model::switch::CERTIFICATE_MAX {
            let most = model::switch::CERTIFICATE_MAX;
            return Err(wrong(format!("{what}: {length} bytes; at most {most} are taken")));
        }
    }
    let Some(sealed) = sealed.clone().or_else(|| before.map(|known| known.sealed.clone())) else {
        let says_more = user.is_some() || certificate.is_some() || authority.is_some();
        return match says_more {
            true => {
                Err(wrong("a user or a certificate goes with a secret: the password, or the key"))
            }
            false => Ok(None),
        };
    };
    let or = |told: &Option<String>, known: fn(&SwitchAccess) -> &Option<String>| {
        told.clone().or_else(|| before.and_then(|before| known(before).clone()))
    };
    Ok(Some(SwitchAccess {
        switch: name.clone(),
        user: or(user, |known| &known.user),
        sealed,
        certificate: or(certificate, |known| &known.certificate),
        authority: or(authority, |known| &known.authority),
    }))
}

/// A switch that can be: its parts fit, and others have not its name or address.
fn checked(config: &Config, switch: &Switch) -> Result<(), Exception> {
    switch.check().map_err(|error| wrong(format!("switch {}: {error}", switch.name)))?;
    for name in &switch.agents {
        if !config.nodes.contains_key(name) {
            let text = format!("Node '{name}' not known");
            return Err(Exception::prereq(text, ErrorCode::UnknownEntity));
        }
    }
    let mac = switch.mac;
    let same_mac =
        mac.and_then(|mac| config.switches.by.mac.of(mac).find(|s| s.name != switch.name));
    if let Some(other) = same_mac {
        return Err(wrong(format!(
            "switch {} has the Ethernet address of {}",
            other.name, switch.name
        )));
    }
    if let Some(why) = mac.and_then(model::MacAddress::unusable) {
        return Err(wrong(format!("the Ethernet address of switch {} {why}", switch.name)));
    }
    let by_url = config.switches.values().find(|s| s.url == switch.url && s.name != switch.name);
    let is_shared = matches!(switch.url, model::switch::SwitchUrl::Command { .. });
    if let Some(other) = by_url.filter(|_| !is_shared) {
        return Err(wrong(format!("switch {} is at {} already", other.name, switch.url)));
    }
    Ok(())
}

fn failure(name: &Word, no: &NoAnswer) -> Failure {
    let text = format!("Switch {name}: {}", no.why);
    Exception::exec(text).coded(Code::SwitchUnreached).into()
}

/// Our name of a port of the switch: its own where that is a word, and one made of it otherwise.
fn our_name(real: &str, taken: &BTreeMap<Word, PortSpec>) -> Option<Word> {
    let plain: String = real
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .collect();
    let plain = plain.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
    let numbered = (2..=PORTS_MAX).map(|number| format!("{plain}.{number}"));
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    names.find_map(|name| name.parse::<Word>().ok().filter(|name| !taken.contains_key(name)))
}

/// The documents of ports that became known, and of those that are gone.
fn port_changes(config: &Config, switch: &Switch, now: Timestamp) -> Vec<ConfigChange> {
    let keys = switch.keys();
    let new = keys.iter().filter(|key| !config.switch_ports.contains_key(*key));
    let new = new.map(|key| ConfigChange::SwitchPort(SwitchPort::new(key.clone(), now)));
    let gone = config.switch_ports.by.switch.of(switch.name.clone());
    let gone = gone.map(|port| port.key()).filter(|key| !keys.contains(key));
    new.chain(gone.map(ConfigChange::SwitchPortRemoved)).collect()
}

/// Refuses ports that are not there.
fn all_there(switch: &Switch, actuals: &Actuals) -> Result<(), Exception> {
    for (port, spec) in &switch.ports {
        if !actuals.contains_key(&spec.name) {
            let there: Vec<&str> = actuals.keys().map(String::as_str).take(16).collect();
            return Err(wrong(format!(
                "switch {} has no port `{}` for {port}; it has {}",
                switch.name,
                spec.name,
                there.join(", ")
            )));
        }
    }
    Ok(())
}

impl LogicalUnit for SwitchAdd {
    type Plan = (Switch, Option<SwitchAccess>);

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(lock(self.switch_name.as_str(), Mode::Exclusive, level))
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        let (config, now) = (context.config(), context.now());
        let switch = Switch {
            name: self.switch_name.clone(),
            uuid: Uuid::new_v4(),
            serial_no: 1,
            ctime: now,
            mtime: now,
            url: self.url.clone(),
            options: self.options.clone(),
            rack: self.rack,
            agents: self.agents.clone(),
            mac: self.mac,
            vlans: self.vlans.clone().unwrap_or_else(VlanSet::all),
            ports: self.ports.clone(),
            leaving: false,
        };
        is_new(&config, &switch)?;
        let access = access_after(&switch.name, &self.login, None)?;
        if self.unchecked && self.all_ports {
            return Err(wrong("a switch that is not asked tells no ports: name them").into());
        }
        Reached::with(&config, &switch, access.as_ref())?;
        Ok((switch, access))
    }

    async fn exec(self, plan: Self::Plan, context: &mut Context) -> Result<Switch, Failure> {
        let (mut switch, access) = plan;
        if !self.unchecked {
            let reached = Reached::with(&context.config(), &switch, access.as_ref())?;
            let (behalf, agents) = (context.behalf(), context.agents().await?.clone());
            let actuals = reached.ports(&agents, behalf).await;
            let actuals = actuals.map_err(|no| failure(&switch.name, &no))?;
            all_there(&switch, &actuals)?;
            if self.all_ports {
                let known: BTreeSet<String> =
                    switch.ports.values().map(|spec| spec.name.clone()).collect();
                for real in actuals.keys().filter(|real| !known.contains(*real)) {
                    if let Some(name) = our_name(real, &switch.ports) {
                        switch.ports.insert(name, PortSpec::new(real));
                    }
                }
                switch
                    .check()
                    .map_err(|error| wrong(format!("switch {}: {error}", switch.name)))?;
            }
            let text = format!(
                "{} has {} ports; Gantry sets {} of them",
                switch.name,
                actuals.len(),
                switch.ports.len()
            );
            context.say(text).await;
        }
        let now = context.now();
        context
            .transact(move |config| {
                is_new(config, &switch)?;
                let mut changes = vec![ConfigChange::Switch(switch.clone())];
                changes.extend(access.map(ConfigChange::SwitchAccess));
                changes.extend(port_changes(config, &switch, now));
                Ok((changes, switch))
            })
            .await
    }
}

fn is_new(config: &Config, switch: &Switch) -> Result<(), Exception> {
    if config.switches.contains_key(&switch.name) {
        let text = format!("Switch '{}' exists", switch.name);
        return Err(Exception::prereq(text, ErrorCode::AlreadyExists));
    }
    if config.switches.len() >= SWITCHES_MAX {
        return Err(wrong(format!("there are {SWITCHES_MAX} switches, which is the limit")));
    }
    checked(config, switch)
}

impl LogicalUnit for SwitchSetParams {
    type Plan = ();

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(lock(&self.switch_name, Mode::Exclusive, level))
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        changed(self, &context.config(), now)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Switch, Failure> {
        let now = context.now();
        context
            .transact(move |config| {
                let (switch, access) = changed(&self, config, now)?;
                let mut changes = vec![ConfigChange::Switch(switch.clone())];
                changes.extend(access.map(ConfigChange::SwitchAccess));
                changes.extend(port_changes(config, &switch, now));
                Ok((changes, switch))
            })
            .await
    }
}

fn changed(
    op: &SwitchSetParams,
    config: &Config,
    now: Timestamp,
) -> Result<(Switch, Option<SwitchAccess>), Exception> {
    let mut switch = config.switch(&op.switch_name)?.as_ref().clone();
    switch.serial_no += 1;
    switch.mtime = now;
    if let Some(url) = &op.url {
        switch.url = url.clone();
    }
    if let Some(options) = &op.options {
        switch.options.clone_from(options);
    }
    switch.rack = op.rack.map_or(switch.rack, model::opcode::network::OrNone::value);
    switch.mac = op.mac.map_or(switch.mac, model::opcode::network::OrNone::value);
    if let Some(agents) = &op.agents {
        switch.agents.clone_from(agents);
    }
    if let Some(vlans) = &op.vlans {
        switch.vlans = vlans.clone();
    }
    for (name, spec) in &op.ports {
        let Some(spec) = spec else {
            let key = PortKey { switch: switch.name.clone(), port: name.clone() };
            may_go(config, &key)?;
            if switch.ports.remove(name).is_none() {
                return Err(wrong(format!("switch {} has no port {name}", switch.name)));
            }
            continue;
        };
        switch.ports.insert(name.clone(), spec.clone());
    }
    checked(config, &switch)?;
    let before = config.switch_access.get(&switch.name);
    let access = access_after(&switch.name, &op.login, before.map(|known| &**known))?;
    Reached::with(config, &switch, access.as_ref())?;
    Ok((switch, access))
}

/// Refuses to forget a port that has something.
fn may_go(config: &Config, key: &PortKey) -> Result<(), Exception> {
    let Some(port) = config.switch_ports.get(key) else { return Ok(()) };
    if matches!(port.state, PortState::None | PortState::Idle | PortState::Deleting) {
        return Ok(());
    }
    let text = format!(
        "port {key} is {}; it must rest first: `gnt port clear {key}` takes away what was set, and a \
         machine behind it is retired or removed",
        port.state
    );
    Err(Exception::prereq(text, ErrorCode::WrongState))
}

impl LogicalUnit for SwitchRemove {
    type Plan = ();

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(lock(&self.switch_name, Mode::Exclusive, level))
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let config = context.config();
        let switch = config.switch(&self.switch_name)?;
        for key in switch.keys() {
            let behind = config.behind(&key);
            let machine = behind.served().and_then(|served| config.machines.get(&served.serial));
            let busy = machine.filter(|m| m.life.state.status().is_in_service());
            if let Some(machine) = busy.filter(|_| !self.force) {
                let text = format!(
                    "port {key} serves machine {}, which is {}; retire it first, or give --force",
                    machine.serial, machine.life.state
                );
                return Err(Exception::prereq(text, ErrorCode::WrongState).into());
            }
        }
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let name = self.switch_name.clone();
        let keys = context
            .transact(move |config| {
                let mut switch = config.switch(&name)?.as_ref().clone();
                switch.leaving = true;
                let keys = switch.keys();
                Ok((vec![ConfigChange::Switch(switch)], keys))
            })
            .await?;
        if let Err(failure) = settle(context, &keys, How::default()).await {
            let Failure::Exception(why) = &failure else { return Err(failure) };
            if !self.force {
                let text = format!(
                    "{}; the switch stays until its ports rest; `gnt switch remove --force` forgets it as it is",
                    why.message()
                );
                return Err(Exception::exec(text).coded(Code::PortFailed).into());
            }
        }
        let force = self.force;
        let left = context
            .transact(move |config| {
                let switch = config.switch(&self.switch_name)?;
                let (mut changes, mut left) = (Vec::new(), Vec::new());
                for key in switch.keys() {
                    let port = config.switch_ports.get(&key);
                    let is_at_rest = port.is_none_or(|port| port.state == PortState::Deleting);
                    if !is_at_rest && !force {
                        may_go(config, &key)?;
                    }
                    let had = port.and_then(|port| port.applied.as_ref()).filter(|_| !is_at_rest);
                    left.extend(had.map(|had| format!("{key}: {}", had.settings)));
                    changes.push(ConfigChange::SwitchPortRemoved(key));
                }
                changes.push(ConfigChange::SwitchAccessRemoved(switch.name.clone()));
                changes.push(ConfigChange::SwitchRemoved(switch.name.clone()));
                Ok((changes, left))
            })
            .await?;
        for text in left.iter().take(TOLD_MAX) {
            context.say(format!("this may remain on the switch: {text}")).await;
        }
        Ok(())
    }
}

impl LogicalUnit for SwitchVerify {
    type Plan = ();

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(lock(&self.switch_name, Mode::Shared, level))
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        context.config().switch(&self.switch_name)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Vec<PortVerified>, Failure> {
        let config = context.config();
        let switch = config.switch(&self.switch_name)?;
        let reached = Reached::of(&config, switch)?;
        let (behalf, agents) = (context.behalf(), context.agents().await?.clone());
        let actuals = reached.ports(&agents, behalf).await;
        let actuals = actuals.map_err(|no| failure(&switch.name, &no))?;
        let verified = |(port, spec): (&Word, &PortSpec)| {
            let key = PortKey { switch: switch.name.clone(), port: port.clone() };
            let desired = config.switch_ports.get(&key).map(|port| config.desired(port));
            let actual = actuals.get(&spec.name);
            let (configuration, wanted, good) = match desired {
                Some(Desired::Set(target)) => {
                    let good = actual.is_some_and(|actual| actual.is(&target.settings));
                    (Some(target.configuration), Some(target.settings.to_string()), good)
                }
                Some(Desired::Refused { configuration, why }) => {
                    (Some(configuration), Some(why), false)
                }
                Some(Desired::Left) | None => (None, None, actual.is_some()),
            };
            let actual = actual.map(ToString::to_string);
            PortVerified { port: key, configuration, wanted, actual, good }
        };
        Ok(switch.ports.iter().map(verified).collect())
    }
}

impl LogicalUnit for SwitchSettle {
    type Plan = BTreeSet<PortKey>;

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(lock(&self.switch_name, Mode::Shared, level))
    }

    async fn check(&self, context: &mut Context) -> Result<Self::Plan, Failure> {
        let config = context.config();
        let all = config.switch(&self.switch_name)?.keys();
        let Some(unknown) =
            self.ports.iter().find(|port| !all.iter().any(|key| key.port == **port))
        else {
            let is_meant = |key: &PortKey| self.ports.is_empty() || self.ports.contains(&key.port);
            return Ok(all.into_iter().filter(is_meant).collect());
        };
        let text = format!("switch {} has no port {unknown}", self.switch_name);
        Err(Exception::prereq(text, ErrorCode::UnknownEntity).into())
    }

    async fn exec(
        self,
        keys: Self::Plan,
        context: &mut Context,
    ) -> Result<Vec<SwitchPort>, Failure> {
        settle(context, &keys, How { look: true, reset: self.reset, may_hold: false }).await
    }
}
