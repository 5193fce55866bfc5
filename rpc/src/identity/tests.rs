use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use model::enrol::Fingerprint;
use model::layout::Layout;

use super::*;
use crate::testing::{LOCALHOST, allow, membership, name, now};

/// `identity`, but trusting the authority of `other`.
pub(crate) fn with_authority_of(identity: NodeIdentity, other: &NodeIdentity) -> NodeIdentity {
    NodeIdentity { authority: other.authority.clone(), ..identity }
}

fn authority() -> Authority {
    Authority::create(&name("c1"), now()).unwrap()
}

#[test]
fn what_is_kept_comes_back_with_the_right_modes() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    assert!(matches!(NodeIdentity::load(&layout), Err(IdentityError::NotEnrolled { .. })));
    let authority = authority();
    let node = authority.issue(&name("n1"), &[LOCALHOST], now()).unwrap();
    let membership = membership("n1", allow(&[&node]));
    node.store(&layout, &membership).unwrap();
    let (read, member) = NodeIdentity::load(&layout).unwrap();
    assert_eq!((read.fingerprint(), &member), (node.fingerprint(), &membership));
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(layout.node_key()), 0o640);
    assert_eq!(mode(layout.node_certificate()), 0o644);
    let second = Authority::with_key(&layout, &authority.key()).unwrap();
    second.issue(&name("n2"), &[LOCALHOST], now()).unwrap();
    let other = Authority::create(&name("c1"), now()).unwrap().key();
    let refused = Authority::with_key(&layout, &other).unwrap_err();
    assert!(matches!(refused, IdentityError::AuthorityKey { .. }), "{refused:?}");
    forget(&layout).unwrap();
    assert!(!is_enrolled(&layout));
    forget(&layout).unwrap();
    assert_eq!(std::fs::read_dir(layout.pki()).unwrap().count(), 0);
}

#[test]
fn a_request_is_signed_with_our_names_only() {
    let authority = authority();
    let key = NodeKey::generate().unwrap();
    let mut params = CertificateParams::new(vec!["master.example.com".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let request = params.serialize_request(&key.0).unwrap().pem().unwrap();
    let pem = authority.sign(&request, &name("n7"), &[LOCALHOST], now()).unwrap();
    let node = NodeIdentity::assemble(name("n7"), &key, &pem, authority.certificate()).unwrap();
    let other =
        NodeIdentity::assemble(name("master.example.com"), &key, &pem, authority.certificate());
    assert!(matches!(other, Err(IdentityError::Mismatch { .. })));
    // Not good for signing either: nothing below it is trusted.
    assert!(node.fingerprint() != Fingerprint::of(&node.authority));
}

#[test]
fn a_request_with_a_foreign_signature_is_refused() {
    let authority = authority();
    let request = NodeKey::generate().unwrap().request().unwrap();
    let pem: Vec<u8> = request.into_bytes();
    let mut forged =
        rustls::pki_types::CertificateSigningRequestDer::from_pem_slice(&pem).unwrap().to_vec();
    *forged.last_mut().unwrap() ^= 1;
    let text = files::pem("CERTIFICATE REQUEST", &forged);
    let refused = authority.sign(&text, &name("n7"), &[], now());
    assert!(matches!(refused, Err(IdentityError::Request { .. })), "{refused:?}");
    assert!(authority.sign("hello", &name("n7"), &[], now()).is_err());
}

#[test]
fn parts_that_do_not_belong_together_are_no_identity() {
    let (ours, other) = (authority(), authority());
    let key = NodeKey::generate().unwrap();
    let request = key.request().unwrap();
    let pem = ours.sign(&request, &name("n1"), &[], now()).unwrap();
    let assemble = |key: &NodeKey, ca: &Authority| {
        NodeIdentity::assemble(name("n1"), key, &pem, ca.certificate())
    };
    assert!(assemble(&key, &ours).is_ok());
    assert!(assemble(&key, &other).is_err());
    assert!(assemble(&NodeKey::generate().unwrap(), &ours).is_err());
}

#[test]
fn keys_and_secrets_never_print() {
    let authority = authority();
    let node = authority.issue(&name("n1"), &[], now()).unwrap();
    let shown = format!("{authority:?} {node:?} {:?}", NodeKey::generate().unwrap());
    assert!(!shown.contains("PRIVATE") && shown.len() < 300, "{shown}");
}

#[test]
fn certificates_tell_when_they_end() {
    // Before both are made: the rest of a day is less than one.
    let begun = now();
    let authority = authority();
    let node = authority.issue(&name("n1"), &[LOCALHOST], now()).unwrap();
    let days = |ends: Timestamp| (ends.seconds() - begun.seconds()) / SECONDS_PER_DAY;
    assert_eq!(days(node.ends().unwrap()), NODE_DAYS);
    assert_eq!(days(authority.ends().unwrap()), AUTHORITY_DAYS);
    assert!(ends("it", b"no certificate").is_err());
}
