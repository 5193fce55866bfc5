//! Exports that clients of a running master are fetching, each piece by piece.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use luxi::method::ExportPiece;
use model::error::ExceptionKind;
use model::{Exception, Secret, Timestamp};
use parking_lot::Mutex;
use stdx::daemon::chain;
use tokio::time::Instant;
use uuid::Uuid;

use super::write::{About, Source, WriteError, Writer};
use crate::config::queue::{Commits, Published};

/// Exports at a time: each holds a view of the store, of which there are few.
const OPEN_MAX: usize = 2;
/// How long a client may take from one piece to the next, before another export may take its place.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Bytes of one piece: a fraction of the longest answer.
const PIECE_BYTES: usize = 4 << 20;

/// An export that is being fetched.
#[derive(Debug)]
struct Open {
    writer: Writer,
    sent: u64,
    asked: Instant,
}

/// The exports that are being fetched.
#[derive(Debug, Default)]
pub struct Exports(Mutex<BTreeMap<Uuid, Open>>);

fn refuse(text: impl Into<String>) -> Exception {
    Exception::new(ExceptionKind::GenericError, text.into())
}

fn gone() -> Exception {
    refuse("this export is not being made any more: begin it anew")
}

fn told(error: &WriteError) -> Exception {
    refuse(chain(error))
}

impl Exports {
    /// Begins an export of the store as it is now; gives its id.
    ///
    /// # Errors
    /// Too many are being made, the store cannot be read, or the passphrase is too short.
    pub async fn begin(
        &self,
        (commits, published): (&Commits, &Published),
        authority: String,
        made: Timestamp,
        passphrase: Option<Secret<String>>,
    ) -> Result<Uuid, Exception> {
        self.make_room()?;
        let frozen = commits.freeze().await.map_err(|error| {
        refuse(format!(
            "cannot read the store at one moment: {}. The store of a master that is stopped can be \
             exported by root, with the same command",
            chain(&error)
        ))
    })?;
        let cluster = std::sync::Arc::clone(&published.snapshot().config.cluster);
        let uuid = cluster.uuid.parse();
        let about = About {
            cluster_name: cluster.cluster_name.clone(),
            cluster_uuid: uuid.map_err(|_text| refuse("the cluster's UUID is none"))?,
            authority,
            position: frozen.position(),
            made,
        };
        let make = move || Writer::new(Source::Running(frozen), about, passphrase.as_ref());
        let made = stdx::apart(make).await.map_err(|_panic| gone())?;
        self.open(made.map_err(|error| told(&error))?)
    }

    fn make_room(&self) -> Result<(), Exception> {
        let mut open = self.0.lock();
        open.retain(|_, one| one.asked.elapsed() < IDLE_MAX);
        if open.len() < OPEN_MAX {
            return Ok(());
        }
        Err(refuse(format!("{OPEN_MAX} exports are being made already: try again when one ends")))
    }

    fn open(&self, writer: Writer) -> Result<Uuid, Exception> {
        self.make_room()?;
        let id = Uuid::new_v4();
        self.0.lock().insert(id, Open { writer, sent: 0, asked: Instant::now() });
        Ok(id)
    }

    /// The piece behind the first `offset` bytes. A client that does not wait for it begins a new
    /// export.
    ///
    /// # Errors
    /// There is no such export, that is not its next piece, or the store cannot be read on.
    pub async fn read(&self, id: &str, offset: u64) -> Result<ExportPiece, Exception> {
        let id = Uuid::parse_str(id).map_err(|_text| gone())?;
        let mut one = self.0.lock().remove(&id).ok_or_else(gone)?;
        if one.sent != offset {
            return Err(gone());
        }
        let next = move || {
            let piece = one.writer.next_piece(PIECE_BYTES);
            (one, piece)
        };
        let (mut one, piece) = stdx::apart(next).await.map_err(|_panic| gone())?;
        let Some(piece) = piece.map_err(|error| told(&error))? else {
            return Ok(ExportPiece { data: String::new(), more: false });
        };
        one.sent += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        one.asked = Instant::now();
        self.0.lock().insert(id, one);
        Ok(ExportPiece { data: STANDARD.encode(piece), more: true })
    }
}
