//! The vocabulary of the cluster. Pure: no I/O, no clock, no tasks.
//!
//! In reading order: [`layout`] says where things live. The small words are [`name`], [`serial`],
//! [`mac`], [`job_id`], [`time`], [`range`], [`role`] and [`secret`], and their forms are [`words`] and
//! [`text_form`]. An operation fails by [`error`]; [`code`] has the conditions that an operator must act
//! on, and [`json`] reads what people write. The table of an opcode's states, from which that of a job
//! is derived, is [`status`]. Jobs change [`cluster`], [`group`], [`node`], [`tag`], [`machine`],
//! [`image`], [`asset`], [`kernel`], [`bmc`], [`inventory`], [`ipam`], [`network`], [`host`],
//! [`boot_template`], [`disk_key`], [`blob`], [`dhcp`], [`rack`], [`shares`], [`switch`], [`tenant`],
//! [`instance`], [`vault`] and [`token`]. A node joins by [`enrol`]; one start of a machine is [`power_cycle`] and [`timeline`]. The table of
//! everything that an operator can ask for is [`opcode`]. The rights to ask are in [`access`], the
//! outcome is in [`job`], and [`audit`] tells who did what ([`asker`]). Every node keeps [`ssconf`] in
//! files; the rules in [`filter`] hold jobs back. A node may be master by [`role_check`]; the state of
//! the cluster is in [`cluster_status`], and the faults that keep a rack from being served in
//! [`rack_fault`]. Machines as sabakan shows them are in [`sabakan`], and the key of each object is in
//! [`document`].
#![warn(clippy::wildcard_enum_match_arm)]

pub mod kernel;
pub mod layout;
mod text_form;
mod words;

pub mod blob;
pub mod job_id;
pub mod mac;
pub mod name;
pub mod range;
pub mod role;
pub mod secret;
pub mod serial;
pub mod time;
pub mod timeline;

pub mod code;
pub mod error;
pub mod json;
pub mod status;

pub mod asset;
pub mod bmc;
pub mod boot_template;
pub mod cluster;
pub mod disk_key;
pub mod enrol;
pub mod group;
pub mod host;
pub mod image;
pub mod instance;
pub mod inventory;
pub mod ipam;
pub mod machine;
pub mod network;
pub mod node;
pub mod power_cycle;
pub mod rack;
pub mod shares;
pub mod switch;
pub mod tag;
pub mod tenant;
pub mod token;
pub mod vault;

pub mod access;
pub mod asker;
pub mod audit;
pub mod job;
pub mod opcode;

pub mod sabakan;

pub mod cluster_status;
pub mod filter;
pub mod rack_fault;
pub mod role_check;
pub mod ssconf;

pub mod dhcp;
pub mod document;

pub use code::{Code, Coded};
pub use error::Exception;
pub use job::Job;
pub use job_id::JobId;
pub use mac::MacAddress;
pub use name::{InstanceName, NodeName, NotMeant, Word};
pub use opcode::{OpCode, OpInput};
pub use secret::Secret;
pub use serial::Serial;
pub use status::{JobStatus, OpStatus};
pub use time::Timestamp;
pub use uuid::Uuid;
