//! A small cluster around a switch, and guests that boot from it.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use model::layout::{Layout, PEER_PORT};

use super::parts::Parts;
use super::secure::Secure;
use super::wires::{Switch, port};
use super::{GuestError, run};
use crate::needs;
use crate::programs::Programs;
use crate::stage::{Stage, StageError};

/// How long a daemon may take to serve.
pub const SOON: Duration = Duration::from_secs(60);
/// How long a guest may take from power-on to its first program, without hardware support.
pub const BOOT_TIME_MAX: Duration = Duration::from_secs(240);
/// MiB of memory that a guest has: its file system is in there twice while it boots.
const MEMORY_MIB: &str = "768";
/// A machine whose firmware alone writes its variables.
const SECURE: &[&str] =
    &["-M", "q35,smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on"];
/// Lines of a console that an error shows.
const LAST_LINES: usize = 12;
/// Mode of its files.
const MODE: u32 = 0o644;
/// Addresses by rule, as in sabakan's specification.
const IPAM: &str = r#"{"max-nodes-in-rack": 28, "node-ipv4-pool": "10.69.0.0/16",
 "node-ipv4-range-size": 6, "node-ipv4-range-mask": 26, "node-ip-per-node": 3, "node-index-offset": 3,
 "bmc-ipv4-pool": "10.72.16.0/20", "bmc-ipv4-offset": "0.0.1.0", "bmc-ipv4-range-size": 5,
 "bmc-ipv4-range-mask": 20}"#;

/// Rack 0 with its nodes; node 1 is the master.
#[derive(Debug)]
pub struct Rack {
    programs: Programs,
    /// Its daemons and guests, and the files of all.
    pub stage: Stage,
    /// The switch that they are at.
    pub switch: Switch,
    /// None where there are no guests.
    parts: Option<Parts>,
}

/// A guest to be switched on.
#[derive(Debug, Clone, Copy)]
pub struct Guest<'g> {
    /// Its port at the switch.
    pub number: u8,
    /// Serial number in its firmware.
    pub serial: &'g str,
    /// Address of its card.
    pub mac: &'g str,
    /// A directory that it has as a disk.
    pub disk: Option<&'g Path>,
    /// Its firmware, where that boots signed files alone.
    pub secure: Option<&'g Secure>,
}

impl Rack {
    /// A cluster whose nodes all serve rack 0, and wires for guests. Node 1 is its master.
    ///
    /// # Errors
    /// Guests cannot run here, or the cluster does not begin.
    pub fn new(programs: Programs, dir: &Path, nodes: u8, guests: u8) -> Result<Self, GuestError> {
        Self::with_rules(programs, dir, (nodes, guests), IPAM)
    }

    /// The same, with addresses by other rules.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_rules(
        programs: Programs,
        dir: &Path,
        (nodes, guests): (u8, u8),
        ipam: &str,
    ) -> Result<Self, GuestError> {
        let parts = (guests > 0).then(Parts::provide).transpose()?;
        let addresses: Vec<Ipv4Addr> = (1..=nodes).map(address).collect();
        let switch = Switch::new(guests, &addresses)?;
        let rack = Self { programs, stage: Stage::new(dir)?, switch, parts };
        let own = address(1).to_string();
        let init = ["cluster", "init", "guests.example", "--node-name", "n1.example"];
        rack.gnt(&[&init[..], &["--primary-ip", &own]].concat())?;
        rack.start_master()?;
        rack.start_agent(1, &[])?;
        for node in 2..=nodes {
            rack.enrol(node)?;
        }
        for node in 1..=nodes {
            rack.gnt(&["node", "modify", "--rack", "0", &format!("n{node}.example")])?;
        }
        let rules = rack.stage.root().join("ipam.json");
        write(&rules, ipam)?;
        rack.gnt(&["ipam", "set", "-f", &rules.display().to_string()])?;
        Ok(rack)
    }

    /// The parts of the guests.
    ///
    /// # Panics
    /// If it is a rack without guests.
    pub fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("guests have parts")
    }

    fn root(&self, node: u8) -> PathBuf {
        self.stage.root().join(format!("n{node}"))
    }

    /// `gnt` on the master's node.
    pub fn gnt_command(&self, arguments: &[&str]) -> Command {
        let mut gnt = self.programs.command("gnt");
        gnt.env("GANTRY_ROOT", self.root(1)).args(arguments);
        self.switch.at_node(1, &gnt)
    }

    /// What `gnt` prints.
    ///
    /// # Errors
    /// It fails.
    pub fn gnt(&self, arguments: &[&str]) -> Result<String, GuestError> {
        run(&mut self.gnt_command(arguments))
    }

    /// Starts the master's daemon, and waits for its socket.
    ///
    /// # Errors
    /// It does not serve.
    pub fn start_master(&self) -> Result<(), GuestError> {
        let mut masterd = self.programs.command("masterd");
        masterd.arg("--root").arg(self.root(1));
        masterd.args(["--peers", &format!("{}:{PEER_PORT}", address(1))]);
        self.stage.start("masterd", self.switch.at_node(1, &masterd))?;
        let socket = Layout::new(self.root(1)).luxi_socket();
        Ok(self.stage.wait_until("the socket of masterd", SOON, || socket.exists())?)
    }

    fn enrol(&self, node: u8) -> Result<(), GuestError> {
        self.start_agent(node, &["enroll", "--address", &address(node).to_string()])?;
        let output = self.stage.root().join(format!("noded{node}.out"));
        let token = || {
            let text = fs::read_to_string(&output).unwrap_or_default();
            text.lines().find_map(|line| line.strip_prefix("token: ").map(str::to_owned))
        };
        self.stage.wait_until("the token of a new node", SOON, || token().is_some())?;
        let secret = self.stage.root().join(format!("token{node}"));
        write(&secret, &token().unwrap_or_default())?;
        let input = fs::File::open(&secret)
            .map_err(|error| GuestError::File { path: secret.display().to_string(), error })?;
        let mut add = self.gnt_command(&["node", "add", &format!("n{node}.example")]);
        run(add.stdin(input)).map(drop)
    }

    /// Starts the agent of a node.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_agent(&self, node: u8, further: &[&str]) -> Result<(), StageError> {
        let mut noded = self.programs.command("noded");
        noded.arg("--root").arg(self.root(node)).args(further);
        if let Some(parts) = &self.parts {
            noded.arg("--ipxe").arg(&parts.ipxe);
        }
        self.stage.start(&format!("noded{node}"), self.switch.at_node(node, &noded))
    }

    /// Switches a guest on. Its output goes to [`Self::console`].
    ///
    /// # Errors
    /// It does not start.
    pub fn power_on(&self, guest: &Guest<'_>) -> Result<(), GuestError> {
        let name = port(guest.number);
        let variables = self.stage.root().join(format!("{name}.fd"));
        let parts = self.parts();
        let usual = (&parts.firmware, &parts.variables);
        let (firmware, first) = guest.secure.map_or(usual, |s| (&s.firmware, &s.variables));
        fs::copy(first, &variables)
            .map_err(|error| GuestError::File { path: variables.display().to_string(), error })?;
        let mut qemu = needs::command("qemu-system-x86_64");
        // A hypervisor inside a virtual machine may fail at once, and takes no less time to boot this.
        qemu.args(["-accel", "tcg,thread=multi"]);
        let machine = if guest.secure.is_some() { SECURE } else { &["-M", "q35"] };
        qemu.args(machine).args(["-cpu", "max", "-m", MEMORY_MIB, "-smp", "1"]);
        qemu.args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]);
        for (unit, file) in [
            ("unit=0,readonly=on", firmware.display().to_string()),
            ("unit=1", variables.display().to_string()),
        ] {
            qemu.args(["-drive", &format!("if=pflash,format=raw,{unit},file={file}")]);
        }
        qemu.args(["-netdev", &format!("tap,id=n0,ifname={name},script=no,downscript=no")]);
        let mac = guest.mac;
        let card = format!("virtio-net-pci,netdev=n0,mac={mac},romfile=,bootindex=1");
        qemu.args(["-device", &card, "-device", "virtio-rng-pci"]);
        if let Some(disk) = guest.disk {
            let drive = format!("if=none,id=d0,format=raw,readonly=on,file=fat:{}", disk.display());
            qemu.args(["-drive", &drive, "-device", "virtio-blk-pci,drive=d0,bootindex=2"]);
        }
        qemu.args(["-smbios", &format!("type=1,serial={}", guest.serial)]);
        qemu.args(["-uuid", &uuid(guest.mac)]);
        // HTTP boot alone: PXE over TFTP is not served, and would only wait.
        for option in ["IPv4PXESupport", "IPv6PXESupport"] {
            qemu.args(["-fw_cfg", &format!("name=opt/org.tianocore/{option},string=n")]);
        }
        Ok(self.stage.start(&name, self.switch.at_switch(&qemu))?)
    }

    /// The output of a guest so far.
    pub fn console(&self, guest: u8) -> String {
        let text = fs::read(self.stage.root().join(format!("{}.out", port(guest))));
        String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
    }

    /// Waits until a guest has printed a text.
    ///
    /// # Errors
    /// It did not in time, or ended before.
    pub fn wait_for(&self, guest: u8, text: &str) -> Result<(), GuestError> {
        let what = format!("`{text}` of guest {guest}");
        self.stage.wait_until(&what, BOOT_TIME_MAX, || {
            self.console(guest).contains(text) || self.stage.has_ended(&port(guest))
        })?;
        let console = self.console(guest);
        if console.contains(text) {
            return Ok(());
        }
        let last: Vec<&str> = console.lines().rev().take(LAST_LINES).collect();
        let said = last.into_iter().rev().collect::<Vec<_>>().join("\n");
        Err(GuestError::Ended { what, said })
    }

    /// Waits until what `gnt` prints, or fails with, has a text; gives it.
    ///
    /// # Errors
    /// It has not in time.
    pub fn wait_for_gnt(&self, arguments: &[&str], text: &str) -> Result<String, StageError> {
        let mut told = String::new();
        self.stage.wait_until(
            &format!("`{text}` of gnt {}", arguments.join(" ")),
            BOOT_TIME_MAX,
            || {
                told = match self.gnt_command(arguments).output() {
                    Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
                    Err(error) => error.to_string(),
                };
                told.contains(text)
            },
        )?;
        Ok(told)
    }

    /// Waits until the master knows that a machine has reached a stage of its boot.
    ///
    /// # Errors
    /// It did not in time.
    pub fn wait_for_stage(&self, serial: &str, stage: &str) -> Result<(), StageError> {
        let list = ["machine", "list", "--no-headers", "-o", "serial,stage"];
        let what = format!("stage {stage} of {serial}");
        self.stage.wait_until(&what, BOOT_TIME_MAX, || {
            let told = self.gnt(&list).unwrap_or_default();
            told.lines().any(|line| line.split_whitespace().eq([serial, stage]))
        })
    }
}

/// The system UUID of a guest with this card.
pub fn uuid(mac: &str) -> String {
    format!("11223344-5566-4788-99aa-{}", mac.replace(':', ""))
}

/// The address of a node, the one of the machine with its number in rack 0.
pub const fn address(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 69, 0, 3 * node)
}

fn write(path: &Path, text: &str) -> Result<(), GuestError> {
    stdx::atomic::write(path, text.as_bytes(), MODE).map_err(|error| GuestError::File {
        path: path.display().to_string(),
        error: io::Error::other(error),
    })
}
