use proptest::prelude::*;

use super::*;

const ROOM: u64 = 1_024 * 1_024;

fn blob(content: &[u8]) -> Blob {
    let mut hasher = Hasher::default();
    hasher.update(content);
    hasher.finish()
}

fn content_of(blobs: &Blobs, blob: Blob) -> Vec<u8> {
    fs::read(blobs.path_of(blob.sha256).unwrap()).unwrap()
}

#[test]
fn it_is_not_visible_before_it_is_whole_and_right() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(dir.path(), ROOM).unwrap();
    let image = blob(b"kernel");
    assert_eq!(blobs.append(image, 0, b"ker").unwrap(), 3);
    assert_eq!(blobs.path_of(image.sha256), None);
    assert!(matches!(blobs.append(image, 0, b"ker"), Err(BlobError::Offset { held: 3, .. })));
    assert!(matches!(blobs.append(image, 3, b"nels"), Err(BlobError::TooLong { .. })));
    assert!(matches!(blobs.append(image, 3, b"NEL"), Err(BlobError::OtherContent { .. })));
    assert_eq!(blobs.held(image), 0, "it begins anew");
    assert_eq!(blobs.append(image, 0, b"kernel").unwrap(), 6);
    assert_eq!(blobs.append(image, 0, b"kernel").unwrap(), 6, "a repetition does no harm");
    assert_eq!((content_of(&blobs, image), blobs.all()), (b"kernel".to_vec(), vec![image]));
}

#[test]
fn there_is_a_limit_to_all_together() {
    let dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(dir.path(), 10).unwrap();
    blobs.append(blob(b"kernel"), 0, b"kernel").unwrap();
    assert!(matches!(
        blobs.append(blob(b"initrd"), 0, b"initrd"),
        Err(BlobError::Quota { taken: 6, .. })
    ));
    let removed = blobs.keep(&BTreeSet::new()).unwrap();
    assert_eq!(removed, Removed { files: 1, bytes: 6 });
    blobs.append(blob(b"initrd"), 0, b"initrd").unwrap();
}

/// Somebody removes or cuts the files by hand.
#[test]
fn a_file_that_is_gone_or_cut_is_not_here_and_comes_again() {
    let image = blob(b"kernel");
    type Harm = fn(&Path, &Path);
    let harms: [Harm; 4] = [
        |file, _| fs::remove_file(file).unwrap(),
        |_, directory| fs::remove_dir_all(directory).unwrap(),
        |file, _| stdx::atomic::write(file, b"", 0o600).unwrap(),
        |file, _| stdx::atomic::write(file, b"kernels", 0o600).unwrap(),
    ];
    for harm in harms {
        for restart in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let directory = dir.path().join("blobs");
            let mut blobs = Blobs::open(&directory, ROOM).unwrap();
            blobs.append(image, 0, b"kernel").unwrap();
            harm(&blobs.path_of(image.sha256).unwrap(), &directory);
            if restart {
                blobs = Blobs::open(&directory, ROOM).unwrap();
            }
            assert_eq!(blobs.held(image), 0);
            assert_eq!(blobs.path_of(image.sha256), None);
            assert_eq!(blobs.append(image, 0, b"ker").unwrap(), 3);
            assert_eq!(blobs.append(image, 3, b"nel").unwrap(), 6);
            assert_eq!(content_of(&blobs, image), b"kernel");
        }
    }
}

/// The part that had arrived is gone, too.
#[test]
fn a_part_that_is_gone_begins_anew() {
    let (dir, image) = (tempfile::tempdir().unwrap(), blob(b"kernel"));
    let blobs = Blobs::open(dir.path(), ROOM).unwrap();
    blobs.append(image, 0, b"ker").unwrap();
    fs::remove_dir_all(dir.path().join(INCOMING)).unwrap();
    assert_eq!(blobs.held(image), 0);
    blobs.append(image, 0, b"kernel").unwrap();
    assert_eq!(content_of(&blobs, image), b"kernel");
}

proptest! {
    /// Pieces of any length, with restarts between them.
    #[test]
    fn it_resumes(content: Vec<u8>, cuts in prop::collection::vec((1_usize..40, any::<bool>()), 0..40)) {
        let dir = tempfile::tempdir().unwrap();
        let mut blobs = Blobs::open(dir.path(), ROOM).unwrap();
        let image = blob(&content);
        let mut cuts = cuts.into_iter();
        loop {
            let (length, restart) = cuts.next().unwrap_or((usize::MAX, false));
            if restart {
                blobs = Blobs::open(dir.path(), ROOM).unwrap();
            }
            let held = usize::try_from(blobs.held(image)).unwrap();
            let end = held.saturating_add(length).min(content.len());
            if blobs.append(image, held as u64, &content[held..end]).unwrap() == image.size {
                break;
            }
        }
        prop_assert_eq!(content_of(&blobs, image), content);
        prop_assert_eq!(Blobs::open(dir.path(), ROOM).unwrap().all(), vec![image]);
    }
}
