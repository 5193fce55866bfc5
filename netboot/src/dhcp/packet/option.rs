//! Core: the numbers of the options that are spoken here.

/// Filler (RFC 2132 section 3.1).
pub const PAD: u8 = 0;
/// Subnet mask.
pub const SUBNET_MASK: u8 = 1;
/// Routers.
pub const ROUTER: u8 = 3;
/// Name servers.
pub const DNS: u8 = 6;
/// The client's own name for itself.
pub const HOST_NAME: u8 = 12;
/// Domain of the client.
pub const DOMAIN_NAME: u8 = 15;
/// Time servers.
pub const NTP_SERVERS: u8 = 42;
/// Address that the client wants.
pub const REQUESTED_ADDRESS: u8 = 50;
/// Seconds of a lease.
pub const LEASE_SECONDS: u8 = 51;
/// Which of the fields `file` (1) and `sname` (2) hold further options.
pub const OVERLOAD: u8 = 52;
/// Kind of message.
pub const MESSAGE_TYPE: u8 = 53;
/// The server that is meant or that speaks.
pub const SERVER_ID: u8 = 54;
/// Codes that the client asks for.
pub const PARAMETER_LIST: u8 = 55;
/// Text that explains a refusal.
pub const MESSAGE: u8 = 56;
/// Largest message that the client takes.
pub const MESSAGE_SIZE_MAX: u8 = 57;
/// T1, seconds until the client renews.
pub const RENEWAL_SECONDS: u8 = 58;
/// T2, seconds until the client asks any server.
pub const REBINDING_SECONDS: u8 = 59;
/// The kind of client or server that speaks.
pub const VENDOR_CLASS: u8 = 60;
/// The client's own identifier.
pub const CLIENT_ID: u8 = 61;
/// Name or URL of what to boot.
pub const BOOT_FILE: u8 = 67;
/// User class (RFC 3004).
pub const USER_CLASS: u8 = 77;
/// Options that relays add (RFC 3046).
pub const RELAY_AGENT: u8 = 82;
/// Firmware architectures (RFC 4578).
pub const CLIENT_ARCHITECTURE: u8 = 93;
/// The machine's UUID (RFC 4578).
pub const MACHINE_UUID: u8 = 97;
/// Default URL, as ONIE reads it.
pub const DEFAULT_URL: u8 = 114;
/// Vendors' own options, by enterprise number (RFC 3925).
pub const VENDOR_OPTIONS: u8 = 125;
/// iPXE's own encapsulated options.
pub const IPXE: u8 = 175;
/// End of the options.
pub const END: u8 = 255;

/// Sub-option of 82: the relay's name for the port that the client is at.
pub const RELAY_CIRCUIT: u8 = 1;
/// Sub-option of 82: an address on the client's link when that of the relay is elsewhere
/// (RFC 3527).
pub const RELAY_LINK_SELECTION: u8 = 5;
/// Sub-option of 82: the server identifier that the client is to see (RFC 5107).
pub const RELAY_SERVER_ID: u8 = 11;
/// Sub-option of 82: answer to the port that the relay sent from (RFC 8357).
pub const RELAY_SOURCE_PORT: u8 = 19;
