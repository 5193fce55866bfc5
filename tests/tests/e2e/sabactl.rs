//! sabakan's command line, by its verbs and flags.

use std::process::Command;

use serde_json::{Value, json};
use tests::cluster::{Cluster, IPAM};
use tests::run::{Ended, run};

/// Runs `gnt` by the name of `sabactl`.
fn sabactl(cluster: &Cluster, words: &[&str]) -> Ended {
    let link = cluster.dir().join("sabactl");
    if !link.exists() {
        let gnt = cluster.gnt_command("version").get_program().to_owned();
        std::os::unix::fs::symlink(gnt, &link).unwrap();
    }
    let mut command = Command::new(link);
    command.env("GANTRY_ROOT", &cluster.master.root).args(words);
    run(command)
}

#[test]
fn verbs_of_sabactl_do_what_they_say() {
    let cluster = Cluster::begin_with_agent();
    let of = |words: &str| sabactl(&cluster, &words.split(' ').collect::<Vec<_>>());
    let file = |name: &str, text: &str| cluster.write(name, text).display().to_string();
    let server = "--server http://localhost:10080";
    let rules = file("ipam.json", IPAM);
    assert_eq!(of(&format!("{server} ipam set -f {rules}")).ok(), "");
    assert!(of("ipam get").json()["max-nodes-in-rack"].is_u64());
    let machines = json!([{"serial": "S1", "rack": 0, "role": "worker", "labels": {"zone": "a"}}]);
    let machines = file("machines.json", &machines.to_string());
    assert_eq!(of(&format!("machines create -f {machines}")).ok(), "");
    let again = of(&format!("machines create -f {machines}"));
    assert!(again.failed(19).contains("S1"), "{again:?}");
    assert_eq!(of("machines set-label S1 zone b").ok(), "");
    assert_eq!(of("machines get-label S1 zone").ok(), "b\n");
    assert_eq!(of("machines set-retire-date S1 2030-01-02").ok(), "");
    let found = of("machines get --rack 0 --labels zone=b").json();
    assert_eq!(found[0]["spec"]["retire-date"], "2030-01-02T00:00:00Z");
    let _none = of("machines get --serial S9").failed(14);
    let _none = of("machines get --without-role worker").failed(14);
    let table = of("machines get -o simple --without-rack 1");
    assert!(
        table.ok().starts_with("Serial Rack Role   State")
            && table.ok().contains("\nS1     0    worker"),
        "{table:?}"
    );
    let dhcp = file("dhcp.json", r#"{"dns-servers": ["10.0.0.53"], "lease-minutes": 60}"#);
    assert_eq!(of(&format!("dhcp set -f {dhcp}")).ok(), "");
    assert_eq!(of("dhcp get").json()["dns-servers"], json!(["10.0.0.53"]));
    let data = file("data", "data");
    let told = of(&format!("assets upload --meta os=a,v=1 data {data}")).json();
    assert_eq!(told, json!({"status": 201, "id": "1"}));
    let told = of("assets info data").json();
    assert_eq!((&told["exists"], &told["options"]["v"]), (&json!(true), &json!("1")));
    let kernel = file("kernel", &xtask::images::kernel("coreos"));
    let initrd = file("initrd", &xtask::images::initrd("coreos"));
    let noise = of(&format!("images upload 1.0 {data} {initrd}"));
    assert!(noise.stderr.contains("it begins with 64 61 74 61"), "{noise:?}");
    assert_eq!(of(&format!("images upload 1.0 {kernel} {initrd}")).ok(), "");
    assert_eq!(of("images index").json()[0]["id"], "1.0");
    assert_eq!(of("images delete 1.0").ok(), "");
    let _removed = of(&format!("images upload 1.0 {kernel} {initrd}")).failed(19);
    let set = sabactl(&cluster, &["kernel-params", "set", "quiet console=ttyS0"]);
    assert_eq!(set.ok(), "");
    assert_eq!(of("kernel-params get").ok(), "quiet console=ttyS0\n");
    let template = file("ignition.json", r#"{"ignition":{"version":"3.3.0"}}"#);
    assert_eq!(of(&format!("ignitions set -f {template} --json worker 1.0.0")).ok(), "");
    assert_eq!(of("ignitions get worker").json(), json!(["1.0.0"]));
    assert_eq!(of("ignitions get worker 1.0.0").json()["ignition"]["version"], "3.3.0");
    let log = of("logs --json");
    let first: Value = serde_json::from_str(log.ok().lines().next().unwrap()).unwrap();
    assert!(first["action"].is_string(), "{first}");
    let _force = of("crypts delete S1").failed(1);
    let elsewhere = of("--server http://10.0.0.1:10080 ipam get");
    assert!(elsewhere.failed(2).contains("is another machine"), "{elsewhere:?}");
    assert_eq!(cluster.gnt("sabactl assets index").json(), json!(["data"]));
    assert_eq!(of("machines get-state S1").ok(), "uninitialized\n");
    let _in_service = of("machines remove S1").failed(19);
    for (state, keys) in [("retiring", true), ("retired", false)] {
        assert_eq!(of(&format!("machines set-state S1 {state}")).ok(), "");
        if keys {
            assert_eq!(of("crypts delete --force S1").ok(), "");
        }
    }
    assert_eq!(of("machines get --state retired").json()[0]["status"]["state"], "retired");
    assert_eq!(of("machines remove S1").ok(), "");
}
