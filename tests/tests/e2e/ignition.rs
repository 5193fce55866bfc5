//! Configurations of machines: templates by role, served by an agent while the master is away.

use std::process::Command;

use serde_json::{Value, json};
use tests::cluster::{Cluster, PATIENCE};
use tests::run::{Ended, run, wait_for};

use crate::rack::rack;

/// A name of a product that would end a string, a tag and a document.
const ODD: &str = "\"a\" & {b}";

/// A configuration that Debian's `ignition-validate` knows.
fn configuration() -> String {
    json!({
        "ignition": { "version": "3.3.0" },
        "storage": { "files": [
            { "path": "/etc/hostname", "mode": 420, "contents": { "source": "data:,{{ .Spec.Serial }}%0A" } },
            { "path": "/etc/zone", "contents": { "source": "data:,{{ .Spec.Labels.zone }}" } },
            { "path": "/opt/image", "contents": { "source": "{{ MyURL }}/api/v1/assets/image" } },
        ] },
        "systemd": { "units": [{
            "name": "zone.service", "enabled": true,
            "contents": "[Unit]\nDescription={{ .Spec.Product }} of rack {{ .Spec.Rack }}\n\
                         [Service]\nExecStart=/bin/true\n",
        }] },
    })
    .to_string()
}

fn upload(cluster: &Cluster, noun: &str, version: &str, text: &str) -> Ended {
    let file = cluster.write("template", text);
    cluster.gnt(&format!("{noun} upload worker {version} {}", file.display()))
}

/// The status and body of what the agent serves at a path.
fn fetch(cluster: &Cluster, path: &str) -> (String, String) {
    let mut curl = Command::new("curl");
    let url = format!("http://{}:10080{path}", cluster.boot_address(&cluster.master));
    curl.args(["--silent", "--max-time", "20", "-w", "\n%{http_code}", &url]);
    let answer = run(curl).stdout;
    let (body, status) = answer.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

fn wait_for_file(cluster: &Cluster, path: &str) -> String {
    wait_for(path, PATIENCE, || {
        let (status, body) = fetch(cluster, path);
        (status == "200" && !body.is_empty()).then_some(body)
    })
}

#[test]
fn machines_get_their_configuration_while_the_master_is_away() {
    let cluster = rack();
    let machines = cluster.write(
        "machines.json",
        &json!([
            {"serial": "SN1", "rack": 0, "role": "worker", "product": ODD, "labels": {"zone": "a"}},
            {"serial": "SN2", "rack": 0, "role": "worker", "labels": {"zone": "b"}},
        ])
        .to_string(),
    );
    let _added = cluster.gnt(&format!("machine add -f {}", machines.display())).ok();
    let told = upload(&cluster, "ignition-template", "1.9.0", &configuration());
    assert!(told.ok().contains("2 machines get ignition/worker/1.9.0"), "{told:?}");
    let newer = configuration().replace("/etc/zone", "/etc/place");
    let _newer = upload(&cluster, "ignition-template", "1.10.0", &newer).ok();
    let user_data =
        "#cloud-config\nhostname: {{ .Spec.Serial }}\nproduct: {{ .Spec.Product | json }}\n";
    let _user_data = upload(&cluster, "cloud-init-template", "0.1.0", user_data).ok();
    let _last = wait_for_file(&cluster, "/cloud-init/SN1/user-data");

    cluster.stop_master();
    let served = wait_for_file(&cluster, "/api/v1/boot/ignitions/SN1/1.10.0");
    let document: Value = serde_json::from_str(&served).unwrap();
    let source = |at: usize| document["storage"]["files"][at]["contents"]["source"].clone();
    let address = cluster.boot_address(&cluster.master);
    assert_eq!(source(0), "data:,SN1%0A");
    assert_eq!(source(2), format!("http://{address}:10080/api/v1/assets/image"));
    let unit = document["systemd"]["units"][0]["contents"].as_str().unwrap();
    assert!(unit.contains(&format!("Description={ODD} of rack 0\n")), "{unit}");
    let file = cluster.write("config.ign", &served);
    let mut validate = Command::new("ignition-validate");
    validate.arg(&file);
    match validate.output() {
        Ok(done) => {
            let told = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success() && !told.contains("warning"), "{told}");
        }
        Err(error) => println!("skipped: ignition-validate does not run: {error}"),
    }
    assert_eq!(fetch(&cluster, "/api/v1/boot/ignitions/SN1/1.9.0").0, "200", "one older is kept");
    assert_eq!(fetch(&cluster, "/api/v1/boot/ignitions/SN1/1.8.0").0, "404");
    let (_, user_data) = fetch(&cluster, "/cloud-init/SN1/user-data");
    assert_eq!(user_data, "#cloud-config\nhostname: SN1\nproduct: \"\\\"a\\\" & {b}\"\n");
    let (_, meta_data) = fetch(&cluster, "/cloud-init/SN2/meta-data");
    let meta_data: Value = serde_json::from_str(&meta_data).unwrap();
    assert_eq!(meta_data["local-hostname"], "sn2");
    let (status, why) = fetch(&cluster, "/cloud-init/SN1/other-data");
    assert!(status == "404" && why.contains("SN1 can fetch ignition 1.10.0"), "{why}");
    let nothing = ("200".to_owned(), String::new());
    assert_eq!(fetch(&cluster, "/cloud-init/SN1/network-config"), nothing);

    // The agent serves it after its own restart, and tells the master what was fetched.
    cluster.kill_agent(&cluster.master);
    cluster.start_agent(&cluster.master);
    let again = wait_for_file(&cluster, "/api/v1/boot/ignitions/SN1/1.10.0");
    assert_eq!(again, served);
    cluster.start_master();
    wait_for("what was fetched", PATIENCE, || {
        cluster.gnt("machine info SN1").ok().contains("ignition 1.10.0").then_some(())
    });
    // The machine's network comes with it.
    let pool = "--network 192.168.7.0/24 --pool 192.168.7.10-192.168.7.20";
    let _network = cluster.gnt(&format!("network add net0 {pool}")).ok();
    let links = cluster.write("links", "links: [{name: em1, addresses: [\"{{ ip['net0'] }}\"]}]\n");
    let _links = cluster.gnt(&format!("network-template upload worker {}", links.display())).ok();
    let network = wait_for_file(&cluster, "/cloud-init/SN2/network-config");
    assert!(network.contains("version: 2") && network.contains("192.168.7.11/24"), "{network}");
    let rendered = cluster.gnt("ignition render SN1");
    let rendered = rendered.ok().replace("gantry-my-url-7f3a", &format!("http://{address}:10080"));
    assert_eq!(rendered.trim_end(), served);
    let diff = cluster.gnt("ignition diff SN1");
    assert!(diff.failed(1).is_empty() && diff.stdout.contains("/etc/place"), "{diff:?}");
}

/// Applies what a machine's kernel is told to the tree in `$1`, as a ramdisk would: Ignition reads the
/// parameters of the kernel, which are those in `$2` here. It writes its result, and then asks how SELinux
/// labels files, which fails in a tree without it.
const APPLY: &str = r#"
mount --bind "$2" /proc/cmdline
for stage in fetch-offline fetch kargs files; do
    "$3" --platform metal --stage $stage --root "$1/root" --config-cache "$1/cache" \
        --state-file "$1/state" --neednet "$1/neednet" --log-to-stdout ||
        test -e "$1/root/etc/.ignition-result.json"
done
"#;

#[test]
fn ignition_finds_and_applies_its_configuration() {
    let Some(ignition) = xtask::needs::find("ignition") else {
        return tests::skip("applying a configuration", "ignition is not installed");
    };
    let cluster = rack();
    let machine = json!([{"serial": "SN1", "rack": 0, "role": "worker", "product": ODD, "labels": {"zone": "a"}}]);
    let machine = cluster.write("machine", &machine.to_string());
    let _added = cluster.gnt(&format!("machine add -f {}", machine.display())).ok();
    let file = cluster.write("any", "a file");
    let any = file.display();
    let _asset = cluster.gnt(&format!("asset add image {any}")).ok();
    let kernel = cluster.write("kernel", &xtask::images::kernel("os"));
    let initrd = cluster.write("initrd", &xtask::images::initrd("os"));
    let (kernel, initrd) = (kernel.display(), initrd.display());
    let _image =
        cluster.gnt(&format!("image upload os/1 --kernel {kernel} --initrd {initrd}")).ok();
    let _booted = cluster.gnt("machine set-boot os/1 SN1").ok();
    let _template = upload(&cluster, "ignition-template", "1.0.0", &configuration()).ok();
    let script = wait_for("the parameter", PATIENCE, || {
        let (_, script) = fetch(&cluster, "/api/v1/boot/ipxe/SN1");
        script.contains("ignition.config.url=").then_some(script)
    });
    let parameters = script.lines().find(|line| line.contains("ignition.config.url=")).unwrap();
    let parameters = cluster.write("parameters", parameters);
    let place = cluster.dir().join("applied");
    std::fs::create_dir_all(place.join("root")).unwrap();
    let mut apply = Command::new("unshare");
    apply.args(["--map-root-user", "--mount", "sh", "-euc", APPLY, "sh"]);
    let told = run({
        apply.arg(&place).arg(&parameters).arg(&ignition);
        apply
    });
    let _applied = told.ok();
    let applied = |path: &str| std::fs::read_to_string(place.join("root").join(path)).unwrap();
    assert_eq!(applied("etc/hostname"), "SN1\n");
    assert_eq!(applied("etc/zone"), "a");
    assert_eq!(applied("opt/image"), "a file");
    let unit = applied("etc/systemd/system/zone.service");
    assert!(unit.contains(&format!("Description={ODD} of rack 0\n")), "{unit}");
}

#[test]
fn templates_that_do_not_fit_are_refused_and_change_nothing() {
    let cluster = rack();
    let _added = cluster.gnt("machine add --serial SN1 --rack 0 --role worker").ok();
    let plain = json!({"ignition": {"version": "3.3.0"}}).to_string();
    let of = |serial: &str| plain.replace("3.3.0\"", &format!("3.3.0\"{serial}"));
    for (text, words) in [
        (configuration(), "for machine 'SN1': line 1: storage.files[1].contents.source"),
        (plain.replace("3.3.0", "2.1.0"), "emergency shell"),
        (of(",\"a\": \"{{ env \\\"PATH\\\" }}\""), "there is no function `env`"),
        (of(",\"a\": \"{{ readFile \\\"/etc/shadow\\\" }}\""), "there is no function `readFile`"),
        (of(",\"a\": \"{{ range 1000000000 }}{{ end }}\""), "more than 100000 steps"),
        ("x".repeat(262_145), "at most 262144 are taken"),
    ] {
        let refused = upload(&cluster, "ignition-template", "1.0.0", &text);
        assert!(refused.failed(1).contains(words), "no {words} in {refused:?}");
    }
    let _first = upload(&cluster, "ignition-template", "1.0.0", &plain).ok();
    let _again = upload(&cluster, "ignition-template", "1.0.0", &plain).ok();
    let other = upload(&cluster, "ignition-template", "1.0.0", &of(" "));
    assert!(other.failed(1).contains("exists with another text"), "{other:?}");
    let old = plain.replace("3.3.0", "2.3.0");
    let refused = upload(&cluster, "ignition-template", "1.1.0", &old);
    assert!(refused.failed(1).contains("--other-spec takes it all the same"), "{refused:?}");
    for patch in 1..=12 {
        let _kept = upload(&cluster, "ignition-template", &format!("1.0.{patch}"), &plain).ok();
    }
    let rows = cluster.gnt("ignition-template list --json -o version,newest").json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[9], json!({"version": "1.0.12", "newest": true}), "{rows:?}");
    // A machine that loses what its template names is refused.
    let labels = configuration();
    let _label = cluster.gnt("machine modify --label zone=a SN1").ok();
    let _named = upload(&cluster, "ignition-template", "2.0.0", &labels).ok();
    let refused = cluster.gnt("machine add --serial SN2 --rack 0 --role worker");
    assert!(refused.failed(1).contains("for machine 'SN2'"), "{refused:?}");
    let _removed = cluster.gnt("ignition-template remove worker 2.0.0 --yes").ok();
    let _added = cluster.gnt("machine add --serial SN2 --rack 0 --role worker").ok();
}
