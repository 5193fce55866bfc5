//! Disks as files.

use model::Uuid;
use model::instance::{DiskMode, DiskPlace, Parameters};

use super::*;

fn disk(path: &Path, size: u64) -> DiskLaunch {
    DiskLaunch {
        uuid: Uuid::from_u128(1),
        place: DiskPlace::File { path: path.display().to_string() },
        size,
        mode: DiskMode::ReadWrite,
        params: Parameters::new(),
        replica: None,
    }
}

#[test]
fn a_disk_is_made_grown_renamed_and_removed_and_each_step_may_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("disks");
    fs::create_dir(&base).unwrap();
    let storage = Storage::new(dir.path().join("list"), base.clone());
    let (first, second) = (base.join("i1/a"), base.join("i2/a"));
    let mut one = disk(&first, 4);
    for _ in 0..2 {
        storage.create(&one).unwrap();
    }
    stdx::atomic::write(&first, &vec![7; 4 * 1024 * 1024], 0o600).unwrap();
    storage.create(&one).unwrap();
    assert_eq!(fs::read(&first).unwrap()[100], 7, "its content stays");
    storage.grow(&one, 8, true).unwrap();
    assert_eq!(storage.size(&one).unwrap(), Some(4));
    for _ in 0..2 {
        storage.grow(&one, 8, false).unwrap();
    }
    assert_eq!(storage.size(&one).unwrap(), Some(8));
    assert!(matches!(storage.grow(&one, 1 << 40, true), Err(VirtError::NoRoom { .. })));
    assert!(matches!(storage.create(&one), Err(VirtError::Shrinks { has: 8, .. })));
    one.size = 8;
    for _ in 0..2 {
        storage.rename(&one, second.to_str().unwrap()).unwrap();
    }
    assert!(!first.parent().unwrap().exists());
    let two = disk(&second, 8);
    for _ in 0..2 {
        storage.remove(&two).unwrap();
    }
    assert_eq!(storage.size(&two).unwrap(), None);
    assert!(base.exists() && !second.parent().unwrap().exists());
}

#[test]
fn disks_lie_in_the_directories_of_the_list_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (base, other) = (dir.path().join("disks"), dir.path().join("other"));
    for directory in [&base, &other] {
        fs::create_dir(directory).unwrap();
    }
    let storage = Storage::new(dir.path().join("list"), base.clone());
    std::os::unix::fs::symlink(&other, base.join("link")).unwrap();
    for path in [other.join("a"), base.clone(), base.join("../other/a"), base.join("link/a")] {
        let made = storage.create(&disk(&path, 1));
        assert!(matches!(made, Err(VirtError::Forbidden { .. })), "{}", path.display());
    }
    let list = format!("# disks\n{}\n", other.display());
    stdx::atomic::write(&dir.path().join("list"), list.as_bytes(), 0o644).unwrap();
    storage.create(&disk(&other.join("a"), 1)).unwrap();
    assert!(storage.create(&disk(&base.join("a"), 1)).is_err(), "the list names the other alone");
}
