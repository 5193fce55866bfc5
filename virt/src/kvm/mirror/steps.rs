//! Core: the nodes of a mirrored disk in QEMU, the state of its other copy, and the commands that change it.
//!
//! A guest writes to a `quorum` of two children, which both have to take a write. The first one is its own
//! file. The second one is the other copy, or a stub that swallows writes and fails reads. While there is a
//! stub, a bitmap at the own file notes what the other copy lacks.

use std::collections::{BTreeMap, BTreeSet};

use model::instance::launch::CopyState;
use model::{NodeName, Uuid};
use serde_json::{Value, json};

use crate::kvm::parts::{
    file_name, local_name, node_name, quorum_name, replicas_begin, stub, stub_name,
};

/// The bitmap that notes changes while all of a copy is written. It says nothing of a copy that was not
/// written to the end.
const FILLING: &str = "filling";
/// The begin of the name of a bitmap; the node whose copy lacks what it notes follows.
const BEHIND: &str = "behind:";
/// Bytes of which a bitmap notes that one was written: what a pass copies at least, and 2 MiB of memory for
/// each TiB of the disk.
const GRANULARITY: u64 = 64 << 10;
/// Commands that not every QEMU has: they are marked as unstable, or came late.
pub(super) const COMMANDS: [&str; 3] = ["x-blockdev-change", "x-debug-query-block-graph", "yank"];

/// A command for QEMU.
pub(super) type Command = (&'static str, Value);

/// A new name for the content of the other copy. No two are the same, as QEMU may tell late of an old one.
pub(super) fn replica_name(disk: Uuid) -> String {
    let random = Uuid::new_v4().as_u128() & 0xff_ffff;
    format!("{}{random:06x}", replicas_begin(disk))
}

/// The job that fills the other copy of a disk.
pub(super) fn job(disk: Uuid) -> String {
    format!("fill-{disk}")
}

/// A bitmap at the own copy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bitmap {
    name: String,
    /// The bytes that it notes.
    count: u64,
}

/// Whether a node that QEMU complains of is the own copy of a disk, or lies below it.
pub(super) fn is_own(disk: Uuid, node: &str) -> bool {
    [local_name(disk), file_name(&node_name(disk))].iter().any(|own| own == node)
}

/// A mirrored disk, as QEMU has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    disk: Uuid,
    /// The children of its quorum: their places, and their nodes.
    children: Vec<(String, String)>,
    /// The nodes of other copies, each with its size in bytes.
    replicas: BTreeMap<String, u64>,
    has_stub: bool,
    bitmaps: Vec<Bitmap>,
    /// Its size in bytes.
    bytes: u64,
}

/// A disk by the answers to `x-debug-query-block-graph` and `query-named-block-nodes`; none where they are
/// no such answers, or have no such disk.
pub(super) fn view(disk: Uuid, graph: &Value, nodes: &Value) -> Option<View> {
    let names: BTreeMap<u64, &str> = graph["nodes"]
        .as_array()?
        .iter()
        .filter_map(|node| Some((node["id"].as_u64()?, node["name"].as_str()?)))
        .collect();
    let quorum = quorum_name(disk);
    let children = graph["edges"].as_array()?.iter().filter_map(|edge| {
        let name = |end: &str| names.get(&edge[end].as_u64()?).copied();
        let place = edge["name"].as_str().filter(|place| place.starts_with("children."))?;
        (name("parent")? == quorum).then(|| Some((place.to_owned(), name("child")?.to_owned())))?
    });
    let children: Vec<(String, String)> = children.collect();
    let nodes = nodes.as_array()?;
    let (local, begin) = (local_name(disk), replicas_begin(disk));
    let own = nodes.iter().find(|node| node["node-name"] == local.as_str())?;
    let replicas = nodes.iter().filter_map(|node| {
        let name = node["node-name"].as_str().filter(|name| name.starts_with(&begin))?;
        Some((name.to_owned(), node["image"]["virtual-size"].as_u64().unwrap_or_default()))
    });
    let bitmaps = own["dirty-bitmaps"].as_array().into_iter().flatten().filter_map(|bitmap| {
        let name = bitmap["name"].as_str()?.to_owned();
        Some(Bitmap { name, count: bitmap["count"].as_u64()? })
    });
    let view = View {
        disk,
        children,
        replicas: replicas.collect(),
        has_stub: nodes.iter().any(|node| node["node-name"] == stub_name(disk).as_str()),
        bitmaps: bitmaps.collect(),
        bytes: own["image"]["virtual-size"].as_u64()?,
    };
    // The own copy never leaves, and something is always beside it.
    (view.children.len() >= 2).then_some(view)
}

/// The commands that fill a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fill {
    /// Whether all of it is written first.
    pub(super) is_whole: bool,
    /// The bitmap by which a pass goes.
    pub(super) bitmap: String,
    /// The commands before the first one.
    pub(super) first: Vec<Command>,
}

impl View {
    fn in_quorum(&self) -> impl Iterator<Item = &(String, String)> {
        let begin = replicas_begin(self.disk);
        self.children.iter().filter(move |(_, node)| node.starts_with(&begin))
    }

    fn stubs(&self) -> impl Iterator<Item = &(String, String)> {
        let stub = stub_name(self.disk);
        self.children.iter().filter(move |(_, node)| *node == stub)
    }

    /// The other copy that the guest writes.
    pub(super) fn other(&self) -> Option<&str> {
        self.in_quorum().map(|(_, node)| node.as_str()).next()
    }

    /// Refuses a copy of another size.
    ///
    /// # Errors
    /// It has one; the text says so.
    pub(super) fn fits(&self, replica: &str) -> Result<(), String> {
        match self.replicas.get(replica) {
            Some(bytes) if *bytes == self.bytes => Ok(()),
            Some(bytes) => {
                let own = self.bytes;
                Err(format!("it has {bytes} bytes, and the disk as its guest knows it has {own}"))
            }
            None => Err("QEMU does not tell its size".to_owned()),
        }
    }

    /// How the other copy stands, that stood as it `was`; `bad` are the nodes that QEMU complained of.
    ///
    /// QEMU complains once. A copy that was lost is so until it is taken out.
    pub(super) fn state(
        &self,
        bad: &BTreeMap<String, String>,
        was: Option<&CopyState>,
        is_filling: bool,
    ) -> CopyState {
        let complaint = self.in_quorum().find_map(|(_, node)| bad.get(node));
        match (self.other(), complaint) {
            (Some(_), Some(why)) => CopyState::Lost(why.clone()),
            // There is a stub beside it: whoever put one of them in will take the other one out.
            (Some(_), None) if self.stubs().next().is_some() => CopyState::Alone,
            (Some(_), None) => match was {
                Some(lost @ CopyState::Lost(_)) => lost.clone(),
                _ => CopyState::InStep,
            },
            (None, _) if is_filling => CopyState::Filling,
            (None, _) => CopyState::Alone,
        }
    }

    /// The bytes that the copy lacks, as far as a bitmap notes them.
    pub(super) fn lacks(&self, bitmap: &str) -> Option<u64> {
        let found = self.bitmaps.iter().find(|one| one.name == bitmap);
        found.map(|bitmap| bitmap.count)
    }

    fn change(&self, what: &str, node: &str) -> Command {
        let mut arguments = json!({"parent": quorum_name(self.disk)});
        arguments[what] = node.into();
        ("x-blockdev-change", arguments)
    }

    fn bitmap(&self, command: &'static str, name: &str) -> Command {
        let mut arguments = json!({"node": local_name(self.disk), "name": name});
        if command == "block-dirty-bitmap-add" {
            arguments["granularity"] = GRANULARITY.into();
        }
        (command, arguments)
    }

    /// The commands that have the guest go on with its own copy alone. The copy that it wrote until then is
    /// that of the node `of`.
    ///
    /// The bitmap comes first: what the other copy lacks is noted from before the guest writes alone.
    pub(super) fn detach(&self, of: Option<&NodeName>) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.in_quorum().next().is_none() {
            return commands;
        }
        // A bitmap that is there notes at least what is wanted, where it is about the same copy.
        let wanted = of.map_or_else(|| FILLING.to_owned(), |node| format!("{BEHIND}{node}"));
        if self.lacks(&wanted).is_none() {
            commands.push(self.bitmap("block-dirty-bitmap-add", &wanted));
        }
        let old = self.bitmaps.iter().filter(|bitmap| bitmap.name != wanted);
        commands.extend(old.map(|old| self.bitmap("block-dirty-bitmap-remove", &old.name)));
        if !self.has_stub {
            commands.push(("blockdev-add", stub(self.disk, self.bytes)));
        }
        if self.stubs().next().is_none() {
            commands.push(self.change("node", &stub_name(self.disk)));
        }
        commands.extend(self.in_quorum().map(|(place, _)| self.change("child", place)));
        commands
    }

    /// The commands that have its connection fail at once, whatever it waits for.
    pub(super) fn yank(&self) -> Vec<Command> {
        let yank = |node: &String| {
            let place = json!({"type": "block-node", "node-name": node});
            ("yank", json!({"instances": [place]}))
        };
        self.replicas.keys().map(yank).collect()
    }

    /// The commands that close copies which the guest does not write.
    pub(super) fn close(&self) -> Vec<Command> {
        let used: BTreeSet<&String> = self.in_quorum().map(|(_, node)| node).collect();
        let loose = self.replicas.keys().filter(|name| !used.contains(name));
        loose.map(|name| ("blockdev-del", json!({"node-name": name}))).collect()
    }

    /// The commands that have a guest which stands still write to a copy that lacks nothing.
    pub(super) fn swap(&self, replica: &str) -> Vec<Command> {
        let mut commands = vec![self.change("node", replica)];
        commands.extend(self.stubs().map(|(place, _)| self.change("child", place)));
        let bitmaps = self.bitmaps.iter();
        commands.extend(bitmaps.map(|one| self.bitmap("block-dirty-bitmap-remove", &one.name)));
        commands.push(("blockdev-del", json!({"node-name": stub_name(self.disk)})));
        commands
    }

    /// Whether somebody ended between two steps: the other copy is beside its stub.
    pub(super) fn is_half_done(&self) -> bool {
        self.other().is_some() && self.stubs().next().is_some()
    }

    /// The begin of filling the copy of a node: by what is known of it, or all of it.
    pub(super) fn fill(&self, node: &NodeName, is_new: bool) -> Fill {
        let known = format!("{BEHIND}{node}");
        if !is_new && self.lacks(&known).is_some() {
            return Fill { is_whole: false, bitmap: known, first: Vec::new() };
        }
        let old = self.bitmaps.iter();
        let mut first: Vec<Command> =
            old.map(|old| self.bitmap("block-dirty-bitmap-remove", &old.name)).collect();
        first.push(self.bitmap("block-dirty-bitmap-add", FILLING));
        Fill { is_whole: true, bitmap: FILLING.to_owned(), first }
    }

    /// A pass that copies to `replica`: by a bitmap, or all.
    pub(super) fn pass(&self, replica: &str, bitmap: Option<&str>) -> Command {
        let mut backup = json!({"job-id": job(self.disk), "device": local_name(self.disk),
            "target": replica, "sync": "full", "auto-dismiss": false});
        if let Some(bitmap) = bitmap {
            backup["sync"] = "bitmap".into();
            backup["bitmap"] = bitmap.into();
            // It notes afterwards what was written meanwhile, and what was not copied.
            backup["bitmap-mode"] = "always".into();
        }
        ("blockdev-backup", backup)
    }
}

/// A pass, by the answer to `query-jobs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) is_over: bool,
    pub(super) error: Option<String>,
    pub(super) done: u64,
    pub(super) all: u64,
}

/// The pass that fills the copy of a disk; none where QEMU has none.
pub(super) fn pass(jobs: &Value, disk: Uuid) -> Option<Pass> {
    let id = job(disk);
    let found = jobs.as_array()?.iter().find(|job| job["id"] == id.as_str())?;
    Some(Pass {
        is_over: found["status"] == "concluded",
        error: found["error"].as_str().map(str::to_owned),
        done: found["current-progress"].as_u64().unwrap_or_default(),
        all: found["total-progress"].as_u64().unwrap_or_default(),
    })
}

/// The commands of [`COMMANDS`] that a QEMU lacks, by the answer to `query-commands`.
pub(super) fn lacking(told: &Value) -> Option<Vec<&'static str>> {
    let all: BTreeSet<&str> =
        told.as_array()?.iter().filter_map(|command| command["name"].as_str()).collect();
    Some(COMMANDS.into_iter().filter(|command| !all.contains(command)).collect())
}

#[cfg(test)]
mod tests;
