//! Interfaces whose frames come from a program and go to it: the cards of virtual machines.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

use nix::libc;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `TUNSETIFF` (`linux/if_tun.h`): makes the interface of this descriptor.
const SET_INTERFACE: Opcode = opcode::write::<libc::c_int>(b'T', 202);
/// Longest name of an interface, without the zero at its end.
pub const NAME_BYTES_MAX: usize = 15;

/// `struct ifreq` (`linux/if.h`), as far as `TUNSETIFF` reads it.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES_MAX + 1],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// Makes the interface `name`, with a descriptor for each of its queues. It lives as long as one of them is
/// open. Needs `CAP_NET_ADMIN`, and `/dev/net/tun`.
///
/// # Errors
/// The name is too long or in use, or the system says no.
pub fn open(name: &str, queues: usize, with_headers: bool) -> io::Result<Vec<File>> {
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI;
    if with_headers {
        flags |= libc::IFF_VNET_HDR;
    }
    if queues > 1 {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    (0..queues.max(1)).map(|_| queue(name, flags)).collect()
}

fn queue(name: &str, flags: libc::c_int) -> io::Result<File> {
    if name.len() > NAME_BYTES_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidFilename));
    }
    let mut request = Request { name: [0; 16], flags: 0, rest: [0; 22] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    request.flags = libc::c_short::try_from(flags).map_err(io::Error::other)?;
    let flags = libc::O_NONBLOCK;
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/net/tun")?;
    // SAFETY: the kernel reads and writes one `struct ifreq`, of 40 bytes, at the address of the value that
    // `Setter` holds for the length of the call; `Request` has that layout.
    #[expect(unsafe_code, reason = "no library that we use has this ioctl")]
    unsafe {
        ioctl(&file, Setter::<SET_INTERFACE, Request>::new(request))?;
    }
    Ok(file)
}
