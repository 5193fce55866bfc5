//! A guest whose power is switched by a management controller: OpenIPMI's simulator on the master's node.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::rack::{Guest, Rack};
use super::wires::port;
use super::{GuestError, run};
use crate::needs;
use crate::stage;

/// The user that the controller knows.
pub const USER: &str = "admin";
/// Its password.
pub const PASSWORD: &str = "calvin";
/// Where it listens, in the namespace of its node.
const PORT: u16 = 623;
/// Mode of its files; one of them is a program.
const MODE: u32 = 0o755;

/// Answers for the chassis. What is wanted of the power lies in `wanted`, how it is in `power`.
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

/// The controller of a guest.
#[derive(Debug)]
pub struct Power {
    dir: PathBuf,
}

impl Power {
    /// What the guest is to boot from next, in IPMI's words; `none` where nobody said.
    #[must_use]
    pub fn boot(&self) -> String {
        let text = fs::read_to_string(self.dir.join("boot")).unwrap_or_default();
        text.trim().to_owned()
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
        guest: &Guest<'_>,
        body: impl FnOnce(&Power) -> R,
    ) -> Result<R, GuestError> {
        needs::provide("ipmi_sim").map_err(GuestError::Impossible)?;
        needs::provide("ipmitool").map_err(GuestError::Impossible)?;
        let power = self.start_controller(guest)?;
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let supply = scope.spawn(|| self.supply(guest, &power, &ends));
            let done = self.tell_master(guest).map(|()| {
                let body = std::panic::AssertUnwindSafe(|| body(&power));
                std::panic::catch_unwind(body)
            });
            ends.store(true, Ordering::Relaxed);
            let supplied = supply.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let done = done?.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            supplied.map(|()| done)
        })
    }

    fn start_controller(&self, guest: &Guest<'_>) -> Result<Power, GuestError> {
        let name = format!("{}-bmc", port(guest.number));
        let dir = self.stage.root().join(&name);
        let state = dir.join("state");
        fs::create_dir_all(&state)
            .map_err(|error| GuestError::File { path: state.display().to_string(), error })?;
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
        let mut simulator = Command::new("ipmi_sim");
        let at = |name: &str| dir.join(name).display().to_string();
        simulator.args(["-c", &at("lan.conf"), "-f", &at("cmd.emu"), "-s", &at("state"), "-n"]);
        self.stage.start(&name, self.switch.at_node(1, &simulator))?;
        Ok(Power { dir })
    }

    fn tell_master(&self, guest: &Guest<'_>) -> Result<(), GuestError> {
        let password = self.stage.root().join("bmc.password");
        write(&password, PASSWORD)?;
        let file = password.display().to_string();
        let url = format!("ipmi://{}:{PORT}", Ipv4Addr::LOCALHOST);
        let set = ["machine", "bmc", "set", guest.serial, "--url", &url, "--user", USER];
        run(&mut self.gnt_command(&[&set[..], &["--password-file", &file]].concat())).map(drop)
    }

    /// Switches the guest as its controller was told, until the end.
    fn supply(
        &self,
        guest: &Guest<'_>,
        power: &Power,
        ends: &AtomicBool,
    ) -> Result<(), GuestError> {
        let name = port(guest.number);
        let (wanted, is) = (power.dir.join("wanted"), power.dir.join("power"));
        let mut last = String::new();
        while !ends.load(Ordering::Relaxed) {
            let asked = fs::read_to_string(&wanted).unwrap_or_default();
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
            write(&is, if self.stage.has_ended(&name) { "0" } else { "1" })?;
            stage::pause();
        }
        self.stage.kill(&name);
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<(), GuestError> {
    stdx::atomic::write(path, text.as_bytes(), MODE).map_err(|error| GuestError::File {
        path: path.display().to_string(),
        error: io::Error::other(error),
    })
}
