//! IPMI 2.0 over LAN, by `ipmitool`, which knows the controllers' ways.

use std::process::Stdio;

use model::bmc::{BootOnce, Health, PowerAction, PowerState, Sensor};
use model::inventory::{Inventory, text};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::error::BmcError;
use crate::power::Power;
use crate::target::Controller;

/// The program.
const PROGRAM: &str = "ipmitool";
/// The variable by which it takes the password: arguments are seen by every process of the machine.
const PASSWORD: &str = "IPMI_PASSWORD";
/// Longest output that is read.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// Sensors that are kept.
const SENSORS_MAX: usize = 512;
/// How often a command is tried that finds the controller busy.
const BUSY_TRIES: u32 = 3;
/// Cipher suites that are tried, the better first: SHA-256, and what every controller has.
const CIPHERS: [&str; 2] = ["17", "3"];

/// A machine as its controller shows it by IPMI.
pub(crate) struct Ipmi<'a> {
    controller: &'a Controller,
    /// The one of [`CIPHERS`] that is in use.
    cipher: usize,
}

impl<'a> Ipmi<'a> {
    pub(crate) const fn new(controller: &'a Controller) -> Self {
        Self { controller, cipher: 0 }
    }

    fn url(&self) -> String {
        self.controller.url.to_string()
    }

    /// Runs a command, with the cipher suite that the controller takes.
    async fn run(&mut self, words: &[&str]) -> Result<String, BmcError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.once(words).await {
                Err(BmcError::Unreachable { reason, .. })
                    if is_cipher(&reason) && self.cipher + 1 < CIPHERS.len() =>
                {
                    self.cipher += 1;
                }
                Err(BmcError::Refused { reason, .. })
                    if reason.contains("Node busy") && tries < BUSY_TRIES =>
                {
                    sleep(self.controller.times.busy * tries).await;
                }
                other => return other,
            }
        }
    }

    /// What it tells; nothing where it has none of that.
    async fn told(&mut self, words: &[&str]) -> Result<String, BmcError> {
        match self.run(words).await {
            Err(BmcError::Refused { .. }) => Ok(String::new()),
            other => other,
        }
    }

    async fn once(&self, words: &[&str]) -> Result<String, BmcError> {
        let Controller { url, login, times, .. } = self.controller;
        let mut command = Command::new(PROGRAM);
        command.args(["-I", "lanplus", "-H", &url.host, "-p", &url.port.to_string()]);
        command.args(["-U", &login.user, "-E", "-N", "2", "-R", "2", "-C"]);
        command.arg(CIPHERS.get(self.cipher).unwrap_or(&"3")).args(words);
        command.env(PASSWORD, login.password.expose()).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        let request = words.join(" ");
        let program = |error| BmcError::Program { program: PROGRAM.to_owned(), error };
        let mut child = command.spawn().map_err(program)?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let run = async {
            let (mut told, mut failed) = (String::new(), String::new());
            let read = |from: Option<_>, into| async move {
                let Some(from) = from else { return Ok(0) };
                tokio::io::AsyncReadExt::take(from, OUTPUT_BYTES_MAX).read_to_string(into).await
            };
            let other = async {
                let Some(err) = err else { return Ok(0) };
                err.take(OUTPUT_BYTES_MAX).read_to_string(&mut failed).await
            };
            let (_out, _err) = tokio::try_join!(read(out, &mut told), other)?;
            let status = child.wait().await?;
            Ok::<_, std::io::Error>((status, told, failed))
        };
        let limit = times.answer;
        let ran = timeout(limit, run).await;
        let silent =
            |_elapsed| BmcError::Silent { url: self.url(), request: request.clone(), limit };
        let (status, told, failed) = ran.map_err(silent)?.map_err(program)?;
        if status.success() { Ok(told) } else { Err(self.failure(request, &failed)) }
    }

    /// What the program says of a failure, in our words where it is known.
    fn failure(&self, request: String, told: &str) -> BmcError {
        let url = self.url();
        let last = told.lines().rfind(|line| !line.trim().is_empty());
        let reason = last.map(text).unwrap_or_default();
        let says = |words: &[&str]| words.iter().any(|word| told.contains(word));
        if says(&["password", "HMAC is invalid", "unauthorized name", "insufficient privilege"]) {
            BmcError::Login { url }
        } else if says(&["Unable to establish", "Address lookup", "no response", "timeout"]) {
            BmcError::Unreachable { url, reason }
        } else {
            BmcError::Refused { url, request, reason }
        }
    }

    pub(crate) async fn boot_once(&mut self, from: BootOnce) -> Result<(), BmcError> {
        let device = match from {
            BootOnce::Network => "pxe",
            BootOnce::Disk => "disk",
        };
        let uefi = self.run(&["chassis", "bootdev", device, "options=efiboot"]).await;
        match uefi {
            // Some take no options.
            Err(BmcError::Refused { .. }) => {
                self.run(&["chassis", "bootdev", device]).await.map(drop)
            }
            other => other.map(drop),
        }
    }

    pub(crate) async fn health(&mut self) -> Result<Health, BmcError> {
        let power = self.state().await?;
        let sensors = sensors(&self.told(&["-c", "sdr", "list", "full"]).await?);
        Ok(Health { power, health: None, sensors })
    }

    pub(crate) async fn inventory(&mut self) -> Result<Inventory, BmcError> {
        let board = self.told(&["fru", "print", "0"]).await?;
        let controller = self.told(&["mc", "info"]).await?;
        let field = |from: &str, name: &str| field(from, name).unwrap_or_default();
        Ok(Inventory {
            manufacturer: field(&board, "Product Manufacturer"),
            product: field(&board, "Product Name"),
            serial: field(&board, "Product Serial"),
            bmc_firmware: field(&controller, "Firmware Revision"),
            ..Inventory::default()
        })
    }
}

impl Power for Ipmi<'_> {
    async fn state(&mut self) -> Result<PowerState, BmcError> {
        let told = self.run(&["chassis", "power", "status"]).await?;
        match told.trim() {
            "Chassis Power is on" => Ok(PowerState::On),
            "Chassis Power is off" => Ok(PowerState::Off),
            other => Err(BmcError::Nonsense {
                url: self.url(),
                request: "chassis power status".to_owned(),
                reason: text(other),
            }),
        }
    }

    async fn ask(&mut self, action: PowerAction) -> Result<(), BmcError> {
        let word = match action {
            PowerAction::On | PowerAction::Cycle => "on",
            PowerAction::Off => "off",
            PowerAction::SoftOff => "soft",
        };
        self.run(&["chassis", "power", word]).await.map(drop)
    }
}

/// Whether a session failed for its cipher suite, as far as the program tells.
fn is_cipher(reason: &str) -> bool {
    reason.contains("Unable to establish")
}

fn field(told: &str, name: &str) -> Option<String> {
    let lines = told.lines().filter_map(|line| line.split_once(':'));
    let mut named = lines.filter(|(key, _)| key.trim() == name);
    named.next().map(|(_, value)| text(value))
}

/// Lines of `sdr list` with commas: name, reading, unit, status.
fn sensors(told: &str) -> Vec<Sensor> {
    let all = told.lines().filter_map(|line| {
        let mut fields = line.split(',').map(str::trim);
        let (name, reading) = (fields.next()?, fields.next()?);
        let (unit, status) = (fields.next()?, fields.next()?);
        let health = match status {
            "ok" => "OK",
            "lnc" | "unc" | "nc" => "Warning",
            "lcr" | "ucr" | "cr" | "lnr" | "unr" | "nr" => "Critical",
            other => other,
        };
        let has_reading = !reading.is_empty() && status != "ns";
        let reading = has_reading.then(|| text(&format!("{reading} {unit}")));
        Some(Sensor { name: text(name), reading, health: text(health) })
    });
    all.take(SENSORS_MAX).collect()
}

#[cfg(test)]
mod simulator;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensors_read() {
        let told = "CPU Temp,42,degrees C,ok\nFAN1,0,RPM,lcr\nSlot 3,,,ns\nnonsense\n";
        let all = sensors(told);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].reading.as_deref(), Some("42 degrees C"));
        assert_eq!((all[1].health.as_str(), all[2].reading.as_deref()), ("Critical", None));
    }

    #[test]
    fn fields_read() {
        let told = " Product Name          : R630\n Product Serial        : SN:1\n";
        assert_eq!(field(told, "Product Name").as_deref(), Some("R630"));
        assert_eq!(field(told, "Product Serial").as_deref(), Some("SN:1"));
        assert_eq!(field(told, "Board"), None);
    }
}
