//! The traffic of a client, as `tcpdump` sees it at the client's interface.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tests::run::wait_for;
use xtask::guest::wires::{HOST_INTERFACE, within};

use crate::lan::{AGENT, PATIENCE, program};

/// The words of `tcpdump` once it captures.
const BEGUN: &str = "listening on";

/// A capture that runs, until it is dropped.
#[derive(Debug)]
pub(crate) struct Capture {
    child: Child,
    seen: PathBuf,
}

/// One DHCP message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Message {
    /// `Discover`, `Request`, `ACK`, …
    pub(crate) kind: String,
    /// Address that it was sent to.
    pub(crate) to: String,
    /// The address that its sender uses.
    pub(crate) client: Option<String>,
    /// Option 50.
    pub(crate) requested: Option<String>,
    /// Option 54.
    pub(crate) server: Option<String>,
}

impl Message {
    /// A client that comes back and asks whether its address is still its own.
    pub(crate) fn is_init_reboot(&self) -> bool {
        let asks = self.kind == "Request" && self.requested.is_some();
        asks && self.server.is_none() && self.client.is_none()
    }

    /// A client that asks the server itself to prolong its lease.
    pub(crate) fn is_renewal_at(&self, server: &str) -> bool {
        self.kind == "Request" && self.client.is_some() && self.to == server
    }
}

impl Capture {
    /// Begins to look at the interface of a namespace, into a file `NAME` in a directory.
    pub(crate) fn start(namespace: &str, dir: &std::path::Path, name: &str) -> Self {
        let (seen, errors) = (dir.join(name), dir.join(format!("{name}.err")));
        let mut tcpdump = Command::new(program("tcpdump"));
        tcpdump.args(["-i", HOST_INTERFACE, "-n", "-l", "-v", "--immediate-mode"]);
        // An agent that looks for other servers asks as a client, from its own address.
        let looks = format!("src host {AGENT} and src port 68");
        let filter = format!("udp and (port 67 or port 68) and not ({looks})");
        tcpdump.args(["-Z", "root"]).arg(filter);
        let mut inside = within(namespace, &tcpdump);
        inside.stdin(Stdio::null()).stdout(File::create(&seen).unwrap());
        let child = inside.stderr(File::create(&errors).unwrap()).spawn().unwrap();
        wait_for("tcpdump", PATIENCE, || {
            std::fs::read_to_string(&errors).unwrap().contains(BEGUN).then_some(())
        });
        Self { child, seen }
    }

    /// All messages so far.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let text = std::fs::read(&self.seen).unwrap();
        messages(&String::from_utf8_lossy(&text))
    }

    /// Waits until a message was seen behind the first `passed`; gives how many there were then.
    pub(crate) fn wait_for(
        &self,
        what: &str,
        passed: usize,
        is_it: impl Fn(&Message) -> bool,
    ) -> usize {
        wait_for(what, PATIENCE, || {
            let messages = self.messages();
            let at = messages.iter().skip(passed).position(&is_it)?;
            Some(passed + at + 1)
        })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A message begins with a line that is not indented; the last one may not be whole yet, and counts as
/// soon as it has its type.
fn messages(text: &str) -> Vec<Message> {
    let mut found: Vec<Message> = Vec::new();
    for line in text.lines() {
        if !line.starts_with([' ', '\t']) {
            found.push(Message::default());
            continue;
        }
        let Some(message) = found.last_mut() else { continue };
        let line = line.trim();
        let value = || line.rsplit(' ').next().map(str::to_owned);
        if let Some((_, to)) = line.split_once(" > ") {
            let end = to.split(':').next().unwrap_or_default();
            message.to = end.rsplit_once('.').map_or(end, |(address, _)| address).to_owned();
        } else if line.starts_with("DHCP-Message") {
            message.kind = value().unwrap_or_default();
        } else if line.starts_with("Client-IP") {
            message.client = value();
        } else if line.starts_with("Requested-IP") {
            message.requested = value();
        } else if line.starts_with("Server-ID") {
            message.server = value();
        }
    }
    found.retain(|message| !message.kind.is_empty());
    found
}

#[test]
fn what_tcpdump_prints_is_read() {
    let text = "\
12:00:00.000000 IP (tos 0x10, ttl 128, id 0, offset 0, flags [none], proto UDP (17), length 328)
    0.0.0.0.68 > 255.255.255.255.67: BOOTP/DHCP, Request from 52:54:00:aa:bb:01, length 300
\t  Client-Ethernet-Address 52:54:00:aa:bb:01
\t  Vendor-rfc1048 Extensions
\t    Magic Cookie 0x63825363
\t    DHCP-Message (53), length 1: Request
\t    Requested-IP (50), length 4: 10.69.0.32
12:00:00.100000 IP (tos 0x10, ttl 128, id 0, offset 0, flags [none], proto UDP (17), length 328)
    10.69.0.32.68 > 10.69.0.3.67: BOOTP/DHCP, Request from 52:54:00:aa:bb:01, length 300
\t  Client-IP 10.69.0.32
\t    DHCP-Message (53), length 1: Request
";
    let [first, second] = &messages(text)[..] else { panic!("{:?}", messages(text)) };
    assert!(first.is_init_reboot() && !first.is_renewal_at("10.69.0.3"), "{first:?}");
    assert!(second.is_renewal_at("10.69.0.3") && !second.is_init_reboot(), "{second:?}");
}
