//! Core: how a packet comes, and all that it can lead to.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::dhcp::boot::Stage;
use crate::dhcp::leases::{LeaseRecord, RangeUse};
use crate::dhcp::packet::{Identity, Reply};

/// How a packet came here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Our address on the link it came in by.
    pub interface: Ipv4Addr,
    /// The sender: the client, or the last relay.
    pub source: SocketAddrV4,
    /// The address that it was sent to: ours, or a broadcast.
    pub destination: Ipv4Addr,
}

/// An effect of a packet; several take place in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send it.
    Reply(Outgoing),
    /// Make the record durable; then, and only then, send the reply and tell the observation.
    Persist {
        /// The new state of one address.
        record: LeaseRecord,
        /// The reply to send; a release and a refusal of an address get none.
        reply: Option<Outgoing>,
        /// What to tell.
        observation: Observation,
    },
    /// The reply that would have been sent, in a network that is only observed.
    Withheld(Outgoing),
    /// Tell it.
    Observe(Observation),
    /// Nothing, for this reason.
    Ignore(Ignored),
}

/// A reply and its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The message.
    pub reply: Reply,
    /// Our address that it is sent from.
    pub source: Ipv4Addr,
    /// Who gets it.
    pub to: Destination,
    /// The address that it offers, if another client had that before. A host on the link that
    /// answers for it has it still (RFC 2131 section 2.2); then this is not sent.
    pub probe: Option<Ipv4Addr>,
}

/// The recipient of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A host that answers ARP: a relay, or a client that has its address.
    Host(SocketAddrV4),
    /// Everyone on the link.
    Broadcast(u16),
    /// A client that will have `address` only after it got the reply: a frame to its Ethernet
    /// address.
    Frame {
        /// The Ethernet address.
        mac: [u8; 6],
        /// Its address to be, and port.
        address: SocketAddrV4,
    },
}

/// An observation that others want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// A lease was given or renewed.
    Leased {
        /// The lease, bound.
        record: LeaseRecord,
        /// Which stage of a boot asked.
        stage: Stage,
        /// The machine's UUID, if it told, as on the wire.
        uuid: Option<[u8; 16]>,
    },
    /// A lease was given back.
    Released(LeaseRecord),
    /// A client found its address in use by another host: an alarm.
    Declined(LeaseRecord),
    /// A client was told to begin again.
    Refused {
        client: Identity,
        /// The address it asked for.
        address: Ipv4Addr,
        why: &'static str,
    },
    /// Firmware wants to boot in a way that is not served: it gets a lease and nothing to load.
    /// Once an hour for each client.
    Stranded {
        client: Identity,
        /// How it wants to boot.
        stage: Stage,
        /// The architecture that it can boot as, if it told.
        architecture: Option<u16>,
    },
    /// No address was left for a client: an alarm, once a minute.
    Full(RangeUse),
    /// Guests have all addresses that they may have, and another one asked: once a minute.
    Crowded {
        /// How the range is used.
        range: RangeUse,
        /// How many addresses guests may have.
        guests_max: usize,
    },
}

/// Why a packet led to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Ignored {
    /// A server's message.
    #[error("it is no client's message")]
    NotFromClient,
    /// Probably a loop of relays.
    #[error("it passed more than 16 relays")]
    Hops,
    /// No message type: BOOTP, or nonsense.
    #[error("it has no DHCP message type")]
    Untyped,
    /// No usable hardware address or client identifier.
    #[error("it does not tell who sent it")]
    Anonymous,
    /// Option 82, which only relays add, without a relay.
    #[error("it has a relay's option, but came without a relay")]
    UntrustedRelayOption,
    /// A relay at an address where replies would reach every host, or us.
    #[error("its relay's address can be no host's")]
    RelayAddress,
    /// An address that can be no client's, to which the reply would go.
    #[error("the address can be no client's")]
    ClientAddress,
    /// Another agent looks for servers that are none of the rack's.
    #[error("another agent of a rack looks for servers")]
    Probe,
    /// From a network without a range.
    #[error("its network is not served here")]
    Unserved,
    /// From a client whose address another agent of the rack gives, and of which that one is about to
    /// be asked, too.
    #[error("another agent of the rack has its address")]
    OtherAgent,
    /// For another server.
    #[error("it is meant for another server")]
    OtherServer,
    /// The fields that this kind of message needs are missing.
    #[error("fields that it needs are missing")]
    Incomplete,
    /// A client of another server, for all that is known here.
    #[error("the client is unknown here")]
    UnknownClient,
    /// It gives back or refuses what it does not hold.
    #[error("the client does not hold the address")]
    NotHeld,
    /// No address is left.
    #[error("no address is free")]
    Full,
    /// It is in no inventory, and others like it have all that these may have.
    #[error("the addresses for cards outside of the inventory are used up")]
    Crowded,
    /// The lease that it would lead to could not be kept.
    #[error("the disk takes no leases")]
    Unkept,
}
