//! The state of the network: all that is under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::Waker;

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use model::enrol::Fingerprint;
use queue_format::simulation::Chance;

use super::Stream;

/// Most pieces are quick: milliseconds at most.
const QUICK_MS: usize = 4;
/// Some are not: this is longer than a lease.
const SLOW_MS: usize = 3_000;
/// One in so many is slow.
const SLOW_ONE_IN: usize = 400;
/// A piece that was lost is sent again after so long, TCP's least, and up to [`SLOW_MS`] more.
const AGAIN_MS: usize = 200;
/// The longest delay of held-back pieces after the end of a cut.
const HEALED_MS: usize = 1_000;
/// Bytes that one direction holds before its writer waits: more than any one message here, less than
/// a runaway writer.
const WINDOW_BYTES: usize = 256 << 10;

/// Tells a caller what came of its call.
pub(super) type Tell = oneshot::Sender<io::Result<Stream>>;

/// A call under way.
pub(super) struct Call {
    pub(super) from: IpAddr,
    pub(super) to: SocketAddr,
    pub(super) shown: Fingerprint,
    pub(super) protocol: Vec<u8>,
    pub(super) tell: Tell,
}

/// One end of a stream: the directions that it reads and writes.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) shown: Option<Fingerprint>,
    pub(super) protocol: Vec<u8>,
}

/// A call that has arrived, and was not answered yet.
pub(super) struct Waiting {
    pub(super) from: SocketAddr,
    pub(super) end: End,
    pub(super) tell: Tell,
}

/// A port on which a node listens.
#[derive(Default)]
pub(super) struct Door {
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) waker: Option<Waker>,
}

enum Piece {
    Bytes(Bytes),
    End,
    Reset,
}

/// How a direction is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Ended,
    Broken,
}

/// One direction of a stream.
struct Way {
    from: IpAddr,
    to: IpAddr,
    under_way: VecDeque<(u64, Piece)>,
    arrived: BytesMut,
    /// Bytes under way, and those that have arrived and are not read.
    bytes: usize,
    over: Option<Over>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Whether there is a reader, or its machine to say that there is none.
    read: Reading,
    is_written: bool,
    /// Bytes came that nobody read, and their sender does not know yet.
    bytes_for_nobody: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Reads,
    Gone,
    Dead,
}

/// The work that [`State::arrive`] leaves for when no lock is held.
#[derive(Default)]
pub(super) struct Arrivals {
    pub(super) opened: Vec<(End, Tell)>,
    pub(super) refused: Vec<Tell>,
    pub(super) wakers: Vec<Waker>,
}

/// All that is under way, by when it is due and in which order it was sent.
type Due<T> = BTreeMap<(u64, u64), T>;

pub(super) struct State {
    now_ms: u64,
    chance: Chance,
    /// Numbers given so far, to streams and to what is due.
    numbers: u64,
    calls: Due<Call>,
    opened: Due<(End, Tell)>,
    ways: BTreeMap<u64, Way>,
    pub(super) doors: BTreeMap<SocketAddr, Door>,
    pub(super) cut: BTreeSet<(IpAddr, IpAddr)>,
    pub(super) loss_one_in: usize,
    pub(super) powerless: bool,
    /// Callers that wait for these wait in vain.
    pub(super) unheard: Vec<Tell>,
}

impl State {
    pub(super) fn new(chance: Chance) -> Self {
        Self {
            now_ms: 0,
            chance,
            numbers: 0,
            calls: Due::new(),
            opened: Due::new(),
            ways: BTreeMap::new(),
            doors: BTreeMap::new(),
            cut: BTreeSet::new(),
            loss_one_in: 0,
            powerless: false,
            unheard: Vec::new(),
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// When something arrives that is sent now.
    fn due(&mut self) -> u64 {
        let lost = self.loss_one_in > 0 && self.chance.below(self.loss_one_in) == 0;
        let slow = lost || self.chance.below(SLOW_ONE_IN) == 0;
        let delay = self.chance.below(if slow { SLOW_MS } else { QUICK_MS });
        self.now_ms + (delay + if lost { AGAIN_MS } else { 0 }) as u64
    }

    pub(super) fn call(&mut self, call: Call) {
        let at = (self.due(), self.number());
        self.calls.insert(at, call);
    }

    /// The answering side is there: its caller learns of it.
    pub(super) fn open(&mut self, end: &End, tell: Tell) {
        let at = (self.due(), self.number());
        let caller = End { reads: end.writes, writes: end.reads, ..end.clone() };
        self.opened.insert(at, (caller, tell));
    }

    pub(super) fn heal(&mut self) {
        self.cut.clear();
        self.loss_one_in = 0;
        let now_ms = self.now_ms;
        for way in self.ways.values_mut() {
            if way.under_way.front().is_some_and(|(due, _)| *due < now_ms) {
                let until = now_ms + self.chance.below(HEALED_MS) as u64;
                for (due, _) in &mut way.under_way {
                    *due = until.max(*due);
                }
            }
        }
    }

    pub(super) fn arrive(&mut self, now_ms: u64) -> Arrivals {
        self.now_ms = now_ms;
        let mut arrivals = Arrivals::default();
        self.arrive_calls(&mut arrivals);
        let mut broken = Vec::new();
        for (number, way) in &mut self.ways {
            if !self.cut.contains(&(way.from, way.to)) {
                way.arrive(now_ms, &mut arrivals.wakers);
            }
            // A writer that has room again learns of it as of everything else.
            if way.bytes < WINDOW_BYTES || way.over.is_some() {
                arrivals.wakers.extend(way.writer.take());
            }
            if std::mem::take(&mut way.bytes_for_nobody) && way.read == Reading::Gone {
                broken.push(number ^ 1);
            }
        }
        for back in broken {
            self.send(back, Piece::Reset);
        }
        self.ways.retain(|_, way| way.is_needed());
        arrivals
    }

    /// Calls that arrive, and answers to them. A cut in either direction holds both back.
    fn arrive_calls(&mut self, arrivals: &mut Arrivals) {
        let later = (self.now_ms + 1, 0);
        let passes = |cut: &BTreeSet<_>, one: IpAddr, other: IpAddr| {
            !cut.contains(&(one, other)) && !cut.contains(&(other, one))
        };
        let due: Vec<_> = self.calls.range(..later).map(|(at, _)| *at).collect();
        for at in due {
            let Some(call) = self.calls.remove(&at) else { continue };
            if !passes(&self.cut, call.from, call.to.ip()) {
                self.calls.insert(at, call);
            } else if self.doors.contains_key(&call.to) {
                self.knock(call, arrivals);
            } else {
                arrivals.refused.push(call.tell);
            }
        }
        let due: Vec<_> = self.opened.range(..later).map(|(at, _)| *at).collect();
        for at in due {
            let Some((end, tell)) = self.opened.remove(&at) else { continue };
            match self.ways.get(&end.writes) {
                Some(way) if !passes(&self.cut, way.from, way.to) => {
                    self.opened.insert(at, (end, tell));
                }
                _ => arrivals.opened.push((end, tell)),
            }
        }
    }

    fn knock(&mut self, call: Call, arrivals: &mut Arrivals) {
        let Call { from, to, shown, protocol, tell } = call;
        let there = self.number() * 2;
        self.ways.insert(there, Way::new(from, to.ip()));
        self.ways.insert(there + 1, Way::new(to.ip(), from));
        let end = End { reads: there, writes: there + 1, shown: Some(shown), protocol };
        let door = self.doors.entry(to).or_default();
        // Ports of callers mean nothing here.
        door.waiting.push_back(Waiting { from: SocketAddr::new(from, 0), end, tell });
        arrivals.wakers.extend(door.waker.take());
    }

    fn send(&mut self, number: u64, piece: Piece) {
        let due = self.due();
        let Some(way) = self.ways.get_mut(&number) else { return };
        if let Piece::Bytes(bytes) = &piece {
            way.bytes += bytes.len();
        }
        let last = way.under_way.back().map_or(0, |(due, _)| *due);
        way.under_way.push_back((due.max(last), piece));
    }

    /// Sends bytes; how many were taken, none where the writer has to wait.
    ///
    /// # Errors
    /// Nobody reads them.
    pub(super) fn write(
        &mut self,
        end: &End,
        bytes: &[u8],
        waker: &Waker,
    ) -> io::Result<Option<usize>> {
        let broken = self.ways.get(&end.reads).is_none_or(|way| way.over == Some(Over::Broken));
        let Some(way) = self.ways.get_mut(&end.writes).filter(|way| way.is_written && !broken)
        else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let room = WINDOW_BYTES.saturating_sub(way.bytes).min(bytes.len());
        if room == 0 && !bytes.is_empty() {
            way.writer = Some(waker.clone());
            return Ok(None);
        }
        self.send(end.writes, Piece::Bytes(Bytes::copy_from_slice(&bytes[..room])));
        Ok(Some(room))
    }

    /// The bytes that have arrived; none where the reader has to wait.
    ///
    /// # Errors
    /// The other end is gone.
    pub(super) fn read(&mut self, end: &End, waker: &Waker) -> io::Result<Option<Bytes>> {
        let Some(way) = self.ways.get_mut(&end.reads) else {
            return Err(io::ErrorKind::ConnectionReset.into());
        };
        if !way.arrived.is_empty() {
            way.bytes -= way.arrived.len();
            return Ok(Some(way.arrived.split().freeze()));
        }
        match way.over {
            Some(Over::Ended) => Ok(Some(Bytes::new())),
            Some(Over::Broken) => Err(io::ErrorKind::ConnectionReset.into()),
            None => {
                way.reader = Some(waker.clone());
                Ok(None)
            }
        }
    }

    /// Sends no more.
    pub(super) fn shut(&mut self, end: &End) {
        if let Some(way) = self.ways.get_mut(&end.writes)
            && std::mem::replace(&mut way.is_written, false)
            && !self.powerless
        {
            self.send(end.writes, Piece::End);
        }
    }

    /// Neither sends nor reads any more.
    pub(super) fn close(&mut self, end: &End) {
        self.shut(end);
        if let Some(way) = self.ways.get_mut(&end.reads) {
            way.read = if self.powerless { Reading::Dead } else { Reading::Gone };
            way.reader = None;
        }
    }
}

impl Way {
    fn new(from: IpAddr, to: IpAddr) -> Self {
        Self {
            from,
            to,
            under_way: VecDeque::new(),
            arrived: BytesMut::new(),
            bytes: 0,
            over: None,
            reader: None,
            writer: None,
            read: Reading::Reads,
            is_written: true,
            bytes_for_nobody: false,
        }
    }

    /// Whether anybody may still notice it. A direction without a reader stays as long as something
    /// may be sent on it, since its sender is to be told.
    fn is_needed(&self) -> bool {
        self.read == Reading::Reads || self.is_written || !self.under_way.is_empty()
    }

    fn arrive(&mut self, now_ms: u64, wakers: &mut Vec<Waker>) {
        let mut any = false;
        while let Some((due, _)) = self.under_way.front()
            && *due <= now_ms
        {
            let Some((_, piece)) = self.under_way.pop_front() else { break };
            any = true;
            match piece {
                Piece::Bytes(bytes) if self.read == Reading::Reads => {
                    self.arrived.extend_from_slice(&bytes);
                }
                Piece::Bytes(bytes) => {
                    self.bytes -= bytes.len();
                    self.bytes_for_nobody = true;
                }
                Piece::End => self.over = self.over.or(Some(Over::Ended)),
                Piece::Reset => self.over = Some(Over::Broken),
            }
        }
        if any {
            wakers.extend(self.reader.take());
        }
    }
}
