//! IPMI 2.0 over LAN, by `ipmitool`, which knows the controllers' ways.

mod said;

use std::collections::BTreeMap;

use model::bmc::{BmcPrivilege, BootOnce, Health, PowerAction, PowerState};
use model::inventory::{Inventory, Parts, text};
use stdx::program::{Limits, ProgramError, run};
use tokio::process::Command;
use tokio::time::sleep;

use crate::error::BmcError;
use crate::target::Controller;
use said::Cause;

/// The program.
const PROGRAM: &str = "ipmitool";
/// The variable by which it takes the password: arguments are seen by every process of the machine.
const PASSWORD: &str = "IPMI_PASSWORD";
/// Longest output that is read.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
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

/// The output of `ipmitool`.
struct Output {
    is_success: bool,
    told: String,
    complained: String,
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
            let output = self.once(words).await?;
            if output.is_success {
                return Ok(output.told);
            }
            let (cause, reason) = said::cause(&output.complained);
            match cause {
                Cause::Session if self.cipher + 1 < CIPHERS.len() => self.cipher += 1,
                Cause::NotReady if tries < BUSY_TRIES => {
                    sleep(self.controller.times.busy * tries).await;
                }
                cause => return Err(self.failure(cause, words, reason)),
            }
        }
    }

    async fn once(&self, words: &[&str]) -> Result<Output, BmcError> {
        let Controller { url, login, times, privilege, .. } = self.controller;
        let mut command = Command::new(PROGRAM);
        command.args(["-I", "lanplus", "-H", &url.host, "-p", &url.port.to_string()]);
        command.args(["-U", &login.user, "-E", "-N", "2", "-R", "2"]);
        if let Some(privilege) = privilege {
            command.args(["-L", level(*privilege)]);
        }
        command.args(["-C", CIPHERS.get(self.cipher).unwrap_or(&"3")]).args(words);
        command.env(PASSWORD, login.password.expose()).env("LC_ALL", "C");
        let limits =
            Limits { time: times.answer, told: OUTPUT_BYTES_MAX, complained: OUTPUT_BYTES_MAX };
        let ended = run(command, b"", limits).await.map_err(|error| match error {
            ProgramError::Run(error) => BmcError::Program { program: PROGRAM.to_owned(), error },
            ProgramError::Late(limit) => {
                BmcError::Silent { url: self.url(), request: words.join(" "), limit }
            }
        })?;
        // Controllers send what is no text, which the program prints as it is.
        let told = String::from_utf8_lossy(&ended.told).into_owned();
        let is_success = ended.status.success();
        Ok(Output { is_success, told, complained: ended.complained })
    }

    fn failure(&self, cause: Cause, words: &[&str], reason: String) -> BmcError {
        let (url, request) = (self.url(), words.join(" "));
        match cause {
            Cause::Login => BmcError::Login { url },
            Cause::Privilege => BmcError::Privilege { url, reason, has_levels: true },
            Cause::NotReady => BmcError::NotReady { url, request, reason },
            Cause::Session | Cause::Unreachable => BmcError::Unreachable { url, reason },
            Cause::Other => BmcError::Refused { url, request, reason },
        }
    }

    /// Sets where the next boot comes from, and returns when the controller shows that, as far as it shows it.
    pub(crate) async fn boot_once(&mut self, from: BootOnce) -> Result<(), BmcError> {
        let device = match from {
            BootOnce::Network => "pxe",
            BootOnce::Disk => "disk",
        };
        let with_uefi = ["chassis", "bootdev", device, "options=efiboot"];
        let mut failure = None;
        // Some take no options.
        for words in [&with_uefi[..], &with_uefi[..3]] {
            match self.run(words).await {
                Ok(_said) => {}
                Err(error @ BmcError::Refused { .. }) => {
                    failure = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            }
            // The program says that it succeeded also where the controller refused.
            match self.run(&["chassis", "bootparam", "get", "5"]).await {
                Ok(told) => match said::boot_device(&told) {
                    Some(shown) if !said::is_device(&shown, from) => {
                        failure = Some(BmcError::NotKept { url: self.url(), from, shown });
                    }
                    Some(_) | None => return Ok(()),
                },
                Err(BmcError::Refused { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let what = format!("boot once from {}", from.as_str());
        Err(failure.unwrap_or_else(|| BmcError::Unsupported { url: self.url(), what }))
    }

    pub(crate) async fn health(&mut self) -> Result<Health, BmcError> {
        let power = self.state().await?;
        let (told, unread) = match self.run(&["-c", "sdr", "list", "full"]).await {
            Ok(told) => (told, Vec::new()),
            Err(error @ BmcError::Refused { .. }) => (String::new(), vec![error.to_string()]),
            Err(error) => return Err(error),
        };
        Ok(Health { power, health: None, sensors: said::sensors(&told), unread })
    }

    pub(crate) async fn inventory(&mut self) -> Result<Inventory, BmcError> {
        let board = self.told(&["fru", "print", "0"]).await?;
        let controller = self.told(&["mc", "info"]).await?;
        let field = |names: &[&str]| said::field(&board, names);
        let untold = "IPMI does not tell of them".to_owned();
        Ok(Inventory {
            manufacturer: field(&["Product Manufacturer", "Board Mfg"]),
            product: field(&[
                "Product Name",
                "Product Part Number",
                "Board Product",
                "Board Part Number",
            ]),
            serial: field(&["Product Serial"]),
            bmc_firmware: said::field(&controller, &["Firmware Revision"]),
            unread: BTreeMap::from(Parts::ALL.map(|parts| (parts, untold.clone()))),
            ..Inventory::default()
        })
    }

    /// The output of a command; empty where the controller refuses it.
    async fn told(&mut self, words: &[&str]) -> Result<String, BmcError> {
        match self.run(words).await {
            Err(BmcError::Refused { .. }) => Ok(String::new()),
            other => other,
        }
    }

    /// Whether the machine runs.
    pub(crate) async fn state(&mut self) -> Result<PowerState, BmcError> {
        let told = self.run(&["chassis", "power", "status"]).await?;
        said::power(&told).ok_or_else(|| BmcError::Nonsense {
            url: self.url(),
            request: "chassis power status".to_owned(),
            reason: text(&told),
        })
    }

    /// Orders one of on, off and soft off; whether it happens is to be seen.
    pub(crate) async fn order(&mut self, action: PowerAction) -> Result<(), BmcError> {
        let word = match action {
            PowerAction::On | PowerAction::Cycle => "on",
            PowerAction::Off => "off",
            PowerAction::SoftOff => "soft",
        };
        self.run(&["chassis", "power", word]).await.map(drop)
    }
}

/// The level as the program takes it.
const fn level(privilege: BmcPrivilege) -> &'static str {
    match privilege {
        BmcPrivilege::User => "USER",
        BmcPrivilege::Operator => "OPERATOR",
        BmcPrivilege::Administrator => "ADMINISTRATOR",
    }
}

#[cfg(test)]
mod simulator;
