//! Core: the text of the configuration that `xl` reads for a launch.

use std::path::Path;

use model::instance::disk::DiskMode;
use model::instance::launch::Launch;

use super::cards::vif;
use crate::kvm::Filled;
use crate::kvm::plan::PlanError;

/// The actions of Xen's own programs at the end of a guest. They keep the domain, so that the agent sees
/// why it ended. Only the agent removes or repeats a domain, so none comes back after its run is over.
const EVENTS: [&str; 5] = ["on_poweroff", "on_reboot", "on_watchdog", "on_crash", "on_soft_reset"];
/// The usual `kernel_path` of xen-hvm: Xen finds this program itself.
const HVMLOADER: &str = "/usr/lib/xen/boot/hvmloader";
/// The usual `device_model`, which Xen has had no more since its version 4.2; it finds its own QEMU.
const DEVICE_MODEL: &str = "/usr/lib/xen/bin/qemu-dm";
/// The usual `vnc_bind_address`: it counts as no wish.
const VNC_BIND_ADDRESS: &str = "0.0.0.0";
/// The usual `cpu_weight`. Xen has it by itself, and not every scheduler takes one.
const CPU_WEIGHT: u64 = 256;
/// Disks that an emulated IDE controller holds.
const IDE_DISKS_MAX: usize = 4;

/// A configuration that grows, a setting in each line.
#[derive(Debug, Default)]
struct Config(String);

impl Config {
    fn number(&mut self, key: &str, value: u64) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }

    fn flag(&mut self, key: &str, value: bool) {
        self.number(key, u64::from(value));
    }

    /// A text, which a parameter gave.
    fn text(&mut self, key: &str, value: &str, of: &'static str) -> Result<(), PlanError> {
        self.0.push_str(&format!("{key} = {}\n", quoted(value, of)?));
        Ok(())
    }

    /// A list of texts; nothing where it is empty.
    fn list(&mut self, key: &str, values: &[String], of: &'static str) -> Result<(), PlanError> {
        if values.is_empty() {
            return Ok(());
        }
        let values = values.iter().map(|value| quoted(value, of)).collect::<Result<Vec<_>, _>>()?;
        self.0.push_str(&format!("{key} = [ {} ]\n", values.join(", ")));
        Ok(())
    }
}

/// A text in the quotes of `xl`, where a backslash keeps the next character.
fn quoted(value: &str, of: &'static str) -> Result<String, PlanError> {
    if value.chars().any(char::is_control) {
        let why = format!(
            "{value:?} has a line break or another control character, which xl does not take"
        );
        return Err(PlanError::new(of, why));
    }
    Ok(format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Refuses parameters that this version does not know how to start.
///
/// # Errors
/// One of them has a value.
pub(super) fn known(parameters: Filled<'_>, is_hvm: bool) -> Result<(), PlanError> {
    if !parameters.text("soundhw").is_empty() {
        return Err(PlanError::new("soundhw", "this version gives guests no screen and no sound"));
    }
    if is_hvm && !matches!(parameters.text("vnc_bind_address"), "" | VNC_BIND_ADDRESS) {
        let why = "this version gives guests no screen and no sound";
        return Err(PlanError::new("vnc_bind_address", why));
    }
    if is_hvm {
        return Ok(());
    }
    match (parameters.flag("use_bootloader"), parameters.text("bootloader_path")) {
        (true, "") => Err(PlanError::new("bootloader_path", "use_bootloader needs one")),
        (false, _) if parameters.text("kernel_path").is_empty() => {
            let why = "a paravirtual guest needs a kernel, or use_bootloader with bootloader_path";
            Err(PlanError::new("kernel_path", why))
        }
        _ => Ok(()),
    }
}

/// The configuration of a launch. The disk in the file `seed` tells a guest who it is.
///
/// # Errors
/// A value is none with which a guest starts, or none that `xl` can read.
pub(crate) fn config(launch: &Launch, seed: Option<&Path>) -> Result<String, PlanError> {
    let parameters = Filled(&launch.hvparams);
    let is_hvm = launch.hypervisor == "xen-hvm";
    known(parameters, is_hvm)?;
    let mut config = Config::default();
    config.text("type", if is_hvm { "hvm" } else { "pv" }, "hypervisor")?;
    config.text("name", launch.name.as_str(), "name")?;
    config.text("uuid", &launch.uuid.to_string(), "uuid")?;
    for key in EVENTS {
        config.text(key, "preserve", key)?;
    }
    config.number("memory", launch.memory());
    config.number("maxmem", launch.memory());
    config.number("vcpus", u64::from(launch.vcpus()));
    scheduled(&mut config, parameters)?;
    cpuid(&mut config, parameters)?;
    match is_hvm {
        true => hvm(&mut config, parameters)?,
        false => pv(&mut config, parameters)?,
    }
    let disks = disks(launch, parameters, seed)?;
    config.list("disk", &disks, "disk")?;
    let cards = launch.nics.iter().map(|nic| vif(nic, parameters, is_hvm));
    config.list("vif", &cards.collect::<Result<Vec<_>, _>>()?, "vif_script")?;
    Ok(config.0)
}

/// The host's processors that a guest gets, and its share of them.
fn scheduled(config: &mut Config, parameters: Filled<'_>) -> Result<(), PlanError> {
    match parameters.text("cpu_mask") {
        "" | "all" => {}
        // Ganeti's colons separate the masks of single processors of the guest.
        masks if masks.contains(':') => {
            let masks: Vec<String> = masks.split(':').map(str::to_owned).collect();
            config.list("cpus", &masks, "cpu_mask")?;
        }
        mask => config.text("cpus", mask, "cpu_mask")?,
    }
    match parameters.number("cpu_weight") {
        0 | CPU_WEIGHT => {}
        weight => config.number("cpu_weight", weight),
    }
    match parameters.number("cpu_cap") {
        0 => {}
        cap => config.number("cap", cap),
    }
    Ok(())
}

/// The features that a guest sees: a text in the form of libxl, or a list in the form of the old `xend`.
fn cpuid(config: &mut Config, parameters: Filled<'_>) -> Result<(), PlanError> {
    let text = parameters.text("cpuid");
    let Some(list) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        return if text.is_empty() { Ok(()) } else { config.text("cpuid", text, "cpuid") };
    };
    // A word of the list has commas itself, so its quotes are what ends it.
    let is_quote = |c: char| c == '"' || c == '\'';
    let words: Vec<String> = list.split(is_quote).skip(1).step_by(2).map(str::to_owned).collect();
    if words.is_empty() {
        return Err(PlanError::new("cpuid", "a list has its words in quotes: ['1:ecx=x…']"));
    }
    config.list("cpuid", &words, "cpuid")
}

/// The start of a paravirtual guest: a kernel of the host, or a boot loader that finds one on the disk.
fn pv(config: &mut Config, parameters: Filled<'_>) -> Result<(), PlanError> {
    if parameters.flag("use_bootloader") {
        config.text("bootloader", parameters.text("bootloader_path"), "bootloader_path")?;
        let words = parameters.text("bootloader_args").split_whitespace();
        let words: Vec<String> = words.map(str::to_owned).collect();
        config.list("bootloader_args", &words, "bootloader_args")?;
    } else {
        config.text("kernel", parameters.text("kernel_path"), "kernel_path")?;
        let initrd = parameters.text("initrd_path");
        if !initrd.is_empty() {
            config.text("ramdisk", initrd, "initrd_path")?;
        }
    }
    for (key, name) in [("root", "root_path"), ("extra", "kernel_args")] {
        match parameters.text(name) {
            "" => {}
            value => config.text(key, value, name)?,
        }
    }
    Ok(())
}

/// The machine of a whole virtual one. It has a serial port for `xl console`, and no screen.
fn hvm(config: &mut Config, parameters: Filled<'_>) -> Result<(), PlanError> {
    for key in ["acpi", "pae", "viridian"] {
        config.flag(key, parameters.flag(key));
    }
    config.flag("localtime", parameters.flag("use_localtime"));
    config.text("boot", parameters.text("boot_order"), "boot_order")?;
    for (key, name, usual) in [
        ("firmware_override", "kernel_path", HVMLOADER),
        ("device_model_override", "device_model", DEVICE_MODEL),
    ] {
        match parameters.text(name) {
            "" => {}
            path if path == usual => {}
            path => config.text(key, path, name)?,
        }
    }
    config.flag("vnc", false);
    config.flag("sdl", false);
    config.text("serial", "pty", "serial")?;
    let passed = parameters.text("pci_pass").split(';').map(str::trim);
    let passed: Vec<String> = passed.filter(|one| !one.is_empty()).map(str::to_owned).collect();
    config.list("pci", &passed, "pci_pass")
}

/// The disks in `xl`'s words. A path comes last in each, where `xl` takes all that follows for it.
fn disks(
    launch: &Launch,
    parameters: Filled<'_>,
    seed: Option<&Path>,
) -> Result<Vec<String>, PlanError> {
    let prefix = parameters.text("blockdev_prefix");
    if !matches!(prefix, "hd" | "sd" | "xvd") {
        let why = format!("`{prefix}` is none of hd, sd and xvd, which Xen knows");
        return Err(PlanError::new("blockdev_prefix", why));
    }
    let disk = |letter: char, access: &str, path: &str| {
        format!("format=raw, vdev={prefix}{letter}, access={access}, target={path}")
    };
    let mut letters = 'a'..='z';
    let mut disks = Vec::new();
    let own = launch.disks.iter().map(|disk| {
        let access = if disk.mode == DiskMode::ReadWrite { "rw" } else { "ro" };
        (access, disk.place.path().to_owned())
    });
    let seed = seed.map(|path| ("ro", path.display().to_string()));
    for (access, path) in own.chain(seed) {
        let none = || PlanError::new("blockdev_prefix", "no letter is left for a disk");
        disks.push(disk(letters.next().ok_or_else(none)?, access, &path));
    }
    if prefix == "hd" && disks.len() > IDE_DISKS_MAX {
        let why = format!("{} disks, where `hd` has {IDE_DISKS_MAX}; `xvd` has more", disks.len());
        return Err(PlanError::new("blockdev_prefix", why));
    }
    match parameters.text("cdrom_image_path") {
        "" => {}
        path => {
            // Ganeti's place of it, or the next one where a disk has that.
            let letter = if disks.len() > 2 { 'd' } else { 'c' };
            if disks.len() >= IDE_DISKS_MAX {
                let why = format!("{} disks leave it no place", disks.len());
                return Err(PlanError::new("cdrom_image_path", why));
            }
            disks.push(format!(
                "format=raw, vdev=hd{letter}, access=ro, devtype=cdrom, target={path}"
            ));
        }
    }
    Ok(disks)
}

#[cfg(test)]
mod tests;
