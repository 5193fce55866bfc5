//! A guest whose power is switched by a management controller on the master's node: OpenIPMI's simulator, or
//! the one of OpenStack that speaks Redfish.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::rack::{Guest, Rack, SOON, uuid};
use super::wires::port;
use super::{GuestError, run};
use crate::needs;
use crate::stage;

/// Programs of a controller with IPMI, and of the master that asks it.
pub const IPMI_PROGRAMS: &[&str] = &["ipmi_sim", "ipmitool"];
/// The user that the controller knows.
pub const USER: &str = "admin";
/// Its password.
pub const PASSWORD: &str = "calvin";
/// Its port, in the namespace of its node.
const PORT: u16 = 623;
/// The port of the one with Redfish there.
const REDFISH_PORT: u16 = 8_000;
/// The user and password of the one with Redfish, as a file of Apache.
const HTPASSWD: &str = "admin:$2b$04$zfTAtUDFMUIVzUJAeTaxMuRnsKycZfZIpy6bywCYZe1UMKjgEJsdu\n";
/// Mode of its files; one of them is a program.
const MODE: u32 = 0o755;

/// Answers for the chassis. The wanted power lies in `wanted`, the present one in `power`.
const CHASSIS: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
# Returns once the power is so.
want() {
  echo "$1 $(date +%s%N)" >wanted.new && mv wanted.new wanted
  for try in $(seq 100); do [ "$(cat power)" = "$1" ] && return; sleep 0.1; done
}
shift; operation=$1; shift
case $operation in
get) for what in "$@"; do
  case $what in
  power) echo "power:$(cat power)" ;;
  boot) echo "boot:$(cat boot)" ;;
  esac
done ;;
set) while [ $# -gt 0 ]; do
  case $1 in
  power) want "$2" ;;
  boot) echo "$2" >boot ;;
  shutdown) want 0 ;;
  esac
  shift 2
done ;;
esac
"#;
const EMULATOR: &str = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 \
                        persist_sdr\nmc_enable 0x20\n";

/// The protocol of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// IPMI 2.0 over a network.
    Ipmi,
    /// Redfish over HTTP.
    Redfish,
}

/// The controller of a guest.
#[derive(Debug)]
pub struct Power<'r> {
    rack: &'r Rack,
    protocol: Protocol,
    dir: PathBuf,
    /// The path of the guest, in Redfish.
    system: String,
}

impl Power<'_> {
    /// The device that the guest boots from next, in the words of the protocol; `none` where nobody
    /// said.
    pub fn boot(&self) -> String {
        match self.protocol {
            Protocol::Ipmi => self.file("boot").trim().to_owned(),
            Protocol::Redfish => self.told("/Boot/BootSourceOverrideTarget"),
        }
    }

    /// The wanted power: `1` or `0`, and what tells one order from the next.
    fn wanted(&self) -> String {
        match self.protocol {
            Protocol::Ipmi => self.file("wanted"),
            Protocol::Redfish => match self.told("/PowerState").as_str() {
                "On" => "1".to_owned(),
                "Off" => "0".to_owned(),
                _not_yet => String::new(),
            },
        }
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).unwrap_or_default()
    }

    /// A field of the guest in Redfish; nothing while the controller does not answer.
    fn told(&self, field: &str) -> String {
        let mut curl = needs::command("curl");
        let url = format!("http://{}:{REDFISH_PORT}{}", Ipv4Addr::LOCALHOST, self.system);
        curl.args(["--silent", "--max-time", "5", "--user", &format!("{USER}:{PASSWORD}"), &url]);
        let told = run(&mut self.rack.switch.at_node(1, &curl)).unwrap_or_default();
        let told: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
        told.pointer(field).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
    }
}

impl Rack {
    /// Runs `body` while a controller switches the guest, whose machine `gnt` already knows; tells the
    /// master of the controller first. The guest is off at first.
    ///
    /// # Errors
    /// The controller does not start, or the master does not reach it.
    pub fn with_power<R>(
        &self,
        protocol: Protocol,
        guest: &Guest<'_>,
        body: impl FnOnce(&Power<'_>) -> R,
    ) -> Result<R, GuestError> {
        let power = self.start_controller(protocol, guest)?;
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let supply = scope.spawn(|| self.supply(guest, &power, &ends));
            let done = self.tell_master(guest, &power).map(|()| {
                let body = std::panic::AssertUnwindSafe(|| body(&power));
                std::panic::catch_unwind(body)
            });
            ends.store(true, Ordering::Relaxed);
            let supplied = supply.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let done = done?.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            supplied.map(|()| done)
        })
    }

    fn start_controller(
        &self,
        protocol: Protocol,
        guest: &Guest<'_>,
    ) -> Result<Power<'_>, GuestError> {
        let name = format!("{}-bmc", port(guest.number));
        let dir = self.stage.root().join(&name);
        fs::create_dir_all(dir.join("state"))
            .map_err(|error| GuestError::File { path: dir.display().to_string(), error })?;
        let command = match protocol {
            Protocol::Ipmi => ipmi(&dir)?,
            Protocol::Redfish => redfish(&dir, guest)?,
        };
        self.stage.start(&name, self.switch.at_node(1, &command))?;
        let system = format!("/redfish/v1/Systems/{}", uuid(guest.mac));
        let power = Power { rack: self, protocol, dir, system };
        if protocol == Protocol::Redfish {
            self.stage.wait_until("the controller", SOON, || !power.wanted().is_empty())?;
        }
        Ok(power)
    }

    fn tell_master(&self, guest: &Guest<'_>, power: &Power<'_>) -> Result<(), GuestError> {
        let password = self.stage.root().join("bmc.password");
        write(&password, PASSWORD)?;
        let file = password.display().to_string();
        let here = Ipv4Addr::LOCALHOST;
        let url = match power.protocol {
            Protocol::Ipmi => format!("ipmi://{here}:{PORT}"),
            Protocol::Redfish => format!("http://{here}:{REDFISH_PORT}"),
        };
        let set = ["machine", "bmc", "set", guest.serial, "--url", &url, "--user", USER];
        run(&mut self.gnt_command(&[&set[..], &["--password-file", &file]].concat())).map(drop)
    }

    /// Switches the guest as its controller was told, until the end.
    fn supply(
        &self,
        guest: &Guest<'_>,
        power: &Power<'_>,
        ends: &AtomicBool,
    ) -> Result<(), GuestError> {
        let name = port(guest.number);
        let mut last = String::new();
        while !ends.load(Ordering::Relaxed) {
            let asked = power.wanted();
            if asked != last {
                let is_on = asked.starts_with('1');
                if !is_on || self.stage.has_ended(&name) {
                    self.stage.kill(&name);
                }
                if is_on && self.stage.has_ended(&name) {
                    self.power_on(guest)?;
                }
                last = asked;
            }
            // A guest that switched itself off is off.
            let is_off = self.stage.has_ended(&name);
            write(&power.dir.join("power"), if is_off { "0" } else { "1" })?;
            stage::pause();
        }
        self.stage.kill(&name);
        Ok(())
    }
}

/// OpenIPMI's simulator, with its files in `dir`.
fn ipmi(dir: &Path) -> Result<Command, GuestError> {
    for program in IPMI_PROGRAMS {
        needs::provide(program).map_err(GuestError::Impossible)?;
    }
    let chassis = dir.join("chassis");
    let lan = format!(
        "name \"bmc\"\nset_working_mc 0x20\n  startlan 1\n    addr {} {PORT}\n    \
         priv_limit admin\n    allowed_auths_admin none md2 md5 straight\n    \
         guid a123456789abcdefa123456789abcdef\n  endlan\n  chassis_control \"{} 0x20\"\n  \
         user 2 true \"{USER}\" \"{PASSWORD}\" admin 10 none md2 md5 straight\n",
        Ipv4Addr::LOCALHOST,
        chassis.display()
    );
    write(&dir.join("lan.conf"), &lan)?;
    write(&dir.join("cmd.emu"), EMULATOR)?;
    write(&chassis, CHASSIS)?;
    for (file, text) in [("power", "0"), ("wanted", ""), ("boot", "none")] {
        write(&dir.join(file), text)?;
    }
    let mut simulator = needs::command("ipmi_sim");
    let at = |name: &str| dir.join(name).display().to_string();
    simulator.args(["-c", &at("lan.conf"), "-f", &at("cmd.emu"), "-s", &at("state"), "-n"]);
    Ok(simulator)
}

/// OpenStack's simulator, with its files in `dir`. It switches nothing itself, some seconds after it is told.
fn redfish(dir: &Path, guest: &Guest<'_>) -> Result<Command, GuestError> {
    let emulator = needs::provide("sushy-emulator").map_err(GuestError::Impossible)?;
    let file = |name: &str| dir.join(name).display().to_string();
    let (users, state) = (file("users"), file("state"));
    let (uuid, mac) = (uuid(guest.mac), guest.mac);
    let settings = format!(
        "SUSHY_EMULATOR_AUTH_FILE = '{users}'\nSUSHY_EMULATOR_STATE_DIR = '{state}'\n\
         SUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': '{uuid}', 'name': 'guest', 'power_state': 'Off', \
         'nics': [{{'mac': '{mac}', 'ip': '127.0.0.1'}}]}}]\n",
    );
    write(&dir.join("users"), HTPASSWD)?;
    write(&dir.join("settings"), &settings)?;
    let mut command = Command::new(emulator);
    command.args(["--fake", "--interface", &Ipv4Addr::LOCALHOST.to_string()]);
    command.args(["--port", &REDFISH_PORT.to_string(), "--config", &file("settings")]);
    Ok(command)
}

fn write(path: &Path, text: &str) -> Result<(), GuestError> {
    stdx::atomic::write(path, text.as_bytes(), MODE).map_err(|error| GuestError::File {
        path: path.display().to_string(),
        error: io::Error::other(error),
    })
}
