//! Takes an export apart, and checks it on the way: what was read is known to be whole only at the
//! end.

use std::io::{self, Read};

use bytes::Bytes;
use model::Secret;
use queue_format::Key;
use queue_format::digest::Digester;
use sha2::{Digest as _, Sha256};

use super::frame::{HEAD_BYTES, Kind, MAGIC, Malformed, head, unpack};
use super::manifest::{FORMAT, Manifest, Secrets, Totals};
use super::seal::{SealError, Sealer};

/// An export that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("cannot read the export")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("this is no file that `gnt cluster export` made")]
    Magic,
    /// It ends too early.
    #[error("the export is cut off: take another copy, it may be that the export did not end")]
    Cut,
    /// It is not what was written.
    #[error("the export is damaged: take another copy of it")]
    Malformed(#[from] Malformed),
    /// The manifest or the totals cannot be parsed.
    #[error("the export is damaged: take another copy of it")]
    Json(#[from] serde_json::Error),
    /// Parts are where they must not be.
    #[error("the export is damaged ({0}): take another copy of it")]
    Damaged(&'static str),
    /// Another version wrote it.
    #[error(
        "the export has format {found}, and this version reads format {FORMAT}: import it with the \
         version that wrote it, or a newer one"
    )]
    Format {
        /// Its format.
        found: u32,
    },
    /// The secrets do not open.
    #[error("cannot open the secrets of the export")]
    Seal(#[from] SealError),
    /// Nobody said how.
    #[error("the secrets of the export are sealed: give the passphrase (`--passphrase-file FILE`)")]
    Locked,
}

/// Just the version, which every future format keeps in its place.
#[derive(serde::Deserialize)]
struct Versioned {
    format: u32,
}

/// An export that is being read.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    hash: Sha256,
    manifest: Manifest,
    /// As it was written.
    manifest_bytes: Vec<u8>,
    sealer: Option<Sealer>,
    digester: Digester,
    secrets: u64,
    totals: Option<Totals>,
}

impl<R: Read> Reader<R> {
    /// Reads up to the documents.
    ///
    /// # Errors
    /// It is no export, or not one of this version.
    pub fn open(mut input: R) -> Result<Self, ReadError> {
        let mut hash = Sha256::new();
        let mut magic = [0; MAGIC.len()];
        if fill(&mut input, &mut magic)? != magic.len() || magic != MAGIC {
            return Err(ReadError::Magic);
        }
        hash.update(magic);
        let (kind, bytes, manifest_bytes) = next_frame(&mut input)?;
        if kind != Kind::Manifest {
            return Err(ReadError::Damaged("it says nothing of itself"));
        }
        hash.update(bytes);
        hash.update(&manifest_bytes);
        let Versioned { format } = serde_json::from_slice(&manifest_bytes)?;
        if format != FORMAT {
            return Err(ReadError::Format { found: format });
        }
        let manifest = serde_json::from_slice(&manifest_bytes)?;
        let (digester, totals) = (Digester::default(), None);
        Ok(Self {
            input,
            hash,
            manifest,
            manifest_bytes,
            sealer: None,
            digester,
            secrets: 0,
            totals,
        })
    }

    /// The manifest of the export.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Takes the passphrase of the secrets, where there are any. Takes a while.
    ///
    /// # Errors
    /// It is not one that secrets are sealed with.
    pub fn unlock(&mut self, passphrase: &Secret<String>) -> Result<(), ReadError> {
        if let Secrets::Sealed(how) = &self.manifest.secrets {
            self.sealer = Some(Sealer::new(passphrase, how, self.manifest_bytes.clone())?);
        }
        Ok(())
    }

    /// A fresh sealer for the secrets of this file, to read it once more.
    pub fn sealer(&self) -> Option<Sealer> {
        self.sealer.as_ref().map(Sealer::anew)
    }

    /// Takes the sealer of another reader of the same file.
    pub fn unlock_by(&mut self, sealer: Option<Sealer>) {
        self.sealer = sealer;
    }

    /// The next documents, secrets among them; none at the end, and then all of it was whole.
    ///
    /// # Errors
    /// It is damaged, or its secrets do not open.
    pub fn next_chunk(&mut self) -> Result<Option<Vec<(Key, Bytes)>>, ReadError> {
        loop {
            let (kind, head, body) = next_frame(&mut self.input)?;
            if kind == Kind::End {
                return self.end(&body).map(|()| None);
            }
            self.hash.update(head);
            self.hash.update(&body);
            if self.totals.is_some() {
                return Err(ReadError::Damaged("it goes on behind its end"));
            }
            match kind {
                Kind::Documents => {
                    let documents = unpack(body)?;
                    documents.iter().for_each(|(key, content)| self.digester.add(key, content));
                    return Ok(Some(documents));
                }
                Kind::Sealed => {
                    let sealer = self.sealer.as_mut().ok_or(ReadError::Locked)?;
                    let documents = unpack(sealer.open(&body)?)?;
                    self.secrets += u64::try_from(documents.len()).unwrap_or(u64::MAX);
                    return Ok(Some(documents));
                }
                Kind::Totals => self.totals = Some(serde_json::from_slice(&body)?),
                Kind::Manifest | Kind::End => {
                    return Err(ReadError::Damaged("it says twice where it is from"));
                }
            }
        }
    }

    fn end(&mut self, sum: &[u8]) -> Result<(), ReadError> {
        if self.hash.clone().finalize()[..] != *sum {
            return Err(ReadError::Damaged("its checksum is another one"));
        }
        let digester = std::mem::take(&mut self.digester);
        let groups = digester.finish(self.manifest.position).groups;
        let found = Totals { secrets: self.secrets, groups };
        if self.totals.as_ref() != Some(&found) {
            return Err(ReadError::Damaged("documents are missing"));
        }
        if fill(&mut self.input, &mut [0])? != 0 {
            return Err(ReadError::Damaged("it goes on behind its end"));
        }
        Ok(())
    }
}

/// Reads until `bytes` are full or the file ends; how many there are.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> Result<usize, ReadError> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match input.read(rest) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

fn next_frame(input: &mut impl Read) -> Result<(Kind, [u8; HEAD_BYTES], Vec<u8>), ReadError> {
    let mut bytes = [0; HEAD_BYTES];
    if fill(input, &mut bytes)? != HEAD_BYTES {
        return Err(ReadError::Cut);
    }
    let (kind, length) = head(bytes)?;
    // Memory is taken as bytes come, whatever a damaged length claims.
    let mut body = Vec::new();
    let read = input.by_ref().take(u64::from(length)).read_to_end(&mut body)?;
    if u32::try_from(read) != Ok(length) {
        return Err(ReadError::Cut);
    }
    Ok((kind, bytes, body))
}
