use std::path::Path;

use model::Uuid;
use model::instance::DiskPlace;
use model::instance::disk::DiskMode;
use model::instance::launch::{DiskLaunch, Launch, NicLaunch};
use model::instance::parameters::{
    BACKEND, ParameterKind, Parameters, Table, XEN_HVM, XEN_PVM, hypervisor,
};
use serde_json::Value;

use super::*;

fn filled(table: Table) -> Parameters {
    table.iter().map(|row| (row.name.to_owned(), row.usual.value())).collect()
}

/// Parameters of a card, which differ from a bridged one's in these.
fn card(values: &[(&str, &str)]) -> Parameters {
    let usual = [("mode", "bridged"), ("link", "br0"), ("vlan", "")];
    let all = usual.iter().chain(values);
    all.map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

/// An instance with a disk and a card, with these values where they differ from the defaults.
fn launch(kind: &str, values: &[(&str, Value)]) -> Launch {
    let mut hvparams = filled(hypervisor(kind).unwrap());
    hvparams.extend(values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let number = Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef);
    Launch {
        uuid: number,
        name: "web1.example.com".parse().unwrap(),
        run: 3,
        hypervisor: kind.to_owned(),
        hvparams,
        beparams: filled(BACKEND),
        nics: vec![NicLaunch {
            uuid: number,
            mac: "aa:00:00:12:34:56".parse().unwrap(),
            ip: None,
            network: None,
            nicparams: card(&[]),
        }],
        disks: vec![disk(0)],
        paused: false,
        seed: None,
        users: Vec::new(),
        network_port: None,
    }
}

fn disk(number: u32) -> DiskLaunch {
    DiskLaunch {
        uuid: Uuid::from_u128(number.into()),
        place: DiskPlace::File { path: format!("/srv/gantry/web1/disk{number}") },
        size: 1024,
        mode: DiskMode::ReadWrite,
        params: Parameters::new(),
        replica: None,
    }
}

fn text(launch: &Launch) -> String {
    config(launch, None).unwrap_or_else(|error| format!("refused: {error}\n"))
}

#[test]
fn the_configurations_of_usual_guests() {
    let both = ["xen-pvm", "xen-hvm"].map(|kind| text(&launch(kind, &[])));
    insta::assert_snapshot!(both.join("\n"));
}

/// A value of each parameter that is not its default.
fn another(name: &str) -> &'static [&'static str] {
    match name {
        "bootloader_path" => &["/usr/bin/pygrub"],
        "bootloader_args" => &["-q --kernel=x"],
        "kernel_path" => &["/boot/vmlinuz", ""],
        "initrd_path" => &["/boot/initrd"],
        "root_path" => &["", "/dev/xvdb"],
        "kernel_args" => &["", r#"init="/a b" c='d' e=\n"#, "two\nlines"],
        "blockdev_prefix" => &["xvd", "vd"],
        "reboot_behavior" => &["exit"],
        "cpu_mask" => &["0-3,5", "0:1,2:all"],
        "vif_script" => &["/etc/xen/scripts/vif-own", "a,b"],
        "cpuid" => &["host,avx=0", "['1:ecx=xx,edx=0', '7:ebx=k']", "[]"],
        "boot_order" => &["dc"],
        "cdrom_image_path" => &["/srv/cd,1.iso"],
        "nic_type" => &["e1000", "paravirtual"],
        "disk_type" => &["ioemu"],
        "device_model" => &["/opt/qemu", ""],
        "pci_pass" => &["01:02.0; 01:02.1"],
        "vif_type" => &["vif"],
        _ => &["x"],
    }
}

#[test]
fn what_each_parameter_changes() {
    let mut told = Vec::new();
    for (kind, table) in [("xen-pvm", XEN_PVM), ("xen-hvm", XEN_HVM)] {
        told.push(format!("{kind}:"));
        for row in table {
            let values = match row.kind {
                ParameterKind::Bool => vec![Value::from(row.usual.value() == false)],
                ParameterKind::Int(..) => vec![Value::from(2)],
                _ => another(row.name).iter().map(|word| Value::from(*word)).collect(),
            };
            let beside: &[(&str, Value)] = &match row.name {
                "use_bootloader" => vec![("bootloader_path", "/usr/bin/pygrub".into())],
                "bootloader_path" => vec![("use_bootloader", true.into())],
                "bootloader_args" => vec![
                    ("use_bootloader", true.into()),
                    ("bootloader_path", "/usr/bin/pygrub".into()),
                ],
                _ => Vec::new(),
            };
            for value in values {
                let before = text(&launch(kind, beside));
                let all = [beside, &[(row.name, value.clone())]].concat();
                let after = text(&launch(kind, &all));
                told.push(format!("{} = {value}", row.name));
                let unless = |sign, lines: &str, other: &str| -> Vec<String> {
                    let lines = lines.lines().filter(|line| !other.lines().any(|one| one == *line));
                    lines.map(|line| format!("    {sign} {line}")).collect()
                };
                if after.starts_with("refused") {
                    told.push(format!("    {}", after.trim()));
                    continue;
                }
                let changes = [unless('-', &before, &after), unless('+', &after, &before)].concat();
                told.extend(if changes.is_empty() { vec!["    nothing".into()] } else { changes });
            }
        }
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn cards_go_where_scripts_of_xen_bring_them() {
    let routed = [("mode", "routed"), ("link", "")];
    let kinds: [(&[(&str, &str)], &str); 6] = [
        (&[], "bridge=br0, ip=192.0.2.1, script=vif-bridge"),
        (&[("vlan", ".100")], "refused: parameter vif: card 12345678"),
        (&[("mode", "openvswitch"), ("vlan", ".100:1:2")], "bridge=br0.100:1:2, ip=192.0.2.1"),
        (&[("mode", "openvswitch"), ("vlan", "100")], "bridge=br0.100, ip=192.0.2.1"),
        (&routed, "vifname=gnt123456789ab, ip=192.0.2.1, script=vif-route"),
        (&[("mode", "routed"), ("link", "100")], "refused: parameter vif"),
    ];
    for (values, wanted) in kinds {
        let mut launch = launch("xen-pvm", &[]);
        launch.nics[0].nicparams = card(values);
        launch.nics[0].ip = Some("192.0.2.1".parse().unwrap());
        let text = text(&launch);
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let own = launch("xen-pvm", &[("vif_script", "own".into())]);
    let mut own = Launch { nics: own.nics.clone(), ..own };
    own.nics[0].nicparams = card(&[("vlan", ".100")]);
    assert!(text(&own).contains("script=own"), "a script of the operator may know VLANs");
}

#[test]
fn disks_have_letters_and_the_seed_comes_last() {
    let mut launch = launch("xen-hvm", &[("cdrom_image_path", "/cd.iso".into())]);
    launch.disks = (0..2).map(disk).collect();
    launch.disks[1].mode = DiskMode::ReadOnly;
    let told = config(&launch, Some(Path::new("/x.seed"))).unwrap();
    let line = told.lines().find(|line| line.starts_with("disk")).unwrap();
    assert_eq!(
        line,
        "disk = [ \"format=raw, vdev=hda, access=rw, target=/srv/gantry/web1/disk0\", \
         \"format=raw, vdev=hdb, access=ro, target=/srv/gantry/web1/disk1\", \
         \"format=raw, vdev=hdc, access=ro, target=/x.seed\", \
         \"format=raw, vdev=hdd, access=ro, devtype=cdrom, target=/cd.iso\" ]"
    );
    launch.disks = (0..5).map(disk).collect();
    assert!(text(&launch).contains("refused: parameter blockdev_prefix: 5 disks"));
}
