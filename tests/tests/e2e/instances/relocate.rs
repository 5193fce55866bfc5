//! Moves of instances whose disks are files of a node.

use std::os::unix::fs::FileExt as _;

use super::*;

/// Places on a disk of at least a GiB, far from one another.
const PLACES: [u64; 3] = [0, (300 << 20) + 17, (1 << 30) - 64];

/// The files of disks below a directory.
fn files(of: &std::path::Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of.join("file/web1.example")).into_iter().flatten();
    entries.map(|one| one.unwrap().path()).collect()
}

#[test]
fn an_instance_takes_its_files_along_to_another_node() {
    if !tests::is_root() {
        return tests::skip("a move of files", "a mount needs root");
    }
    let Some(rack) = Rack::begin() else { return };
    rack.add("web1.example", "-n n2 -t file --disk 0:size=2G --disk 1:size=1G").ok();
    // All nodes of this test share a directory, as by a network file system that nobody declared.
    let shared = rack.theirs("gnt-instance move -f -n n1 web1.example");
    assert!(shared.failed(1).contains("one that nodes share"), "{shared:?}");
    rack.wait_for_list("name,pnode,status", &["web1.example:n2.example:running"]);

    let own = rack.cluster.dir().join("disks of n3");
    std::fs::create_dir_all(&own).unwrap();
    rack.start_with(&rack.hosts[1], &[(own.clone(), rack.disks())]);
    let before = files(&rack.disks());
    assert_eq!(before.len(), 2);
    let disk = before.iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(disk).unwrap();
    PLACES.iter().for_each(|place| file.write_all_at(b"of web1", *place).unwrap());
    let moved = rack.theirs("gnt-instance move -f -n n3 web1.example");
    let told = format!("{}{}", moved.ok(), moved.stderr);
    for line in ["Shutting down instance", "Copying disk/0", "Removing the disks on the original"] {
        assert!(told.contains(line), "{told}");
    }
    rack.wait_for_list("name,pnode,status", &["web1.example:n3.example:running"]);
    assert_eq!(files(&rack.disks()), Vec::<PathBuf>::new());
    let there = files(&own);
    assert_eq!(there.len(), 2, "{there:?}");
    let disk = there.iter().find(|path| path.file_name() == disk.file_name()).unwrap();
    let file = std::fs::File::open(disk).unwrap();
    for place in PLACES {
        let mut found = [0; 7];
        file.read_exact_at(&mut found, place).unwrap();
        assert_eq!(&found, b"of web1");
    }
    let blocks = std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
    assert!(blocks * 512 < 1 << 20, "zeros were copied: {blocks} blocks");

    // Back by our own command, while it stands still; then there is nothing to move.
    rack.ours("instance shutdown web1.example").ok();
    rack.ours("instance move --yes --node n2 web1.example").ok();
    rack.wait_for_list("name,pnode,status", &["web1.example:n2.example:ADMIN_down"]);
    assert_eq!((files(&own).len(), files(&rack.disks()).len()), (0, 2));
    let again = rack.theirs("gnt-instance move -f -n n2 web1.example");
    assert!(again.failed(1).contains("already on the node"), "{again:?}");
    let replaced = rack.theirs("gnt-instance replace-disks -p web1.example");
    assert!(replaced.failed(1).contains("DRBD8-based"), "{replaced:?}");
    rack.add("web2.example", "-n n2 -t diskless").ok();
    let diskless = rack.theirs("gnt-instance move -f -n n3 web2.example");
    assert!(diskless.failed(1).contains("not suitable for copying"), "{diskless:?}");
}
