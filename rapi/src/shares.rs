//! The resources that clients share, with the limits of a user and an address: no crowd keeps others out.
//!
//! A user has a quarter and an address the half, since many users may come by one. All clients that say no
//! name are one user. The connections themselves are bounded by [`crate::server`], and what asks the master by
//! [`crate::master_pool`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use model::Code;
use model::access::Principal;
use stdx::admission::network;
use stdx::admission::turns::{Turn, TurnHolder, TurnLimits, Turns};
use stdx::admission::unread::{Unread, UnreadLimits};

use crate::refusal::Refusal;

/// The holder of a request's places: the user, where one is known, and the address.
pub type Holder = TurnHolder<Option<Arc<str>>>;
/// A held place.
pub type Place = Turn<Option<Arc<str>>>;
/// Places of one kind.
pub type SharedPlaces = Turns<Option<Arc<str>>>;

/// Connections that are not shed, because their requests are being answered: all there may be.
const BUSY: TurnLimits = TurnLimits { total: 1_024, of_user: 256, of_address: 256 };
/// Bytes of bodies in memory, from when they are announced until they are answered: a user may register ten
/// thousand machines, in 6 MiB, five times at once.
const BODY_BYTES: TurnLimits =
    TurnLimits { total: 128 << 20, of_user: 32 << 20, of_address: 64 << 20 };
/// Bodies that are received into files at the same time: they share one disk, and each has a thread.
const UPLOADS: TurnLimits = TurnLimits { total: 4, of_user: 2, of_address: 2 };
/// Archives that are sent at the same time: each has a thread.
const ARCHIVES: TurnLimits = TurnLimits { total: 16, of_user: 4, of_address: 8 };
/// Bytes of long answers in memory until they are read: the master gives none that is longer than the share of
/// one user.
const ANSWER_BYTES: UnreadLimits = UnreadLimits {
    total: 2 * luxi::limits::ANSWER_BYTES_MAX,
    of_client: luxi::limits::ANSWER_BYTES_MAX,
    patience: Duration::from_secs(10),
};
/// How long a request waits for its turn: as a node that forwards requests.
pub const TURN_TIME: Duration = Duration::from_secs(5);

/// The shared places.
#[derive(Debug)]
pub struct Shares {
    /// Connections that are not shed.
    pub busy: SharedPlaces,
    pub body_bytes: SharedPlaces,
    pub uploads: SharedPlaces,
    /// Downloads of images.
    pub archives: SharedPlaces,
    /// Bytes of answers.
    pub answers: Unread<Holder>,
}

impl Default for Shares {
    fn default() -> Self {
        let [busy, body_bytes, uploads, archives] =
            [BUSY, BODY_BYTES, UPLOADS, ARCHIVES].map(Turns::new);
        Self { busy, body_bytes, uploads, archives, answers: Unread::new(ANSWER_BYTES) }
    }
}

/// The holder of a request's places, for a client at this address.
pub fn holder_of(principal: &Principal, address: IpAddr) -> Holder {
    let user = match principal {
        Principal::Anonymous(_) => None,
        Principal::User { name, .. } | Principal::Unix { name, .. } => Some(Arc::clone(name)),
        Principal::Local(_) | Principal::Machine(_) | Principal::Cluster => {
            Some(principal.to_string().into())
        }
    };
    TurnHolder { user, address: Some(network(address)) }
}

/// A client that asks before it has shown who it is.
pub fn stranger(address: IpAddr) -> Holder {
    TurnHolder { user: None, address: Some(network(address)) }
}

/// This program, which asks for nobody in particular.
pub fn own() -> Holder {
    TurnHolder::of_user(Some("rapi itself".into()))
}

/// By whom an answer is read: a user wherever it is, and else an address.
pub fn reader(holder: &Holder) -> Holder {
    let Holder { user, address } = holder.clone();
    TurnHolder { address: address.filter(|_| user.is_none()), user }
}

/// Waits for a turn, within the time that a request may wait.
///
/// # Errors
/// There is none.
pub async fn turn(places: &SharedPlaces, holder: &Holder, cost: usize) -> Result<Place, Refusal> {
    let got = tokio::time::timeout(TURN_TIME, places.acquire(holder, cost)).await;
    got.map_err(|_elapsed| {
        busy("too many requests of this user, of this address or in all are under way")
    })
}

/// A turn that is free now.
///
/// # Errors
/// There is none: `what` are under way.
pub fn turn_now(places: &SharedPlaces, holder: &Holder, what: &str) -> Result<Place, Refusal> {
    let got = places.try_acquire(holder, 1);
    got.ok_or_else(|| {
        busy(&format!("as many {what} as one user or address may have are under way"))
    })
}

/// The refusal for a client that finds no room now.
pub fn busy(why: &str) -> Refusal {
    let text = format!("{why}; try again in a moment");
    let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text);
    Refusal { see: Some(Code::Overloaded), ..refusal }
}

#[cfg(test)]
mod tests {
    use model::access::Role;

    use super::*;

    #[test]
    fn a_user_is_one_from_everywhere_and_strangers_are_one_user() {
        let bob = Principal::User { name: "bob".into(), role: Role::Read };
        let of =
            |principal: &Principal, address: &str| holder_of(principal, address.parse().unwrap());
        let (here, there) = (of(&bob, "192.0.2.1"), of(&bob, "fd00::1:2:3:4"));
        assert_eq!(here.user, there.user);
        assert_eq!(there.address, "fd00::".parse().ok(), "a host has all of its network");
        let nobody = Principal::Anonymous(Some(Role::Read));
        assert_eq!(of(&nobody, "192.0.2.1").user, of(&nobody, "192.0.2.2").user);
        assert_ne!(of(&nobody, "192.0.2.1").user, here.user);
        let machine = Principal::Machine("SN1".parse().unwrap());
        assert_eq!(of(&machine, "192.0.2.1").user.as_deref(), Some("machine SN1"));
    }

    #[test]
    fn no_share_is_all_there_is() {
        for limits in [BUSY, BODY_BYTES, UPLOADS, ARCHIVES] {
            let TurnLimits { total, of_user, of_address } = limits;
            assert!(2 * of_user <= total && 2 * of_address <= total, "{limits:?}");
        }
        const { assert!(2 * ANSWER_BYTES.of_client <= ANSWER_BYTES.total) };
    }
}
