//! The machines: one socket, and a plan of who asks next.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{Arguments, RETRY, Seen};
use crate::dhcp::{ACK, DISCOVER, OFFER, REQUEST, question, reply};
use crate::guest::wires::HOST_INTERFACE;

/// Bytes that the kernel keeps of what nobody read yet: two answers for each machine.
const BUFFER: usize = 16 << 20;
/// Questions between two looks at the answers.
const SENT_AT_ONCE: usize = 16;
/// Answers that are read before others ask.
const READ_AT_ONCE: usize = 64;
/// Longest wait for an answer, while nobody has to ask.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Answers are shorter than a frame of Ethernet.
const MESSAGE_MAX: usize = 1_500;
/// A machine asks so many times, each time after twice as long.
const ASKED_MAX: u32 = 4;

/// Machines that could not ask.
#[derive(Debug, thiserror::Error)]
pub enum StormFailure {
    /// No socket, or a failure of it.
    #[error("the machines cannot ask")]
    Socket(#[from] io::Error),
    /// The findings have no JSON form.
    #[error("cannot write what was seen")]
    Encode(#[from] serde_json::Error),
}

/// The next question of a machine.
#[derive(Debug, Clone, Copy)]
struct Machine {
    kind: u8,
    /// Questions of this kind.
    asked: u32,
    offered: Option<(Ipv4Addr, Ipv4Addr)>,
    repeated: u64,
}

/// All of them.
struct Storm {
    socket: Socket,
    collect: Duration,
    machines: Vec<Machine>,
    /// Who asks when.
    plan: BTreeSet<(Instant, u32)>,
    /// When each of those is to ask.
    planned: BTreeMap<u32, Instant>,
    leased: BTreeMap<u32, Ipv4Addr>,
    last: Instant,
}

/// Powers them on, and tells what they saw.
///
/// # Errors
/// There is no network.
pub fn run(arguments: &Arguments) -> Result<(), StormFailure> {
    let begun = Instant::now();
    let end = begun + Duration::from_secs(arguments.seconds);
    let fresh = Machine { kind: DISCOVER, asked: 0, offered: None, repeated: 0 };
    let mut storm = Storm {
        socket: socket()?,
        collect: Duration::from_millis(arguments.collect_ms),
        machines: (0..arguments.machines).map(|_| fresh).collect(),
        plan: BTreeSet::new(),
        planned: BTreeMap::new(),
        leased: BTreeMap::new(),
        last: begun,
    };
    (0..arguments.machines).for_each(|number| storm.plan(number, begun));
    while !storm.plan.is_empty() && Instant::now() < end {
        storm.ask()?;
        storm.listen()?;
    }
    let addresses: BTreeSet<_> = storm.leased.values().collect();
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let is_quick = |number: &&u32| {
        let machine = usize::try_from(**number).ok().and_then(|at| storm.machines.get(at));
        machine.is_some_and(|machine| machine.repeated == 0)
    };
    let seen = Seen {
        leased: count(storm.leased.len()),
        repeated: storm.machines.iter().map(|machine| machine.repeated).sum(),
        at_once: count(storm.leased.keys().filter(is_quick).count()),
        seconds: storm.last.duration_since(begun).as_secs_f64(),
        twice: count(storm.leased.len() - addresses.len()),
    };
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &seen)?;
    Ok(writeln!(output)?)
}

fn socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_broadcast(true)?;
    setsockopt(&socket, RcvBufForce, &BUFFER)?;
    socket.bind_device(Some(HOST_INTERFACE.as_bytes()))?;
    socket.bind(&SockAddr::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 68)))?;
    socket.set_read_timeout(Some(LOOK_EVERY))?;
    Ok(socket)
}

impl Storm {
    fn plan(&mut self, number: u32, at: Instant) {
        self.forget(number);
        self.planned.insert(number, at);
        self.plan.insert((at, number));
    }

    fn forget(&mut self, number: u32) {
        if let Some(before) = self.planned.remove(&number) {
            self.plan.remove(&(before, number));
        }
    }

    /// Those whose time it is ask.
    fn ask(&mut self) -> io::Result<()> {
        let everyone = SockAddr::from(SocketAddrV4::new(Ipv4Addr::BROADCAST, 67));
        for _ in 0..SENT_AT_ONCE {
            let now = Instant::now();
            let Some(&(at, number)) = self.plan.first() else { return Ok(()) };
            let Some(machine) = self.machine(number) else { return Ok(()) };
            if at > now {
                return Ok(());
            }
            if machine.asked == ASKED_MAX {
                self.forget(number);
                continue;
            }
            machine.repeated += u64::from(machine.asked > 0);
            machine.asked += 1;
            let again = now + RETRY * 2_u32.pow(machine.asked - 1);
            let bytes = question(number, machine.kind, machine.offered);
            self.plan(number, again);
            self.socket.send_to(&bytes, &everyone)?;
        }
        Ok(())
    }

    fn machine(&mut self, number: u32) -> Option<&mut Machine> {
        self.machines.get_mut(usize::try_from(number).ok()?)
    }

    /// Reads what has come, or waits a moment.
    fn listen(&mut self) -> io::Result<()> {
        for _ in 0..READ_AT_ONCE {
            let is_due = self.plan.first().is_some_and(|(at, _)| *at <= Instant::now());
            self.socket.set_nonblocking(is_due)?;
            let mut buffer = [0; MESSAGE_MAX];
            match self.socket.read(&mut buffer) {
                Ok(length) => self.take(buffer.get(..length).unwrap_or_default()),
                Err(error) if is_nothing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) {
        let now = Instant::now();
        let Some(reply) = reply(bytes) else { return };
        let collected = now + self.collect;
        let Some(machine) = self.machine(reply.machine) else { return };
        match (reply.kind, machine.kind) {
            (OFFER, DISCOVER) => {
                machine.kind = REQUEST;
                machine.asked = 0;
                machine.offered = Some((reply.address, reply.server));
                self.plan(reply.machine, collected);
            }
            (ACK, REQUEST) => {
                self.forget(reply.machine);
                if self.leased.insert(reply.machine, reply.address).is_none() {
                    self.last = now;
                }
            }
            _ => {}
        }
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
