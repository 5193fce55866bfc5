//! Carries the content of disks: within a node by its agent, between two nodes piece by piece by way of the
//! master. Agents do not call each other, and nothing listens for such content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::NodeName;
use rpc::calls::{VOLUME_PIECE_BYTES, Volume, VolumeCopy, VolumePiece, VolumeRead, VolumeWrite};

use super::agent::{NotDone, call};
use crate::units::{Context, Failure};

/// Per cent of a volume between two lines of progress.
const TOLD_EACH: u64 = 10;

/// A volume on its node.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) node: NodeName,
    pub(super) volume: Volume,
}

/// Carries the content of a volume to another one, which is empty; `what` names it in the log.
pub(super) async fn carried(
    context: &mut Context,
    from: Place,
    to: Place,
    what: &str,
) -> Result<Result<(), NotDone>, Failure> {
    if from.node == to.node {
        let copy = VolumeCopy { from: from.volume, to: to.volume };
        return call(context, &from.node, copy).await;
    }
    let (mut offset, mut told) = (0, 0);
    loop {
        let read = VolumeRead { volume: from.volume.clone(), offset };
        let VolumePiece { offset: begins, data, size } =
            match call(context, &from.node, read).await? {
                Ok(piece) => piece,
                Err(not) => return Ok(Err(not)),
            };
        let data = match STANDARD.decode(data) {
            Ok(data) if data.len() <= VOLUME_PIECE_BYTES && begins >= offset => data,
            Ok(_) | Err(_) => {
                let why = format!("node {} sent no piece of {what}", from.node);
                return Ok(Err(NotDone { why, said: false, by_copy: false }));
            }
        };
        let is_end = data.is_empty();
        let (place, length) = (if is_end { size } else { begins }, data.len() as u64);
        let write = VolumeWrite { volume: to.volume.clone(), offset: place, data: data.into() };
        if let Err(not) = call(context, &to.node, write).await? {
            return Ok(Err(not));
        }
        if is_end {
            return Ok(Ok(()));
        }
        offset = begins + length;
        let percent = offset * 100 / size.max(1);
        if percent >= told + TOLD_EACH {
            told = percent - percent % TOLD_EACH;
            context.say(super::info(&format!("{what}: {told}% done"))).await;
        }
    }
}
