//! Tells how the console of an instance is reached.
//!
//! As in Ganeti, that is the serial one wherever there is one, and the screen elsewhere.

use jobs::locks::{Level, LockName, Mode};
use model::Exception;
use model::error::ErrorCode;
use model::instance::screen::Screen;
use model::instance::{Instance, Parameters};
use model::layout::Layout;
use model::opcode::InstanceConsole;
use serde_json::{Value, json};

use super::power;
use super::standing::Stands;
use crate::config::Config;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// A console as Ganeti's clients know it, where nothing is told but its kind and its instance.
fn of_kind(kind: &str, instance: &Instance) -> Value {
    json!({
        "kind": kind, "instance": instance.name, "message": null, "host": null, "port": null,
        "user": null, "command": null, "display": null,
    })
}

/// How the console of an instance with these parameters is reached.
pub(super) fn console(instance: &Instance, hvparams: &Parameters) -> Value {
    let (name, node) = (&instance.name, &instance.primary_node);
    let message = |text: String| {
        let mut told = of_kind("msg", instance);
        told["message"] = text.into();
        told
    };
    let by_ssh = |command: Value| {
        let mut told = of_kind("ssh", instance);
        told["host"] = node.as_str().into();
        told["user"] = "root".into();
        told["command"] = command;
        told
    };
    if instance.hypervisor.starts_with("xen-") {
        return by_ssh(json!(["xl", "console", name]));
    }
    if instance.hypervisor != "kvm" {
        let text = format!("Console not available for {} hypervisor\n", instance.hypervisor);
        return message(text);
    }
    if hvparams.get("serial_console").and_then(Value::as_bool) != Some(false) {
        let socket = Layout::default().instances().join(format!("{}.console", instance.uuid));
        let socket = format!("UNIX-CONNECT:{}", socket.display());
        return by_ssh(json!(["socat", "STDIO,raw,echo=0,escape=0x1d", socket]));
    }
    let bind = hvparams.get("vnc_bind_address").and_then(Value::as_str).unwrap_or_default();
    match Screen::of(bind, name, instance.network_port) {
        Ok(Some(Screen::Address(address))) => {
            let mut told = of_kind("vnc", instance);
            // Nobody reaches an address that means all of them; Ganeti tells it nevertheless.
            let is_any = address.ip().is_unspecified();
            let host = if is_any { node.to_string() } else { address.ip().to_string() };
            told["host"] = host.into();
            told["port"] = address.port().into();
            told["display"] = Screen::display(address.port()).into();
            told
        }
        Ok(Some(Screen::Socket(path))) => message(format!(
            "Instance {name} has VNC listening on the socket {} of node {node}",
            path.display()
        )),
        Ok(None) | Err(_) => message(format!("No serial shell for instance {name}")),
    }
}

impl LogicalUnit for InstanceConsole {
    type Plan = Value;

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        if level != Level::Instance {
            return Ok(Vec::new());
        }
        let uuid = self.instance_uuid.as_deref();
        let instance = config.instance_with(&self.instance_name, uuid)?;
        Ok(vec![(LockName::member(level, instance.name.as_str()), Mode::Shared)])
    }

    async fn check(&self, context: &mut Context) -> Result<Value, Failure> {
        let config = context.config();
        let uuid = self.instance_uuid.as_deref();
        let instance = config.instance_with(&self.instance_name, uuid)?;
        power::is_whole(instance)?;
        let stands = Stands::of(&config, instance, context.contacts(), context.now());
        if stands.is_alive() != Some(true) {
            let status = stands.status().map_or("not known", |status| status.as_str());
            let text = format!("Instance {} is not running (state {status})", instance.name);
            return Err(Exception::prereq(text, ErrorCode::WrongState).into());
        }
        Ok(console(instance, &config.settings_of(instance).hypervisor_of(instance)))
    }

    async fn exec(self, console: Value, _context: &mut Context) -> Result<Value, Failure> {
        Ok(console)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_serial_console_comes_before_a_screen() {
        let mut instance = testing::instance("web1.example", "n1.example");
        "kvm".clone_into(&mut instance.hypervisor);
        instance.network_port = Some(11_000);
        let told = |serial: bool, bind: &str| {
            let parameters = [("serial_console", json!(serial)), ("vnc_bind_address", bind.into())];
            let parameters = parameters.map(|(name, value)| (name.to_owned(), value));
            console(&instance, &parameters.into())
        };
        assert_eq!(told(true, "127.0.0.1")["kind"], "ssh");
        let vnc = told(false, "::1");
        assert_eq!((&vnc["kind"], &vnc["host"]), (&json!("vnc"), &json!("::1")));
        assert_eq!((&vnc["port"], &vnc["display"]), (&json!(11_000), &json!(5_100)));
        assert_eq!(told(false, "0.0.0.0")["host"], json!(instance.primary_node));
        let socket = told(false, "/srv/vnc");
        assert!(socket["message"].as_str().unwrap().contains("/srv/vnc/web1.example.vnc of node"));
        let none = "No serial shell for instance web1.example";
        assert_eq!(told(false, "")["message"], none);
    }
}
