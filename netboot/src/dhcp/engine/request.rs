//! Core: the four kinds of REQUEST (RFC 2131 section 4.3.2) and what each is answered.

use std::net::Ipv4Addr;

use super::{Exchange, Ignored};
use crate::dhcp::leases::Standing;
use crate::dhcp::packet::option;

/// In which state a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// It took an offer.
    Selecting,
    /// It rebooted and would like its address again.
    InitReboot,
    /// Half of its lease is over; it asks the server that gave it.
    Renewing,
    /// Most of its lease is over; it asks any server.
    Rebinding,
}

/// The content of a REQUEST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) kind: RequestKind,
    pub(super) address: Ipv4Addr,
    /// The server that is meant, if the client names one.
    pub(super) server: Option<Ipv4Addr>,
}

/// The answer to a REQUEST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// DHCPACK.
    Acknowledge,
    /// DHCPNAK, for this reason.
    Refuse(&'static str),
    /// Nothing: another server may know better.
    Silence,
}

impl Exchange<'_> {
    pub(super) fn asked(&self) -> Result<Asked, Ignored> {
        let server = self.packet.address(option::SERVER_ID);
        let wanted = self.packet.address(option::REQUESTED_ADDRESS);
        // A relay writes to us directly what its client broadcast.
        let direct = !self.packet.is_relayed() && self.is_us(self.arrival.destination);
        let current = self.packet.header.ciaddr;
        kind(server.is_some(), wanted, current, direct)
            .map(|(kind, address)| Asked { kind, address, server })
            .ok_or(Ignored::Incomplete)
    }
}

/// The table of section 4.3.2: by options 54 and 50, `ciaddr` and whether the client wrote to us
/// alone. `None` if no kind fits.
fn kind(
    names_server: bool,
    wanted: Option<Ipv4Addr>,
    current: Ipv4Addr,
    direct: bool,
) -> Option<(RequestKind, Ipv4Addr)> {
    match (names_server, wanted, current.is_unspecified(), direct) {
        (true, Some(wanted), true, _) => Some((RequestKind::Selecting, wanted)),
        (false, Some(wanted), true, _) => Some((RequestKind::InitReboot, wanted)),
        // Some clients name the server in renewals, or repeat the address in option 50.
        (_, Some(wanted), false, _) if wanted != current => None,
        (_, _, false, true) => Some((RequestKind::Renewing, current)),
        (_, _, false, false) => Some((RequestKind::Rebinding, current)),
        (_, None, true, _) => None,
    }
}

/// The answer to a request of `kind` by a client with this standing to the address; `None` if the
/// address is of another network than the client.
///
/// An address that is ours to lease is ours to judge, also without a lease. About the rest only silence
/// is right, because another server may have given it. A client on the wrong network is always told,
/// except when it wrote to us directly: then the network is that of its address.
pub fn verdict(kind: RequestKind, standing: Option<Standing>) -> Verdict {
    use RequestKind::{InitReboot, Rebinding, Renewing, Selecting};
    use Standing::{
        Bound, Elsewhere, Foreign, Lapsed, Lent, Offered, Quarantined, Revoked, Stranger, Taken,
    };
    let Some(standing) = standing else {
        return match kind {
            Selecting | InitReboot | Rebinding => {
                Verdict::Refuse("the address is of another network")
            }
            Renewing => Verdict::Silence,
        };
    };
    match (standing, kind) {
        (Bound, _) | (Offered | Lapsed, Selecting | InitReboot) => Verdict::Acknowledge,
        // A client that renews holds the address. A client that boots may have given it back where this
        // agent did not hear.
        (Lent, Renewing | Rebinding) => Verdict::Acknowledge,
        (Offered | Lapsed, Renewing | Rebinding) => Verdict::Refuse("the lease has ended"),
        (Elsewhere, _) => Verdict::Refuse("the client has another address"),
        (Revoked, _) => Verdict::Refuse("the address is no longer leased"),
        (Quarantined, _) => Verdict::Refuse("the address is in use by another host"),
        (Taken, _) => Verdict::Refuse("the address is leased to another client"),
        (Stranger, Selecting | InitReboot | Renewing) => Verdict::Refuse("there is no such lease"),
        (Foreign | Lent, Selecting) => Verdict::Refuse("the address was not offered"),
        (Stranger, Rebinding)
        | (Foreign, InitReboot | Renewing | Rebinding)
        | (Lent, InitReboot) => Verdict::Silence,
    }
}

#[cfg(test)]
mod tests {
    use super::RequestKind::{InitReboot, Rebinding, Renewing, Selecting};
    use super::*;

    #[test]
    fn kinds() {
        let none = Ipv4Addr::UNSPECIFIED;
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        for (names_server, wanted, current, direct, expected) in [
            (true, Some(a), none, false, Some((Selecting, a))),
            (true, Some(a), none, true, Some((Selecting, a))),
            (true, None, none, false, None),
            (false, Some(a), none, false, Some((InitReboot, a))),
            (false, Some(a), none, true, Some((InitReboot, a))),
            (false, None, none, true, None),
            (false, None, a, true, Some((Renewing, a))),
            (false, None, a, false, Some((Rebinding, a))),
            (true, None, a, true, Some((Renewing, a))),
            (true, None, a, false, Some((Rebinding, a))),
            (true, Some(a), a, true, Some((Renewing, a))),
            (false, Some(a), a, false, Some((Rebinding, a))),
            (false, Some(b), a, true, None),
            (true, Some(b), a, false, None),
        ] {
            let got = kind(names_server, wanted, current, direct);
            assert_eq!(got, expected, "{names_server} {wanted:?} {current} {direct}");
        }
    }

    /// A: acknowledge, N: refuse, -: silence.
    #[test]
    fn verdicts() {
        use Standing::{
            Bound, Elsewhere, Foreign, Lapsed, Lent, Offered, Quarantined, Revoked, Stranger, Taken,
        };
        for (standing, letters) in [
            (Some(Bound), "AAAA"),
            (Some(Lent), "N-AA"),
            (Some(Offered), "AANN"),
            (Some(Lapsed), "AANN"),
            (Some(Elsewhere), "NNNN"),
            (Some(Revoked), "NNNN"),
            (Some(Quarantined), "NNNN"),
            (Some(Taken), "NNNN"),
            (Some(Stranger), "NNN-"),
            (Some(Foreign), "N---"),
            (None, "NN-N"),
        ] {
            let got: String = [Selecting, InitReboot, Renewing, Rebinding]
                .map(|kind| match verdict(kind, standing) {
                    Verdict::Acknowledge => 'A',
                    Verdict::Refuse(_) => 'N',
                    Verdict::Silence => '-',
                })
                .iter()
                .collect();
            assert_eq!(got, letters, "{standing:?}");
        }
    }
}
