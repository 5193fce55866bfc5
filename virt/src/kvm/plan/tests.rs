use model::Uuid;
use model::instance::DiskPlace;
use model::instance::disk::DiskMode;
use model::instance::launch::{DiskLaunch, NicLaunch};
use model::instance::parameters::{BACKEND, KVM, Parameters, Table};
use serde_json::Value;

use super::*;

const HOST: Host = Host { kvm: true, vhost_net: true };

fn filled(table: Table) -> Parameters {
    table.iter().map(|row| (row.name.to_owned(), row.usual.value())).collect()
}

/// An instance with a disk and a card, with these values where they differ from the defaults.
fn launch(values: &[(&str, Value)]) -> Launch {
    let mut hvparams = filled(KVM);
    hvparams.insert("kernel_path".to_owned(), "".into());
    hvparams.extend(values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let number = Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef);
    Launch {
        uuid: number,
        name: "web1.example.com".parse().unwrap(),
        run: 3,
        hypervisor: "kvm".to_owned(),
        hvparams,
        beparams: filled(BACKEND),
        nics: vec![NicLaunch {
            uuid: number,
            mac: "aa:00:00:12:34:56".parse().unwrap(),
            ip: None,
            network: None,
            nicparams: Parameters::new(),
        }],
        disks: vec![DiskLaunch {
            uuid: number,
            place: DiskPlace::File { path: "/srv/gantry/web1/disk0".to_owned() },
            size: 1024,
            mode: DiskMode::ReadWrite,
            params: Parameters::new(),
            replica: None,
        }],
        paused: false,
        seed: None,
        users: Vec::new(),
        network_port: None,
    }
}

/// A plan as lines: an option with its value in each, then the descriptors.
fn lines(launch: &Launch, host: Host) -> Vec<String> {
    let kind = launch.hvparams["firmware"].as_str().unwrap();
    let firmware = (kind != "bios").then(|| Firmware {
        code: "/share/CODE.fd".into(),
        template: "/share/VARS.fd".into(),
        by_smm: kind == "uefi-secure",
        is_secure: kind == "uefi-secure",
    });
    let plan = match plan(launch, host, firmware.as_ref()) {
        Ok(plan) => plan,
        Err(error) => return vec![format!("refused: {error}")],
    };
    let mut lines = vec![format!("{} as {:?}", plan.program.display(), plan.user)];
    for word in plan.words {
        match word.starts_with('-') {
            true => lines.push(word),
            false => *lines.last_mut().unwrap() += &format!(" {word}"),
        }
    }
    let given = plan.given.iter().zip(3..);
    lines.extend(given.map(|(given, number)| match given {
        Given::Disk(disk) => format!("{number} = the disk {}", disk.place.path()),
        other => format!("{number} = {other:?}"),
    }));
    lines
}

#[test]
fn a_disk_with_another_copy_is_written_through_a_quorum() {
    let mut launch = launch(&[]);
    let path = "/srv/gantry/web1/disk0".to_owned();
    launch.disks[0].place = DiskPlace::Mirror { path };
    let lines = lines(&launch, HOST);
    let about = ["-blockdev", "werror", "the disk"];
    let lines = lines.iter().filter(|line| about.iter().any(|about| line.contains(about)));
    insta::assert_snapshot!(lines.cloned().collect::<Vec<_>>().join("\n"));
    launch.disks[0].mode = DiskMode::ReadOnly;
    let refused = self::lines(&launch, HOST);
    assert!(refused[0].contains("is writable"), "{refused:?}");
}

#[test]
fn the_start_of_a_usual_guest() {
    insta::assert_snapshot!(lines(&launch(&[]), HOST).join("\n"));
}

/// One device more than a guest may have.
const MANY: &str = "mouse mouse mouse mouse mouse mouse mouse mouse mouse";

/// A value of each parameter that is not its default.
fn another(name: &str) -> Vec<Value> {
    let words: &[&str] = match name {
        "boot_order" => &["cdrom,disk,network"],
        "cdrom_image_path" => &["/srv/cd.iso", "http://x/cd.iso"],
        "cdrom2_image_path" => &["/srv/cd.iso"],
        "cdrom_disk_type" => &["paravirtual", "scsi-cd", "mtd"],
        "cpu_type" => &["Haswell"],
        "cpu_baseline" => &["x86-64-v2"],
        "disk_aio" => &["native"],
        "disk_cache" => &["none", "writethrough"],
        "disk_discard" => &["unmap"],
        "disk_type" => &["scsi", "ide", "pflash"],
        "floppy_image_path" => &["/srv/floppy.img"],
        "initrd_path" => &["/boot/initrd"],
        "kernel_path" => &["/boot/vmlinuz"],
        "kernel_args" => &["quiet"],
        "keymap" => &["de", "../de"],
        "root_path" => &["/dev/sda1"],
        "kvm_extra" => &["-fw_cfg name=opt/x,string=y"],
        "kvm_flag" => &["enabled", "disabled"],
        "kvm_path" => &["/opt/qemu"],
        "machine_version" => &["pc-i440fx-7.2"],
        "mem_path" => &["/dev/hugepages"],
        "nic_type" => &["e1000", "ne2k_isa"],
        "reboot_behavior" => &["exit"],
        "scsi_controller_type" => &["megasas"],
        "security_model" => &["user", "pool"],
        "security_domain" => &["guests"],
        "soundhw" => &["hda", "ac97 pcspk", "theremin"],
        "usb_devices" => &["keyboard,audio", "ccid wacom-tablet", "host:1.2", MANY],
        "usb_mouse" => &["tablet", "mouse"],
        "vga" => &["std", "cirrus", "virtio", "qxl", "vmware", "none", "cga"],
        "vnc_bind_address" => &["127.0.0.1", "/run/vnc", "eth0"],
        "vnc_password_file" => &["/etc/gantry/vnc-password"],
        "firmware" => &["uefi", "uefi-secure"],
        "accelerator" => &["kvm", "tcg"],
        "seed" => &["nocloud"],
        _ => &["x"],
    };
    words.iter().map(|word| Value::from(*word)).collect()
}

#[test]
fn what_each_parameter_changes() {
    use model::instance::parameters::ParameterKind;
    let usual = lines(&launch(&[]), HOST);
    let mut told = Vec::new();
    for row in KVM {
        let values = match row.kind {
            ParameterKind::Bool => vec![Value::from(row.usual.value() == false)],
            ParameterKind::Int(..) => vec![Value::from(2)],
            ParameterKind::Size(_) => vec![Value::from(4096)],
            _ => another(row.name),
        };
        for value in values {
            // Some parameters count only beside another one.
            let beside: &[(&str, Value)] = &match row.name {
                "initrd_path" | "kernel_args" | "root_path" | "serial_speed" => {
                    vec![("kernel_path", Value::from("/boot/vmlinuz"))]
                }
                "scsi_controller_type" => vec![("disk_type", Value::from("scsi"))],
                "cdrom_disk_type" => vec![("cdrom_image_path", Value::from("/srv/cd.iso"))],
                "vnc_password_file" => vec![("vnc_bind_address", Value::from("::1"))],
                "security_domain" => vec![("security_model", Value::from("user"))],
                _ => Vec::new(),
            };
            let before =
                if beside.is_empty() { usual.clone() } else { lines(&launch(beside), HOST) };
            let all = [beside, &[(row.name, value.clone())]].concat();
            let after = lines(&launch(&all), HOST);
            told.push(format!("{} = {value}", row.name));
            let unless = |sign, lines: &[String], other: &[String]| -> Vec<String> {
                let lines = lines.iter().filter(|line| !other.contains(line));
                lines.map(|line| format!("    {sign} {line}")).collect()
            };
            // The numbers of descriptors shift; what they are is told by the words.
            if after.len() == 1 {
                told.push(format!("    {}", after[0]));
                continue;
            }
            let changes = [unless('-', &before, &after), unless('+', &after, &before)].concat();
            told.extend(if changes.is_empty() { vec!["    nothing".to_owned()] } else { changes });
        }
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn a_node_without_hardware_emulates_and_says_so_where_that_was_not_wanted() {
    let bare = Host { kvm: false, vhost_net: false };
    let told = lines(&launch(&[]), bare);
    assert!(told.contains(&"-accel tcg,thread=multi".to_owned()), "{told:?}");
    assert!(!told.iter().any(|line| line.contains("vhost")), "{told:?}");
    let old = launch(&[("firmware", "uefi".into()), ("machine_version", "pc".into())]);
    assert!(lines(&old, bare)[0].contains("UEFI takes q35"));
    let refused = plan(&launch(&[("accelerator", "kvm".into())]), bare, None).unwrap_err();
    assert_eq!(refused.parameter, "accelerator");
}

#[test]
fn seventeen_words_of_whatever_reach_no_shell_and_no_option_of_ours() {
    let odd = launch(&[("kvm_extra", "-fw_cfg name=x,string=$(reboot);`id`".into())]);
    let plan = plan(&odd, HOST, None).unwrap();
    assert!(plan.words.contains(&"name=x,string=$(reboot);`id`".to_owned()));
}
