//! Which process has a UDP port of this machine (of this network namespace), as `/proc` tells.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use nix::unistd::{Uid, User};

/// The tables of UDP sockets. They are those of the thread's network namespace.
const TABLES: [&str; 2] = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
/// Entries of `/proc` that are looked at: several times the processes of a node.
const PROCESSES_MAX: usize = 32_768;
/// Open files of one process that are looked at: a DHCP server has a dozen.
const FILES_MAX: usize = 4_096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortOwner {
    /// The process, where this one may see it.
    pub process: Option<Process>,
    pub user: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    pub name: String,
    /// The unit of systemd that it belongs to.
    pub unit: Option<String>,
}

impl fmt::Display for PortOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Process { pid, name, unit }) = &self.process else {
            return write!(f, "a process of the user {}", self.user);
        };
        write!(f, "{name} (process {pid}")?;
        if let Some(unit) = unit {
            write!(f, ", {unit}")?;
        }
        write!(f, ")")
    }
}

/// A socket, as the table has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketLine {
    uid: u32,
    inode: u64,
}

/// The process that has UDP port `port`, if it is another one than this; none where `/proc` does not
/// tell. Reads many small files.
pub fn udp_owner(port: u16) -> Option<PortOwner> {
    let tables = TABLES.iter().filter_map(|path| fs::read_to_string(path).ok());
    let sockets: Vec<SocketLine> = tables.flat_map(|table| sockets_at(&table, port)).collect();
    let processes: Vec<u32> = numbers(Path::new("/proc"), PROCESSES_MAX);
    let mut unseen = None;
    for SocketLine { uid, inode } in sockets {
        let link = format!("socket:[{inode}]");
        let has = |pid: &&u32| has_open(**pid, &link);
        let user = user(uid);
        match processes.iter().find(has) {
            Some(pid) if *pid == std::process::id() => {}
            Some(pid) => return Some(PortOwner { process: Some(process(*pid)), user }),
            None => unseen = unseen.or(Some(PortOwner { process: None, user })),
        }
    }
    unseen
}

/// The sockets that have a local port, by the kernel's table (proc_net_udp in its documentation).
fn sockets_at(table: &str, port: u16) -> Vec<SocketLine> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_number, local, _remote, _state, _queues, _timer, _again, uid, _probes, inode, ..] =
            words.as_slice()
        else {
            return None;
        };
        let (_address, local) = local.rsplit_once(':')?;
        let local = u16::from_str_radix(local, 16).ok()?;
        let socket = SocketLine { uid: uid.parse().ok()?, inode: inode.parse().ok()? };
        (local == port).then_some(socket)
    };
    table.lines().filter_map(line).collect()
}

/// The entries of a directory that are numbers.
fn numbers(directory: &Path, most: usize) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().take(most);
    let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    entries.filter_map(name).collect()
}

fn has_open(pid: u32, link: &str) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().take(FILES_MAX);
    let target = |entry: io::Result<fs::DirEntry>| fs::read_link(entry.ok()?.path()).ok();
    files.filter_map(target).any(|target| target.as_os_str() == link)
}

fn process(pid: u32) -> Process {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let unit = unit(&read("cgroup"));
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // Whatever started this process as well is not what has to end.
    let unit = unit.filter(|unit| self::unit(&own).as_ref() != Some(unit));
    Process { pid, name: read("comm").trim().to_owned(), unit }
}

/// The unit of the system's own services, by a process's control groups.
fn unit(groups: &str) -> Option<String> {
    let services = groups.lines().filter_map(|line| line.split_once("/system.slice/"));
    let mut names = services.filter_map(|(_, path)| path.split('/').next());
    names.find(|name| name.ends_with(".service")).map(str::to_owned)
}

fn user(uid: u32) -> String {
    let found = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    found.map_or_else(|| uid.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::process::{Command, Stdio};

    use super::*;

    const TABLE: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  512: 00000000:0043 00000000:0000 07 00000000:00000000 00:00000000 00000000   104        0 12345 2 0000000000000000 0
  513: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 12346 2 0000000000000000 0
  nonsense
";

    #[test]
    fn the_table_is_read_by_port() {
        assert_eq!(sockets_at(TABLE, 67), [SocketLine { uid: 104, inode: 12_345 }]);
        assert_eq!(sockets_at(TABLE, 53), [SocketLine { uid: 0, inode: 12_346 }]);
        assert_eq!(sockets_at(TABLE, 68), []);
    }

    #[test]
    fn units_are_those_of_the_system() {
        let dnsmasq = Some("dnsmasq.service".to_owned());
        assert_eq!(unit("0::/system.slice/dnsmasq.service\n"), dnsmasq);
        assert_eq!(unit("1:name=systemd:/system.slice/dnsmasq.service/sub\n0::/\n"), dnsmasq);
        for other in ["0::/", "0::/user.slice/user-0.slice/user@0.service/app.slice", ""] {
            assert_eq!(unit(other), None);
        }
    }

    #[test]
    fn another_process_is_named_and_this_one_is_not() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert_eq!(udp_owner(port), None);
        // It takes the socket over as its standard input, and waits for nothing.
        let input = Stdio::from(std::os::fd::OwnedFd::from(socket));
        let mut child = Command::new("sleep").arg("60").stdin(input).spawn().unwrap();
        let found = udp_owner(port);
        child.kill().unwrap();
        child.wait().unwrap();
        let process = found.expect("it has the port").process.expect("it is of this user");
        assert_eq!((process.pid, process.name.as_str()), (child.id(), "sleep"));
    }

    #[test]
    fn who_cannot_be_seen_is_told_by_its_user() {
        let user = "dnsmasq".to_owned();
        let mut owner = PortOwner { process: None, user };
        assert_eq!(owner.to_string(), "a process of the user dnsmasq");
        let (name, unit) = ("dnsmasq".to_owned(), Some("dnsmasq.service".to_owned()));
        owner.process = Some(Process { pid: 812, name, unit });
        assert_eq!(owner.to_string(), "dnsmasq (process 812, dnsmasq.service)");
    }
}
