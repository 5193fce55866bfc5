//! Asks members whether their disks take anything: the master learns it of who is sent something, and
//! an idle cluster sends nothing. Serves `gnt cluster status`.

use std::time::Duration;

use rpc::peer::control::AskPosition;
use stdx::Tasks;
use stdx::daemon::chain;
use tokio_util::sync::CancellationToken;

use crate::peers::{PeerBook, Place};

/// How often all members are asked. A full disk is a matter of minutes for an operator, and each
/// answer costs a look at the role entry.
const ASK_AGAIN: Duration = Duration::from_secs(15);

/// Asks until the reign is `over`.
pub(crate) async fn run(book: PeerBook, over: CancellationToken) {
    while over.run_until_cancelled(tokio::time::sleep(ASK_AGAIN)).await.is_some() {
        let asked = Tasks::new();
        for (member, place) in book.others() {
            let book = book.clone();
            asked.spawn("room of a member", async move {
                book.note_full(member, is_full(&book, place).await);
            });
        }
        if over.run_until_cancelled(asked.join()).await.is_none() {
            asked.shutdown().await;
        }
    }
}

/// Whether the disk of a member takes nothing more. Who does not answer is told of otherwise.
async fn is_full(book: &PeerBook, place: Place) -> bool {
    let node = place.target.name.clone();
    let asked = match book.ask(place) {
        Ok(mut link) => link.call(&AskPosition {}).await,
        Err(error) => Err(error),
    };
    match asked {
        Ok(position) => position.disk_full,
        Err(error) => {
            tracing::debug!(%node, error = chain(&error), "it is not known whether its disk is full");
            false
        }
    }
}
