//! The least that a commit of three members costs this machine. The same records go on the same disk and
//! over the same loopback, by threads that do nothing else. No TLS, no files, no client, and nothing is
//! decided.

use std::fs::create_dir;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::bench::disk::{Appender, DiskError, RECORD_BYTES, Sample};
use crate::bench::report::Report;
use crate::bench::{BenchError, Setting};

/// Members beside the leader.
const FOLLOWERS: usize = 2;
/// Seconds after which a commit will not come: both followers' disks may have failed.
const COMMIT_MAX_SECONDS: i64 = 30;
/// Bytes of an acknowledgement.
const ACK_BYTES: usize = 64;

/// The measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BareError {
    /// The disk could not be written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A follower, or a log's thread, is gone, or could not be had.
    #[error("cannot pass records on")]
    Pass(#[from] io::Error),
}

/// Measures a commit of one that is alone, and of three.
pub(super) fn bench(setting: &Setting, report: &mut Report) -> Result<(), BenchError> {
    let (alone, three) = measure(&setting.dir, setting.time)?;
    let mean_us = |sample: &Sample| 1e6 / sample.per_second();
    report.add_compared("bare.commit", mean_us(&three), "us", mean_us(&alone));
    Ok(())
}

fn measure(dir: &Path, time: Duration) -> Result<(Sample, Sample), BareError> {
    let alone = log_in(dir, "alone")?.measure(time)?;
    let mut leader = Leader::start(dir)?;
    let three = Sample::take(time, || leader.commit())?;
    Ok((alone, three))
}

fn log_in(dir: &Path, name: &str) -> Result<Appender, BareError> {
    let place = dir.join(format!("bare-{name}"));
    create_dir(&place)?;
    Ok(Appender::prepare(&place)?)
}

/// The sender of records to followers, which makes them durable itself meanwhile. Its threads end with
/// it.
struct Leader {
    followers: [Follower; FOLLOWERS],
    log: SyncSender<()>,
    logged: UnixStream,
}

struct Follower {
    stream: TcpStream,
    /// Records that it did not acknowledge yet.
    owes: u32,
}

impl Leader {
    fn start(dir: &Path) -> Result<Self, BareError> {
        let followers = [Follower::start(dir, "second")?, Follower::start(dir, "third")?];
        let (logged, tells) = UnixStream::pair()?;
        let log = spawn_log(log_in(dir, "first")?, tells);
        Ok(Self { followers, log, logged })
    }

    /// Commits one record: it is durable here and with one follower.
    fn commit(&mut self) -> Result<(), BareError> {
        for follower in &mut self.followers {
            follower.stream.write_all(&[0x5a; RECORD_BYTES])?;
            follower.owes += 1;
        }
        self.log.send(()).map_err(io::Error::other)?;
        let (mut own, mut acknowledged) = (false, false);
        let mut ack = [0; ACK_BYTES];
        while !(own && acknowledged) {
            let [second, third] = &self.followers;
            let fds = [second.stream.as_fd(), third.stream.as_fd(), self.logged.as_fd()];
            let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let limit = Timespec { tv_sec: COMMIT_MAX_SECONDS, tv_nsec: 0 };
            if poll(&mut fds, Some(&limit)).map_err(io::Error::from)? == 0 {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            let [second, third, log] = fds.map(|fd| !fd.revents().is_empty());
            let all = self.followers.iter_mut().zip([second, third]);
            for (follower, _) in all.filter(|(_, is_ready)| *is_ready) {
                follower.stream.read_exact(&mut ack)?;
                follower.owes -= 1;
                acknowledged |= follower.owes == 0;
            }
            if log {
                self.logged.read_exact(&mut ack)?;
                own = true;
            }
        }
        Ok(())
    }
}

impl Follower {
    fn start(dir: &Path, name: &str) -> Result<Self, BareError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        let (mut theirs, _) = listener.accept()?;
        for end in [&stream, &theirs] {
            end.set_nodelay(true)?;
        }
        let log = spawn_log(log_in(dir, name)?, theirs.try_clone()?);
        thread::spawn(move || {
            let mut record = [0; RECORD_BYTES];
            while theirs.read_exact(&mut record).is_ok() && log.send(()).is_ok() {}
        });
        Ok(Self { stream, owes: 0 })
    }
}

/// A thread that appends a record for each word, and tells when it is durable; it ends where it cannot.
fn spawn_log(log: Appender, tells: impl Write + Send + 'static) -> SyncSender<()> {
    let (asks, asked) = sync_channel(1);
    thread::spawn(move || append_all(log, &asked, tells));
    asks
}

fn append_all(mut log: Appender, asked: &Receiver<()>, mut tells: impl Write) {
    while asked.recv().is_ok() && log.append().is_ok() && tells.write_all(&[0; ACK_BYTES]).is_ok() {
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_durable_with_the_leader_and_a_follower() {
        let dir = tempfile::tempdir().unwrap();
        let mut leader = Leader::start(dir.path()).unwrap();
        let records = |name: &str| {
            let log =
                std::fs::read(dir.path().join(format!("bare-{name}")).join("append")).unwrap();
            log.iter().position(|byte| *byte == 0).unwrap() / RECORD_BYTES
        };
        for committed in 1..=20 {
            leader.commit().unwrap();
            assert_eq!(records("first"), committed);
            assert!(records("second").max(records("third")) == committed);
        }
    }

    #[test]
    fn who_is_gone_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let mut leader = Leader::start(dir.path()).unwrap();
        let gone = std::net::Shutdown::Both;
        leader.followers.iter().for_each(|follower| follower.stream.shutdown(gone).unwrap());
        assert!(leader.commit().is_err());
    }
}
