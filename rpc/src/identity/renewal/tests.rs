use std::fs;

use model::enrol::Fingerprint;

use super::*;
use crate::identity::Authority;
use crate::testing::{LOCALHOST, allow, membership, name, now};

struct Scene {
    _dir: tempfile::TempDir,
    layout: Layout,
    authority: Authority,
    old: Fingerprint,
}

fn scene() -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    let authority = Authority::create(&name("c1"), now()).unwrap();
    let node = authority.issue(&name("n1"), &[LOCALHOST], now()).unwrap();
    node.store(&layout, &membership("n1", allow(&[&node]))).unwrap();
    Scene { _dir: dir, layout, authority, old: node.fingerprint() }
}

impl Scene {
    fn sign(&self, request: &str) -> (String, Fingerprint) {
        let pem = self.authority.sign(request, &name("n1"), &[LOCALHOST], now()).unwrap();
        let der = super::super::certificate_from_pem("it", &pem).unwrap();
        let fingerprint = Fingerprint::of(&der);
        (pem, fingerprint)
    }

    fn held(&self) -> Fingerprint {
        NodeIdentity::load(&self.layout).unwrap().0.fingerprint()
    }

    fn leftovers(&self) -> usize {
        let names = fs::read_dir(self.layout.pki()).unwrap();
        let is_left = |name: &str| name.starts_with("renewed") || name.ends_with(".new");
        names.filter(|entry| is_left(entry.as_ref().unwrap().file_name().to_str().unwrap())).count()
    }
}

#[test]
fn a_renewal_replaces_both_files_and_who_uses_them_sees_it() {
    let scene = scene();
    let (used, _membership) = NodeIdentity::load(&scene.layout).unwrap();
    let (pem, new) = scene.sign(&begin(&scene.layout).unwrap());
    assert_eq!((scene.held(), used.refresh(&scene.layout).unwrap()), (scene.old, false));
    for _repeated in 0..2 {
        finish(&scene.layout, &pem).unwrap();
        assert_eq!((scene.held(), scene.leftovers()), (new, 0));
    }
    assert!(used.refresh(&scene.layout).unwrap());
    assert!(!used.refresh(&scene.layout).unwrap());
    assert_eq!(used.fingerprint(), new);
}

/// The process may end, or the machine lose its power, behind each step.
#[test]
fn a_crash_leaves_the_old_pair_or_the_new_one() {
    for done in 0..=STEPS.len() {
        let scene = scene();
        let (pem, new) = scene.sign(&begin(&scene.layout).unwrap());
        // Before the certificate is durable, the new key counts for nothing.
        assert_eq!(scene.held(), scene.old);
        write(&scene.layout.renewed_certificate(), pem.as_bytes(), PUBLIC_MODE).unwrap();
        for step in &STEPS[..done] {
            step(&scene.layout).unwrap();
        }
        assert_eq!(scene.held(), new, "after {done} steps");
        // Again and again, as by an agent that is killed at its start.
        for _again in 0..2 {
            complete(&scene.layout).unwrap();
            assert_eq!((scene.held(), scene.leftovers()), (new, 0), "after {done} steps");
        }
        finish(&scene.layout, &pem).unwrap();
    }
}

#[test]
fn a_renewal_that_was_not_ended_is_begun_anew() {
    let scene = scene();
    let (late, _void) = scene.sign(&begin(&scene.layout).unwrap());
    let (pem, new) = scene.sign(&begin(&scene.layout).unwrap());
    let refused = finish(&scene.layout, &late).unwrap_err();
    assert!(matches!(refused, IdentityError::Mismatch { .. }), "{refused:?}");
    assert_eq!(scene.held(), scene.old);
    finish(&scene.layout, &pem).unwrap();
    assert_eq!(scene.held(), new);
    let refused = finish(&scene.layout, &late).unwrap_err();
    assert!(matches!(refused, IdentityError::NotBegun), "{refused:?}");
}

#[test]
fn only_a_certificate_of_this_node_and_its_authority_is_taken() {
    let scene = scene();
    let request = begin(&scene.layout).unwrap();
    let other = Authority::create(&name("c1"), now()).unwrap();
    let foreign = other.sign(&request, &name("n1"), &[], now()).unwrap();
    let renamed = scene.authority.sign(&request, &name("n2"), &[], now()).unwrap();
    for wrong in [foreign.as_str(), &renamed, "hello"] {
        assert!(finish(&scene.layout, wrong).is_err());
        assert_eq!(scene.held(), scene.old);
    }
}

#[test]
fn what_a_renewal_left_goes_with_the_identity() {
    let scene = scene();
    let (pem, _new) = scene.sign(&begin(&scene.layout).unwrap());
    write(&scene.layout.renewed_certificate(), pem.as_bytes(), PUBLIC_MODE).unwrap();
    let again = scene.authority.issue(&name("n1"), &[LOCALHOST], now()).unwrap();
    again.store(&scene.layout, &membership("n1", allow(&[&again]))).unwrap();
    assert_eq!((scene.held(), scene.leftovers()), (again.fingerprint(), 0));
    begin(&scene.layout).unwrap();
    crate::identity::forget(&scene.layout).unwrap();
    assert_eq!(fs::read_dir(scene.layout.pki()).unwrap().count(), 0);
    assert!(begin(&scene.layout).is_err());
    assert_eq!(fs::read_dir(scene.layout.pki()).unwrap().count(), 0);
}

/// `masterd` reads while the agent of the machine writes.
#[test]
fn a_reader_never_meets_a_mixture() {
    let scene = scene();
    let (used, _membership) = NodeIdentity::load(&scene.layout).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _renewal in 0..20 {
                let (pem, _new) = scene.sign(&begin(&scene.layout).unwrap());
                finish(&scene.layout, &pem).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        while !done.load(std::sync::atomic::Ordering::Acquire) {
            used.refresh(&scene.layout).unwrap();
        }
    });
    used.refresh(&scene.layout).unwrap();
    assert_eq!(used.fingerprint(), scene.held());
}
