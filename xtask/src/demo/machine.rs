//! A machine that boots: asks for a lease, through a relay of its own since that needs no
//! privilege, and fetches its boot script.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::time::Duration;

use model::MacAddress;
use socket2::{Domain, Socket, Type};

use crate::dhcp::{ACK, COOKIE, DISCOVER, HEADER, REQUEST, Reply, reply};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest boot script that is read.
const SCRIPT_BYTES_MAX: u64 = 64 * 1_024;
/// iPXE says so in option 77.
const USER_CLASS: [u8; 6] = [77, 4, b'i', b'P', b'X', b'E'];
/// Of the relay, option 82: answers go to the port that it asked from, RFC 8357.
const SOURCE_PORT: [u8; 4] = [82, 2, 19, 0];
const REQUESTED_ADDRESS: u8 = 50;
const MESSAGE_TYPE: u8 = 53;
const SERVER_ID: u8 = 54;
const END: u8 = 255;

/// A simulated machine.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Address of its relay, in the rack's network.
    pub relay: Ipv4Addr,
    /// The address at which the agent takes DHCP.
    pub server: SocketAddrV4,
}

/// The lease of a machine.
#[derive(Debug, Clone)]
pub struct Lease {
    /// Its address.
    pub address: Ipv4Addr,
    /// The URL of its boot script.
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
        let Reply { address, server, .. } = self.ask(&socket, DISCOVER, &[])?;
        let chosen = [(REQUESTED_ADDRESS, address), (SERVER_ID, server)];
        let answer = self.ask(&socket, REQUEST, &chosen)?;
        if answer.kind != ACK {
            let why = format!("a message of type {} instead of an ACK", answer.kind);
            return Err(io::Error::other(why));
        }
        Ok(Lease { address, boot_file: answer.boot_file })
    }

    fn ask(&self, socket: &UdpSocket, kind: u8, options: &[(u8, Ipv4Addr)]) -> io::Result<Reply> {
        socket.send_to(&self.packet(kind, options), self.server)?;
        let mut buffer = [0; 1_500];
        let length = socket.recv(&mut buffer)?;
        let answer = buffer.get(..length).unwrap_or_default();
        reply(answer).ok_or_else(|| io::Error::other("what was answered is no message of DHCP"))
    }

    fn packet(&self, kind: u8, options: &[(u8, Ipv4Addr)]) -> Vec<u8> {
        let mut packet = vec![0; HEADER];
        // A request (1) over Ethernet (1) with addresses of 6 bytes, after one hop.
        packet[..4].copy_from_slice(&[1, 1, 6, 1]);
        packet[4..8].copy_from_slice(&self.mac.bytes()[2..]);
        packet[24..28].copy_from_slice(&self.relay.octets());
        packet[28..34].copy_from_slice(&self.mac.bytes());
        packet[236..].copy_from_slice(&COOKIE);
        packet.extend([MESSAGE_TYPE, 1, kind]);
        packet.extend(USER_CLASS);
        for (code, value) in options {
            packet.extend([*code, 4]);
            packet.extend(value.octets());
        }
        packet.extend(SOURCE_PORT);
        packet.push(END);
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
