//! Histories of machines, ports, configurations and tenants: what a port is to have is always right.

use model::OpInput;
use model::machine::life::State;
use model::opcode::OpCode;
use model::switch::{Applied, PortKey, PortPhase, SwitchPort};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Value, json};

use super::tenant::{changed, given, taken};
use crate::config::tenancy::may_submit;
use crate::config::{Config, ConfigChange};
use crate::machines::machine::register;
use crate::switching::desired::Desired;
use crate::switching::{configuration, port};
use crate::testing::{self, NOW, spec};

const TENANTS: [&str; 2] = ["acme", "other"];
const PORTS_MAX: u32 = 2;
const MACHINES: usize = 4;

/// A change that somebody tries.
#[derive(Debug, Clone)]
enum Try {
    Give(usize, usize),
    Take(usize, usize, bool),
    /// A port serves the card of a machine.
    Serve(usize, usize),
    /// A tenant makes a configuration in a VLAN.
    Make(usize, u16),
    /// A tenant links one of a tenant's configurations to a port.
    Link(usize, usize, usize, u16),
    Limit(usize, u16),
    Become(usize, State),
}

fn tries() -> impl Strategy<Value = Try> {
    let (tenant, machine, vlan) = (0..2_usize, 0..MACHINES, 10..16_u16);
    let states =
        [State::Available, State::Deploying, State::Healthy, State::Cleaning, State::Retired];
    prop_oneof![
        (tenant.clone(), machine.clone()).prop_map(|(t, m)| Try::Give(t, m)),
        (tenant.clone(), machine.clone(), any::<bool>()).prop_map(|(t, m, f)| Try::Take(t, m, f)),
        (0..4_usize, machine.clone()).prop_map(|(p, m)| Try::Serve(p, m)),
        (tenant.clone(), vlan.clone()).prop_map(|(t, v)| Try::Make(t, v)),
        (tenant.clone(), 0..4_usize, tenant.clone(), vlan.clone())
            .prop_map(|(by, p, of, v)| Try::Link(by, p, of, v)),
        (tenant, vlan).prop_map(|(t, v)| Try::Limit(t, v)),
        (machine, prop::sample::select(states.to_vec())).prop_map(|(m, s)| Try::Become(m, s)),
        Just(Try::Give(0, 0)),
    ]
}

fn serial(machine: usize) -> String {
    format!("SN{machine}")
}

fn key(port: usize) -> PortKey {
    format!("tor/p{port}").parse().unwrap()
}

fn begin() -> Config {
    let mut config = testing::config(&[]);
    let specs: Vec<_> = (0..MACHINES).map(|machine| spec(&serial(machine), 0, "w")).collect();
    let machines = register(&config, &specs, NOW).unwrap();
    config.apply(machines.into_iter().map(ConfigChange::Machine));
    let switch = testing::switch("tor", &["p0", "p1", "p2", "p3"]);
    let ports =
        switch.keys().into_iter().map(|key| ConfigChange::SwitchPort(SwitchPort::new(key, NOW)));
    let policy = json!({"all": {"idle": "idle", "provisioning": "boot"}});
    let mut changes: Vec<_> = ports.collect();
    changes.extend([
        ConfigChange::Switch(switch),
        ConfigChange::PortConfiguration(testing::port_configuration("idle", 999)),
        ConfigChange::PortConfiguration(testing::port_configuration("boot", 100)),
        ConfigChange::PortPolicy(serde_json::from_value(policy).unwrap()),
    ]);
    config.apply(changes);
    for name in TENANTS {
        let mut tenant = testing::tenant(name, &[]);
        (tenant.limits.ports, tenant.limits.machines) = (PORTS_MAX, 2);
        tenant.limits.vlans = "10-12".parse().unwrap();
        config.apply([ConfigChange::Tenant(tenant)]);
    }
    config
}

fn op(id: &str, parameters: Value) -> OpCode {
    let mut parameters = parameters;
    parameters["OP_ID"] = id.into();
    OpInput::parse(&parameters.to_string()).unwrap().op
}

/// The changes of a try, as its logical unit makes them; none where it is refused.
fn decided(config: &Config, what: &Try) -> Option<Vec<ConfigChange>> {
    let hand = |tenant: usize, machine: usize, id: &str, force: bool| {
        let mut parameters = json!({"tenant_name": TENANTS[tenant], "machines": [serial(machine)]});
        if force {
            parameters["force"] = true.into();
        }
        op(id, parameters)
    };
    match what {
        Try::Give(tenant, machine) => {
            let OpCode::TenantGive(op) = hand(*tenant, *machine, "OP_TENANT_GIVE", false) else {
                return None;
            };
            let (mut changes, tenant) = given(&op, config, NOW).ok()?;
            changes.push(ConfigChange::Tenant(tenant));
            Some(changes)
        }
        Try::Take(tenant, machine, force) => {
            let OpCode::TenantTake(op) = hand(*tenant, *machine, "OP_TENANT_TAKE", *force) else {
                return None;
            };
            let (mut changes, tenant) = taken(&op, config, NOW).ok()?;
            changes.push(ConfigChange::Tenant(tenant));
            Some(changes)
        }
        Try::Serve(at, machine) => {
            let card = format!("02:00:00:00:00:0{at}");
            let serves = json!({"serial": serial(*machine), "mac": card});
            let OpCode::PortSetParams(op) =
                op("OP_PORT_SET_PARAMS", json!({"ports": [key(*at)], "serves": serves}))
            else {
                return None;
            };
            let ports = port::changed(&op, config).ok()?;
            Some(ports.into_iter().map(ConfigChange::SwitchPort).collect())
        }
        Try::Make(tenant, vlan) => {
            let name = format!("{}.v{vlan}", TENANTS[*tenant]);
            let op = op(
                "OP_PORT_CONFIGURATION_ADD",
                json!({"configuration_name": name, "wanted": {"untagged": vlan}}),
            );
            may_submit(config, config.tenant(TENANTS[*tenant]).unwrap(), &op).ok()?;
            let OpCode::PortConfigurationAdd(op) = op else { return None };
            let made = configuration::made(&op, config, NOW).ok()?;
            Some(vec![ConfigChange::PortConfiguration(made)])
        }
        Try::Link(by, at, of, vlan) => {
            let name = format!("{}.v{vlan}", TENANTS[*of]);
            let op =
                op("OP_PORT_SET_PARAMS", json!({"ports": [key(*at)], "phases": {"user": name}}));
            may_submit(config, config.tenant(TENANTS[*by]).unwrap(), &op).ok()?;
            let OpCode::PortSetParams(op) = op else { return None };
            let ports = port::changed(&op, config).ok()?;
            Some(ports.into_iter().map(ConfigChange::SwitchPort).collect())
        }
        Try::Limit(tenant, vlan) => {
            let limits = json!({"vlans": format!("10-{vlan}")});
            let parameters = json!({"tenant_name": TENANTS[*tenant], "limits": limits});
            let OpCode::TenantSetParams(op) = op("OP_TENANT_SET_PARAMS", parameters) else {
                return None;
            };
            Some(vec![ConfigChange::Tenant(changed(&op, config, NOW).ok()?)])
        }
        Try::Become(machine, state) => {
            let mut machine = config.machine(&serial(*machine)).unwrap().as_ref().clone();
            machine.life.state = *state;
            Some(vec![ConfigChange::Machine(machine)])
        }
    }
}

/// What must hold of every port and every tenant, whatever was done.
fn check(config: &Config) {
    for tenant in config.tenants.values() {
        assert!(tenant.machines.len() <= tenant.limits.machines as usize);
        assert!(config.ports_of_tenant(tenant) <= PORTS_MAX as usize);
        for serial in &tenant.machines {
            assert_eq!(config.tenants.by.machine.of(serial.clone()).count(), 1, "{serial}");
        }
    }
    for port in config.switch_ports.values() {
        let target = match config.desired(port) {
            Desired::Set(target) => target,
            Desired::Refused { .. } => continue,
            Desired::Left => {
                let has = port.applied.as_ref().map(|has| has.configuration.as_str());
                assert!(!has.is_some_and(|name| name.contains('.')), "{}: {has:?}", port.key());
                continue;
            }
        };
        let machine = port.serves.as_ref().and_then(|s| config.machines.get(&s.serial));
        let phase = machine.map_or(PortPhase::Idle, |machine| PortPhase::of(machine.life.state));
        let is_own = |name: &str| name.contains('.');
        let name = target.configuration.as_str();
        match phase {
            PortPhase::User => assert!(is_own(name), "the policy has none for users: {name}"),
            PortPhase::Idle => assert_eq!(name, "idle"),
            _ => assert_eq!(name, "boot"),
        }
        if !is_own(name) {
            continue;
        }
        let tenant = config.tenant_of_configuration(&target.configuration).unwrap();
        assert!(tenant.machines.contains(&machine.unwrap().serial), "{name} at {}", port.key());
        let outside = target.settings.vlans().first_outside(&tenant.limits.vlans);
        assert_eq!(outside, None, "{name}, within {}", tenant.limits.vlans);
    }
}

/// Has every port what it is to have, as a switch would that takes all.
fn settle(config: &mut Config) {
    let told = |port: &std::sync::Arc<SwitchPort>| match config.desired(port) {
        Desired::Set(target) => {
            let applied =
                Applied { configuration: target.configuration, settings: target.settings };
            let applied = Some(applied);
            Some(ConfigChange::SwitchPort(SwitchPort { applied, ..port.as_ref().clone() }))
        }
        Desired::Left | Desired::Refused { .. } => None,
    };
    let changes: Vec<_> = config.switch_ports.values().filter_map(told).collect();
    config.apply(changes);
}

#[test]
fn a_dot_in_the_name_of_an_operators_configuration_makes_no_tenants() {
    let mut config = begin();
    let lab = testing::port_configuration("lab.1", 7);
    let settings = config.settings(&lab).unwrap();
    let applied = Some(Applied { configuration: lab.name.clone(), settings });
    let port = SwitchPort { applied, ..SwitchPort::new(key(0), NOW) };
    let serves = serde_json::from_value(json!({"serial": "SN0", "mac": "02:00:00:00:00:01"}));
    let port = SwitchPort { serves: serves.unwrap(), ..port };
    let mut machine = config.machine("SN0").unwrap().as_ref().clone();
    machine.life.state = State::Healthy;
    config.apply([
        ConfigChange::PortConfiguration(lab),
        ConfigChange::SwitchPort(port.clone()),
        ConfigChange::Machine(machine),
    ]);
    assert_eq!(config.desired(&port), Desired::Left, "nobody says anything of it");
}

proptest! {
    #[test]
    fn a_port_has_what_its_machines_phase_and_its_tenant_allow(
        history in prop::collection::vec(tries(), 1..60)
    ) {
        let mut config = begin();
        for what in &history {
            if let Some(changes) = decided(&config, what) {
                config.apply(changes);
            }
            check(&config);
            settle(&mut config);
        }
    }
}
