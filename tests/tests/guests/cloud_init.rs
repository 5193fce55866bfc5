//! A Debian with its own cloud-init, which asks an agent for its configuration.

use std::process::Command;

use xtask::debian;
use xtask::guest::GuestError;
use xtask::guest::rack::{Rack, address};
use xtask::images;

use crate::{MAC, SERIAL, text};

/// Seconds that the Debian may run: ten times what it does on two busy cores.
const PATIENCE: u32 = 300;
/// The name of its product has what YAML and shells would misread.
const PRODUCT: &str = r#"a "b": {c} & 'd'"#;
/// The user data of its role.
const USER_DATA: &str = r#"#cloud-config
write_files:
  - path: /root/product
    content: {{ .Spec.Product | json }}
runcmd:
  - [curl, --fail, --silent, --output, /root/answer, "{{ MyURL }}/api/v1/boot/machines/{{ .Spec.Serial }}/up"]
"#;

/// A rack without guests of QEMU, whose machine boots an image of which nothing is started.
fn rack() -> Result<Rack, GuestError> {
    let rack = Rack::new(tests::place::programs().clone(), &std::env::temp_dir(), 1, 0)?;
    let add = ["machine", "add", "--serial", SERIAL, "--rack", "0", "--role", "worker"];
    rack.gnt(&[&add[..], &["--mac", MAC, "--product", PRODUCT]].concat())?;
    let file = |name: &str, content: &str| {
        let path = rack.stage.root().join(name);
        stdx::atomic::write(&path, content.as_bytes(), 0o644).unwrap();
        text(&path)
    };
    let (kernel, initrd) =
        (file("kernel", &images::kernel("debian")), file("initrd", &images::initrd("debian")));
    rack.gnt(&["image", "upload", "debian/1", "--kernel", &kernel, "--initrd", &initrd])?;
    rack.gnt(&["machine", "set-boot", "debian/1", SERIAL])?;
    let user_data = file("user-data", USER_DATA);
    rack.gnt(&["cloud-init-template", "upload", "worker", "0.1.0", &user_data])?;
    Ok(rack)
}

/// The parameter of a kernel that tells cloud-init where to ask, as the machine's boot script has it.
fn data_source(rack: &Rack) -> Option<String> {
    let script = format!("http://{}:10080/api/v1/boot/ipxe/{SERIAL}", address(1));
    let mut curl = Command::new("curl");
    let told = rack.switch.at_node(1, curl.args(["--silent", &script])).output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let word = told.split_whitespace().find(|word| word.starts_with("ds="));
    word.map(str::to_owned)
}

#[test]
fn a_debian_configures_itself_by_cloud_init() {
    let fresh = match debian::fresh() {
        Ok(fresh) => fresh,
        Err(why) => return tests::skip("a Debian with cloud-init", &why),
    };
    let mut rack = match rack() {
        Ok(rack) => rack,
        Err(GuestError::Impossible(why)) => {
            return tests::skip("a Debian with cloud-init", &why);
        }
        Err(error) => panic!("{}", stdx::daemon::chain(&error)),
    };
    let mut told = None;
    let known = rack.stage.wait_until("the boot script", xtask::guest::rack::SOON, || {
        told = data_source(&rack);
        told.is_some()
    });
    known.unwrap();
    let machine = debian::copy(&fresh, &rack.stage.root()).unwrap();
    // The files that cloud-init writes are for it, and images of clouds have it running.
    for unit in ["systemd-networkd", "systemd-networkd-wait-online"] {
        let mut enable = Command::new("systemctl");
        let done = enable.arg("--root").arg(&machine).args(["enable", "--quiet", unit]).status();
        assert!(done.unwrap().success(), "{unit}");
    }
    let namespace = rack.switch.add_host("debian", MAC).unwrap();
    // A shell would end the parameter at its semicolon.
    let parameters = format!("'{}'", told.unwrap());
    let capable = "--capability=CAP_NET_ADMIN";
    let boot = debian::boot(&machine, PATIENCE, Some(&namespace), capable, &parameters);
    rack.stage.start("debian", boot).unwrap();
    rack.wait_for_stage(SERIAL, "system").unwrap();
    let product = std::fs::read_to_string(machine.join("root/product")).unwrap();
    assert_eq!(product, PRODUCT);
    let name = std::fs::read_to_string(machine.join("etc/hostname")).unwrap();
    assert_eq!(name.trim(), SERIAL.to_lowercase());
    let info = rack.gnt(&["machine", "info", SERIAL]).unwrap();
    assert!(info.contains("user-data 0.1.0"), "{info}");
}
