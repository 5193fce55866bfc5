//! Looks for DHCP servers that are no agents, on the interfaces that this agent serves.
//!
//! It asks as a client: a DISCOVER of its own, which agents know by its vendor class and do not answer.
//! A host that offers an address is another server.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use stdx::net::{Binding, Datagram, UdpSocket, interfaces};
use stdx::{Clock, Tasks};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::dhcp::engine::PROBE_CLASS;
use crate::dhcp::engine::reply::{CLIENT_PORT, SERVER_PORT, is_host};
use crate::dhcp::packet::encode::MESSAGE_MIN;
use crate::dhcp::packet::{
    BOOT_REPLY, BOOT_REQUEST, ETHERNET, FIXED_LEN, FLAG_BROADCAST, MAGIC_COOKIE, MessageType,
    Packet, option,
};
use crate::rack::Racks;
use crate::rack::compile::Listener;

/// How long an agent waits before it first serves an interface: most servers answer at once.
pub(super) const FIRST_LISTEN: Duration = Duration::from_secs(1);
/// How long it listens: some servers look for 3 s whether an address is in use before they offer it.
const LISTEN: Duration = Duration::from_secs(5);
/// Between two looks at one interface: who plugs in a router is told within half a minute, and one
/// client that asks so often disturbs no server.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// When an agent asks again that heard nothing: one lost message is no answer.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Servers that are named: those beyond change nothing for who reads of them.
const NAMED_MAX: usize = 8;
/// Longest message that is read: a frame.
const DATAGRAM_MAX: usize = 1_500;
/// Offset of the hardware address in a message.
const HARDWARE_AT: usize = 28;

/// When each interface was last looked at.
#[derive(Debug)]
pub(super) struct Others {
    racks: Arc<Racks>,
    clock: Clock,
    looked: BTreeMap<String, Instant>,
    tasks: Tasks,
    stopped: watch::Receiver<bool>,
}

impl Others {
    pub(super) fn new(racks: Arc<Racks>, clock: Clock, stopped: watch::Receiver<bool>) -> Self {
        Self { racks, clock, looked: BTreeMap::new(), tasks: Tasks::new(), stopped }
    }

    /// Begins to look where it is time to; whether that is a place that was not looked at before.
    pub(super) fn look(&mut self, places: &BTreeSet<Listener>) -> bool {
        let names: BTreeMap<_, _> = places.iter().filter_map(interface).collect();
        self.looked.retain(|name, _at| names.contains_key(name.as_str()));
        self.racks.keep_other_servers(|name| names.contains_key(name));
        let mut first = false;
        for (name, own) in names {
            let before = self.looked.get(name);
            if before.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
                continue;
            }
            let is_first = before.is_none();
            first |= is_first;
            self.looked.insert(name.to_owned(), Instant::now());
            let (name, racks) = (name.to_owned(), Arc::clone(&self.racks));
            let (xid, mut stopped) = (low_bits(self.clock.now_micros()), self.stopped.clone());
            self.tasks.spawn("dhcp servers", async move {
                tokio::select! {
                    () = look_at((&name, own), xid, &racks, is_first) => {}
                    _ = stopped.wait_for(|stop| *stop) => {}
                }
            });
        }
        first
    }

    /// Ends with the looks that are under way.
    pub(super) async fn end(self) {
        self.tasks.join().await;
    }
}

fn interface(place: &Listener) -> Option<(&str, Ipv4Addr)> {
    match place {
        Listener::Interface { name, address } => Some((name.as_str(), *address)),
        Listener::Address(_) => None,
    }
}

/// A number of a transaction: no two looks fall into one microsecond.
fn low_bits(now: i64) -> u32 {
    let [.., a, b, c, d] = now.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// Looks at one interface, and notes who answered. A server on this host is told as what has the port.
async fn look_at((name, own): (&str, Ipv4Addr), xid: u32, racks: &Racks, first: bool) {
    let all = interfaces().unwrap_or_default();
    let Some(mac) = all.into_iter().find(|one| one.name == name).and_then(|one| one.mac) else {
        return;
    };
    let everyone = SocketAddrV4::new(Ipv4Addr::BROADCAST, SERVER_PORT);
    let binding = Binding::Interface(name.to_owned());
    let found = match UdpSocket::bind(&binding, CLIENT_PORT) {
        Ok(socket) => {
            ask(&socket, (everyone, own), mac, xid, |servers| {
                // Those of the last look may only be slower.
                let known = racks.other_servers(name);
                racks.set_other_servers(name, &known.union(servers).copied().collect());
            })
            .await
        }
        Err(error) => Err(error),
    };
    match found {
        Ok(servers) => racks.set_other_servers(name, &servers),
        // Said once: it is so for as long as the client runs.
        Err(error) if first => tracing::info!(
            %error, interface = name,
            "cannot look for other DHCP servers; as a rule a DHCP client of this node has port 68"
        ),
        Err(error) => tracing::debug!(%error, interface = name, "still cannot look"),
    }
}

/// Asks, and tells of each further server that offers an address; all of them at the end.
async fn ask(
    socket: &UdpSocket,
    (to, own): (SocketAddrV4, Ipv4Addr),
    mac: [u8; 6],
    xid: u32,
    tell: impl Fn(&BTreeSet<Ipv4Addr>),
) -> io::Result<BTreeSet<Ipv4Addr>> {
    socket.send(&discover(mac, xid), None, to).await?;
    let begun = Instant::now();
    let (mut servers, mut again, until) = (BTreeSet::new(), true, begun + LISTEN);
    let mut buffer = [0; DATAGRAM_MAX];
    loop {
        let next = if again { begun + ASK_AGAIN } else { until };
        let Ok(received) = timeout_at(next, socket.receive(&mut buffer)).await else {
            if !std::mem::take(&mut again) {
                break;
            }
            if servers.is_empty() {
                socket.send(&discover(mac, xid), None, to).await?;
            }
            continue;
        };
        let Datagram { len, source, .. } = received?;
        let Ok(packet) = Packet::decode(buffer.get(..len).unwrap_or_default()) else { continue };
        if is_offer(&packet, mac, xid) && servers.len() < NAMED_MAX {
            // By its address where it calls itself what no host is called.
            let server = packet.address(option::SERVER_ID).filter(is_host);
            let server = server.unwrap_or(*source.ip());
            if server != own && servers.insert(server) {
                tell(&servers);
            }
        }
    }
    Ok(servers)
}

fn is_offer(packet: &Packet, mac: [u8; 6], xid: u32) -> bool {
    let header = &packet.header;
    (header.op, header.xid, packet.mac()) == (BOOT_REPLY, xid, Some(mac))
        && packet.message_type() == Some(MessageType::Offer)
}

/// The DISCOVER of an agent.
fn discover(mac: [u8; 6], xid: u32) -> Vec<u8> {
    let mut bytes = vec![BOOT_REQUEST, ETHERNET, 6, 0];
    bytes.extend(xid.to_be_bytes());
    bytes.extend([0; 2]);
    bytes.extend(FLAG_BROADCAST.to_be_bytes());
    bytes.resize(HARDWARE_AT, 0);
    bytes.extend(mac);
    bytes.resize(FIXED_LEN, 0);
    bytes.extend(MAGIC_COOKIE);
    bytes.extend([option::MESSAGE_TYPE, 1, MessageType::Discover.code()]);
    let len = u8::try_from(PROBE_CLASS.len()).expect("the class is short");
    bytes.extend([option::VENDOR_CLASS, len]);
    bytes.extend(PROBE_CLASS);
    bytes.push(option::END);
    bytes.resize(MESSAGE_MIN, option::PAD);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dhcp::config::tests::sample;
    use crate::dhcp::{Arrival, Config, Effect, Engine, Ignored};

    const MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];

    fn offer(xid: u32, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = discover(MAC, xid);
        (bytes[0], bytes[242]) = (BOOT_REPLY, MessageType::Offer.code());
        bytes.truncate(243);
        bytes.extend([54, 4, 10, 69, 0, 9, 255]);
        change(&mut bytes);
        bytes
    }

    #[test]
    fn agents_do_not_answer_each_other() {
        let mut engine = Engine::new(Config { ranges: vec![sample()] }, []).unwrap();
        let packet = Packet::decode(&discover(MAC, 7)).unwrap();
        assert_eq!((packet.mac(), packet.header.xid), (Some(MAC), 7));
        assert_eq!(packet.header.flags, FLAG_BROADCAST);
        let arrival = Arrival {
            interface: sample().interface_address,
            source: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, CLIENT_PORT),
            destination: Ipv4Addr::BROADCAST,
        };
        assert_eq!(engine.handle(&packet, &arrival, 0), [Effect::Ignore(Ignored::Probe)]);
    }

    #[test]
    fn only_offers_to_us_count() {
        for (change, counts) in [
            ((|_| ()) as fn(&mut Vec<u8>), true),
            (|bytes| bytes[0] = BOOT_REQUEST, false),
            (|bytes| bytes[7] = 8, false),
            (|bytes| bytes[33] = 2, false),
            (|bytes| bytes[242] = MessageType::Ack.code(), false),
        ] {
            let packet = Packet::decode(&offer(7, change)).unwrap();
            assert_eq!(is_offer(&packet, MAC, 7), counts, "{packet:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_answers_is_named() {
        let bind = || UdpSocket::bind(&Binding::Address(Ipv4Addr::LOCALHOST), 0).unwrap();
        let (socket, server) = (bind(), bind());
        let to = server.local_addr().unwrap();
        let tasks = Tasks::new();
        tasks.spawn("server", async move {
            let mut buffer = [0; DATAGRAM_MAX];
            let asked = server.receive(&mut buffer).await.unwrap();
            for bytes in [b"nonsense".to_vec(), offer(6, |_| ()), offer(7, |_| ())] {
                server.send(&bytes, None, asked.source).await.unwrap();
            }
        });
        let (told, mut named) = tokio::sync::mpsc::channel(1);
        let tell = |servers: &BTreeSet<Ipv4Addr>| told.try_send(servers.clone()).unwrap();
        tokio::select! {
            _ = ask(&socket, (to, Ipv4Addr::new(10, 69, 0, 3)), MAC, 7, tell) => panic!("nobody was named"),
            servers = named.recv() => {
                assert_eq!(servers, Some([Ipv4Addr::new(10, 69, 0, 9)].into()));
            }
        }
        tasks.join().await;
    }
}
