//! Makes an export of what a store holds at one moment, piece by piece.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::{NodeName, Secret, Timestamp, document};
use queue_format::digest::Digester;
use queue_format::{FileError, Frozen, FrozenError, Key, Position, Scan};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::frame::{FRAME_BYTES, Kind, MAGIC, frame, pack};
use super::manifest::{FORMAT, Manifest, Secrets, Totals};
use super::seal::{self, SealError, Sealer};

/// An export that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The moment cannot be read to its end.
    #[error("cannot read the store as it is at one moment")]
    Frozen(#[from] FrozenError),
    /// A file of a store at rest cannot be read.
    #[error("cannot read the store")]
    File(#[from] FileError),
    /// The secrets cannot be sealed.
    #[error("cannot seal the secrets")]
    Seal(#[from] SealError),
}

/// The source of the documents.
#[derive(Debug)]
pub enum Source {
    /// A store that is in use.
    Running(Frozen),
    /// A store at rest, and what entries that nobody knows to be committed make of their keys; none
    /// where a key is gone.
    AtRest(Scan, BTreeMap<Key, Option<Bytes>>),
}

impl Source {
    fn next_chunk(&mut self) -> Result<Option<Vec<(Key, Bytes)>>, WriteError> {
        match self {
            Self::Running(frozen) => Ok(frozen.next_chunk(FRAME_BYTES)?),
            Self::AtRest(scan, ahead) => {
                let (mut chunk, mut bytes) = (Vec::new(), 0);
                while bytes < FRAME_BYTES {
                    let Some((key, content)) = newest(scan, ahead)? else { break };
                    bytes += key.as_str().len() + content.len();
                    chunk.push((key, content));
                }
                Ok((!chunk.is_empty()).then_some(chunk))
            }
        }
    }
}

/// The next document of a store at rest, as it was written last.
fn newest(
    scan: &mut Scan,
    ahead: &mut BTreeMap<Key, Option<Bytes>>,
) -> Result<Option<(Key, Bytes)>, FileError> {
    for next in scan.by_ref() {
        let (key, content) = next?;
        match ahead.remove(&key) {
            None => return Ok(Some((key, content))),
            Some(Some(newer)) => return Ok(Some((key, newer))),
            Some(None) => {}
        }
    }
    let new = std::iter::from_fn(|| ahead.pop_first());
    Ok(new.filter_map(|(key, content)| Some((key, content?))).next())
}

/// Of what an export is made.
#[derive(Debug)]
pub struct About {
    pub cluster_name: NodeName,
    /// Identity of the cluster.
    pub cluster_uuid: Uuid,
    /// The certificate of its authority, PEM.
    pub authority: String,
    /// The moment.
    pub position: Position,
    /// Now.
    pub made: Timestamp,
}

/// An export that is being made.
#[derive(Debug)]
pub struct Writer {
    source: Option<Source>,
    position: Position,
    sealer: Option<Sealer>,
    digester: Digester,
    secrets: u64,
    hash: Sha256,
    /// Bytes that are made and not given out yet.
    ready: Vec<u8>,
}

impl Writer {
    /// Begins one; without a passphrase the secrets are left out. Takes a while with one.
    ///
    /// # Errors
    /// The passphrase is too short.
    pub fn new(
        source: Source,
        about: About,
        passphrase: Option<&Secret<String>>,
    ) -> Result<Self, WriteError> {
        let how = passphrase.map(|passphrase| (passphrase, seal::derivation(Uuid::new_v4())));
        let manifest = Manifest {
            format: FORMAT,
            cluster_name: about.cluster_name,
            cluster_uuid: about.cluster_uuid,
            software: env!("CARGO_PKG_VERSION").to_owned(),
            made: about.made,
            position: about.position,
            authority: about.authority,
            secrets: match &how {
                Some((_, how)) => Secrets::Sealed(how.clone()),
                None => Secrets::Purged,
            },
        };
        let manifest = serde_json::to_vec(&manifest).expect("a manifest has plain keys");
        let seals = |(passphrase, how)| Sealer::new(passphrase, &how, manifest.clone());
        let mut writer = Self {
            source: Some(source),
            position: about.position,
            sealer: how.map(seals).transpose()?,
            digester: Digester::default(),
            secrets: 0,
            hash: Sha256::new(),
            ready: Vec::new(),
        };
        writer.put(MAGIC);
        writer.put(&frame(Kind::Manifest, &manifest));
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.ready.extend(bytes);
    }

    /// The next bytes, `piece_bytes` or somewhat more but for the last ones; none at the end. Blocks.
    ///
    /// # Errors
    /// The store cannot be read on.
    pub fn next_piece(&mut self, piece_bytes: usize) -> Result<Option<Vec<u8>>, WriteError> {
        while self.ready.len() < piece_bytes {
            let Some(source) = &mut self.source else { break };
            match source.next_chunk()? {
                Some(chunk) => self.take(chunk)?,
                None => self.finish(),
            }
        }
        let piece = std::mem::take(&mut self.ready);
        Ok((!piece.is_empty()).then_some(piece))
    }

    fn take(&mut self, chunk: Vec<(Key, Bytes)>) -> Result<(), WriteError> {
        let is_secret = |(key, _): &(Key, Bytes)| document::is_secret(key.as_str());
        let (secret, plain): (Vec<_>, Vec<_>) = chunk.into_iter().partition(is_secret);
        plain.iter().for_each(|(key, content)| self.digester.add(key, content));
        if !plain.is_empty() {
            self.put(&frame(Kind::Documents, &pack(&plain)));
        }
        if let (Some(sealer), false) = (&mut self.sealer, secret.is_empty()) {
            let sealed = sealer.seal(&pack(&secret))?;
            self.secrets += u64::try_from(secret.len()).unwrap_or(u64::MAX);
            self.put(&frame(Kind::Sealed, &sealed));
        }
        Ok(())
    }

    /// The end of the file; the store is let go.
    fn finish(&mut self) {
        self.source = None;
        let groups = std::mem::take(&mut self.digester).finish(self.position).groups;
        let totals = Totals { secrets: self.secrets, groups };
        let totals = serde_json::to_vec(&totals).expect("names of groups are text");
        self.put(&frame(Kind::Totals, &totals));
        let sum = self.hash.clone().finalize();
        self.put(&frame(Kind::End, &sum));
    }
}
