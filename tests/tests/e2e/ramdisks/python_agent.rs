//! ironic-python-agent as its authors publish it, in an environment of Python below `target/`. The parts
//! of the machine that it looks at are faked around it; nothing of it is changed.

use std::fs::{self, File};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use model::MacAddress;
use tests::place::{self, programs};
use tests::run::run;

/// The variable that names another version than the usual one.
const VERSION: &str = "GANTRY_TEST_IPA";
const USUAL: &str = "13.0.0";

/// Programs that it may run on a machine. All of them but two say nothing and succeed, so that none changes this
/// machine: an agent that gives up takes its network down.
const FAKED: [&str; 14] = [
    "ip",
    "modprobe",
    "udevadm",
    "multipath",
    "multipathd",
    "mdadm",
    "dmidecode",
    "ipmitool",
    "biosdevname",
    "mount",
    "umount",
    "chronyd",
    "ntpdate",
    "hdparm",
];

/// A disk, and what the machine is: without these it does not begin.
const LSBLK: &str = r#"{"blockdevices": [{"kname": "vdz", "model": "DISK", "size": 10737418240,
    "rota": false, "type": "disk", "uuid": null, "partuuid": null, "serial": "D1", "wwn": null,
    "log-sec": 512, "phy-sec": 512, "tran": null}]}"#;
const LSHW: &str = r#"{"id": "system", "class": "system", "product": "R630", "vendor": "Dell",
    "serial": "S1", "configuration": {}, "children": []}"#;

/// The script that starts it in a mount namespace of its own: with a card that is there, and the
/// parameters of its kernel.
const START: &str = r#"
set -e
mount --make-rprivate /
mount -t tmpfs none /sys/class/net
mkdir -p "/sys/class/net/$CARD" "$FAKES/device"
ln -s "$FAKES/device" "/sys/class/net/$CARD/device"
echo 1 > "/sys/class/net/$CARD/carrier"
echo "$PARAMETERS" > "$FAKES/cmdline"
mount --bind "$FAKES/cmdline" /proc/cmdline
PATH="$FAKES/bin:$PATH" exec "$@"
"#;

/// An agent that runs.
pub(super) struct PythonAgent {
    child: Child,
    log: PathBuf,
    version: String,
}

/// The service that it asks, and the places of its files.
pub(super) struct Asks<'a> {
    /// Its directory.
    pub(super) dir: &'a Path,
    /// Its address.
    pub(super) address: IpAddr,
    /// The URL of that service.
    pub(super) url: &'a str,
    /// The authority of the service's certificate.
    pub(super) authority: Option<PathBuf>,
}

/// Starts it with a first URL where nobody is; none where it cannot run here.
pub(super) fn start(asks: &Asks<'_>, card: &str) -> Option<PythonAgent> {
    let skip = |why: &str| tests::skip("ironic-python-agent", why);
    if !tests::is_root() {
        skip("it needs root for its own view of the machine's cards");
        return None;
    }
    let version = std::env::var(VERSION).unwrap_or_else(|_unset| USUAL.to_owned());
    let program = match installed(&version) {
        Ok(program) => program,
        Err(why) => {
            skip(&why);
            return None;
        }
    };
    let Asks { dir, address, url, authority } = asks;
    let fakes = dir.join("fakes");
    fs::create_dir_all(fakes.join("bin")).unwrap();
    let silent = FAKED.into_iter().map(|name| (name, ""));
    for (name, told) in silent.chain([("lsblk", LSBLK), ("lshw", LSHW)]) {
        let file = fakes.join("bin").join(name);
        let script = format!("#!/bin/sh\ncase \"$*\" in *json*) echo '{told}';; esac\n");
        stdx::atomic::write(&file, script.as_bytes(), 0o755).unwrap();
    }
    let log = dir.join("ironic-python-agent.log");
    let nobody = format!("http://{}:9", place::address());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", START, "sh"]).arg(program);
    // The parameters that the boot script of an agent gives to a kernel.
    let parameters = format!(
        "quiet ipa-api-url={nobody},{url} ipa-inspection-callback-url={url}/v1/continue_inspection"
    );
    command.arg(format!("--listen_host={address}")).arg(format!("--advertise_host={address}"));
    command.arg("--debug");
    command.args(authority.iter().map(|path| format!("--cafile={}", path.display())));
    command.args([
        "--lookup_timeout=60",
        "--lookup_interval=1",
        "--inspection_dhcp_wait_timeout=0",
    ]);
    command.args(["--disk_wait_attempts=1", "--disk_wait_delay=0"]);
    command.env("FAKES", &fakes).env("PARAMETERS", parameters).env("CARD", card).current_dir(dir);
    let out = File::create(&log).unwrap();
    command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
    Some(PythonAgent { child: command.spawn().unwrap(), log, version })
}

/// A card of this machine with its address: the agent asks the kernel for that, and believes no file.
pub(super) fn card() -> Option<(String, String)> {
    let cards = fs::read_dir("/sys/class/net").ok()?;
    let mut cards = cards.filter_map(|card| {
        let card = card.ok()?;
        let address = fs::read_to_string(card.path().join("address")).ok()?;
        let mac: MacAddress = address.parse().ok()?;
        mac.unusable()
            .is_none()
            .then(|| (card.file_name().to_string_lossy().into_owned(), mac.to_string()))
    });
    cards.next()
}

/// The program of this version: the set-up installs the usual one, and others are installed here.
fn installed(version: &str) -> Result<PathBuf, String> {
    if version == USUAL {
        return xtask::needs::provide("ironic-python-agent");
    }
    let target = programs().dir().parent().map(Path::to_owned).unwrap_or_default();
    let place = target.join(format!("ironic-python-agent-{version}"));
    let program = place.join("bin/ironic-python-agent");
    let done = place.join("installed");
    if done.exists() {
        return Ok(program);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&place);
    let mut install = Command::new(place.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check"]);
    install.arg(format!("ironic-python-agent=={version}"));
    for command in [make, install] {
        if Command::new(command.get_program()).arg("--version").output().is_err() {
            return Err(format!("there is no {}", command.get_program().display()));
        }
        let ended = run(command);
        if !ended.status.success() {
            return Err(format!("{}: {}", ended.command, ended.stderr));
        }
    }
    stdx::atomic::write(&done, version.as_bytes(), 0o644).unwrap();
    Ok(program)
}

impl PythonAgent {
    /// Its log.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Whether it has ended, which it never does by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Heartbeats that were answered well.
    pub(super) fn heartbeats(&self) -> usize {
        self.log().matches("heartbeat successful").count()
    }
}

impl Drop for PythonAgent {
    #[expect(clippy::print_stderr, reason = "a test that failed says what it saw")]
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}
