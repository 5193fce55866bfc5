//! A guest in which Xen runs, with a program of ours in its administering domain.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::parts::{Parts, alone, depends_on, file, unpack_packages};
use super::{GuestError, run};
use crate::{needs, target_dir};

/// The program of guests.
const QEMU: &str = "qemu-system-x86_64";
/// Depends on the newest Xen of the distribution.
const XEN: &str = "xen-system-amd64";
/// Depends on the newest kernel that can administer Xen; that of the other guests cannot.
const KERNEL: &str = "linux-image-amd64";
/// Libraries of Xen's programs which no machine has without Xen.
const LIBRARIES: &str = "libxen|libyajl|libfdt|libnl-";
/// The memory of all, and of the administering domain, in MiB: the rest is for one small guest.
const MEMORY_MIB: &str = "1536";
const DOM0_MIB: &str = "900";
/// Seconds until the guest is ended: less than a test may take.
const TIME_S: &str = "560";

/// The first program of the administering domain. It starts what `xl` needs, and then `/program`.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run/lock /run/xen /run/xenstored
/bin/busybox --install -s /bin
export PATH=/xen:/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /var/lib/xenstored /var/lib/xen /var/log/xen/console /etc/xen /usr/sbin
mount -t devpts devpts /dev/pts
ln -s /run /var/run
touch /etc/xen/xl.conf
ln -s /xen/xl /usr/sbin/xl
for module in xen-evtchn xen-gntdev xen-gntalloc xen-privcmd xenfs; do insmod /modules/$module.ko; done
mount -t xenfs xenfs /proc/xen
xenstored
until [ -e /run/xenstored/socket ]; do sleep 0.1; done
xen-init-dom0 && xenconsoled --log=guest
echo "XEN $(cat /proc/xen/capabilities)"
/program $(sed -n 's/.*gantry.test=\([^ ]*\).*/\1/p' /proc/cmdline) --exact --nocapture --test-threads=1
echo "XEN ended $?"
tail -n 5 /var/log/xen/console/*
poweroff -f
"#;

/// The first program of a guest of Xen: it does what its kernel's arguments say.
const GUEST_INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc
/bin/busybox mount -t proc proc /proc
echo "GUEST runs: $(/bin/busybox cat /proc/cmdline)"
case $(/bin/busybox cat /proc/cmdline) in
*guest.off*) /bin/busybox sleep 8; /bin/busybox poweroff -f;;
*guest.again*) /bin/busybox sleep 8; /bin/busybox reboot -f;;
*guest.crash*) /bin/busybox sleep 8; echo c >/proc/sysrq-trigger;;
esac
while :; do /bin/busybox sleep 100; done
"#;

/// Builds both file systems. The words are the unpacked packages, the place, busybox, and the program.
const BUILD: &str = r#"
unpacked=$1 place=$2 busybox=$3 program=$4
tree=$place/tree
rm -rf "$tree" "$place/small"
mkdir -p "$tree/bin" "$tree/xen" "$tree/modules" "$tree/lib64" "$tree/lib/x86_64-linux-gnu" \
    "$place/small/bin" "$place/small/sbin" "$place/small/dev"
cp "$busybox" "$tree/bin/busybox"
cp "$busybox" "$place/small/bin/busybox"
cp "$place/guest-init" "$place/small/init"
# The kernel calls these when Xen asks for an end.
for end in poweroff reboot; do
    printf '#!/bin/busybox sh\nexec /bin/busybox %s -f\n' $end >"$place/small/sbin/$end"
    chmod +x "$place/small/sbin/$end"
done
mknod -m 600 "$place/small/dev/console" c 5 1
(cd "$place/small" && find . | "$busybox" cpio -o -H newc | gzip -1) >"$tree/guest.initrd"
cp "$unpacked"/boot/vmlinuz-* "$tree/vmlinuz"
for module in xen-evtchn xen-gntdev xen-gntalloc xen-privcmd xenfs/xenfs; do
    cp "$unpacked"/lib/modules/*/kernel/drivers/xen/$module.ko "$tree/modules/"
done
for name in xl xenstored xenconsoled xen-init-dom0; do
    cp "$unpacked"/usr/lib/xen-*/bin/$name "$tree/xen/"
done
strip -o "$tree/program" "$program"
export LD_LIBRARY_PATH=$unpacked/usr/lib/x86_64-linux-gnu
for name in "$tree"/xen/* "$program"; do ldd "$name"; done | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | sort -u |
    while read -r library; do cp -L "$library" "$tree/lib/x86_64-linux-gnu/"; done
unset LD_LIBRARY_PATH
# Threads that are cancelled need it, and no program names it.
cp -L /lib/x86_64-linux-gnu/libgcc_s.so.1 "$tree/lib/x86_64-linux-gnu/"
cp -L /lib64/ld-linux-x86-64.so.2 "$tree/lib64/"
cp "$place/init" "$tree/init"
(cd "$tree" && find . | "$busybox" cpio -o -H newc | gzip -1) >"$place/initrd"
gunzip -c "$unpacked"/boot/xen-*.gz >"$place/xen"
"#;

/// Files that boot Xen.
#[derive(Debug, Clone)]
pub struct Xen {
    place: PathBuf,
    kernel: PathBuf,
}

impl Xen {
    /// Downloads Xen, and builds a guest with it in which `program` runs.
    ///
    /// # Errors
    /// Why that is impossible here.
    pub fn provide(parts: &Parts, program: &Path) -> Result<Self, GuestError> {
        let place = target_dir().join("guest/xen");
        let _alone = alone(&place)?;
        let unpacked = place.join("unpacked");
        let xen = Self { kernel: place.join("tree/vmlinuz"), place: place.clone() };
        if !unpacked.join("usr/sbin/xl").exists() {
            fs::create_dir_all(&unpacked).map_err(|error| file(&unpacked, error))?;
            let names = packages()?;
            unpack_packages(&place, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        for (name, text) in [("init", INIT), ("guest-init", GUEST_INIT)] {
            let path = place.join(name);
            stdx::atomic::write(&path, text.as_bytes(), 0o755)
                .map_err(|error| file(&path, std::io::Error::other(error)))?;
        }
        let mut build = Command::new("sh");
        build.args(["-e", "-c", BUILD, "build"]).arg(&unpacked).arg(&place);
        run(build.arg(&parts.busybox).arg(program))?;
        Ok(xen)
    }

    /// Boots it, has its program run a test, and gives all that it said.
    ///
    /// # Errors
    /// It does not start.
    pub fn run(&self, test: &str) -> Result<String, GuestError> {
        let qemu = needs::find(QEMU).unwrap_or_else(|| QEMU.into());
        let mut guest = Command::new("timeout");
        guest.arg(TIME_S).arg(qemu).args(["-accel", "tcg", "-m", MEMORY_MIB, "-no-reboot"]);
        // Xen does not come up with these two where the processor is emulated.
        guest.args(["-cpu", "max,-smap,-smep", "-nodefaults", "-display", "none"]);
        guest.args(["-serial", "stdio"]).arg("-kernel").arg(self.place.join("xen"));
        guest.args(["-append", &format!("console=com1 com1=115200 dom0_mem={DOM0_MIB}M")]);
        let (kernel, initrd) = (self.kernel.display(), self.place.join("initrd"));
        let modules =
            format!("{kernel} console=hvc0 quiet gantry.test={test},{}", initrd.display());
        guest.args(["-initrd", &modules]).stdin(std::process::Stdio::null());
        run(&mut guest)
    }
}

/// The packages of Xen, its libraries, and a kernel.
fn packages() -> Result<Vec<String>, GuestError> {
    let told = depends_on(XEN)?;
    let mut names: Vec<String> = told.into_iter().filter(|name| name.starts_with("xen-")).collect();
    let all = ["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts"];
    let more = ["--no-breaks", "--no-replaces", "--no-enhances"];
    let told = run(Command::new("apt-cache").args(all).args(more).args(&names))?;
    let is_library = |name: &&str| LIBRARIES.split('|').any(|start| name.starts_with(start));
    names.extend(told.lines().filter(is_library).map(str::to_owned));
    let kernels = depends_on(KERNEL)?;
    names.extend(kernels.into_iter().filter(|name| name.starts_with("linux-image-")));
    Ok(names)
}
