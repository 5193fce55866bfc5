//! Core: the devices of a guest: disks, cards, drives, and what they hang on.

use std::path::PathBuf;

use model::instance::launch::{DiskLaunch, Launch, NicLaunch};
use serde_json::{Map, Value, json};

use super::desktop::Desktop;
use super::parts::{self, Place, queues};
use super::plan::{Host, PlanError};
use super::words::{Filled, Given, Words};

/// Slot of the machine at which its ports for disks and cards begin.
const PORT_SLOT: usize = 0x10;
/// Ports of one slot.
const PORTS_PER_SLOT: usize = 8;
/// Ports of a guest: those of four slots.
const PORTS_MAX: usize = 32;

/// The devices of one guest, while its command line is made.
#[derive(Debug)]
pub(super) struct Devices<'a> {
    words: &'a mut Words,
    parameters: Filled<'a>,
    host: Host,
    /// Whether each disk and card has a port of its own: so it is with PCI Express alone.
    has_ports: bool,
    /// Ports that are taken.
    taken: usize,
    /// Places on the controllers of IDE and SCSI that are taken.
    units: usize,
    /// The place of the next device among those that the firmware tries.
    boot: BootOrder,
}

/// Which kinds of devices the firmware tries, and in which order.
#[derive(Debug)]
struct BootOrder(Vec<String>);

impl BootOrder {
    /// The place of the device with this number among those of its kind; a kernel leaves none.
    fn place(&self, kind: &str, number: usize) -> Option<usize> {
        let place = self.0.iter().position(|wanted| wanted == kind)?;
        Some(1 + place * PORTS_MAX + number)
    }
}

impl<'a> Devices<'a> {
    pub(super) fn new(
        words: &'a mut Words,
        parameters: Filled<'a>,
        machine: &str,
        host: Host,
    ) -> Self {
        let order = match parameters.text("kernel_path") {
            "" => parameters.text("boot_order").split(',').map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let has_ports = machine.contains("q35");
        Self { words, parameters, host, has_ports, taken: 0, units: 0, boot: BootOrder(order) }
    }

    /// All devices of a launch.
    pub(super) fn all(mut self, launch: &Launch, desktop: &Desktop<'_>) -> Result<(), PlanError> {
        let reserved = usize::try_from(self.parameters.number("kvm_pci_reservations"));
        let needed = launch.disks.len() + launch.nics.len();
        let shared = reserved.unwrap_or(PORTS_MAX).max(needed).min(PORTS_MAX - 1);
        if self.has_ports {
            self.ports(shared + usize::from(launch.seed.is_some()));
        }
        self.device(json!({"driver": "virtio-rng-pci", "id": "random"}));
        if self.parameters.flag("balloon") {
            self.device(json!({"driver": "virtio-balloon-pci", "id": "balloon"}));
        }
        if self.parameters.number("max_memory") > launch.memory() {
            self.device(json!({"driver": "virtio-mem-pci", "id": "memory", "memdev": "more"}));
        }
        for device in desktop.devices() {
            self.device(device);
        }
        self.controller(launch);
        for (number, disk) in launch.disks.iter().enumerate() {
            self.disk(number, disk)?;
        }
        for name in ["cdrom_image_path", "cdrom2_image_path"] {
            self.cdrom(name)?;
        }
        self.floppy();
        for (number, nic) in launch.nics.iter().enumerate() {
            self.nic(number, nic)?;
        }
        if launch.seed.is_some() {
            self.seed(shared);
        }
        Ok(())
    }

    fn device(&mut self, device: Value) {
        self.words.object("-device", &device);
    }

    /// Ports into which disks and cards are put, also while the guest runs.
    fn ports(&mut self, count: usize) {
        for port in 0..count {
            let (slot, part) = (PORT_SLOT + port / PORTS_PER_SLOT, port % PORTS_PER_SLOT);
            self.device(json!({"driver": "pcie-root-port", "id": format!("port{port}"),
                "bus": "pcie.0", "addr": format!("{slot:#x}.{part}"), "chassis": port + 1,
                "port": port, "multifunction": true}));
        }
    }

    /// A device of its own on the next port.
    fn plugged(&mut self, mut device: Map<String, Value>) {
        if self.has_ports {
            device.insert("bus".to_owned(), format!("port{}", self.taken).into());
            self.taken += 1;
        }
        self.device(Value::Object(device));
    }

    /// The controller of SCSI, where disks hang on one.
    fn controller(&mut self, launch: &Launch) {
        let on_scsi = self.parameters.text("disk_type").starts_with("scsi");
        let cdrom = self.parameters.text("cdrom_disk_type").starts_with("scsi");
        if !(on_scsi && !launch.disks.is_empty() || cdrom) {
            return;
        }
        let driver = match self.parameters.text("scsi_controller_type") {
            "lsi" => "lsi53c895a",
            other => other,
        };
        self.device(json!({"driver": driver, "id": "scsi"}));
    }

    fn content(&mut self, nodes: &[Value]) {
        for node in nodes {
            self.words.object("-blockdev", node);
        }
    }

    fn disk(&mut self, number: usize, disk: &DiskLaunch) -> Result<(), PlanError> {
        let (mut device, place) = parts::disk(self.parameters, disk)?;
        let file = self.words.set(Given::Disk(disk.clone()));
        self.content(&parts::disk_content(self.parameters, disk, &file));
        if let Some(place) = self.boot.place("disk", number) {
            device.insert("bootindex".to_owned(), place.into());
        }
        match place {
            Place::Port => self.plugged(device),
            Place::Scsi => self.on_bus(device, "scsi.0"),
            Place::Ide => {
                let unit = self.unit();
                let bus = if self.has_ports { unit } else { unit / 2 };
                self.on_bus(device, &format!("ide.{bus}"));
            }
        }
        Ok(())
    }

    /// The seed, behind all others: a guest names its disks in this order, and the first is its own.
    fn seed(&mut self, port: usize) {
        let file = self.words.set(Given::Seed);
        self.content(&parts::content("seed", &file, true, None));
        let mut device = json!({"driver": "virtio-blk-pci", "id": "seed-disk", "drive": "seed"});
        if self.has_ports {
            device["bus"] = format!("port{port}").into();
        }
        self.device(device);
    }

    /// The next place on a controller.
    fn unit(&mut self) -> usize {
        self.units += 1;
        self.units - 1
    }

    fn on_bus(&mut self, mut device: Map<String, Value>, bus: &str) {
        device.insert("bus".to_owned(), bus.into());
        self.device(Value::Object(device));
    }

    fn cdrom(&mut self, parameter: &'static str) -> Result<(), PlanError> {
        let path = self.parameters.text(parameter);
        if path.is_empty() {
            return Ok(());
        }
        let file = self.words.set(Given::Image(PathBuf::from(path)));
        let name = parameter.trim_end_matches("_image_path");
        self.content(&parts::content(name, &file, true, None));
        let mut device = Map::new();
        device.insert("id".to_owned(), format!("{name}-drive").into());
        device.insert("drive".to_owned(), name.into());
        if let Some(place) = self.boot.place("cdrom", usize::from(name != "cdrom")) {
            device.insert("bootindex".to_owned(), place.into());
        }
        match self.parameters.text("cdrom_disk_type") {
            "paravirtual" => {
                device.insert("driver".to_owned(), "virtio-blk-pci".into());
                self.device(Value::Object(device));
            }
            "scsi" | "scsi-cd" => {
                device.insert("driver".to_owned(), "scsi-cd".into());
                self.on_bus(device, "scsi.0");
            }
            "" | "ide" => {
                device.insert("driver".to_owned(), "ide-cd".into());
                let unit = self.unit();
                let bus = if self.has_ports { unit } else { unit / 2 };
                self.on_bus(device, &format!("ide.{bus}"));
            }
            other => {
                let why = format!("`{other}` is no kind of CD drive; use paravirtual, scsi or ide");
                return Err(PlanError::new("cdrom_disk_type", why));
            }
        }
        Ok(())
    }

    fn floppy(&mut self) {
        let path = self.parameters.text("floppy_image_path");
        if path.is_empty() {
            return;
        }
        let file = self.words.set(Given::Image(PathBuf::from(path)));
        self.content(&parts::content("floppy", &file, true, None));
        self.device(json!({"driver": "isa-fdc", "id": "fdc"}));
        let mut drive = json!({"driver": "floppy", "id": "floppy-drive", "drive": "floppy"});
        if let Some(place) = self.boot.place("floppy", 0) {
            drive["bootindex"] = place.into();
        }
        self.device(drive);
    }

    fn nic(&mut self, number: usize, nic: &NicLaunch) -> Result<(), PlanError> {
        let mut device = parts::card(self.parameters, nic)?;
        let queues = queues(self.parameters);
        let own = (0..queues).map(|_| self.words.descriptor(Given::Queue(number)).to_string());
        let own: Vec<String> = own.collect();
        let ours = self.host.vhost_net && parts::has_kernel_end(self.parameters);
        let vhost = (0..if ours { queues } else { 0 })
            .map(|_| self.words.descriptor(Given::VhostNet).to_string())
            .collect::<Vec<_>>();
        let (mut netdev, plural) =
            (format!("tap,id={}", parts::net_id(nic.uuid)), if queues > 1 { "s" } else { "" });
        netdev.push_str(&format!(",fd{plural}={}", own.join(":")));
        if ours {
            netdev.push_str(&format!(",vhost=on,vhostfd{plural}={}", vhost.join(":")));
        }
        self.words.option("-netdev", netdev);
        match self.boot.place("network", number) {
            Some(place) => device.insert("bootindex".to_owned(), place.into()),
            None => device.insert("romfile".to_owned(), "".into()),
        };
        self.plugged(device);
        Ok(())
    }
}
