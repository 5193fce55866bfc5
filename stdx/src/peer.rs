//! The other end of a Unix socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use nix::libc;

/// Groups that are asked for first: most users have fewer.
const GROUPS_FIRST: usize = 32;
/// Groups of one process at most (Linux, `NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;

/// The supplementary groups that the process had when it connected (unix(7), `SO_PEERGROUPS`): those by
/// which the kernel let it in.
///
/// # Errors
/// The system does not tell.
pub fn groups(stream: &impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; GROUPS_FIRST];
    loop {
        let room = groups.len() * size_of::<libc::gid_t>();
        let mut bytes = libc::socklen_t::try_from(room).map_err(io::Error::other)?;
        let fd = stream.as_fd().as_raw_fd();
        let list = groups.as_mut_ptr().cast();
        #[expect(unsafe_code, reason = "no library offers this option")]
        // SAFETY: `list` has room for `bytes` bytes, and both live for the call.
        let done = unsafe {
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, list, &raw mut bytes)
        };
        let told = usize::try_from(bytes).map_err(io::Error::other)? / size_of::<libc::gid_t>();
        if done == 0 {
            groups.truncate(told);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        // It says how much room it wants.
        if error.raw_os_error() != Some(libc::ERANGE) || told <= groups.len() || told > GROUPS_MAX {
            return Err(error);
        }
        groups.resize(told, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_groups_of_this_process_are_those_of_its_sockets() {
        let (one, _other) = UnixStream::pair().unwrap();
        let mut own: Vec<u32> =
            nix::unistd::getgroups().unwrap().iter().map(|g| g.as_raw()).collect();
        let mut told = groups(&one).unwrap();
        own.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, own);
    }
}
