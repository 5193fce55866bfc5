//! Agents in their hundreds, in one process, as nodes of a cluster.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{ClusterError, Nodes};
use crate::programs;

/// The package with the example that is many agents, and its name.
const CROWD: (&str, &str) = ("noded", "crowd");
/// The beginning of the line in which it tells why it ends.
const COMPLAINT: &str = "crowd: ";
/// First numbers of its agents' addresses: those of other nodes end below.
const NETWORK: u8 = 251;
/// Addresses that one run has for them.
const ADDRESSES: u32 = 1_024;
/// Nodes that are added at the same time.
const ADDED_AT_ONCE: usize = 4;
/// How long many agents may take to come up, on two cores.
const UP_WITHIN: Duration = Duration::from_secs(300);

impl Nodes {
    /// Starts agents with these numbers in a process of their own, and adds each as a node, as an
    /// operator does; gives how long the adding took.
    ///
    /// # Errors
    /// One of them does not come up, or is not taken in.
    pub fn add_crowd(&self, first: u32, count: u32) -> Result<Duration, ClusterError> {
        let master = self.node(0);
        let name = format!("crowd-{first}");
        let dir = master.stage.root().join(&name);
        let mut crowd = Command::new(programs::example(CROWD.0, CROWD.1, &[])?);
        crowd.arg("--dir").arg(&dir).args(["--network", &network().to_string()]);
        crowd.args(["--first", &first.to_string(), "--count", &count.to_string()]);
        master.stage.start(&name, crowd)?;
        let printed = master.stage.root().join(format!("{name}.out"));
        let wanted = usize::try_from(count).unwrap_or(usize::MAX);
        let up = || tokens(&printed).len() == wanted;
        master.stage.wait_until("agents that wait for their master", UP_WITHIN, up)?;
        let tokens = tokens(&printed);
        let begun = Instant::now();
        let added = std::thread::scope(|scope| {
            let share = tokens.len().div_ceil(ADDED_AT_ONCE);
            let add = |some: &[(String, String)]| {
                some.iter().try_for_each(|(node, token)| {
                    master.gnt(&["node", "add", node, "--secret", token]).map(drop)
                })
            };
            let adding: Vec<_> =
                tokens.chunks(share).map(|some| scope.spawn(move || add(some))).collect();
            adding.into_iter().try_for_each(|added| {
                let panicked = |_panic| ClusterError::Client("adding nodes panicked".to_owned());
                added.join().map_err(panicked)?
            })
        });
        let told = |error| match complaint(&printed) {
            Some(why) => ClusterError::Crowd { why, seen: Box::new(error) },
            None => error,
        };
        added.map_err(told).map(|()| begun.elapsed())
    }
}

/// Addresses that no other run of the bench has.
fn network() -> Ipv4Addr {
    let slot = std::process::id() % (u32::from(u16::MAX) / ADDRESSES);
    Ipv4Addr::from(u32::from(Ipv4Addr::new(127, NETWORK, 0, 0)) + slot * ADDRESSES)
}

/// Why the process of the agents ended, if it says so.
fn complaint(printed: &Path) -> Option<String> {
    let text = std::fs::read_to_string(printed).ok()?;
    text.lines().find_map(|line| line.strip_prefix(COMPLAINT)).map(str::to_owned)
}

/// Names and tokens of those who wait.
fn tokens(printed: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(printed).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let pairs = whole.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, token)| (name.to_owned(), token.to_owned())).collect()
}
