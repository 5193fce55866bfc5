//! The serial consoles of guests. QEMU writes what a guest says to a log, whoever listens; its input comes by a
//! socket, which one client has at a time.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use model::Uuid;
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use stdx::Tasks;
use stdx::file_changes::FileChanges;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

/// Bytes of a console that are kept: some thousand lines.
const KEPT_BYTES: u64 = 1024 * 1024;
/// A log is cut where it has this much more: each cut costs a write.
const CUT_BYTES: u64 = 256 * 1024;
/// Bytes of a file system's block: holes are made of whole ones.
const BLOCK_BYTES: u64 = 4096;
/// Most bytes of one answer.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Pieces of input that wait: a terminal sends few at a time, and a guest that reads none is told no more.
const INPUTS_MAX: usize = 16;
/// How long a connection stays that nothing is sent on: another client may want it.
const IDLE: Duration = Duration::from_secs(30);

/// The words of a console from some place on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The place of the first byte among all that it ever said.
    pub offset: u64,
    /// At most [`OUTPUT_BYTES_MAX`].
    pub data: Vec<u8>,
}

/// The consoles of which somebody types.
#[derive(Debug, Default)]
pub(crate) struct Consoles(Mutex<HashMap<Uuid, mpsc::Sender<Vec<u8>>>>);

impl Consoles {
    /// Sends input to the console behind a socket.
    ///
    /// # Errors
    /// Somebody else has it, or the guest reads nothing.
    pub(crate) async fn send(
        &self,
        uuid: Uuid,
        socket: &Path,
        input: Vec<u8>,
        tasks: &Tasks,
    ) -> io::Result<()> {
        let known = self.0.lock().get(&uuid).filter(|known| !known.is_closed()).cloned();
        let inputs = match known {
            Some(known) => known,
            None => {
                let stream = UnixStream::connect(socket).await?;
                let (inputs, wanted) = mpsc::channel(INPUTS_MAX);
                tasks.spawn("input of a console", pass(stream, wanted));
                let mut all = self.0.lock();
                all.retain(|_, known| !known.is_closed());
                all.insert(uuid, inputs.clone());
                inputs
            }
        };
        let full = |_error| io::Error::other("the guest does not read what is typed");
        inputs.try_send(input).map_err(full)
    }
}

/// Passes input on until none came for a while. The guest's words come here, too, and are in its log.
async fn pass(stream: UnixStream, mut inputs: mpsc::Receiver<Vec<u8>>) {
    let (mut said, mut to) = stream.into_split();
    let drain = async {
        let mut piece = vec![0; BLOCK_BYTES.try_into().unwrap_or(1)];
        while matches!(said.read(&mut piece).await, Ok(1..)) {}
    };
    let write = async {
        while let Ok(Some(input)) = timeout(IDLE, inputs.recv()).await {
            if to.write_all(&input).await.is_err() {
                return;
            }
        }
    };
    tokio::select! { () = drain => {}, () = write => {} }
}

/// Reads a log from a place on, or its end where none is named. If there is nothing, it waits.
///
/// # Errors
/// There is no log.
pub(crate) async fn read(log: &Path, from: Option<u64>, within: Duration) -> io::Result<Output> {
    let deadline = Instant::now() + within;
    // The watch is there before the look, so that nothing is missed between both.
    let mut changes = FileChanges::of(log)?;
    loop {
        let output = look(&File::open(log)?, from)?;
        if !output.data.is_empty() || from.is_none() {
            return Ok(output);
        }
        match timeout_at(deadline, changes.next()).await {
            Ok(changed) => changed?,
            Err(_elapsed) => return Ok(output),
        }
    }
}

fn look(log: &File, from: Option<u64>) -> io::Result<Output> {
    let length = log.metadata()?.len();
    let kept = length.saturating_sub(KEPT_BYTES);
    let most = u64::try_from(OUTPUT_BYTES_MAX).unwrap_or(u64::MAX);
    // A place behind the end is one of another log of this name.
    let offset = from.filter(|from| *from <= length).unwrap_or(length.saturating_sub(most));
    let offset = offset.max(kept);
    let count = usize::try_from((length - offset).min(most)).unwrap_or(OUTPUT_BYTES_MAX);
    let mut data = vec![0; count];
    log.read_exact_at(&mut data, offset)?;
    Ok(Output { offset, data })
}

/// Gives back what a log has beyond what is kept. Places in it stay what they are.
///
/// # Errors
/// The system's error.
pub(crate) fn cut(log: &Path) -> io::Result<()> {
    let file = match File::options().write(true).open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let had = std::os::unix::fs::MetadataExt::blocks(&file.metadata()?) * 512;
    let gone = file.metadata()?.len().saturating_sub(KEPT_BYTES) / BLOCK_BYTES * BLOCK_BYTES;
    if gone == 0 || had < KEPT_BYTES + CUT_BYTES {
        return Ok(());
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(&file, flags, 0, gone)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[tokio::test]
    async fn a_log_is_read_from_where_one_was_and_keeps_its_end_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = File::options().create(true).append(true).open(&path).unwrap();
        log.write_all(b"first line\n").unwrap();
        let all = read(&path, None, Duration::ZERO).await.unwrap();
        assert_eq!((all.offset, all.data.as_slice()), (0, &b"first line\n"[..]));
        let more = read(&path, Some(11), Duration::from_secs(60));
        let write = async { log.write_all(b"second\n").unwrap() };
        let (more, ()) = tokio::join!(more, write);
        assert_eq!(more.unwrap(), Output { offset: 11, data: b"second\n".to_vec() });
        assert!(read(&path, Some(18), Duration::ZERO).await.unwrap().data.is_empty());
        for _ in 0..40 {
            log.write_all(&[b'x'; 64 * 1024]).unwrap();
            cut(&path).unwrap();
        }
        let blocks = std::os::unix::fs::MetadataExt::blocks(&log.metadata().unwrap());
        assert!(blocks * 512 <= KEPT_BYTES + CUT_BYTES + 2 * BLOCK_BYTES, "{blocks} blocks");
        let late = read(&path, Some(18), Duration::ZERO).await.unwrap();
        assert!(late.data.iter().all(|byte| *byte == b'x'), "what was cut is not told as zeros");
        assert_eq!(late.data.len(), OUTPUT_BYTES_MAX);
        let strange = read(&path, Some(1 << 40), Duration::ZERO).await.unwrap();
        assert_eq!(strange.data.len(), OUTPUT_BYTES_MAX);
    }

    #[tokio::test]
    async fn input_goes_to_the_socket_and_what_comes_back_blocks_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let (consoles, tasks) = (Consoles::default(), Tasks::new());
        let uuid = Uuid::from_u128(1);
        consoles.send(uuid, &socket, b"ls\n".to_vec(), &tasks).await.unwrap();
        let (mut guest, _) = listener.accept().await.unwrap();
        guest.write_all(&vec![b'x'; 4 << 20]).await.unwrap();
        consoles.send(uuid, &socket, b"exit\n".to_vec(), &tasks).await.unwrap();
        let mut typed = [0; 8];
        guest.read_exact(&mut typed).await.unwrap();
        assert_eq!(&typed, b"ls\nexit\n");
        tasks.shutdown().await;
    }
}
