//! The storage of nodes, by Ganeti's own commands and ours.

use super::*;

#[test]
fn storage_is_listed_and_checked_by_ganetis_own_commands_and_ours() {
    let Some(rack) = Rack::begin() else { return };
    rack.add("web1", "-n n2 -t file --disk 0:size=1G").ok();
    let there = rack.disks().join("file");
    let theirs =
        "gnt-node list-storage --no-headers --separator=: -t file -o node,type,name,allocatable n2";
    assert_eq!(rack.theirs(theirs).ok(), format!("n2.example:file:{}:Y\n", there.display()));
    let sizes =
        rack.theirs("gnt-node list-storage --no-headers --separator=: -o size,used,free n2");
    let sizes: Vec<u64> = sizes.ok().trim().split(':').map(|mib| mib.parse().unwrap()).collect();
    assert!(sizes[0] >= sizes[2] && sizes[2] > 0, "{sizes:?}");
    let ours = rack.ours("node list-storage n2 --json").json();
    assert_eq!(ours[0]["size"], sizes[0]);
    assert_eq!(rack.theirs("gnt-node volumes --no-headers").ok(), "");
    let told =
        rack.theirs("gnt-node modify-storage --allocatable no n2 lvm-pv pv1").failed(1).to_owned();
    assert!(told.contains("Storage units of type 'lvm-pv' can not be modified"), "{told}");
    assert!(rack.ours("node list-storage -o node,moon").failed(1).contains("moon"));
}

#[test]
fn disks_that_are_lost_or_of_another_size_are_found() {
    let Some(rack) = Rack::begin() else { return };
    rack.add("web1", "-n n2 -t file --disk 0:size=1G").ok();
    let files = std::fs::read_dir(rack.disks().join("file/web1")).unwrap();
    let files: Vec<PathBuf> = files.map(|one| one.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    assert!(rack.ours("cluster repair-disk-sizes").ok().contains("right size"));
    std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(2 << 30).unwrap();
    let repaired = rack.theirs("gnt-cluster repair-disk-sizes web1");
    let text = format!("{}{}", repaired.ok(), repaired.stderr);
    assert!(text.contains("recorded 1024, actual 2048"), "{text}");
    assert_eq!(rack.list("name,disk.sizes"), ["web1:2048"]);
    assert!(rack.ours("cluster repair-disk-sizes").ok().contains("right size"));

    rack.theirs("gnt-cluster verify-disks").ok();
    std::fs::remove_file(file).unwrap();
    let theirs = rack.theirs("gnt-cluster verify-disks");
    assert!(
        theirs.code() != 0 && theirs.stdout.contains("Instance web1 has missing"),
        "{theirs:?}"
    );
    let ours = rack.ours("cluster verify-disks");
    assert!(
        ours.code() != 0 && ours.stdout.contains("Instance web1 has missing disks"),
        "{ours:?}"
    );
}
