//! Makes the store of a machine without one of an export: the way back when no candidate has its
//! store any more. Like [`crate::store::bootstrap`], a change that is no job.
//!
//! Everything is verified before anything is written. The documents that make a cluster of the store
//! are written last: an import that was interrupted leaves what the next one removes.

pub mod adapt;
mod error;
mod fill;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use model::layout::Layout;
use model::{NodeName, Secret, Timestamp, document};
use queue_format::Key;
use queue_format::store::{ASIDE, AtRest, wipe};
use rpc::calls::{AllowList, Caller, Membership};
use rpc::identity::{Authority, IdentityError, NodeIdentity, load_membership, store_membership};

use crate::store::bootstrap::{self, InitError};
use crate::store::export::manifest::{Manifest, Secrets};
use crate::store::export::read::{ReadError, Reader};
use crate::store::lock;
use adapt::{Gathered, Plan, Unfit};
pub use error::ImportError;
use fill::{fill, key};

/// Entries of the data directory that are not the store's.
const NEIGHBOURS: [&str; 4] = ["node", "ssconf", ASIDE, "lost+found"];

/// An operator's parameters for an import.
#[derive(Debug, Clone)]
pub struct Import {
    /// The export.
    pub file: PathBuf,
    /// Which node of the cluster this machine is.
    pub node: NodeName,
    /// Size of the journal's segments, if not the usual one.
    pub segment_bytes: Option<u64>,
}

#[derive(Debug)]
pub struct Imported {
    /// The manifest of the export.
    pub manifest: Manifest,
    /// The node that this machine is.
    pub me: NodeName,
    pub documents: u64,
    /// Jobs that had not ended, and have failed.
    pub unfinished: u64,
    /// Other nodes, which are offline now.
    pub others: usize,
    /// Whether this machine has the certificate that it had.
    pub kept_identity: bool,
}

impl Imported {
    /// The message for the operator.
    pub fn told(&self) -> String {
        let Self { manifest, me, documents, unfinished, others, .. } = self;
        let mut lines = vec![format!(
            "Cluster {} is imported as it was at position {}: {documents} documents; its master is \
             {me}.",
            manifest.cluster_name, manifest.position
        )];
        if *unfinished > 0 {
            lines.push(format!(
                "{unfinished} jobs had not ended and have failed: what they did after the export is \
                 not known."
            ));
        }
        match (self.kept_identity, &manifest.secrets) {
            (true, _) => lines.push(format!(
                "This machine keeps its certificate. {others} other nodes are offline; bring each \
                 back with `gnt node modify --offline no NODE`."
            )),
            (false, Secrets::Sealed(_)) => lines.push(format!(
                "This machine has a new certificate, which the agents do not know: {others} other \
                 nodes are offline and have to be enrolled again (`noded enroll --again` there, \
                 `gnt node add --readd NODE --secret -` here)."
            )),
            (false, Secrets::Purged) => lines.push(format!(
                "Secrets were left out of the export, so the cluster has a new authority: {others} \
                 other nodes are offline, and every one has to be enrolled again (`noded enroll --again` \
                 there, `gnt node add --readd NODE --secret -` here)."
            )),
        }
        lines.push("Now start `masterd` and `noded` on this machine.".to_owned());
        lines.join("\n")
    }
}

/// Imports. `ask` gives the passphrase, where secrets are sealed.
///
/// # Errors
/// [`ImportError`]; whatever it says, nothing that was there before is lost, and it can be tried
/// again.
pub fn import(
    layout: &Layout,
    wanted: &Import,
    ask: impl FnOnce() -> std::io::Result<Option<Secret<String>>>,
    now: Timestamp,
) -> Result<Imported, ImportError> {
    let read = |error| ImportError::Read { path: wanted.file.clone(), error };
    let data = layout.data();
    refuse_store(&data)?;
    // A daemon that waits to be invited would meet a store that is not whole yet.
    let _alone = lock::take_if_there(layout).map_err(ImportError::Running)?;
    let mut reader = open(&wanted.file)?;
    let passphrase = match &reader.manifest().secrets {
        Secrets::Purged => None,
        Secrets::Sealed(_) => {
            let told = ask().map_err(ImportError::Passphrase)?;
            Some(told.ok_or_else(|| read(ReadError::Locked))?)
        }
    };
    let manifest = reader.manifest().clone();
    if let Some(passphrase) = passphrase {
        reader.unlock(&passphrase).map_err(read)?;
    }
    let sealer = reader.sealer();
    let (mut gathered, mut unfit) = (Gathered::default(), None);
    each(&mut reader, wanted, |key, content| {
        // Of a damaged file that is the first thing to know.
        if unfit.is_none() {
            unfit = gathered.take(&key, &content).err();
        }
        Ok(())
    })?;
    if let Some(unfit) = unfit {
        return Err(unfit.into());
    }
    let me = gathered.in_full(&wanted.node)?;
    let membership = membership(layout, &manifest, &me)?;
    let known = membership.as_ref().map(|membership| membership.epoch);
    let mut plan = gathered.plan(&manifest, &me, known, now)?;
    let authority = authority(&manifest, gathered.authority.as_ref(), now)?;

    make_room(&data, wanted)?;
    bootstrap::make_directories(layout)?;
    let kept_identity = take_identity(layout, &mut plan, &authority, membership, now)?;
    let mut reader = open(&wanted.file)?;
    reader.unlock_by(sealer);
    let filled = fill(&data, &plan, &authority.key(), wanted, |documents| {
        each(&mut reader, wanted, documents)
    });
    if let Err(error) = filled {
        wipe(&data)?;
        return Err(error);
    }
    bootstrap::give_to_users(layout)?;
    Ok(Imported {
        manifest,
        me,
        documents: gathered.documents,
        unfinished: gathered.unfinished,
        others: plan.others,
        kept_identity,
    })
}

fn open(path: &Path) -> Result<Reader<BufReader<File>>, ImportError> {
    let opened = File::open(path);
    let file = opened.map_err(|error| ImportError::Open { path: path.to_owned(), error })?;
    Reader::open(BufReader::new(file))
        .map_err(|error| ImportError::Read { path: path.to_owned(), error })
}

/// Gives all documents of an export to `take`; at the end, they were whole.
fn each(
    reader: &mut Reader<BufReader<File>>,
    wanted: &Import,
    mut take: impl FnMut(Key, Bytes) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    let read = |error| ImportError::Read { path: wanted.file.clone(), error };
    while let Some(chunk) = reader.next_chunk().map_err(read)? {
        chunk.into_iter().try_for_each(|(key, content)| take(key, content))?;
    }
    Ok(())
}

/// The membership that this machine has already, if it is of this cluster and for the node `me`.
fn membership(
    layout: &Layout,
    manifest: &Manifest,
    me: &NodeName,
) -> Result<Option<Membership>, ImportError> {
    let path = layout.membership();
    match load_membership(layout) {
        Err(IdentityError::NotEnrolled { .. }) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(Membership { node, cluster_name, cluster_uuid, .. })
            if cluster_uuid != manifest.cluster_uuid =>
        {
            Err(InitError::Member { path, node, cluster: cluster_name }.into())
        }
        Ok(Membership { node, .. }) if node != *me => Err(ImportError::OtherNode { path, node }),
        Ok(membership) => Ok(Some(membership)),
    }
}

/// The authority of the export, or a new one where its key was left out.
fn authority(
    manifest: &Manifest,
    key: Option<&Secret<String>>,
    now: Timestamp,
) -> Result<Authority, ImportError> {
    match key {
        None => Ok(Authority::create(&manifest.cluster_name, now)?),
        Some(key) => {
            Authority::assemble(manifest.authority.clone(), key)?.ok_or(ImportError::Authority)
        }
    }
}

/// Keeps the certificate of this machine where it is of this authority, or makes one; whether it was
/// kept.
fn take_identity(
    layout: &Layout,
    plan: &mut Plan,
    authority: &Authority,
    before: Option<Membership>,
    now: Timestamp,
) -> Result<bool, ImportError> {
    let kept = before.and_then(|_membership| {
        let own = Authority::with_key(layout, &authority.key()).ok()?;
        let (identity, _membership) = NodeIdentity::load(layout).ok()?;
        (own.certificate() == authority.certificate()).then_some(identity)
    });
    let is_kept = kept.is_some();
    let identity = match kept {
        Some(identity) => identity,
        None => authority.issue(&plan.node.name, &[plan.node.primary_ip], now)?,
    };
    plan.node.fingerprint = identity.fingerprint();
    let epoch = plan.epoch();
    let caller = Caller { name: plan.node.name.clone(), fingerprint: identity.fingerprint() };
    let uuid = plan.cluster.uuid.parse();
    let membership = Membership {
        cluster_uuid: uuid.map_err(|_text| Unfit::Missing(document::CLUSTER))?,
        cluster_name: plan.cluster.cluster_name.clone(),
        node: plan.node.name.clone(),
        node_id: plan.node.id,
        epoch,
        allow: AllowList { epoch, callers: vec![caller] },
        enrolled: now,
    };
    if is_kept {
        store_membership(layout, &membership)?;
    } else {
        identity.store(layout, &membership)?;
    }
    Ok(is_kept)
}

/// Refuses an import where there is a cluster already.
fn refuse_store(data: &Path) -> Result<(), ImportError> {
    let cluster = data.join(document::CLUSTER);
    let of_member = AtRest::read(data)?.is_some_and(|store| store.member.is_some());
    match cluster.exists() || of_member {
        true => Err(InitError::Exists(cluster).into()),
        false => Ok(()),
    }
}

/// Removes what an interrupted import left, if the store there is no more than that.
fn make_room(data: &Path, wanted: &Import) -> Result<(), ImportError> {
    refuse_store(data)?;
    if AtRest::read(data)?.is_some() {
        let store = bootstrap::open_store(data, wanted.segment_bytes)?;
        // It may be in the journal alone.
        if store.read(&key(document::CLUSTER))?.is_some() {
            return Err(InitError::Exists(data.join(document::CLUSTER)).into());
        }
    }
    wipe(data)?;
    let failed = |error| ImportError::List { path: data.to_owned(), error };
    let entries = match std::fs::read_dir(data) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if !NEIGHBOURS.iter().any(|neighbour| entry.file_name() == *neighbour) {
            return Err(ImportError::Leftovers(entry.path()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
