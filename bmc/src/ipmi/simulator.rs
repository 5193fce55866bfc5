//! Against OpenIPMI's simulator, by the real `ipmitool`.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use model::bmc::{BmcPrivilege, BmcTrust, BootOnce, PowerAction, PowerState};
use model::secret::Secret;

use crate::{BmcError, Controller, Expected, Login, Times};

/// Answers for the chassis: its state lies in files.
const CHASSIS: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
shift; operation=$1; shift
case $operation in
get) for what in "$@"; do
  case $what in
  power) echo "power:$(cat power 2>/dev/null || echo 0)" ;;
  boot) echo "boot:$(cat boot 2>/dev/null || echo none)" ;;
  esac
done ;;
set) while [ $# -gt 0 ]; do
  case $1 in
  power) echo "$2" >power ;;
  boot) echo "$2" >boot ;;
  shutdown) echo 0 >power ;;
  esac
  shift 2
done ;;
esac
"#;

/// A running simulator.
struct Simulator {
    process: Child,
    dir: tempfile::TempDir,
    port: u16,
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        let _status = self.process.wait().unwrap();
    }
}

fn write(path: &Path, text: &str) {
    stdx::atomic::write(path, text.as_bytes(), 0o755).unwrap();
}

/// None, said loudly, where the program is not installed.
fn start() -> Option<Simulator> {
    let dir = tempfile::tempdir().unwrap();
    // It binds no port that it chooses itself.
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = |name: &str| dir.path().join(name);
    let chassis = at("chassis");
    let lan = format!(
        "name \"bmc\"\nset_working_mc 0x20\n  startlan 1\n    addr 127.0.0.1 {port}\n    \
         priv_limit admin\n    allowed_auths_admin none md2 md5 straight\n    \
         guid a123456789abcdefa123456789abcdef\n  endlan\n  chassis_control \"{} 0x20\"\n  \
         user 2 true \"admin\" \"calvin\" admin 10 none md2 md5 straight\n  \
         user 3 true \"reader\" \"calvin\" user 10 none md2 md5 straight\n",
        chassis.display()
    );
    write(&at("lan.conf"), &lan);
    let emulator = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 \
                    persist_sdr\nmc_enable 0x20\n";
    write(&at("cmd.emu"), emulator);
    write(&chassis, CHASSIS);
    std::fs::create_dir(at("state")).unwrap();
    let mut command = Command::new("ipmi_sim");
    command.args(["-c", "lan.conf", "-f", "cmd.emu", "-s", "state", "-n"]).current_dir(dir.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(process) => Some(Simulator { process, dir, port }),
        Err(error) => {
            eprintln!("skipped: ipmi_sim does not start ({error}); install openipmi");
            None
        }
    }
}

fn controller(port: u16, password: &str) -> Controller {
    Controller {
        url: format!("ipmi://127.0.0.1:{port}").parse().unwrap(),
        trust: BmcTrust::Any,
        login: Login { user: "admin".into(), password: Secret::new(password.into()) },
        privilege: None,
        expected: Expected::default(),
        times: Times { look: Duration::from_millis(50), ..Times::default() },
    }
}

#[tokio::test]
async fn a_machine_is_switched_by_ipmi() {
    let Some(simulator) = start() else { return };
    let controller = controller(simulator.port, "calvin");
    let mut session = controller.session();
    // It listens a moment after it started.
    let mut tries = 0;
    let first = loop {
        match session.power_state().await {
            Err(BmcError::Unreachable { .. }) if tries < 50 => tries += 1,
            other => break other,
        }
    };
    assert_eq!(first.unwrap(), PowerState::Off);
    let boot = simulator.dir.path().join("boot");
    for (from, kept) in [(BootOnce::Network, "pxe"), (BootOnce::Disk, "default")] {
        session.boot_once(from).await.unwrap();
        assert_eq!(std::fs::read_to_string(&boot).unwrap().trim(), kept);
    }
    for (action, power) in [
        (PowerAction::On, PowerState::On),
        (PowerAction::Cycle, PowerState::On),
        (PowerAction::SoftOff, PowerState::Off),
    ] {
        session.power(action).await.unwrap();
        assert_eq!(session.power_state().await.unwrap(), power, "{action}");
    }
    let told = session.inventory().await.unwrap();
    assert_eq!(told.bmc_firmware, "9.08");
    assert_eq!(session.health().await.unwrap().power, PowerState::Off);

    let login = |user: &str, password: &str| Login {
        user: user.to_owned(),
        password: Secret::new(password.to_owned()),
    };
    let wrong = Controller { login: login("admin", "x"), ..controller.clone() };
    let told = wrong.session().power(PowerAction::On).await.unwrap_err();
    assert!(matches!(told, BmcError::Unreachable { .. } | BmcError::Login { .. }), "{told}");
    // One who may only read is told so, also where the program says that it succeeded.
    let privilege = Some(BmcPrivilege::User);
    let reader = Controller { login: login("reader", "calvin"), privilege, ..controller.clone() };
    let mut session = reader.session();
    assert_eq!(session.power_state().await.unwrap(), PowerState::Off);
    let told = session.power(PowerAction::On).await.unwrap_err();
    assert!(matches!(told, BmcError::Privilege { .. }), "{told}");
    assert!(told.to_string().contains("bmc set --privilege"), "{told}");
    let told = session.boot_once(BootOnce::Network).await.unwrap_err();
    assert!(matches!(told, BmcError::Privilege { .. }), "{told}");
}
