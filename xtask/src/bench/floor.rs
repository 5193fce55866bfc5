//! The least that a job costs a processor: its file and two exchanges with its client, with nothing
//! read, decided or made durable. On a shared machine a microsecond is not the same an hour later; the
//! ratio of a job's cost to this one is.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use super::disk::RECORD_BYTES;

/// Jobs of one look: a tenth of a second.
const JOBS: u32 = 2_000;
/// Bytes of a request with a small opcode.
const REQUEST_BYTES: usize = 600;
/// Bytes of an answer.
const ANSWER_BYTES: usize = 60;

/// The directory for the files.
#[derive(Debug)]
pub struct Floor {
    directory: PathBuf,
    made: u32,
}

impl Floor {
    /// Makes the directory below `dir`.
    ///
    /// # Errors
    /// The system's error.
    pub fn prepare(dir: &Path) -> io::Result<Self> {
        let directory = dir.join("floor");
        std::fs::create_dir(&directory)?;
        Ok(Self { directory, made: 0 })
    }

    /// Processor time of one job's worth, in microseconds, as it is now.
    ///
    /// # Errors
    /// The system's error.
    pub fn measure(&mut self) -> io::Result<f64> {
        let (mut server, mut client) = UnixStream::pair()?;
        let asked = std::thread::spawn(move || {
            let mut answer = [0; ANSWER_BYTES];
            for _ in 0..2 * JOBS {
                client.write_all(&[0x5a; REQUEST_BYTES])?;
                client.read_exact(&mut answer)?;
            }
            Ok::<(), io::Error>(())
        });
        let before = processor_time()?;
        let mut request = [0; REQUEST_BYTES];
        for _ in 0..JOBS {
            for _ in 0..2 {
                server.read_exact(&mut request)?;
                server.write_all(&[0x5a; ANSWER_BYTES])?;
            }
            self.made += 1;
            let path = self.directory.join(format!("job-{}", self.made));
            File::create_new(path)?.write_all(&[0x5a; RECORD_BYTES])?;
        }
        let spent = processor_time()?.saturating_sub(before);
        asked.join().map_err(|_panic| io::Error::other("the client panicked"))??;
        Ok(spent.as_secs_f64() * 1e6 / f64::from(JOBS))
    }
}

/// Of this thread.
fn processor_time() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}
