//! Core: the iPXE scripts.

use std::net::SocketAddr;

use model::Serial;
use model::boot_template::DocumentKind;
use model::image::ImageFiles;
use model::rack::{BootChoice, RackMachine};

use super::documents::{CLOUD_INIT_PATH, IGNITIONS_PATH};
use super::files::FILES_PATH;
use super::identity::Told;
use super::ipxe;

/// The path of the first script; sabakan's clients know it by [`PATH_ALIAS`], too.
pub const PATH: &str = "/api/v1/boot/ipxe";
/// The same by its other name.
pub const PATH_ALIAS: &str = "/api/v1/boot/coreos/ipxe";
/// The script that shows why a machine has none, by the same words.
pub const REFUSAL_PATH: &str = "/api/v1/boot/refusal";

/// The script that every machine gets. It asks for the machine's own script by all that iPXE knows: the
/// escaped serial number, a UUID and an Ethernet address, whose forms need no escape. Without an answer,
/// it shows why and leaves iPXE as a failure, so that the firmware goes on to its disk.
///
/// iPXE 2.0 may have it before the card is open or has an address.
pub fn chain(server: SocketAddr, path: &str) -> String {
    let me = "${serial:uristring}?uuid=${uuid}&mac=${netX/mac:hexhyp}";
    format!(
        "#!ipxe\n\
         isset ${{netX/ip}} || ifopen ||\n\
         isset ${{netX/ip}} || dhcp ||\n\
         chain --replace --autofree http://{server}{path}/{me} || goto refused\n\
         :refused\n\
         echo No boot from http://{server} for serial ${{serial}}, MAC ${{netX/mac}}\n\
         chain --autofree http://{server}{REFUSAL_PATH}/{me} ||\n\
         exit 1\n"
    )
}

/// The script of one machine. `exit 1` leaves the network to what the firmware has next. The first of the
/// servers is the one that is asked; the others serve the rack, too.
pub fn boot(servers: &[SocketAddr], machine: &RackMachine) -> String {
    let Some(&server) = servers.first() else { return ipxe::shown("") };
    let RackMachine { serial, role, boot, .. } = machine;
    // In a script, `||`, `&&` and `${` would be syntax.
    let serial = serial.escaped();
    let BootChoice::Image { id, files, parameters } = boot else {
        return format!(
            "#!ipxe\necho {serial} ({role}) boots what its firmware has next\nexit 1\n"
        );
    };
    let base = format!("http://{server}{FILES_PATH}/{serial}");
    let heading = format!("#!ipxe\necho {serial} ({role}) boots {id}\n");
    match files {
        // The master names no disk to a machine.
        ImageFiles::Disk(_) => format!("{heading}exit 1\n"),
        ImageFiles::Uki(uki) => format!("{heading}chain {base}/uki/{} || exit 1\n", uki.sha256),
        ImageFiles::Linux { kernel, initrds } => {
            let mut script =
                format!("{heading}kernel --name kernel {base}/kernel/{}", kernel.sha256);
            for number in 0..initrds.len() {
                script.push_str(&format!(" initrd=initrd{number}"));
            }
            let given = parameters.iter().map(|parameter| parameter.as_str().to_owned());
            let given: Vec<String> = given.collect();
            let of_system = configuring(server, machine, &given);
            let of_ramdisk = inspecting(servers, machine, &given);
            for parameter in given.iter().chain(&of_system).chain(&of_ramdisk) {
                script.push_str(&format!(" {}", ipxe::literal(parameter)));
            }
            let cycle = machine.cycle;
            script.push_str(&format!(" gantry.up={base}/up/{cycle} || exit 1\n"));
            for (number, initrd) in initrds.iter().enumerate() {
                let digest = initrd.sha256;
                script.push_str(&format!(
                    "initrd --name initrd{number} {base}/initrd/{digest} || exit 1\n"
                ));
            }
            script + "boot || exit 1\n"
        }
    }
}

/// The kernel parameters that tell a system where its configuration is, unless the operator told it.
fn configuring(server: SocketAddr, machine: &RackMachine, given: &[String]) -> Vec<String> {
    let serial = machine.serial.escaped();
    let newest = |kind| machine.documents.iter().find(|document| document.kind == kind);
    let is_told = |names: &[&str]| {
        given.iter().any(|word| names.iter().any(|name| word.split('=').next() == Some(name)))
    };
    let ignition = newest(DocumentKind::Ignition)
        .filter(|_| !is_told(&["ignition.config.url", "coreos.config.url", "flatcar.config.url"]))
        .map(|document| {
            let id = &document.id;
            format!("ignition.config.url=http://{server}{IGNITIONS_PATH}/{serial}/{id}")
        });
    let cloud_init = newest(DocumentKind::UserData)
        .filter(|_| !is_told(&["ds", "cloud-config-url"]))
        // Older versions, such as Debian 12's, look at a URL only where the source has this name.
        .map(|_| format!("ds=nocloud-net;s=http://{server}{CLOUD_INIT_PATH}/{serial}/"));
    ignition.into_iter().chain(cloud_init).collect()
}

/// The kernel parameters that tell an agent in a ramdisk where to look itself up and where to report the
/// hardware, unless the operator gave them. It tries `servers` in turn; its inspection goes to the
/// first, since old agents take only one there.
fn inspecting(servers: &[SocketAddr], machine: &RackMachine, given: &[String]) -> Vec<String> {
    let is_ramdisk = machine.ramdisk.as_ref().is_some_and(|ramdisk| ramdisk.boots);
    let Some(first) = servers.first().filter(|_| is_ramdisk) else { return Vec::new() };
    let all: Vec<String> = servers.iter().map(|server| format!("http://{server}")).collect();
    let told = [
        ("ipa-api-url", all.join(",")),
        ("ipa-inspection-callback-url", format!("http://{first}/v1/continue_inspection")),
    ];
    let is_given = |name: &str| given.iter().any(|word| word.split('=').next() == Some(name));
    let told = told.into_iter().filter(|(name, _)| !is_given(name));
    told.map(|(name, url)| format!("{name}={url}")).collect()
}

/// For a machine that nobody registered. Not a script: the machine must not go on as if it were.
pub(super) fn unknown(serial: &Serial, who: &Told) -> String {
    let text = serde_json::Value::from(serial.as_str());
    format!(
        "not registered in a rack of this agent: {who}; register it with\n\
         gnt machine add -f FILE\n\
         where FILE holds [{{\"serial\": {text}, \"rack\": RACK, \"role\": \"ROLE\"}}]\n"
    )
}

/// For a machine whose firmware tells no serial number of its own, and whose card is not known.
pub(super) fn nameless(told: &str, why: &str, who: &Told) -> String {
    let mac = who.macs.first().map_or_else(|| "ADDRESS".to_owned(), ToString::to_string);
    format!(
        "the serial number '{told}' {why}; register the machine by a serial number of your own and its \
         MAC address:\n\
         gnt machine add --serial SERIAL --mac {mac} --rack RACK --role ROLE\n"
    )
}

/// For a machine that tells what is not of one machine.
pub(super) fn contradiction(why: &str) -> String {
    format!(
        "refused: {why}; where a card or a board was replaced, take it from the one machine by \
         gnt machine modify OLD --remove-mac MAC, and give it to the other by gnt machine modify NEW --mac MAC\n"
    )
}

#[cfg(test)]
mod tests {
    use model::blob::Blob;
    use model::boot_template::BootDocument;
    use model::power_cycle::ExpectedRamdisk;

    use super::*;

    fn server() -> SocketAddr {
        "10.69.0.3:10080".parse().unwrap()
    }

    fn blob(digit: char) -> Blob {
        Blob { sha256: digit.to_string().repeat(64).parse().unwrap(), size: 1 }
    }

    fn script(files: Option<ImageFiles>) -> String {
        let racks = crate::rack::Racks::new(vec![crate::testing::rack(0, 1)]);
        let (_, mut machine) = racks.machine(&"S1".parse().unwrap()).unwrap();
        machine.boot = files.map_or(BootChoice::Local, |files| BootChoice::Image {
            id: "debian/12".parse().unwrap(),
            files,
            parameters: vec!["console=ttyS0".parse().unwrap()],
        });
        boot(&[server()], &machine)
    }

    #[test]
    fn the_first_script_escapes_what_it_asks_with() {
        let text = chain(server(), PATH);
        let me = "${serial:uristring}?uuid=${uuid}&mac=${netX/mac:hexhyp} ";
        assert!(text.contains(&format!("http://10.69.0.3:10080/api/v1/boot/ipxe/{me}")), "{text}");
        assert!(
            text.contains(&format!("http://10.69.0.3:10080/api/v1/boot/refusal/{me}")),
            "{text}"
        );
        assert!(text.ends_with("exit 1\n"), "firmware ends in its set-up where iPXE succeeds");
    }

    #[test]
    fn a_refusal_is_shown_and_is_no_syntax() {
        let text = ipxe::shown(&nameless("|| shell \u{7}", "is empty", &Told::default()));
        assert!(
            text.starts_with("#!ipxe\necho the serial number '|| shell ?' is empty;"),
            "{text}"
        );
        assert!(text.ends_with("--rack RACK --role ROLE\nexit 1\n"), "{text}");
        let serial: Serial = "SN-0001#ABU".parse().unwrap();
        let text = ipxe::shown(&unknown(&serial, &Told::default()));
        assert!(text.contains("[{\"serial\": \"SN-0001#ABU\","), "{text}");
    }

    #[test]
    fn a_serial_is_never_syntax() {
        let racks = crate::rack::Racks::new(vec![crate::testing::rack(0, 1)]);
        let (_, mut machine) = racks.machine(&"S1".parse().unwrap()).unwrap();
        machine.serial = "a#b?c/d || shell ${x}".parse().unwrap();
        let escaped = "a%23b%3Fc%2Fd%20%7C%7C%20shell%20%24%7Bx%7D";
        let local = boot(&[server()], &machine);
        assert!(local.contains(&format!("\necho {escaped} (worker) boots")), "{local}");
        let files = ImageFiles::Linux { kernel: blob('a'), initrds: vec![blob('b')] };
        let (id, parameters) = ("debian/12".parse().unwrap(), Vec::new());
        machine.boot = BootChoice::Image { id, files, parameters };
        let linux = boot(&[server()], &machine);
        assert_eq!(linux.matches(&format!("/machines/{escaped}/")).count(), 3, "{linux}");
        assert!(!linux.contains(machine.serial.as_str()) && !linux.contains("${"), "{linux}");
    }

    #[test]
    fn scripts() {
        let local = script(None);
        assert!(local.starts_with("#!ipxe\n") && local.ends_with("exit 1\n"), "{local}");
        let (base, a, b) =
            ("http://10.69.0.3:10080/api/v1/boot/machines/S1", blob('a').sha256, blob('b').sha256);
        let uki = script(Some(ImageFiles::Uki(blob('a'))));
        assert!(uki.ends_with(&format!("\nchain {base}/uki/{a} || exit 1\n")), "{uki}");
        let linux = script(Some(ImageFiles::Linux { kernel: blob('a'), initrds: vec![blob('b')] }));
        let wanted = format!(
            "\nkernel --name kernel {base}/kernel/{a} initrd=initrd0 console=ttyS0 \
             gantry.up={base}/up/0 || exit 1\ninitrd --name initrd0 {base}/initrd/{b} || exit 1\n\
             boot || exit 1\n"
        );
        assert!(linux.ends_with(&wanted), "{linux}");
    }

    #[test]
    fn a_ramdisk_is_told_where_it_looks_itself_up() {
        let racks = crate::rack::Racks::new(vec![crate::testing::rack(0, 1)]);
        let (_, mut machine) = racks.machine(&"S1".parse().unwrap()).unwrap();
        machine.boot = BootChoice::Image {
            id: "ipa/1".parse().unwrap(),
            files: ImageFiles::Linux { kernel: blob('a'), initrds: Vec::new() },
            parameters: Vec::new(),
        };
        let servers = [server(), "10.69.0.67:10080".parse().unwrap()];
        assert!(!boot(&servers, &machine).contains(" ipa-"));
        machine.ramdisk = Some(crate::testing::ramdisk());
        let told = " ipa-api-url=http://10.69.0.3:10080,http://10.69.0.67:10080 \
                    ipa-inspection-callback-url=http://10.69.0.3:10080/v1/continue_inspection ";
        let text = boot(&servers, &machine);
        assert!(text.contains(told) && !text.contains("dG9rZW4"), "{text}");
        let BootChoice::Image { parameters, .. } = &mut machine.boot else { panic!() };
        parameters.push("ipa-api-url=http://x".parse().unwrap());
        let text = boot(&servers, &machine);
        assert!(text.matches("ipa-api-url=").count() == 1 && text.contains("ipa-inspection"));
        let system = ExpectedRamdisk { boots: false, ..crate::testing::ramdisk() };
        machine.ramdisk = Some(system);
        assert!(!boot(&servers, &machine).contains("ipa-inspection"));
    }

    #[test]
    fn a_system_is_told_where_its_configuration_is() {
        let racks = crate::rack::Racks::new(vec![crate::testing::rack(0, 1)]);
        let (_, mut machine) = racks.machine(&"S1".parse().unwrap()).unwrap();
        let document =
            |kind, id: &str| BootDocument { kind, id: id.parse().unwrap(), text: "{}".into() };
        machine.serial = "a b".parse().unwrap();
        machine.documents = vec![
            document(DocumentKind::Ignition, "1.10.0"),
            document(DocumentKind::UserData, "0.1.0"),
            document(DocumentKind::Ignition, "1.9.0"),
        ];
        let words = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&word| word.to_owned()).collect();
            configuring(server(), &machine, &given)
        };
        let [ignition, cloud_init] = [
            "ignition.config.url=http://10.69.0.3:10080/api/v1/boot/ignitions/a%20b/1.10.0",
            "ds=nocloud-net;s=http://10.69.0.3:10080/cloud-init/a%20b/",
        ];
        assert_eq!(words(&["quiet"]), [ignition, cloud_init]);
        assert_eq!(words(&["ignition.config.url=http://x"]), [cloud_init]);
        assert_eq!(words(&["coreos.config.url=http://x", "ds=nocloud"]), Vec::<String>::new());
    }
}
