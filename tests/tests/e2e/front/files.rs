//! Images and assets by sabakan's REST API: what comes back is what was sent, what should not come leaves
//! nothing, and agents serve it without the master.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tests::cluster::{Cluster, PATIENCE};
use tests::run::{run, wait_for};

use super::Front;
use crate::rack::rack;

/// A front door beside an agent that serves a rack.
fn front_of_rack() -> Front {
    let cluster = rack();
    let door = cluster.master.clone();
    Front::open(&cluster, &door, &[]);
    Front { cluster, door }
}

/// Runs a line of the shell in the directory of the test.
fn shell(cluster: &Cluster, line: &str) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", line]).current_dir(cluster.dir());
    run(shell).ok().to_owned()
}

/// An archive with random files of these names, which begin as a kernel and as a packed file system.
fn archive(cluster: &Cluster, name: &str, members: &[(&str, usize)]) -> PathBuf {
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let made: Vec<String> = members
        .iter()
        .map(|(member, bytes)| {
            let begins = if *member == "kernel" { "%-56sARMd' MZ" } else { "\\037\\213'" };
            let file = format!("{{ printf '{begins}; head -c {bytes} /dev/urandom; }}");
            format!("{file} | head -c {bytes} >{name}.d/{member}")
        })
        .collect();
    let (made, names) = (made.join("; "), names.join(" "));
    let _made =
        shell(cluster, &format!("mkdir {name}.d; {made}; tar -C {name}.d -cf {name} {names}"));
    cluster.dir().join(name)
}

fn put(front: &Front, file: &Path, path: &str) -> (u16, String) {
    front.answer("alice", &["-T", &file.display().to_string(), path])
}

/// Files in the spool.
fn spooled(front: &Front) -> usize {
    std::fs::read_dir(front.door.layout().spool()).unwrap().count()
}

/// Tells the status, and whether the reason has these words.
fn refused((status, body): &(u16, String), words: &str) -> u16 {
    let error: Value = serde_json::from_str(body).unwrap();
    assert!(error["error"].as_str().unwrap().contains(words), "no {words} in {body}");
    *status
}

#[test]
fn an_image_comes_back_as_it_was_sent() {
    let front = front_of_rack();
    let cluster = &front.cluster;
    let good = archive(cluster, "good", &[("kernel", 3_000_000), ("initrd.gz", 5_000_001)]);
    assert_eq!(put(&front, &good, "/api/v1/images/coreos/1.0.0"), (201, String::new()));
    assert_eq!(spooled(&front), 0);
    let back = cluster.dir().join("back.tar");
    let to = back.display().to_string();
    let (status, _) = front.answer("bob", &["-o", &to, "/api/v1/images/coreos/1.0.0"]);
    assert_eq!(status, 200);
    let compared = "mkdir back.d; tar -C back.d -xf back.tar; diff -r good.d back.d && echo same";
    assert_eq!(shell(cluster, compared), "same\n");
    let head = front.curl("bob", &["--head", "/api/v1/images/coreos/1.0.0"]);
    assert!(head.ok().contains("content-type: application/tar"), "{head:?}");
    let (_, index) = front.answer("bob", &["/api/v1/images/coreos"]);
    let index: Value = serde_json::from_str(&index).unwrap();
    assert_eq!((&index[0]["id"], &index[0]["size"]), (&json!("1.0.0"), &json!(8_000_001)));
    // A version is one image for ever.
    let again = put(&front, &good, "/api/v1/images/coreos/1.0.0");
    assert_eq!(refused(&again, "exists already"), 409);
    assert_eq!(front.answer("alice", &["-X", "DELETE", "/api/v1/images/coreos/1.0.0"]).0, 200);
    assert_eq!(front.answer("bob", &["/api/v1/images/coreos/1.0.0"]).0, 404);
    let again = put(&front, &good, "/api/v1/images/coreos/1.0.0");
    assert_eq!(refused(&again, "no other image ever has its version"), 409);
    let gnt = cluster.gnt(&format!("image upload coreos/1.0.0 --uki {}", good.display()));
    assert!(gnt.failed(1).contains("was removed at"), "{gnt:?}");
}

#[test]
fn images_that_should_not_come_leave_nothing() {
    let front = front_of_rack();
    let cluster = &front.cluster;
    let good = archive(cluster, "good", &[("kernel", 40_000), ("initrd.gz", 3_000_000)]);
    let file = good.display().to_string();
    let empty = cluster.write("empty", "");
    for (file, words) in [
        (empty, "no `kernel`"),
        (archive(cluster, "bare", &[("initrd.gz", 9)]), "no `kernel`"),
        (archive(cluster, "more", &[("kernel", 9), ("initrd.gz", 9), ("shadow", 9)]), "`shadow`"),
        (cluster.write("text", &"no tar ".repeat(1_000)), "no whole tar"),
    ] {
        assert_eq!(refused(&put(&front, &file, "/api/v1/images/coreos/1"), words), 400, "{words}");
    }
    for id in ["..%2f..%2fetc", "a%20b", "%00", "-"] {
        let told = put(&front, &good, &format!("/api/v1/images/coreos/{id}"));
        assert_eq!(refused(&told, "it must have 1 to 63 letters"), 400, "{id}");
    }
    let told = front.answer("bob", &["-T", &file, "/api/v1/images/coreos/1"]);
    assert_eq!(refused(&told, "operator"), 403);
    let long = ["--http1.1", "-H", "Content-Length: 10000000000", "-T", &file];
    let told = front.answer("alice", &[&long[..], &["/api/v1/images/coreos/1"]].concat());
    assert_eq!(refused(&told, "which is the limit for this path"), 413);
    // Its client goes in the middle.
    let slow = ["--limit-rate", "100k", "--max-time", "2", "-T", &file, "/api/v1/images/coreos/1"];
    assert_eq!(front.curl("alice", &slow).code(), 28);
    wait_for("an empty spool", PATIENCE, || (spooled(&front) == 0).then_some(()));
    assert_eq!(front.answer("bob", &["/api/v1/images/coreos"]), (200, "[]".to_owned()));
    // Nobody has to say how long it is.
    let chunked = ["--http1.1", "-H", "Transfer-Encoding: chunked", "-T", &file];
    let told = front.answer("alice", &[&chunked[..], &["/api/v1/images/coreos/1"]].concat());
    assert_eq!(told, (201, String::new()));
    assert_eq!(spooled(&front), 0);
}

/// Asks the agent; head and body of its answer.
fn of_agent(cluster: &Cluster, path: &str, options: &[&str]) -> (String, String) {
    let mut curl = Command::new("curl");
    let url = format!("http://{}:10080{path}", cluster.boot_address(&cluster.master));
    curl.args(["--silent", "--include", "--max-time", "20"]).args(options).arg(url);
    let answer = run(curl).stdout;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_lowercase(), body.to_owned())
}

#[test]
fn agents_serve_assets_while_the_master_is_away() {
    let front = front_of_rack();
    let cluster = &front.cluster;
    let text = "0123456789".repeat(1_000);
    let file = cluster.write("data", &text);
    let path = file.display().to_string();
    let sha256 = shell(cluster, "sha256sum data | cut -d' ' -f1");
    let sha256 = sha256.trim();
    let asset = "/api/v1/assets/data.txt";
    let kind = ["-H", "Content-Type: text/plain"];
    let claimed = format!("X-Sabakan-Asset-SHA256: {sha256}");
    let more = ["-H", &claimed, "-H", "X-Sabakan-Asset-Options-Os: a b", "-T", &path, asset];
    let (status, body) = front.answer("alice", &[&kind[..], &more].concat());
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, body), (201, json!({"status": 201, "id": "1"})));
    let (head, body) = of_agent(cluster, asset, &[]);
    assert_eq!(body, text);
    for line in [
        "content-type: text/plain",
        "x-sabakan-asset-id: 1",
        &format!("x-sabakan-asset-sha256: {sha256}"),
        "x-sabakan-asset-options-os: a b",
    ] {
        assert!(head.contains(line), "no {line} in {head}");
        let head = front.curl("bob", &["--head", asset]);
        assert!(head.ok().to_lowercase().contains(line), "no {line} in {head:?}");
    }
    assert_eq!(front.curl("bob", &["--range", "5-6", asset]).ok(), "56");
    let (_, meta) = front.answer("bob", &[&format!("{asset}/meta")]);
    let meta: Value = serde_json::from_str(&meta).unwrap();
    assert_eq!((&meta["id"], &meta["exists"]), (&json!("1"), &json!(true)));
    assert_eq!((&meta["sha256"], &meta["options"]), (&json!(sha256), &json!({"os": "a b"})));
    // Another upload, now by the command line.
    let other = cluster.write("other", "other");
    let _added = cluster.gnt(&format!("asset add data.txt {} --option v=2", other.display())).ok();
    let program = cluster.write("program", "#!/bin/true");
    let told = put(&front, &program, "/api/v1/assets/sabakan-cryptsetup");
    assert_eq!(refused(&told, "Content-Type"), 400);
    let (status, _) = front.answer(
        "alice",
        &[&kind[..], &["-T", &program.display().to_string(), "/api/v1/assets/sabakan-cryptsetup"]]
            .concat(),
    );
    assert_eq!(status, 201);
    assert_eq!(front.curl("bob", &["/api/v1/cryptsetup"]).ok(), "#!/bin/true");
    assert_eq!(front.curl("bob", &[asset]).ok(), "other");
    assert_eq!(cluster.gnt("asset get data.txt").ok(), "other\n".trim_end());
    let listed = cluster.gnt("asset list --json -o name,id,size").json();
    assert_eq!(listed[0], json!({"name": "data.txt", "id": 2, "size": 5}));
    let told = cluster.gnt("asset info data.txt --json").json();
    assert_eq!((&told[0]["options"], &told[0]["id"]), (&json!({"v": "2"}), &json!(2)));
    assert_eq!(front.answer("bob", &["/api/v1/assets"]).1, r#"["data.txt","sabakan-cryptsetup"]"#);
    assert_eq!(spooled(&front), 0);

    cluster.kill_master();
    cluster.kill_agent(&cluster.master);
    cluster.start_agent(&cluster.master);
    let served = wait_for("the agent", PATIENCE, || {
        Some(of_agent(cluster, asset, &[])).filter(|(head, _)| head.contains(" 200 "))
    });
    assert!(served.0.contains("x-sabakan-asset-id: 2"), "{served:?}");
    assert_eq!(served.1, "other");
    assert_eq!(of_agent(cluster, "/api/v1/cryptsetup", &[]).1, "#!/bin/true");
    let head = of_agent(cluster, asset, &["--head"]).0;
    assert!(head.contains("content-length: 5"), "{head}");
    assert!(of_agent(cluster, "/api/v1/assets/..%2fdata.txt", &[]).0.contains(" 404 "));

    cluster.start_master();
    assert_eq!(front.answer("alice", &["-X", "DELETE", asset]), (200, String::new()));
    assert!(of_agent(cluster, asset, &[]).0.contains(" 404 "));
    assert_eq!(front.answer("bob", &[asset]).0, 404);
    assert_eq!(front.answer("alice", &["-X", "DELETE", asset]).0, 404);
}

#[test]
fn assets_that_should_not_come_leave_nothing() {
    let front = Front::begin();
    let cluster = &front.cluster;
    let file = cluster.write("data", "data");
    let (file, kind) = (file.display().to_string(), "Content-Type: text/plain");
    let empty = cluster.write("empty", "").display().to_string();
    let wrong = format!("X-Sabakan-Asset-SHA256: {}", "ab".repeat(32));
    let chunked = ["--http1.1", "-H", "Transfer-Encoding: chunked", "-T", &file];
    let long = ["--http1.1", "-H", "Content-Length: 10000000000", "-T", &file];
    for (options, status, words) in [
        (&["-T", &empty][..], 400, "empty"),
        (&["-T", &file, "-H", &wrong], 400, "arrived as"),
        (&["-T", &file, "-H", "X-Sabakan-Asset-Options-a%: b"], 400, "name of an option"),
        (&chunked, 411, "Content-Length"),
        (&long, 413, "the limit for this path"),
    ] {
        let all = [&["-H", kind], options, &["/api/v1/assets/data"]].concat();
        assert_eq!(refused(&front.answer("alice", &all), words), status, "{words}");
    }
    for name in ["..%2fdata", "%2e%2e", "a%0ab"] {
        let path = format!("/api/v1/assets/{name}");
        let options = ["--path-as-is", "-H", kind, "-T", &file, &path];
        assert_eq!(front.answer("alice", &options).0, 400, "{name}");
        assert_eq!(front.answer("bob", &["--path-as-is", &path]).0, 400, "{name}");
    }
    let told = front.answer("bob", &["-H", kind, "-T", &file, "/api/v1/assets/data"]);
    assert_eq!(told.0, 403);
    assert_eq!(front.answer("bob", &["/api/v1/assets"]), (200, "[]".to_owned()));
    assert_eq!(front.answer("bob", &["/api/v1/cryptsetup"]).0, 404);
    assert_eq!(spooled(&front), 0);
}

#[test]
fn an_upload_while_the_agent_is_away_may_come_again() {
    let front = front_of_rack();
    let file = front.cluster.write("data", "data").display().to_string();
    let options = ["-H", "Content-Type: text/plain", "-T", &file, "/api/v1/assets/data"];
    front.cluster.kill_agent(&front.door);
    assert_eq!(refused(&front.answer("alice", &options), "The agent of n1.example"), 503);
    assert_eq!(front.answer("bob", &["/api/v1/assets"]), (200, "[]".to_owned()));
    front.cluster.start_agent(&front.door);
    let (status, told) = wait_for("the agent", PATIENCE, || {
        Some(front.answer("alice", &options)).filter(|(status, _)| *status != 503)
    });
    assert_eq!(status, 201, "{told}");
}

#[test]
fn the_door_of_a_standby_names_the_master_for_uploads() {
    let (cluster, hosts) = Cluster::begin_with_candidates(2);
    let (master, standby) = (cluster.master.clone(), hosts[0].clone());
    Front::open(&cluster, &standby, &[]);
    let front = Front { cluster, door: standby };
    let file = front.cluster.write("data", "data").display().to_string();
    let options = ["-H", "Content-Type: text/plain", "-T", &file, "/api/v1/assets/data"];
    let told = front.answer("alice", &options);
    assert_eq!(refused(&told, &format!("of the master, {}", master.name)), 421);
    assert_eq!(spooled(&front), 0);
    // An upload at the master comes to all candidates, and each gives it.
    let _added = front.cluster.gnt(&format!("asset add data {file}")).ok();
    let got = wait_for("the asset", PATIENCE, || {
        let (status, body) = front.answer("bob", &["/api/v1/assets/data"]);
        (status == 200).then_some(body)
    });
    assert_eq!(got, "data");
}
