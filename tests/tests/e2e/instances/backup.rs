//! Exports and imports, by Ganeti's own commands and ours.

use std::os::unix::fs::FileExt as _;

use super::*;

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// The only disk of an instance.
fn disk_of(rack: &Rack, name: &str) -> PathBuf {
    let files = std::fs::read_dir(rack.disks().join("file").join(name)).unwrap();
    let files: Vec<PathBuf> = files.map(|one| one.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    file.clone()
}

/// Words at places of a disk, far from one another.
fn write(path: &PathBuf, word: &str) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    for place in [0, 300 * MIB + 17, 1024 * MIB - 64] {
        file.write_all_at(word.as_bytes(), place).unwrap();
    }
}

fn has(path: &PathBuf, word: &str) -> bool {
    let file = std::fs::File::open(path).unwrap();
    [0, 300 * MIB + 17, 1024 * MIB - 64].into_iter().all(|place| {
        let mut found = vec![0; word.len()];
        file.read_exact_at(&mut found, place).unwrap();
        found == word.as_bytes()
    })
}

#[test]
fn an_instance_comes_back_from_its_export_by_ganetis_own_commands() {
    let Some(rack) = Rack::begin() else { return };
    let options =
        "-n n2 -t file --disk 0:size=1G,name=root --net 0:link=br7 -B memory=256 --tags web,prod";
    rack.add("web1.example", options).ok();
    write(&disk_of(&rack, "web1.example"), "of web1");
    let mac = rack.list("nic.mac/0");
    let exported = rack.theirs("gnt-backup export -n n3 web1.example");
    let told = format!("{}{}", exported.ok(), exported.stderr);
    for line in ["Shutting down instance", "Exporting disk/0", "Finalizing export on n3.example"] {
        assert!(told.contains(line), "{told}");
    }
    rack.wait_for_list("name,status", &["web1.example:running"]);
    let list = "gnt-backup list --no-headers --separator=:";
    assert_eq!(rack.theirs(list).ok(), "n3.example:web1.example\n");
    assert_eq!(
        rack.ours("backup list --node n3 --no-headers --separator=:").ok(),
        "n3.example:web1.example\n"
    );
    assert_eq!(rack.ours("backup list --node n2 --no-headers").ok(), "");
    let export = rack.hosts[1].layout().exports().join("web1.example");
    let ini = std::fs::read_to_string(export.join("config.ini")).unwrap();
    assert!(ini.contains("disk0_size = 1024") && ini.contains("source = n2.example"), "{ini}");
    let blocks =
        std::os::unix::fs::MetadataExt::blocks(&export.join("disk0.raw").metadata().unwrap());
    assert!(blocks * 512 < 16 * MIB, "zeros were exported: {blocks} blocks");

    rack.theirs("gnt-instance remove -f web1.example").ok();
    let import = "gnt-backup import -n n1 --src-node n3 --no-name-check --no-ip-check web1.example";
    rack.theirs(import).ok();
    rack.wait_for_list("name,pnode,status", &["web1.example:n1.example:ADMIN_down"]);
    let fields = "be/memory,nic.link/0,os,tags,disk.name/0";
    assert_eq!(rack.list(fields), ["256:br7:noop:prod,web:root"]);
    assert_eq!(rack.list("nic.mac/0"), mac);
    assert!(has(&disk_of(&rack, "web1.example"), "of web1"));

    // A second one by another name, from wherever there is one; our own command.
    let import = "backup import -n n2 --src-dir web1.example --net 0:link=br0 --start --no-name-check \
                  --no-ip-check web2.example";
    rack.ours(import).ok();
    assert!(has(&disk_of(&rack, "web2.example"), "of web1"));
    let theirs = import.replace("backup import", "gnt-backup import").replace(" --start", "");
    let twice = rack.theirs(&theirs);
    assert!(twice.failed(1).contains("already in the cluster"), "{twice:?}");
    let smaller = rack.ours(
        "backup import -n n2 -t file --disk 0:size=512 --src-dir web1.example --no-name-check \
         --no-ip-check web3",
    );
    assert!(smaller.failed(1).contains("smaller"), "{smaller:?}");
    rack.theirs("gnt-backup remove web1.example").ok();
    assert_eq!(rack.theirs(list).ok(), "");
    assert!(!export.exists());
    let gone = rack.theirs(&theirs.replace("web2", "web3"));
    assert!(gone.failed(1).contains("No export found"), "{gone:?}");
}

#[test]
fn an_export_within_a_node_replaces_the_one_before_and_may_end_the_instance() {
    let Some(rack) = Rack::begin() else { return };
    rack.add("web1.example", "-n n2 -t file --disk 0:size=1G --no-start").ok();
    for word in ["the first", "the other"] {
        write(&disk_of(&rack, "web1.example"), word);
        rack.ours("backup export -n n2 web1.example").ok();
    }
    let export = rack.hosts[0].layout().exports();
    assert!(has(&export.join("web1.example/disk0.raw"), "the other"));
    let entries: Vec<_> = std::fs::read_dir(&export).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    rack.wait_for_list("name,status", &["web1.example:ADMIN_down"]);
    let refused = rack.ours("backup export -n n2 --noshutdown --remove-instance web1.example");
    assert!(refused.failed(1).contains("without shutting it down"), "{refused:?}");
    rack.theirs("gnt-backup export -n n3 --remove-instance web1.example").ok();
    assert!(rack.list("name").is_empty());
    let list = rack.ours("backup list --no-headers --separator=:");
    let mut nodes: Vec<&str> = list.ok().lines().collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["n2.example:web1.example", "n3.example:web1.example"]);
    let ini = rack.hosts[1].layout().exports().join("web1.example/config.ini");
    stdx::atomic::write(&ini, b"[export]\nversion = 7\n", 0o600).unwrap();
    let wrong =
        rack.ours("backup import -n n1 --src-node n3 --no-name-check --no-ip-check web1.example");
    assert!(wrong.failed(1).contains("Wrong export version 7"), "{wrong:?}");
}
