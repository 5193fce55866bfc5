//! A machine that boots: asks for a lease, through a relay of its own since that needs no
//! privilege, and fetches its boot script.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::time::Duration;

use model::MacAddress;
use netboot::dhcp::packet::{MessageType, Packet, option};
use socket2::{Domain, Socket, Type};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest boot script that is read.
const SCRIPT_BYTES_MAX: u64 = 64 * 1_024;
/// Length of the fixed part of a DHCP packet, RFC 2131 section 2.
const HEADER_BYTES: usize = 236;
const MAGIC_COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Answers go to the port that the relay asked from, RFC 8357.
const SOURCE_PORT: [u8; 2] = [option::RELAY_SOURCE_PORT, 0];

/// A simulated machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Address of its relay, in the rack's network.
    pub relay: Ipv4Addr,
    /// Where the agent takes DHCP.
    pub server: SocketAddrV4,
}

/// What a machine was given.
#[derive(Debug, Clone)]
pub struct Lease {
    /// Its address.
    pub address: Ipv4Addr,
    /// Where its boot script is.
    pub boot_file: String,
}

impl Machine {
    /// DISCOVER, OFFER, REQUEST, ACK.
    ///
    /// # Errors
    /// The socket failed, or the agent did not answer as it should.
    pub fn lease(&self) -> io::Result<Lease> {
        let socket = UdpSocket::bind((self.relay, 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let offer = self.ask(&socket, MessageType::Discover, &[])?;
        let address = offer.header.yiaddr;
        let server = offer.option(option::SERVER_ID).unwrap_or_default().to_vec();
        let chosen =
            [(option::REQUESTED_ADDRESS, address.octets().to_vec()), (option::SERVER_ID, server)];
        let ack = self.ask(&socket, MessageType::Request, &chosen)?;
        if ack.message_type() != Some(MessageType::Ack) {
            return Err(io::Error::other(format!("{:?} instead of an ACK", ack.message_type())));
        }
        let boot_file = ack.option(option::BOOT_FILE).unwrap_or_default();
        let boot_file = String::from_utf8_lossy(boot_file).into_owned();
        Ok(Lease { address, boot_file })
    }

    fn ask(
        &self,
        socket: &UdpSocket,
        kind: MessageType,
        options: &[(u8, Vec<u8>)],
    ) -> io::Result<Packet> {
        socket.send_to(&self.packet(kind, options), self.server)?;
        let mut buffer = [0; 1_500];
        let length = socket.recv(&mut buffer)?;
        let answer = buffer.get(..length).unwrap_or_default();
        Packet::decode(answer).map_err(|error| io::Error::other(error.to_string()))
    }

    fn packet(&self, kind: MessageType, options: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut packet = vec![0; HEADER_BYTES];
        // A request (1) over Ethernet (1) with addresses of 6 bytes, after one hop.
        packet[..4].copy_from_slice(&[1, 1, 6, 1]);
        packet[4..8].copy_from_slice(&self.mac.bytes()[2..]);
        packet[24..28].copy_from_slice(&self.relay.octets());
        packet[28..34].copy_from_slice(&self.mac.bytes());
        packet.extend(MAGIC_COOKIE);
        packet.extend([option::MESSAGE_TYPE, 1, kind as u8, option::USER_CLASS, 4]);
        packet.extend(b"iPXE");
        for (code, value) in options {
            let length = u8::try_from(value.len()).unwrap_or(u8::MAX);
            packet.extend([*code, length]);
            packet.extend(value);
        }
        packet.extend([option::RELAY_AGENT, 2]);
        packet.extend(SOURCE_PORT);
        packet.push(option::END);
        packet
    }
}

/// Fetches `path` from a boot server over HTTP, from the address `from`; gives the body.
///
/// # Errors
/// The server is not reached, or does not answer 200.
pub fn fetch(from: Ipv4Addr, server: SocketAddrV4, path: &str) -> io::Result<String> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddrV4::new(from, 0).into())?;
    socket.connect_timeout(&server.into(), PATIENCE)?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(SCRIPT_BYTES_MAX).read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 2") => Ok(body.to_owned()),
        _ => Err(io::Error::other(answer.lines().next().unwrap_or("no answer").to_owned())),
    }
}
