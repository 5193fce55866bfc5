//! Every verb, what it prints and what it asks for.

use crate::toy::{gnt, start};

fn transcript(lines: &[&str]) -> String {
    let master = start();
    lines.iter().map(|line| master.run(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn lists() {
    insta::assert_snapshot!(transcript(&[
        "job list",
        "job list --no-headers -o id,received_ts",
        "job list --separator : -o +received_ts,archived",
        "job list 7 -o +received_ts,opstart --json",
        "job list 7 1042 --running --error --archived",
        "job list -F 'status == \"queued\" and not archived'",
        "job list -F 'status =='",
        "machine list -F 'role =~ m/(/'",
        "debug locks -F 'mode exclusive'",
        "job list -F '(status =~ m#^SUCC#i or id > 1041) and summary'",
        "node list -F 'name =* \"n?.*\" and pinst_cnt != 0' -o name",
        "job list --json 7",
        "job list --json 7 -o received_ts,opstart",
        "job list -o id,opstart",
        "job list -o id,moon",
        "job list -v -o id,moon",
        "job list-fields",
        "job list-fields id moon",
        "node list",
        "node list -v n2",
        "node list --units g --no-headers -o name,mtotal",
        "node list --separator | -o name,mtotal,sinst_cnt",
        "node list nothing",
        "node list n2 nothing --no-headers -o pinst_cnt",
        "node list n2 nothing -F pinst_cnt==1 --json",
        "node list nothing -o name,moon",
        "machine list 1234abcd other --no-headers -o rack",
        "job list 7 99 100",
        "job list 7 --error",
        "machine list",
        "machine list-fields --no-headers --separator ; serial",
        "debug locks",
    ]));
}

#[test]
fn jobs() {
    insta::assert_snapshot!(transcript(&[
        "job info 13 1000",
        "job watch 37",
        "job watch 13",
        "job watch 14",
        "job watch 1000",
        "job watch x",
        "job wait 37",
        "job wait 13",
        "job cancel 5 7",
        "job cancel --pending",
        "job cancel --pending --yes",
        "job cancel 5 --kill",
        "job cancel 5 --kill --yes-do-it",
        "job archive 7 8 5 6 1000",
        "job autoarchive all",
        "job autoarchive 5x",
        "job change-priority --priority -10 5",
        "job change-priority --priority high --queued -f",
    ]));
}

#[test]
fn changes() {
    insta::assert_snapshot!(transcript(&[
        "debug delay 1",
        "debug delay 13 -n n1 --no-master -r 2 -l",
        "debug delay 1 --submit --priority high --reason 'to see' --dry-run",
        "debug delay 1 --print-jobid",
        "debug delay 14",
        "cluster modify",
        "cluster modify --max-running-jobs 50 -C 3",
        "node modify n1",
        "node modify n1 -O yes -C no --rack none --auto-promote",
        "node modify n1 --vm-capable yes",
        "node modify n1 -O perhaps",
        "node remove n1",
        "node powercycle n1",
        "node powercycle n1 --yes -f",
        "machine add --serial 1234abcd --rack 1 --role boot --product R630 --mac 52:54:00:aa:bb:01",
        "machine add --serial 1234abcd --rack 0 --role boot --dry-run",
        "node modify n1 -O yes --dry-run",
        "debug delay 13 --dry-run",
        "machine add --serial 1234abcd",
        "machine add --serial 1234abcd --role boot",
        "machine add --serial 1234abcd --role '-x'",
        "machine add",
        "machine modify 1234abcd",
        "machine list --label zone",
        "machine remove 1234abcd",
        "machine remove 1234abcd --yes",
        "machine info 1234abcd other",
        "node info n1",
        "node info n9 n2",
        "ipam get",
    ]));
}

#[test]
fn the_cluster() {
    insta::assert_snapshot!(transcript(&[
        "cluster info",
        "cluster getmaster",
        "cluster version",
        "cluster queue drain",
        "cluster queue info",
        "cluster info",
        "cluster queue undrain",
        "cluster queue info",
        "cluster info --json",
    ]));
}

#[test]
fn status() {
    insta::assert_snapshot!(transcript(&[
        "cluster status",
        "cluster queue drain",
        "cluster status",
        "cluster status --json",
        "cluster status --interval 5",
        "cluster status --watch --interval 0",
    ]));
}

const RULES: &str = r#"{"max-nodes-in-rack": 28, "node-ipv4-pool": "10.69.0.0/20",
    "node-ipv4-range-size": 6, "node-ipv4-range-mask": 26, "node-ip-per-node": 3,
    "node-index-offset": 3, "bmc-ipv4-pool": "10.72.16.0/20", "bmc-ipv4-range-size": 5,
    "bmc-ipv4-range-mask": 20}"#;

#[test]
fn input() {
    let master = start();
    let machines = r#"[{"serial": "1234abcd", "role": "boot"}, {"serial": "b", "role": "x"}]"#;
    let op = r#"[{"OP_ID": "OP_TEST_DELAY", "duration": 1, "reason": []}]"#;
    insta::assert_snapshot!(
        [
            master.run_with("ipam set -f -", RULES),
            master.run_with("ipam set -f -", &RULES.replace("28", "280")),
            master.run_with("ipam set -f -", "{}"),
            master.run_with("ipam set -f -", "[]"),
            master.run_with("ipam set -f -", &RULES.replace("28", "\"28\"")),
            master.run_with("ipam set -f ROOT/missing", ""),
            master.run_with("machine add -f - --submit", machines),
            master.run_with("machine add -f - --submit", r#"{"serial": "c", "role": "x"}"#),
            master.run_with("machine add -f -", "nonsense"),
            master.run_with(
                "machine add -f -",
                r#"[{"serial": "c", "role": "x"}, {"serial": "d", "role": "x", "rack": "1"}]"#
            ),
            master.run_with("debug submit-job - --op-repeat 2 --job-repeat 2 -v", op),
            master
                .run_with("debug submit-job -", r#"[{"OP_ID": "OP_TEST_DELAY", "duration": 13}]"#),
            master.run_with("debug submit-job - --dry-run", op),
            master.run_with(
                "debug submit-job -",
                &format!("{}, {{\"OP_ID\": \"OP_NONSENSE\"}}]", &op[..op.len() - 1])
            ),
            master.run_with(
                "debug submit-job - --each",
                r#"[{"OP_ID": "OP_TEST_DELAY", "duration": "x"}]"#
            ),
            master.run_with("debug submit-job -", r#"[{"OP_ID": "OP_TEST_DELAY"},]"#),
        ]
        .join("\n")
    );
}

#[test]
fn node_add() {
    use model::Secret;
    use model::enrol::{Fingerprint, SECRET_BYTES, Token};
    let token = Token {
        host: "192.0.2.4".to_owned(),
        port: 1811,
        fingerprint: Fingerprint::from_bytes([0xA7; 32]),
        secret: Secret::new([0x5C; SECRET_BYTES]),
    };
    let text = token.to_text().expose().clone();
    let master = start();
    insta::assert_snapshot!(
        [
            master.run_with("node add n4 --secret -", &text),
            master.run(&format!(
                "node add n4 --rack 2 --primary-ip 192.0.2.5 --submit --secret {text}"
            )),
            master.run(&format!("node add n4 --secret {}", text.replace("192", "193"))),
            master.run(&format!("node add n4 --dry-run --secret {text}")),
            master.run(&format!("node add --readd n4 --secret {text}")),
            master.run("node add n4 --secret hunter2"),
            master.run(&format!("node add n_4 --secret {text}")),
        ]
        .join("\n")
        .replace(&text, "TOKEN")
    );
}

#[test]
fn other_names_of_the_program() {
    let master = start();
    let root = master.root.path().to_path_buf();
    let expected = master.run("job list --no-headers").replace("$ gnt job", "$ gnt-job");
    let expected = expected.split("(asked)").next().unwrap();
    assert_eq!(gnt("gnt-job", root.clone(), "list --no-headers", ""), expected);
    let shown = gnt("/usr/sbin/gnt-cluster", root, "getmaster", "");
    assert!(shown.ends_with("getmaster\nn1.example.com\n"), "{shown}");
}
