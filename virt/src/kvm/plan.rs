//! Core: how QEMU is started for a launch: its words, the descriptors that it gets, and its user.

use std::path::PathBuf;

use model::instance::launch::Launch;
use model::instance::settings::UidRange;
use serde_json::json;

use super::desktop::Desktop;
use super::devices::Devices;
use super::firmware::Firmware;
use super::parts::content;
use super::words::{Filled, Given, Words, escaped};

/// The help that a node has for guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Whether its processor runs guests, through `/dev/kvm`.
    pub kvm: bool,
    /// Whether its kernel has an end of its own for cards.
    pub vhost_net: bool,
}

/// The user that QEMU is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunAs {
    /// The user that all guests share.
    Shared,
    /// A user that the operator names.
    Named(String),
    /// A user of these that no other guest of the node has.
    OfPool(Vec<UidRange>),
}

/// A start of QEMU.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) program: PathBuf,
    pub(super) words: Vec<String>,
    /// Descriptors, from [`super::words::FIRST_DESCRIPTOR`] on.
    pub(super) given: Vec<Given>,
    pub(super) user: RunAs,
}

/// A parameter with which no guest starts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parameter {parameter}: {why}")]
pub struct PlanError {
    pub parameter: &'static str,
    pub why: String,
}

impl PlanError {
    pub(crate) fn new(parameter: &'static str, why: impl Into<String>) -> Self {
        Self { parameter, why: why.into() }
    }
}

/// The machine of new instances.
const MACHINE: &str = "q35";
/// Most words of `kvm_extra`.
const EXTRA_WORDS_MAX: usize = 64;

/// Refuses parameters that this version does not know how to start; gives those that were read for it.
///
/// # Errors
/// One of them has a value.
pub(super) fn known(parameters: Filled<'_>) -> Result<Desktop<'_>, PlanError> {
    let refused = [(
        parameters.text("cdrom_image_path").contains("://"),
        "cdrom_image_path",
        "guests are confined and fetch nothing; give a file of the node",
    )];
    match refused.into_iter().find(|(is_refused, ..)| *is_refused) {
        Some((_, parameter, why)) => Err(PlanError::new(parameter, why)),
        None => Desktop::of(parameters),
    }
}

/// The start of QEMU for a launch on a host.
///
/// # Errors
/// A parameter has a value with which no guest starts here.
pub(crate) fn plan(
    launch: &Launch,
    host: Host,
    firmware: Option<&Firmware>,
) -> Result<Plan, PlanError> {
    let parameters = Filled(&launch.hvparams);
    let desktop = known(parameters)?;
    let mut words = Words::default();
    words.option("-name", format!("guest={},debug-threads=on", escaped(launch.name.as_str())));
    words.option("-uuid", launch.uuid.to_string());
    confined(&mut words);
    let machine = match parameters.text("machine_version") {
        "" => MACHINE,
        named => named,
    };
    accelerated(&mut words, parameters, machine, host)?;
    sized(&mut words, launch, parameters);
    let base = if parameters.flag("use_localtime") { "localtime" } else { "utc" };
    words.option("-rtc", format!("base={base}"));
    if parameters.text("reboot_behavior") == "exit" {
        words.option("-action", "reboot=shutdown");
    }
    started(&mut words, machine, firmware)?;
    connected(&mut words, parameters);
    tpm(&mut words, parameters);
    booted(&mut words, parameters);
    desktop.options(&mut words);
    Devices::new(&mut words, parameters, machine, host).all(launch, &desktop)?;
    extra(&mut words, parameters)?;
    Ok(Plan {
        program: PathBuf::from(parameters.text("kvm_path")),
        words: words.words,
        given: words.given,
        user: match parameters.text("security_model") {
            "user" => RunAs::Named(parameters.text("security_domain").to_owned()),
            "pool" => RunAs::OfPool(launch.users.clone()),
            _ => RunAs::Shared,
        },
    })
}

/// Takes from QEMU what it never needs, and keeps its end until the agent has seen it.
fn confined(words: &mut Words) {
    words.words.extend(["-no-user-config", "-nodefaults", "-no-shutdown", "-S"].map(str::to_owned));
    let sandbox = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
    words.option("-sandbox", sandbox);
    words.option("-display", "none");
    words.option("-msg", "timestamp=on");
}

/// The machine, and who runs its instructions.
fn accelerated(
    words: &mut Words,
    parameters: Filled<'_>,
    machine: &str,
    host: Host,
) -> Result<(), PlanError> {
    let acpi = if parameters.flag("acpi") { "on" } else { "off" };
    words.option("-machine", format!("{},acpi={acpi}", escaped(machine)));
    let by_kvm = match (parameters.text("kvm_flag"), parameters.text("accelerator")) {
        ("enabled", _) | ("", "kvm") => true,
        ("disabled", _) | ("", "tcg") => false,
        _ => host.kvm,
    };
    if by_kvm && !host.kvm {
        let why = "this node's processor runs no guests by /dev/kvm; `tcg` emulates one";
        return Err(PlanError::new("accelerator", why));
    }
    words.option("-accel", if by_kvm { "kvm" } else { "tcg,thread=multi" });
    let baseline = parameters.text("cpu_baseline");
    let cpu = match parameters.text("cpu_type") {
        "" if !baseline.is_empty() => baseline,
        "" if by_kvm => "host",
        "" => "max",
        named => named,
    };
    words.option("-cpu", cpu);
    Ok(())
}

/// Memory and processors.
fn sized(words: &mut Words, launch: &Launch, parameters: Filled<'_>) {
    let memory = launch.memory();
    match parameters.number("max_memory") {
        most if most > memory => {
            words.option("-m", format!("size={memory}M,slots=1,maxmem={most}M"));
            let more = most - memory;
            let backend =
                json!({"qom-type": "memory-backend-ram", "id": "more", "size": more << 20});
            words.object("-object", &backend);
        }
        _ => words.option("-m", format!("size={memory}M")),
    }
    let directory = parameters.text("mem_path");
    if !directory.is_empty() {
        let path = words.path(Given::Memory(PathBuf::from(directory)));
        let backend = json!({"qom-type": "memory-backend-file", "id": "ram", "mem-path": path,
            "size": memory << 20, "prealloc": true});
        words.object("-object", &backend);
        words.option("-machine", "memory-backend=ram");
    }
    let mut smp = launch.vcpus().to_string();
    let most = parameters.number("max_vcpus");
    if most > u64::from(launch.vcpus()) {
        smp.push_str(&format!(",maxcpus={most}"));
    }
    for (name, option) in
        [("cpu_sockets", "sockets"), ("cpu_cores", "cores"), ("cpu_threads", "threads")]
    {
        match parameters.number(name) {
            0 => {}
            count => smp.push_str(&format!(",{option}={count}")),
        }
    }
    words.option("-smp", smp);
}

/// The firmware, where it is not the machine's own.
fn started(words: &mut Words, machine: &str, firmware: Option<&Firmware>) -> Result<(), PlanError> {
    let Some(firmware) = firmware else { return Ok(()) };
    if !machine.contains("q35") {
        let why = format!("machine {machine} starts by BIOS alone; UEFI takes q35");
        return Err(PlanError::new("firmware", why));
    }
    let code = words.set(Given::Image(firmware.code.clone()));
    let variables = words.set(Given::Variables(firmware.clone()));
    let nodes =
        [content("firmware", &code, true, None), content("variables", &variables, false, None)];
    for node in nodes.as_flattened() {
        words.object("-blockdev", node);
    }
    words.option("-machine", "pflash0=firmware,pflash1=variables");
    if firmware.by_smm {
        words.option("-machine", "smm=on");
        words.option("-global", "driver=cfi.pflash01,property=secure,value=on");
    }
    Ok(())
}

/// The monitor, and the serial console with its log.
fn connected(words: &mut Words, parameters: Filled<'_>) {
    let monitor = words.descriptor(Given::Monitor);
    words.option("-chardev", format!("socket,id=monitor,fd={monitor},server=on,wait=off"));
    words.option("-mon", "chardev=monitor,mode=control");
    if parameters.flag("serial_console") {
        let log = words.set(Given::ConsoleLog);
        let console = words.descriptor(Given::Console);
        words.option(
            "-chardev",
            format!("socket,id=console,fd={console},server=on,wait=off,logfile={log},logappend=on"),
        );
        words.option("-serial", "chardev:console");
    }
    if parameters.flag("use_guest_agent") {
        let agent = words.descriptor(Given::GuestAgent);
        words.option("-chardev", format!("socket,id=agent,fd={agent},server=on,wait=off"));
        words.object("-device", &json!({"driver": "virtio-serial-pci", "id": "serial"}));
        let port = json!({"driver": "virtserialport", "chardev": "agent", "bus": "serial.0",
            "id": "agent", "name": "org.qemu.guest_agent.0"});
        words.object("-device", &port);
    }
}

/// The TPM, which is a process of its own.
fn tpm(words: &mut Words, parameters: Filled<'_>) {
    if parameters.flag("tpm") {
        let tpm = words.descriptor(Given::Tpm);
        words.option("-chardev", format!("socket,id=tpm-control,fd={tpm}"));
        words.option("-tpmdev", "emulator,id=tpm,chardev=tpm-control");
        words.object("-device", &json!({"driver": "tpm-crb", "id": "tpm-device", "tpmdev": "tpm"}));
    }
}

/// The kernel that QEMU loads itself, where one is named.
fn booted(words: &mut Words, parameters: Filled<'_>) {
    let (kernel, initrd) = (parameters.text("kernel_path"), parameters.text("initrd_path"));
    if kernel.is_empty() {
        return;
    }
    let kernel = words.path(Given::Image(PathBuf::from(kernel)));
    words.option("-kernel", kernel);
    if !initrd.is_empty() {
        let initrd = words.path(Given::Image(PathBuf::from(initrd)));
        words.option("-initrd", initrd);
    }
    let mut arguments = Vec::new();
    match parameters.text("root_path") {
        "" => {}
        root => arguments.push(format!("root={root}")),
    }
    match parameters.text("kernel_args") {
        "" => {}
        more => arguments.push(more.to_owned()),
    }
    if parameters.flag("serial_console") {
        arguments.push(format!("console=ttyS0,{}", parameters.number("serial_speed")));
    }
    words.option("-append", arguments.join(" "));
}

/// The operator's own words, split at blanks: no shell reads them.
fn extra(words: &mut Words, parameters: Filled<'_>) -> Result<(), PlanError> {
    let extra: Vec<&str> = parameters.text("kvm_extra").split_whitespace().collect();
    if extra.len() > EXTRA_WORDS_MAX {
        let why = format!("{} words, where {EXTRA_WORDS_MAX} are the limit", extra.len());
        return Err(PlanError::new("kvm_extra", why));
    }
    words.words.extend(extra.into_iter().map(str::to_owned));
    Ok(())
}

#[cfg(test)]
mod tests;
