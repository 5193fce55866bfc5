//! Core: switches that are not reached, and ports that are not as they are to be.

use model::Timestamp;
use model::switch::{PortState, Switch, SwitchPort};

use crate::config::Config;
use crate::health::alarm::{Alarm, Subject};
use crate::switching::watch::Look;

/// Ports that are told one by one: a switch that fails fills no screen.
const TOLD_MAX: usize = 50;
/// Tries after which a port in error is told: one may meet a switch that restarts.
const TRIES_TOLD: u32 = 2;

/// Alarms about switches and ports, by what was seen of each switch last.
pub fn find(config: &Config, look: impl Fn(&Switch) -> Option<Look>, now: Timestamp) -> Vec<Alarm> {
    let switches = config.switches.values().filter_map(|switch| unreached(switch, look(switch)?));
    let ports = config.switch_ports.values().filter_map(|port| trouble(config, port, now));
    switches.take(TOLD_MAX).chain(ports.take(TOLD_MAX)).collect()
}

fn unreached(switch: &Switch, look: Look) -> Option<Alarm> {
    let why = look.ports.err()?;
    let name = &switch.name;
    Some(Alarm {
        what: Subject::Switch(name.clone()),
        since: look.since,
        text: format!("it does not answer: {why}"),
        todo: format!("mend the way to it; `gnt switch verify {name}` asks again"),
    })
}

fn trouble(config: &Config, port: &SwitchPort, now: Timestamp) -> Option<Alarm> {
    let key = port.key();
    let alarm = |text: String, todo: String| {
        Some(Alarm { what: Subject::Port(key.clone()), since: port.since, text, todo })
    };
    let is_told = port.refused || port.tries >= TRIES_TOLD;
    if port.state == PortState::Error && is_told {
        let why = port.error.clone().unwrap_or_else(|| "it failed".to_owned());
        return alarm(why, format!("mend that; `gnt port reset {key}` tries again"));
    }
    let is_late = |seconds: i64| now >= port.since.plus_seconds(seconds);
    if let Some(seconds) = port.state.deadline().filter(|seconds| is_late(*seconds)) {
        let text = format!("it is {} for longer than {seconds} s", port.state);
        let todo = match port.state {
            PortState::Deleting => {
                let name = &port.switch;
                format!("`gnt switch remove {name}` goes on; --force forgets it as it is")
            }
            _ => format!("`gnt port reset {key}` tries again"),
        };
        return alarm(text, todo);
    }
    let why = config.behind(&key).contradiction()?;
    alarm(why, format!("mend the cabling, or say by `gnt port set {key} --machine` what is right"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::ConfigChange;
    use crate::testing::{NOW, config, switch};

    #[test]
    fn what_is_told_of_switches_and_ports() {
        let mut config = config(&[]);
        let made = switch("tor", &["p1", "p2", "p3"]);
        let keys: Vec<_> = made.keys().into_iter().collect();
        config.apply([ConfigChange::Switch(made)]);
        let port = |number: usize, state, tries| SwitchPort {
            state,
            tries,
            error: Some("no such VLAN".to_owned()),
            ..SwitchPort::new(keys[number].clone(), NOW)
        };
        config.apply([
            ConfigChange::SwitchPort(port(0, PortState::Error, 1)),
            ConfigChange::SwitchPort(port(1, PortState::Error, 2)),
            ConfigChange::SwitchPort(port(2, PortState::Configuring, 0)),
        ]);
        let told = |ports: Result<Arc<_>, String>, seconds| -> Vec<String> {
            let look = Look { since: NOW, reached: None, ports };
            let found = find(&config, |_switch| Some(look.clone()), NOW.plus_seconds(seconds));
            found.into_iter().map(|alarm| format!("{}: {}", alarm.what, alarm.text)).collect()
        };
        assert_eq!(told(Ok(Arc::default()), 0), ["port tor/p2: no such VLAN"]);
        let away = told(Err("it is away".to_owned()), 180);
        assert_eq!(
            away,
            [
                "switch tor: it does not answer: it is away",
                "port tor/p2: no such VLAN",
                "port tor/p3: it is configuring for longer than 180 s"
            ]
        );
    }
}
