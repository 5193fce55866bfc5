//! Tokens and certificates of clients: who gets in by them, and who does not any more.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::cluster::PATIENCE;
use tests::run::{Ended, run, wait_for};

use super::Front;
use crate::disk_keys::holding;

const TRACE: [&str; 2] = ["--log-filter", "trace"];

/// Makes a token by `gnt`; it is all that stands on standard output.
pub(super) fn add(front: &Front, line: &str) -> String {
    let made = front.cluster.gnt(&format!("token add {line}"));
    let token = made.ok().trim_end().to_owned();
    assert!(token.starts_with("gtk_") && token.len() == 68, "{made:?}");
    token
}

pub(super) fn by(front: &Front, token: &str, arguments: &[&str]) -> (u16, String) {
    let header = format!("Authorization: Bearer {token}");
    front.answer("nobody", &[&["-H", header.as_str()][..], arguments].concat())
}

fn log(front: &Front) -> String {
    std::fs::read_to_string(front.door.layout().rapi_log()).unwrap()
}

#[test]
fn tokens_let_programs_in_until_they_end() {
    let front = Front::begin_with(&TRACE);
    let reader = add(&front, "reader --role read --expires never");
    let ci = add(&front, "ci --role operator");
    let short = add(&front, "short --role read --expires 20s");
    let again = front.cluster.gnt("token add ci --role read");
    assert!(again.failed(1).contains("Token 'ci' exists"), "{again:?}");
    assert_eq!(by(&front, &reader, &["/2/nodes"]).0, 200);
    assert_eq!(by(&front, &reader, &["--http1.1", "/api/v1/logs"]).0, 200);
    assert_eq!(by(&front, &short, &["/2/nodes"]).0, 200);
    let tag = ["-X", "PUT", "/2/tags?tag=a"];
    assert_eq!(by(&front, &reader, &tag).0, 403);
    assert_eq!(by(&front, &ci, &tag).0, 200);
    let basic = |user: &str| front.answer("nobody", &["--user", user, "/2/nodes"]);
    assert_eq!(basic(&format!("ci:{ci}")).0, 200);
    let wrong = [
        basic(&format!("alice:{ci}")),
        by(&front, &format!("gtk_{}", "0".repeat(64)), &["/2/nodes"]),
    ];

    let _ended = front.cluster.gnt("token remove ci --yes").ok();
    let refused = |token: &str| {
        let (status, told) = by(&front, token, &["/2/nodes"]);
        (status == 401).then_some((status, told))
    };
    let revoked = wait_for("the end of a revoked token", PATIENCE, || refused(&ci));
    let expired = wait_for("the end of an expired token", PATIENCE, || refused(&short));
    for told in [&wrong[0], &wrong[1], &revoked, &expired] {
        assert_eq!(told, &wrong[0], "nothing tells them apart");
    }
    assert_eq!(by(&front, &reader, &["/2/nodes"]).0, 200);
    let listed = front.cluster.gnt("token list --no-headers -o name,role,state");
    let rows: Vec<Vec<&str>> =
        listed.ok().lines().map(|line| line.split_whitespace().collect()).collect();
    let wanted =
        [["ci", "operator", "revoked"], ["reader", "read", "active"], ["short", "read", "expired"]];
    assert_eq!(rows, wanted);
    let access = std::fs::read_to_string(front.door.layout().rapi_access_log()).unwrap();
    assert!(access.contains(" - ci [") && access.contains(" - reader ["), "{access}");

    let export = front.cluster.dir().join("c1.export");
    let _exported = front.cluster.gnt(&format!("cluster export {}", export.display())).ok();
    let mut found = Vec::new();
    holding(&front.cluster.dir(), &[&reader[..36], &ci[..36], &short[..36]], &mut found);
    assert_eq!(found, [""; 0], "no file has a token");
}

/// An authority, and certificates that it signs.
struct Signer(PathBuf);

impl Signer {
    fn new(directory: &Path, name: &str) -> Self {
        let directory = directory.join(name);
        std::fs::create_dir(&directory).unwrap();
        // Without an extension, openssl makes certificates of version 1, which nobody takes.
        stdx::atomic::write(&directory.join("v3"), b"basicConstraints=CA:FALSE\n", 0o600).unwrap();
        let signer = Self(directory);
        signer.openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
                        -subj /CN=operators -keyout ca.key -out ca.pem",
        );
        signer
    }

    fn openssl(&self, line: &str) {
        let mut openssl = Command::new("openssl");
        openssl.args(line.split_whitespace()).current_dir(&self.0);
        let _done = run(openssl).ok();
    }

    /// Options of curl that show a certificate of this name.
    fn options(&self, name: &str, days: &str) -> Vec<String> {
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
                               -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key {days} -extfile v3 -out {name}.pem"
        ));
        let path = |end: &str| self.0.join(format!("{name}.{end}")).display().to_string();
        vec!["--cert".to_owned(), path("pem"), "--key".to_owned(), path("key")]
    }
}

fn shown(front: &Front, user: &str, certificate: &[String], path: &str) -> Ended {
    let mut all = vec!["--output", "/dev/null", "--write-out", "%{http_code}"];
    all.extend(certificate.iter().map(String::as_str));
    all.push(path);
    front.curl(user, &all)
}

#[test]
fn certificates_let_the_users_in_that_have_a_line() {
    let front = Front::begin();
    let dir = front.cluster.dir();
    let (ours, others) = (Signer::new(&dir, "ours"), Signer::new(&dir, "others"));
    front.cluster.stop(&format!("rapi-{}", front.door.name));
    let ca = dir.join("clients.pem");
    let clusters = front.door.layout().ca_certificate();
    let mut refused = front.cluster.program("rapi");
    refused.arg("--root").arg(&front.door.root).args(["--port", "0", "--log-stderr"]);
    let refused = run({
        refused.arg("--client-ca").arg(&clusters);
        refused
    });
    assert!(refused.failed(1).contains("has the cluster's own authority"), "{refused:?}");
    std::fs::copy(ours.0.join("ca.pem"), &ca).unwrap();
    Front::start(&front.cluster, &front.door, &["--client-ca", &ca.display().to_string()]);
    let users = "alice secret write\ncarol {CERTIFICATE} read\n";
    stdx::atomic::write(&front.door.layout().rapi_users(), users.as_bytes(), 0o640).unwrap();

    let code = |user: &str, certificate: &[String], path: &str| {
        shown(&front, user, certificate, path).ok().to_owned()
    };
    let [alice, carol, eve] = ["alice", "carol", "eve"].map(|name| ours.options(name, "-days 30"));
    assert_eq!(code("nobody", &[], "/2/nodes"), "401", "none is needed, and none lets in");
    assert_eq!(code("alice", &[], "/2/nodes"), "200");
    assert_eq!(code("nobody", &alice, "/2/nodes"), "200", "with a password, too");
    assert_eq!(code("nobody", &carol, "/2/nodes"), "200");
    let tag = [&carol[..], &["-X", "PUT"].map(String::from)].concat();
    assert_eq!(code("nobody", &tag, "/2/tags?tag=x"), "403");
    assert_eq!(code("nobody", &eve, "/2/nodes"), "401", "who has no line is nobody");
    assert_eq!(code("nobody", &eve, "/version"), "200", "nobody needs a name for that");
    assert_eq!(code("alice", &eve, "/2/nodes"), "200", "a password counts first");

    let stranger = others.options("alice", "-days 30");
    let expired = ours.options("old", "-days -1");
    let layout = front.door.layout();
    let node = [
        "--cert",
        &layout.node_certificate().display().to_string(),
        "--key",
        &layout.node_key().display().to_string(),
    ]
    .map(String::from);
    for certificate in [&stranger[..], &expired, &node] {
        let refused = shown(&front, "nobody", certificate, "/2/nodes");
        assert!(!refused.status.success(), "{refused:?}");
    }
    assert!(log(&front).contains("the certificate of a client is refused"));
    // The file is read anew when it changes.
    std::fs::copy(others.0.join("ca.pem"), &ca).unwrap();
    wait_for("another authority", PATIENCE, || {
        let ended = shown(&front, "nobody", &stranger, "/2/nodes");
        (ended.status.success() && ended.ok() == "200").then_some(())
    });
    assert!(!shown(&front, "nobody", &carol, "/2/nodes").status.success());
}
