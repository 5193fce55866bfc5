//! Keys of disks: kept, given back, renewed, and found nowhere in the clear.

use std::path::Path;

use tests::cluster::{Cluster, IPAM};

/// A key, and what of it is sought: an operator's passphrase is text.
const KEY: &str = "correct-horse-battery-staple\n";
const SOUGHT: [&str; 2] = ["correct-horse", "Y29ycmVjdC1ob3JzZ"];

/// The files below a directory that hold one of the words.
pub(crate) fn holding(directory: &Path, words: &[&str], found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => holding(&path, words, found),
            kind if kind.is_file() => {
                let bytes = std::fs::read(&path).unwrap();
                let has = |word: &&str| bytes.windows(word.len()).any(|w| w == word.as_bytes());
                if words.iter().any(has) {
                    found.push(path.display().to_string());
                }
            }
            _ => {}
        }
    }
}

#[test]
fn keys_are_sealed_given_back_and_renewed() {
    let cluster = Cluster::begin();
    let file = cluster.write("ipam.json", IPAM);
    let _set = cluster.gnt(&format!("ipam set -f {}", file.display())).ok();
    for serial in ["SN1", "SN2"] {
        let _added = cluster.gnt(&format!("machine add --serial {serial} --rack 0 --role w")).ok();
    }
    let file = cluster.write("disk.key", KEY);
    let add = |disk: &str, file: &Path| {
        cluster.gnt(&format!("machine disk-key add {disk} {}", file.display()))
    };
    let get = |disk: &str| cluster.gnt(&format!("machine disk-key get {disk}"));
    let _kept = add("SN1 pci-0000:00:1f.2-ata-3", &file).ok();
    let _same = add("SN1 pci-0000:00:1f.2-ata-3", &file).ok();
    let other = cluster.write("other.key", "something else");
    let refused = add("SN1 pci-0000:00:1f.2-ata-3", &other);
    assert!(refused.failed(1).contains("has another key already"), "{refused:?}");
    let _second = add("SN1 sdb", &other).ok();

    let large = cluster.write("large.key", &"x".repeat(4_097));
    assert!(add("SN1 sdc", &large).failed(1).contains("1 to 4096 bytes, and not 4097"));
    let empty = cluster.write("empty.key", "");
    assert!(add("SN1 sdc", &empty).failed(1).contains("1 to 4096 bytes, and not 0"));
    assert!(add("SN9 sda", &file).failed(1).contains("Machine 'SN9' not known"));
    assert!(add("SN1 ../sda", &file).failed(1).contains("name of a disk"));

    assert_eq!(get("SN1 pci-0000:00:1f.2-ata-3").ok(), KEY);
    assert!(get("SN2 sda").failed(1).contains("no key of disk sda"));
    let listed = cluster.gnt("machine list --no-headers -o disk_keys SN1");
    assert!(listed.ok().contains("sdb"), "{listed:?}");
    let refused = cluster.gnt("machine remove SN1 --yes");
    assert!(refused.failed(1).contains("has the keys of 2 disk(s)"), "{refused:?}");

    let renewed = cluster.gnt("cluster renew-crypto --vault");
    assert!(renewed.ok().contains("seals 2 secret(s)"), "{renewed:?}");
    cluster.kill_master();
    cluster.start_master();
    assert_eq!(get("SN1 pci-0000:00:1f.2-ata-3").ok(), KEY);

    let export = cluster.dir().join("c1.export");
    let _exported = cluster.gnt(&format!("cluster export {}", export.display())).ok();
    let mut found = Vec::new();
    std::fs::remove_file(&file).unwrap();
    holding(&cluster.dir(), &SOUGHT, &mut found);
    assert_eq!(found, [""; 0]);

    let _forgotten = cluster.gnt("machine disk-key remove SN1 --yes").ok();
    assert!(get("SN1 sdb").failed(1).contains("no key of disk sdb"));
    let _removed = cluster.gnt("machine remove SN1 --yes").ok();
}
