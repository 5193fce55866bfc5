//! Exports of real stores, read back whole and in every other way.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use model::{Secret, Timestamp};
use queue_format::{Callbacks, Change, Committer, Epoch, Key, Store, StoreOptions};
use uuid::Uuid;

use super::frame::Malformed;
use super::manifest::Secrets;
use super::read::{ReadError, Reader};
use super::seal::SealError;
use super::write::{About, Source, Writer};

type Documents = BTreeMap<String, Bytes>;

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn phrase(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

fn store(dir: &Path) -> Committer<()> {
    let options = StoreOptions { segment_bytes: 256 << 10, ..StoreOptions::default() };
    let callbacks = Callbacks::new(|_: Vec<()>, _| {});
    Store::open(dir, options).unwrap().start(Epoch { term: 3, node: 1 }, callbacks).unwrap()
}

fn documents() -> Documents {
    let mut documents: Documents = (1..200)
        .map(|n| (format!("queue/job-{n}"), Bytes::from(format!("{{\"id\": {n}}}"))))
        .collect();
    for (name, content) in [
        ("config/authority", "the authority's key"),
        ("config/cluster", "{}"),
        ("crypts/S1/disk", "the disk's key"),
        ("ipam", ""),
    ] {
        documents.insert(name.to_owned(), Bytes::from_static(content.as_bytes()));
    }
    documents
}

fn export(documents: &Documents, passphrase: Option<&str>, piece: usize) -> Vec<u8> {
    export_with(documents, BTreeMap::new(), passphrase, piece)
}

/// Of a store that holds `documents`, and in whose log is what came `ahead` of its files.
fn export_with(
    documents: &Documents,
    ahead: BTreeMap<Key, Option<Bytes>>,
    passphrase: Option<&str>,
    piece: usize,
) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let committer = store(dir.path());
    let put = |(name, content): (&String, &Bytes)| Change::Put {
        key: key(name),
        content: content.clone(),
    };
    committer.submit(documents.iter().map(put).collect(), ()).unwrap();
    committer.close().unwrap();
    let store = Store::open(dir.path(), StoreOptions::default()).unwrap();
    let about = About {
        cluster_name: "c1.example".parse().unwrap(),
        cluster_uuid: Uuid::from_u128(5),
        authority: "a certificate".to_owned(),
        position: store.recovered().position,
        made: Timestamp::from_micros(1_700_000_000_000_000),
    };
    let source = Source::AtRest(store.scan("").unwrap(), ahead);
    let passphrase = passphrase.map(phrase);
    let mut writer = Writer::new(source, about, passphrase.as_ref()).unwrap();
    let mut bytes = Vec::new();
    while let Some(piece) = writer.next_piece(piece).unwrap() {
        bytes.extend(piece);
    }
    bytes
}

fn read(bytes: &[u8], passphrase: Option<&str>) -> Result<Documents, ReadError> {
    let mut reader = Reader::open(bytes)?;
    if let Some(text) = passphrase {
        reader.unlock(&phrase(text))?;
    }
    let mut found = Documents::new();
    while let Some(chunk) = reader.next_chunk()? {
        found.extend(chunk.into_iter().map(|(key, content)| (key.to_string(), content)));
    }
    Ok(found)
}

fn without_secrets() -> Documents {
    let mut documents = documents();
    documents.retain(|name, _| !model::document::is_secret(name));
    documents
}

#[test]
fn secrets_are_left_out_or_sealed() {
    let purged = export(&documents(), None, 100);
    let manifest = Reader::open(&purged[..]).unwrap().manifest().clone();
    assert_eq!((manifest.secrets, manifest.position.index), (Secrets::Purged, 1));
    assert_eq!(read(&purged, None).unwrap(), without_secrets());
    assert_eq!(without_secrets().len(), documents().len() - 2);

    let sealed = export(&documents(), Some("correct horse"), 1 << 20);
    for secret in ["the authority's key", "the disk's key", "correct horse", "crypts/S1"] {
        let secret = secret.as_bytes();
        assert!(!sealed.windows(secret.len()).any(|window| window == secret));
        assert!(!purged.windows(secret.len()).any(|window| window == secret));
    }
    assert_eq!(read(&sealed, Some("correct horse")).unwrap(), documents());
    let wrong = read(&sealed, Some("correct hors3")).unwrap_err();
    assert!(matches!(wrong, ReadError::Seal(SealError::Wrong)), "{wrong:?}");
    assert!(matches!(read(&sealed, None).unwrap_err(), ReadError::Locked));
}

#[test]
fn what_came_ahead_of_the_files_is_in_it() {
    let text = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    let ahead =
        [("queue/job-7", text("newer")), ("queue/job-9", None), ("queue/job-500", text("new"))];
    let bytes = export_with(&documents(), ahead.map(|(k, c)| (key(k), c)).into(), None, 1);
    let found = read(&bytes, None).unwrap();
    let mut wanted = without_secrets();
    wanted.insert("queue/job-7".to_owned(), Bytes::from_static(b"newer"));
    wanted.insert("queue/job-500".to_owned(), Bytes::from_static(b"new"));
    wanted.remove("queue/job-9");
    assert_eq!(found, wanted);
    // Also where nothing of what the files hold is left.
    let every = documents();
    let all = every.keys().map(|name| (key(name), None)).chain([(key("ipam/x"), text("x"))]);
    let bytes = export_with(&documents(), all.collect(), None, 1);
    let found = read(&bytes, None).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["ipam/x"]);
}

#[test]
fn a_file_that_is_cut_or_changed_anywhere_is_refused() {
    let whole = export(&documents(), None, 1 << 20);
    for length in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
        let cut = read(&whole[..length], None).unwrap_err();
        assert!(matches!(cut, ReadError::Cut | ReadError::Magic), "{length}: {cut:?}");
    }
    for place in (0..whole.len()).step_by(5) {
        let mut changed = whole.clone();
        changed[place] ^= 0x20;
        assert!(read(&changed, None).is_err(), "{place}");
    }
    let mut longer = whole.clone();
    longer.push(0);
    assert!(read(&longer, None).unwrap_err().to_string().contains("goes on behind its end"));
    assert!(matches!(read(b"{\"a\": 1, \"b\": 22}", None).unwrap_err(), ReadError::Magic));
}

#[test]
fn an_export_of_another_format_is_refused_by_its_number() {
    let whole = export(&documents(), None, 1 << 20);
    let text = b"\"format\":1";
    let place = whole.windows(text.len()).position(|window| window == text).unwrap();
    let mut newer = whole.clone();
    newer[place + text.len() - 1] = b'2';
    assert!(matches!(read(&newer, None).unwrap_err(), ReadError::Format { found: 2 }));
    let mut strange = whole;
    strange[super::frame::MAGIC.len()] = b'?';
    let strange = read(&strange, None).unwrap_err();
    assert!(matches!(strange, ReadError::Malformed(Malformed::Kind(b'?'))), "{strange:?}");
}
