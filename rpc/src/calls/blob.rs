//! Core: calls about blobs.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use model::blob::{Blob, BlobDigest};

/// Bytes of one piece: long enough that its connection costs little, short enough for a slow link.
pub const PIECE_BYTES: usize = 8 * 1024 * 1024;

/// Parameters of `blob_held`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobHeld {
    /// Which blobs; the answer has a number for each, in this order.
    pub blobs: Vec<Blob>,
}

/// Parameters of `blob_append`; the answer tells how many bytes are there then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobAppend {
    pub blob: Blob,
    /// The offset of the piece: the number of bytes that are there.
    pub offset: u64,
    /// The piece; at most [`PIECE_BYTES`].
    #[serde(skip)]
    pub data: Bytes,
}

/// Parameters of `blob_keep`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobKeep {
    /// The blobs that stay.
    pub blobs: Vec<BlobDigest>,
}
