//! Files of this machine's agent, which clients fetch: alone, or in an archive that is made on its way.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use model::blob::Blob;
use tokio::sync::mpsc;
use tower::ServiceExt as _;
use tower_http::services::ServeFile;

use crate::kept::OfFile;
use crate::refusal::Refusal;
use crate::shares::Place;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that wait for the client.
const PIECES_MAX: usize = 2;
/// Bytes of a block of an archive; its end is two empty ones.
const BLOCK_BYTES: usize = 512;

/// Answers a request with a file: `HEAD`, ranges, and its exact length.
///
/// # Errors
/// It is not here.
pub async fn serve(blobs: &Path, blob: Blob, request: Request) -> Result<Response, Refusal> {
    let path = blobs.join(blob.sha256.to_string());
    drop(stdx::aside(|| open(blobs, blob))?);
    let mime = "application/octet-stream".parse().expect("a good type");
    let service = ServeFile::new_with_mime(path, &mime).with_buf_chunk_size(PIECE_BYTES);
    match service.oneshot(request).await {
        Ok(response) => {
            let mut response = response.map(Body::new);
            response.extensions_mut().insert(OfFile);
            Ok(response)
        }
        Err(never) => match never {},
    }
}

/// Opens a file of this machine's agent.
///
/// # Errors
/// It is not here.
pub fn open(blobs: &Path, blob: Blob) -> Result<File, Refusal> {
    let path = blobs.join(blob.sha256.to_string());
    let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
    match opened {
        Ok((length, file)) if length == blob.size => Ok(file),
        Ok(_) => Err(missing(blob)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(blob)),
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "a file cannot be read");
            Err(Refusal::fault("a file of this machine's agent cannot be read"))
        }
    }
}

fn missing(blob: Blob) -> Refusal {
    let text = format!("{} is not on this machine yet; the master sends it", blob.sha256);
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
}

/// Whether a file is here.
pub fn is_here(blobs: &Path, blob: Blob) -> bool {
    let found = blobs.join(blob.sha256.to_string()).metadata();
    found.is_ok_and(|found| found.len() == blob.size)
}

/// A member of an archive: its name, and the files whose bytes it has, one behind the other.
pub type Member = (&'static str, Vec<(File, Blob)>);

/// An archive of these members, in the format of POSIX, which has a thread as long as it has the place.
pub fn archive(place: Place, members: Vec<Member>) -> Body {
    let block = BLOCK_BYTES as u64;
    let length = |(_, files): &Member| block + size(files).next_multiple_of(block);
    let left = members.iter().map(length).sum::<u64>() + 2 * block;
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let writing = stdx::apart(move || {
        if let Err(error) = write(members, &sender) {
            tracing::info!(%error, "a download of an image ended early");
            drop(sender.blocking_send(Err(error)));
        }
        drop(place);
    });
    drop(writing);
    Body::new(Pieces { receiver, left })
}

fn size(files: &[(File, Blob)]) -> u64 {
    files.iter().map(|(_, blob)| blob.size).sum()
}

type Sender = mpsc::Sender<io::Result<Bytes>>;

fn write(members: Vec<Member>, to: &Sender) -> io::Result<()> {
    for (name, files) in members {
        let size = size(&files);
        send(to, header(name, size)?)?;
        for (file, blob) in files {
            let mut from = file.take(blob.size);
            let mut left = blob.size;
            while left > 0 {
                let length = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
                let mut piece = vec![0; length];
                from.read_exact(&mut piece)?;
                left -= length as u64;
                send(to, piece)?;
            }
        }
        let block = BLOCK_BYTES as u64;
        let padding = usize::try_from(size.next_multiple_of(block) - size).unwrap_or_default();
        send(to, vec![0; padding])?;
    }
    send(to, vec![0; 2 * BLOCK_BYTES])
}

fn send(to: &Sender, piece: Vec<u8>) -> io::Result<()> {
    if piece.is_empty() {
        return Ok(());
    }
    let gone = |_piece| io::Error::from(io::ErrorKind::ConnectionAborted);
    to.blocking_send(Ok(piece.into())).map_err(gone)
}

/// The header of a member that anybody may read.
fn header(name: &str, size: u64) -> io::Result<Vec<u8>> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name)?;
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    Ok(header.as_bytes().to_vec())
}

/// The pieces that were read, as the body of an answer.
struct Pieces {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    /// Bytes that are to come.
    left: u64,
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.receiver.poll_recv(context).map(|piece| {
            let piece = piece?;
            if let Ok(data) = &piece {
                self.left = self.left.saturating_sub(data.len() as u64);
            }
            Some(piece.map(Frame::data))
        })
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use blobs::Hasher;

    use super::*;
    use crate::shares::{Shares, own, turn_now};

    fn kept(directory: &Path, bytes: &[u8]) -> (File, Blob) {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        let blob = hasher.finish();
        stdx::atomic::write(&directory.join(blob.sha256.to_string()), bytes, 0o600).unwrap();
        (open(directory, blob).unwrap(), blob)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_archive_has_the_length_that_was_told_and_its_members() {
        let dir = tempfile::tempdir().unwrap();
        let long = vec![7; PIECE_BYTES + 1];
        let [kernel, one, two] =
            [&b"kernel"[..], &long, &[8; 512]].map(|bytes| kept(dir.path(), bytes));
        let place = turn_now(&Shares::default().archives, &own(), "archives").unwrap();
        let members = vec![("kernel", vec![kernel]), ("initrd.gz", vec![one, two])];
        let body = archive(place, members);
        let told = hyper::body::Body::size_hint(&body).exact().unwrap();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        assert_eq!(bytes.len() as u64, told);
        let mut archive = tar::Archive::new(&bytes[..]);
        let members = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        });
        let initrd = [long, vec![8; 512]].concat();
        assert_eq!(
            members.collect::<Vec<_>>(),
            [("kernel".to_owned(), b"kernel".to_vec()), ("initrd.gz".to_owned(), initrd)]
        );
    }

    #[test]
    fn a_file_of_another_length_is_not_here() {
        let dir = tempfile::tempdir().unwrap();
        let (_, blob) = kept(dir.path(), b"kernel");
        assert!(is_here(dir.path(), blob));
        let other = Blob { size: 7, ..blob };
        assert!(!is_here(dir.path(), other));
        assert_eq!(open(dir.path(), other).unwrap_err().code, 503);
        assert_eq!(open(Path::new("/nowhere"), blob).unwrap_err().code, 503);
    }
}
