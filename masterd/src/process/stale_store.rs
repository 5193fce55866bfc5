//! Whether the store of a master that is alone is an older copy: agents obey a later master. Serves
//! start and leadership of a cluster with one candidate, where no voter could tell.

use std::time::Duration;

use model::cluster::Role;
use model::role_check::RoleDecision;
use queue_format::Epoch;
use rpc::peer::control::PeerPosition;

use super::DaemonError;
use super::takeover::{ANSWER_MAX_AUTOMATIC, PATIENCE};
use crate::agents::contacts::Contacts;
use crate::config::Config;
use crate::config::queue::Published;
use crate::role::local_member::LocalMember;
use crate::role::precheck::{self, Asker, table};
use membership::confirm::{Attempt, Waivers, confirm, obeys_another};

/// How often agents are asked whom they obey that refuse this master.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Whether a store that no other node ever had is not from before another one had one: agents know other
/// masters. Agents that do not answer say nothing against it.
///
/// # Errors
/// [`DaemonError::OlderCopy`].
pub(super) async fn has_newest_store(
    asker: Asker,
    local: &LocalMember,
    config: &Config,
) -> Result<(), DaemonError> {
    let Role { term, node, .. } = *config.role;
    let epoch = Epoch { term, node };
    let own = PeerPosition { epoch, ..local.stand().await };
    let asker = Asker { limit: ANSWER_MAX_AUTOMATIC, patience: PATIENCE, ..asker };
    let question = precheck::ask(&asker, config, Attempt::Start, Waivers::default(), &own).await;
    let another = obeys_another(&question, config.cluster.first_term, epoch);
    let Some((node, master, obeys)) = another else { return Ok(()) };
    let older = DaemonError::OlderCopy { node, master, obeys, epoch };
    // No majority is needed by who has the only store, so nothing else stands against it.
    let mut check = table::table(&question, &confirm(&question));
    (check.decision, check.from, check.reasons) =
        (RoleDecision::Refuse, None, vec![older.to_string()]);
    check.what_to_do.clear();
    // An answer that seems to make no sense by this store is newer than it.
    for row in check.rows.iter_mut().filter(|row| row.answer != "no") {
        (row.reason, row.remedy) = (None, None);
    }
    check.lines().iter().for_each(|line| tracing::error!("{line}"));
    Err(older)
}

/// Waits until an agent says that the store of a master that is alone is an older copy; the epoch that it
/// obeys. Asks where one refuses the master for its epoch.
pub(super) async fn is_older_copy(
    asker: &Asker,
    local: &LocalMember,
    (contacts, published): (&Contacts, &Published),
) -> Epoch {
    loop {
        tokio::time::sleep(ASK_AGAIN).await;
        if !contacts.any_obeys_later() {
            continue;
        }
        let config = published.snapshot().config;
        if let Err(error) = has_newest_store(asker.clone(), local, &config).await {
            tracing::error!("{error}");
            if let DaemonError::OlderCopy { obeys, .. } = error {
                return obeys;
            }
        }
    }
}
