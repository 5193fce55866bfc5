//! The parts of a guest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{GuestError, run};
use crate::{needs, target_dir};

/// Programs that make guests and run them.
pub const PROGRAMS: &[&str] = &["ip", "qemu-system-x86_64", "objcopy", "xz"];
/// Packages that are unpacked beside the kernel's, and not installed.
const PACKAGES: &[&str] = &["busybox-static", "ovmf", "ipxe", "systemd-boot-efi"];
/// Depends on the newest kernel for machines without hardware.
const KERNEL: &str = "linux-image-cloud-amd64";
/// Kernel modules that a guest needs for its network card, its disks and the seed of cloud-init, in the order of their loading.
const MODULES: &[&str] = &[
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_blk",
    "virtio_console",
    "virtio_mem",
    "fat",
    "vfat",
    "nls_cp437",
    "nls_ascii",
];
/// Distance of sections of a unified kernel image.
const SECTION_BYTES: u64 = 4_096;
/// Mode of the programs in a guest.
const PROGRAM: u32 = 0o755;

/// The first program of a guest. It takes a lease, reports where its image told, and ends the guest. With
/// `gantry.root=DISK` it starts the system of a disk, and with `gantry.disks` it tells what disks hold. With
/// `gantry.counts` it writes numbers to its disk for ever, and tells each one that the disk has for certain.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in $(cat /modules/order); do
    [ -f /modules/$module.ko ] && insmod /modules/$module.ko
done
echo "GUEST runs: $(cat /proc/cmdline)"
root=$(sed -n 's/.*gantry.root=\([^ ]*\).*/\1/p' /proc/cmdline)
if [ -n "$root" ]; then
    until [ -b $root ]; do sleep 0.1; done
    mkdir -p /root && mount $root /root && exec switch_root /root /sbin/init
fi
if grep -q gantry.disks /proc/cmdline; then
    for disk in /dev/vd?; do
        head -c 524288 $disk | tr '\0' '\n' >/tmp/begin
        echo "GUEST disk $disk:" $(grep -a -o 'GANTRY[-A-Za-z0-9]*\|"local-hostname":"[^"]*"' /tmp/begin)
    done
fi
grep -q gantry.counts /proc/cmdline && while :; do
    count=$((count + 1))
    printf '%-511s\n' "COUNT $count" |
        dd of=/dev/vda bs=512 seek=$((count % 2048 * 8)) conv=notrunc,fsync 2>/dev/null &&
        echo "GUEST wrote $count"
done
ip link set eth0 up
udhcpc -i eth0 -n -q -s /udhcpc
serial=$(cat /sys/class/dmi/id/product_serial)
api=$(sed -n 's/.*ipa-api-url=\([^ ,]*\).*/\1/p' /proc/cmdline)
[ -n "$api" ] && . /agent
report=$(sed -n 's/.*gantry.up=\([^ ]*\).*/\1/p' /proc/cmdline)
[ -n "$report" ] || report=http://$(cat /tmp/server):10080/api/v1/boot/machines/$serial/up
wget -q -O - "$report" && echo "GUEST reported"
devices() {
    for disk in /sys/class/block/vd?; do echo ${disk##*/}=$(cat $disk/size); done
    for card in /sys/class/net/eth*; do [ -e $card ] && cat $card/address; done
    for class in $(cat /sys/bus/pci/devices/*/class); do
        case $class in 0x03*) echo screen;; 0x04*) echo sound;; 0x0c03*) echo usb;; esac
    done
    for tpm in /sys/class/tpm/tpm?; do [ -e $tpm ] && echo ${tpm##*/}; done
}
grep -q gantry.stays /proc/cmdline && echo "GUEST listens" && while read -r line; do
    echo "GUEST hears $line"
    [ "$line" = devices ] && echo GUEST has: $(devices)
    [ "$line" = size ] && echo GUEST size: $(cat /sys/devices/system/cpu/present) \
        $(sed -n 's/MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)
done
grep -q gantry.stays /proc/cmdline && while :; do sleep 3600; done
poweroff -f
"#;

/// The guest's work as a ramdisk: an agent of Ironic in few words. It tells what the machine is made of,
/// looks itself up, and sends heartbeats, the last ones with the end of its work.
const AGENT: &str = r#"
mac=$(cat /sys/class/net/eth0/address)
memory=$(sed -n 's/MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
ask() { wget -q -O - --header "X-OpenStack-Ironic-API-Version: $1" "$2"; }
inventory="{\"inventory\": {\"interfaces\": [{\"name\": \"eth0\", \"mac_address\": \"$mac\",
  \"has_carrier\": true, \"ipv4_address\": null}], \"cpu\": {\"model_name\": \"guest\", \"count\": 1,
  \"architecture\": \"x86_64\"}, \"memory\": {\"total\": $((memory * 1024)), \"physical_mb\": $((memory / 1024))},
  \"disks\": [], \"system_vendor\": {\"product_name\": \"guest\", \"serial_number\": \"$serial\",
  \"manufacturer\": \"QEMU\"}, \"boot\": {\"current_boot_mode\": \"uefi\", \"pxe_interface\": \"$mac\"}},
  \"root_disk\": null, \"boot_interface\": \"$mac\", \"configuration\": {}, \"error\": null}"
inspection=$(sed -n 's/.*ipa-inspection-callback-url=\([^ ,]*\).*/\1/p' /proc/cmdline)
[ -n "$inspection" ] && wget -q -O - --header 'Content-Type: application/json' \
  --post-data "$inventory" "$inspection" && echo "GUEST inspected"
until found=$(ask 1.62 "$api/v1/lookup?addresses=$mac"); do sleep 1; done
uuid=$(echo "$found" | sed -n 's/.*"uuid": *"\([^"]*\)".*/\1/p')
token=$(echo "$found" | sed -n 's/.*"agent_token": *"\([^"*]*\)".*/\1/p')
echo "GUEST looked up $uuid"
url=http://$(hostname -i 2>/dev/null || echo 10.0.0.1):9999
beats=0
while :; do
    status=; [ $beats -gt 0 ] && status=', "agent_status": "end", "agent_status_message": "done"'
    wget -q -O - --header 'X-OpenStack-Ironic-API-Version: 1.72' --header 'Content-Type: application/json' \
        --post-data "{\"callback_url\": \"$url\", \"agent_version\": \"1\", \"agent_token\": \"$token\"$status}" \
        "$api/v1/heartbeat/$uuid" && beats=$((beats + 1)) && echo "GUEST heartbeat $beats"
    sleep 1
done
"#;

/// Sets the address of a guest; `udhcpc` calls it.
const UDHCPC: &str = r#"#!/bin/busybox sh
case $1 in
bound|renew)
    ip addr flush dev $interface
    ip addr add $ip/$mask dev $interface
    [ -n "$router" ] && ip route add default via $router
    echo $serverid > /tmp/server
    echo "GUEST has $ip";;
esac
exit 0
"#;

/// Files that guests boot, and what boots them.
#[derive(Debug, Clone)]
pub struct Parts {
    /// A kernel.
    pub kernel: PathBuf,
    /// Its file system in memory.
    pub initrd: PathBuf,
    /// Both as a unified kernel image, with the parameter `console=ttyS0`.
    pub uki: PathBuf,
    /// A directory with a unified kernel image where firmware looks for it on a disk; its kernel has
    /// the parameter `guest.disk`.
    pub disk: PathBuf,
    /// iPXE for UEFI.
    pub ipxe: PathBuf,
    /// Many small programs in one.
    pub busybox: PathBuf,
    /// UEFI firmware.
    pub firmware: PathBuf,
    /// Its variables at first.
    pub variables: PathBuf,
}

impl Parts {
    /// Downloads and builds what is not there yet.
    ///
    /// # Errors
    /// Why guests cannot run here.
    pub fn provide() -> Result<Self, GuestError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(GuestError::Impossible("network namespaces need root".to_owned()));
        }
        if std::env::consts::ARCH != "x86_64" {
            let why = format!("the guests are x86_64, this machine is {}", std::env::consts::ARCH);
            return Err(GuestError::Impossible(why));
        }
        if let Some(lack) = needs::prepare(&needs::of(PROGRAMS)).first() {
            return Err(GuestError::Impossible(lack.to_string()));
        }
        let place = target_dir().join("guest");
        let _alone = alone(&place)?;
        let parts = Self::at(&place);
        if !parts.uki.is_file() || !parts.disk.is_dir() || !is_current(&place) {
            let unpacked = place.join("unpacked");
            fs::create_dir_all(&unpacked).map_err(|error| file(&unpacked, error))?;
            unpack(&place)?;
            build(&place, &parts)?;
        }
        Ok(parts)
    }

    fn at(place: &Path) -> Self {
        let unpacked = |path: &str| place.join("unpacked").join(path);
        Self {
            kernel: place.join("vmlinuz"),
            initrd: place.join("initrd"),
            disk: place.join("disk"),
            uki: place.join("uki.efi"),
            busybox: place.join("initrd.d/bin/busybox"),
            ipxe: unpacked("usr/lib/ipxe/snponly.efi"),
            firmware: unpacked("usr/share/OVMF/OVMF_CODE_4M.fd"),
            variables: unpacked("usr/share/OVMF/OVMF_VARS_4M.fd"),
        }
    }
}

/// Keeps other tests from making parts at the same time, until the file is dropped.
pub(super) fn alone(place: &Path) -> Result<fs::File, GuestError> {
    fs::create_dir_all(place).map_err(|error| file(place, error))?;
    let path = place.join("lock");
    let lock = fs::File::create(&path).and_then(|lock| lock.lock().map(|()| lock));
    lock.map_err(|error| file(&path, error))
}

/// Whether guests run what this source says.
fn is_current(place: &Path) -> bool {
    let holds = |name: &str, text: &str| {
        fs::read(place.join("initrd.d").join(name)).is_ok_and(|had| had == text.as_bytes())
    };
    let order = MODULES.join("\n");
    holds("init", INIT) && holds("agent", AGENT) && holds("modules/order", &order)
}

pub(super) fn file(path: &Path, error: io::Error) -> GuestError {
    GuestError::File { path: path.display().to_string(), error }
}

/// Downloads the packages into `place`, and unpacks them beside.
fn unpack(place: &Path) -> Result<(), GuestError> {
    let depends = depends_on(KERNEL)?;
    let kernel = depends.iter().find(|name| name.starts_with("linux-image-"));
    let kernel = kernel.ok_or_else(|| unknown(KERNEL))?;
    unpack_packages(place, &[&[kernel.as_str()], PACKAGES].concat())
}

fn unknown(package: &str) -> GuestError {
    GuestError::Impossible(format!("apt-cache knows no package that {package} depends on"))
}

/// The packages that a package depends on.
pub(super) fn depends_on(package: &str) -> Result<Vec<String>, GuestError> {
    let depends = || run(Command::new("apt-cache").args(["depends", package]));
    let mut told = depends();
    if told.as_ref().map_or(true, |told| !told.contains("Depends")) {
        needs::update();
        told = depends();
    }
    let told = told?;
    let names = told.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.is_empty() { Err(unknown(package)) } else { Ok(names) }
}

/// The same for packages of these names.
pub(super) fn unpack_packages(place: &Path, packages: &[&str]) -> Result<(), GuestError> {
    println!("downloading {}", packages.join(" "));
    let mut download = Command::new("apt-get");
    download.current_dir(place).arg("download").args(packages);
    run(&mut download).map_err(|error| GuestError::Impossible(crate::chain(&error)))?;
    for package in listed(place)?.iter().filter(|file| file.extension() == Some("deb".as_ref())) {
        run(Command::new("dpkg-deb").arg("-x").arg(package).arg(place.join("unpacked")))?;
        fs::remove_file(package).map_err(|error| file(package, error))?;
    }
    Ok(())
}

fn listed(directory: &Path) -> Result<Vec<PathBuf>, GuestError> {
    let entries = fs::read_dir(directory).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()
    });
    entries.map_err(|error| file(directory, error))
}

/// Builds the parts from what was unpacked.
fn build(place: &Path, parts: &Parts) -> Result<(), GuestError> {
    let unpacked = place.join("unpacked");
    let boot = listed(&unpacked.join("boot"))?;
    let kernel = boot.iter().find(|file| file.to_string_lossy().contains("/vmlinuz-"));
    let kernel = kernel
        .ok_or_else(|| GuestError::Impossible("the kernel's package has no kernel".to_owned()))?;
    copy(kernel, &parts.kernel)?;
    build_initrd(&unpacked, &place.join("initrd.d"), &parts.initrd)?;
    let stub = unpacked.join("usr/lib/systemd/boot/efi/linuxx64.efi.stub");
    let firmware_looks_at = parts.disk.join("EFI/BOOT");
    fs::create_dir_all(&firmware_looks_at).map_err(|error| file(&firmware_looks_at, error))?;
    let on_disk = firmware_looks_at.join("BOOTX64.EFI");
    unify(&stub, parts, "console=ttyS0 guest.disk", &on_disk)?;
    unify(&stub, parts, "console=ttyS0", &parts.uki)
}

fn copy(from: &Path, to: &Path) -> Result<(), GuestError> {
    fs::copy(from, to).map(drop).map_err(|error| file(from, error))
}

/// Debian has merged `/bin` into `/usr/bin`, and its packages still may have either.
fn busybox(unpacked: &Path) -> Result<PathBuf, GuestError> {
    let places = ["bin/busybox", "usr/bin/busybox"].map(|path| unpacked.join(path));
    let busybox = places.into_iter().find(|path| path.is_file());
    busybox.ok_or_else(|| GuestError::Impossible("busybox-static has no busybox".to_owned()))
}

fn build_initrd(unpacked: &Path, tree: &Path, initrd: &Path) -> Result<(), GuestError> {
    for directory in ["bin", "modules"] {
        let directory = tree.join(directory);
        fs::create_dir_all(&directory).map_err(|error| file(&directory, error))?;
    }
    let busybox = busybox(unpacked)?;
    copy(&busybox, &tree.join("bin/busybox"))?;
    let order = MODULES.join("\n");
    for (name, text) in
        [("init", INIT), ("agent", AGENT), ("udhcpc", UDHCPC), ("modules/order", &order)]
    {
        let path = tree.join(name);
        stdx::atomic::write(&path, text.as_bytes(), PROGRAM)
            .map_err(|error| file(&path, io::Error::other(error)))?;
    }
    let find = format!(
        "find '{}' -name '*.ko*' | grep -E '/({})\\.ko(\\.xz|\\.zst)?$'",
        unpacked.display(),
        MODULES.join("|")
    );
    for module in run(Command::new("sh").args(["-c", &find]))?.lines() {
        let module = Path::new(module);
        let target = tree.join("modules").join(module.file_name().unwrap_or_default());
        copy(module, &target)?;
        // Busybox loads no compressed module.
        match module.extension().and_then(|end| end.to_str()) {
            Some("xz") => drop(run(needs::command("xz").arg("-df").arg(&target))?),
            Some("zst") => drop(run(Command::new("zstd").arg("-df").arg("--rm").arg(&target))?),
            _ => {}
        }
    }
    let pack = format!(
        "cd '{}' && find . | '{}' cpio -o -H newc > '{}'",
        tree.display(),
        busybox.display(),
        initrd.display()
    );
    run(Command::new("sh").args(["-c", &pack])).map(drop)
}

/// A unified kernel image: the stub with three more sections.
fn unify(stub: &Path, parts: &Parts, parameters: &str, to: &Path) -> Result<(), GuestError> {
    let cmdline = to.with_extension("cmdline");
    stdx::atomic::write(&cmdline, parameters.as_bytes(), PROGRAM)
        .map_err(|error| file(&cmdline, io::Error::other(error)))?;
    let mut at = aligned(end_of_sections(stub)?);
    let mut objcopy = needs::command("objcopy");
    for (name, path) in
        [(".cmdline", &cmdline), (".initrd", &parts.initrd), (".linux", &parts.kernel)]
    {
        let size = path.metadata().map_err(|error| file(path, error))?.len();
        objcopy.args(["--add-section", &format!("{name}={}", path.display())]);
        objcopy.args(["--change-section-vma", &format!("{name}={at:#x}")]);
        at = aligned(at + size);
    }
    run(objcopy.arg(stub).arg(to)).map(drop)
}

const fn aligned(address: u64) -> u64 {
    address.next_multiple_of(SECTION_BYTES)
}

/// The end of a program's last section in memory.
fn end_of_sections(program: &Path) -> Result<u64, GuestError> {
    let said = run(Command::new("objdump").arg("-h").arg(program))?;
    let ends = said.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let _number: u32 = words.next()?.parse().ok()?;
        let size = u64::from_str_radix(words.nth(1)?, 16).ok()?;
        let start = u64::from_str_radix(words.next()?, 16).ok()?;
        Some(start + size)
    });
    ends.max()
        .ok_or_else(|| GuestError::Impossible(format!("`{}` is no program", program.display())))
}
