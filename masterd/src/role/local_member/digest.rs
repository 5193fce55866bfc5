//! The content of this member's store at one moment, for a comparison with the others'.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::Engine;
use queue_format::{Group, Key};
use rpc::peer::PeerFailure;
use rpc::peer::control::{AskDigest, DIGEST_KEYS_MAX, PeerDigest};

/// How long the moment that is asked for is waited for: who follows is behind by milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Content that is read for one round of checksums.
const ROUND_BYTES: usize = 1 << 20;

/// Digests of all groups, or of the keys of one.
pub(crate) async fn digest(engine: &Engine, call: AskDigest) -> Result<PeerDigest, PeerFailure> {
    let AskDigest { position, group, after } = call;
    let no_group = |name: &str| PeerFailure::failed(format!("there is no group `{name}`"));
    let group = match group.as_deref() {
        Some(name) => Some(Group::named(name).ok_or_else(|| no_group(name))?),
        None => None,
    };
    let of_keys = group.is_some();
    let frozen = engine.freeze_at(position.index, group, PATIENCE).await;
    let frozen = frozen.map_err(|error| PeerFailure::failed(error.to_string()))?;
    let work = move || {
        if frozen.position() != position {
            let here = frozen.position();
            return Err(format!("entry {} here is that of {here}", position.index));
        }
        if of_keys {
            keys(frozen, after.as_deref()).map_err(|error| error.to_string())
        } else {
            let digest = frozen.digest().map_err(|error| error.to_string())?;
            let digests = digest.groups.iter();
            let digests =
                digests.map(|(group, digest)| (group.to_string(), digest.hash.to_string()));
            Ok(PeerDigest { digests: digests.collect(), complete: true })
        }
    };
    let done = stdx::apart(work).await;
    done.unwrap_or_else(|ended| Err(ended.to_string())).map_err(PeerFailure::failed)
}

/// The first names behind `after`, in their order, with their checksums.
fn keys(
    mut frozen: queue_format::Frozen,
    after: Option<&str>,
) -> Result<PeerDigest, queue_format::FrozenError> {
    let mut digests = BTreeMap::new();
    let mut complete = true;
    while let Some(round) = frozen.next_hashes(ROUND_BYTES)? {
        let behind = |key: &Key| after.is_none_or(|after| key.as_str() > after);
        let behind = round.into_iter().filter(|(key, _)| behind(key));
        digests.extend(behind.map(|(key, hash)| (key.to_string(), hash.to_string())));
        while digests.len() > DIGEST_KEYS_MAX {
            digests.pop_last();
            complete = false;
        }
    }
    Ok(PeerDigest { digests, complete })
}
