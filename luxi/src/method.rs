//! Core: the table of methods: names, positional arguments, results.
//!
//! One entry is one method. Its struct has the arguments as fields, in the order of the wire. The client
//! may leave out an argument after `default`. The enum [`Request`](crate::Request) has one variant for
//! each method, so that a server which forgets one does not compile.

mod args;
mod class;

use std::fmt;
use std::net::IpAddr;

use model::audit::{AuditEntry, AuditFilter};
use model::boot_template::{BootDocument, DocumentKind, TemplateId};
use model::cluster_status::ClusterStatus;
use model::dhcp::DhcpConfig;
use model::ipam::IpamConfig;
use model::network::template::NetworkFile;
use model::opcode::ReasonEntry;
use model::role_check::{RoleRequest, RoleTaken};
use model::token::{TokenDigest, TokenGrant};
use model::vault::Sealed;
use model::{JobId, NodeName, OpInput};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _, IgnoredAny, SeqAccess};
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

pub use args::{ConsolePiece, ExportPiece, Fields, JobChange, StagedSecret, Submission, What};
pub use class::{Access, Class};

use crate::query::{Definitions, Filter, Table};

/// A row of bare values, in the order of the fields that were asked for.
pub type Row = Vec<Value>;

/// One method: the arguments (`Self`), the name, the result.
pub trait Method: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its name on the wire.
    const NAME: &'static str;
    /// Its arguments, for messages and docs: `[job_id, kill = false]`.
    const ARGUMENTS: &'static str;
    /// How long it may take.
    const CLASS: Class;
    /// The role that its callers need.
    const ACCESS: Access;
    /// What success gives.
    type Reply: Serialize + DeserializeOwned + Send;
}

macro_rules! methods {
    ($(
        $(#[doc = $doc:literal])+
        $class:ident $access:ident $name:ident [
            $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty $(, default $default:tt)?;)*
        ] -> $reply:ty;
    )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug, Clone, PartialEq)]
            pub struct $name { $($(#[doc = $field_doc])+ pub $field: $type,)* }

            impl Method for $name {
                const NAME: &'static str = stringify!($name);
                const ARGUMENTS: &'static str = methods!(@list $($field [$($default)?])*);
                const CLASS: Class = Class::$class;
                const ACCESS: Access = Access::$access;
                type Reply = $reply;
            }

            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    let sequence = serializer.serialize_seq(None)?;
                    $(let mut sequence = sequence; sequence.serialize_element(&self.$field)?;)*
                    sequence.end()
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    struct Visitor;
                    impl<'de> serde::de::Visitor<'de> for Visitor {
                        type Value = $name;

                        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                            f.write_str("a list of arguments")
                        }

                        fn visit_seq<A: SeqAccess<'de>>(self, mut args: A) -> Result<$name, A::Error> {
                            $(let $field = match args.next_element::<$type>()? {
                                Some(given) => given,
                                None => methods!(@missing $field $($default)?),
                            };)*
                            if args.next_element::<IgnoredAny>()?.is_some() {
                                return Err(A::Error::custom("too many arguments"));
                            }
                            Ok($name { $($field),* })
                        }
                    }
                    deserializer.deserialize_seq(Visitor)
                }
            }
        )+

        /// A request: one variant for each method.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Call { $($(#[doc = $doc])+ $name($name),)+ }

        impl Call {
            /// Every method: name, arguments, class and access, description; in the order of the
            /// table.
            pub const TABLE: &[(&'static str, &'static str, (Class, Access), &'static str)] =
                &[$((
                    stringify!($name),
                    <$name as Method>::ARGUMENTS,
                    (Class::$class, Access::$access),
                    concat!($($doc),+),
                ),)+];

            /// Reads the arguments of the method `name`; `None` if there is no such method.
            pub(crate) fn read<'de, D: Deserializer<'de>>(
                name: &str,
                args: D,
            ) -> Option<Result<Self, D::Error>> {
                match name {
                    $(stringify!($name) => Some($name::deserialize(args).map(Self::$name)),)+
                    _ => None,
                }
            }

            /// The method's name.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => stringify!($name),)+ }
            }

            /// How long it may take.
            pub const fn class(&self) -> Class {
                match self { $(Self::$name(_) => Class::$class,)+ }
            }

            /// The role that its callers need.
            pub const fn access(&self) -> Access {
                match self { $(Self::$name(_) => Access::$access,)+ }
            }
        }
    };
    (@list) => { "[]" };
    (@list $first:ident [$($first_default:tt)?] $($field:ident [$($default:tt)?])*) => {
        concat!(
            "[", stringify!($first), $(" = ", stringify!($first_default),)?
            $(", ", stringify!($field), $(" = ", stringify!($default),)?)* "]"
        )
    };
    (@missing $field:ident) => {
        return Err(A::Error::custom(concat!("argument `", stringify!($field), "` is missing")))
    };
    (@missing $field:ident null) => { None };
    (@missing $field:ident $default:tt) => { $default };
}

methods! {
    /// Queue one job.
    Change Opcodes SubmitJob [
        /// Its opcodes, at least one.
        ops: Vec<OpInput>;
    ] -> JobId;

    /// Queue one job even if the queue is drained.
    Change Opcodes SubmitJobToDrainedQueue [
        /// Its opcodes, at least one.
        ops: Vec<OpInput>;
    ] -> JobId;

    /// Queue several jobs, which may depend on one another.
    Change Opcodes SubmitManyJobs [
        /// The opcodes of each job.
        jobs: Vec<Vec<OpInput>>;
    ] -> Vec<Submission>;

    /// Wait until observed fields of a job change, or it says something.
    Wait Read WaitForJobChange [
        /// Which job.
        job_id: JobId;
        /// The fields to observe.
        fields: Fields;
        /// Their last known values; null means to answer at once.
        previous: Option<Row>;
        /// Serial of the last known log entry; null means none.
        previous_log: Option<u64>;
        /// Seconds to wait, at most 89.
        timeout: f64;
    ] -> JobChange;

    /// Cancel a job: `[whether it worked, why]`.
    Change Operator CancelJob [
        /// Which job.
        job_id: JobId;
        /// Kill it where it cannot be canceled.
        kill: bool, default false;
    ] -> (bool, String);

    /// Change the priority of a job's opcodes that have not begun: `[whether it worked, why]`.
    Change Operator ChangeJobPriority [
        /// Which job.
        job_id: JobId;
        /// −20 (first) to 19 (last).
        priority: i32;
    ] -> (bool, String);

    /// Archive one job that has ended; false if it has not, or does not exist.
    Change Operator ArchiveJob [
        /// Which job.
        job_id: JobId;
    ] -> bool;

    /// Archive jobs that ended long ago: `[how many were, how many are left unchecked]`.
    Wait Operator AutoArchiveJobs [
        /// Seconds since the end; −1 archives all that have ended.
        age: i64;
        /// Seconds to spend, at most 89.
        timeout: f64;
    ] -> (u64, u64);

    /// Between Ganeti's own daemons; always refused.
    Change Administrator PickupJob [
        /// Which job.
        job_id: JobId;
    ] -> ();

    /// List objects of one kind, with a status for each value.
    Query Read Query [
        /// The kind of object.
        what: What;
        /// The fields wanted.
        fields: Fields;
        /// Which objects; null means all.
        filter: Option<Filter>;
    ] -> Table;

    /// Describe the fields of one kind of object.
    Query Read QueryFields [
        /// The kind of object.
        what: What;
        /// The fields to describe; null means all.
        fields: Option<Fields>;
    ] -> Definitions;

    /// Rows of bare values on jobs; a null row for one that does not exist.
    Query Read QueryJobs [
        /// Which jobs; null means all.
        job_ids: Option<Vec<JobId>>;
        /// The fields wanted.
        fields: Fields;
    ] -> Vec<Option<Row>>;

    /// Rows of bare values on nodes.
    Query Read QueryNodes [
        /// Their names; none means all.
        names: Vec<String>;
        /// The fields wanted.
        fields: Fields;
        /// Must be false.
        use_locking: bool;
    ] -> Vec<Row>;

    /// Rows of bare values on instances.
    Query Read QueryInstances [
        /// Their names; none means all.
        names: Vec<String>;
        /// The fields wanted.
        fields: Fields;
        /// Must be false.
        use_locking: bool;
    ] -> Vec<Row>;

    /// Rows of bare values on node groups.
    Query Read QueryGroups [
        /// Their names; none means all.
        names: Vec<String>;
        /// The fields wanted.
        fields: Fields;
        /// Must be false.
        use_locking: bool;
    ] -> Vec<Row>;

    /// Rows of bare values on networks.
    Query Read QueryNetworks [
        /// Their names; none means all.
        names: Vec<String>;
        /// The fields wanted.
        fields: Fields;
        /// Must be false.
        use_locking: bool;
    ] -> Vec<Row>;

    /// Exports by node.
    Query Read QueryExports [
        /// Names of nodes; none means all.
        nodes: Vec<String>;
        /// Must be false.
        use_locking: bool;
    ] -> Vec<Row>;

    /// Rows of bare values on filter rules.
    Query Read QueryFilters [
        /// Their ids; null means all.
        uuids: Option<Vec<String>>;
        /// The fields wanted.
        fields: Fields;
    ] -> Vec<Row>;

    /// Add or replace a filter rule; gives its id.
    Change Operator ReplaceFilter [
        /// The rule to replace; null adds one.
        uuid: Option<String>;
        /// Lower ones come first.
        priority: u32;
        /// Which jobs it is for.
        predicates: Vec<Value>;
        /// The action on these jobs.
        action: Value;
        /// The sources of the request, and their reasons.
        reason: Vec<ReasonEntry>;
        /// The digest that the rule must have still; null replaces it whatever it has.
        unchanged: Option<String>, default null;
    ] -> String;

    /// Delete a filter rule.
    Change Operator DeleteFilter [
        /// Its id.
        uuid: String;
        /// The digest that it must have still; null deletes it whatever it has.
        unchanged: Option<String>, default null;
    ] -> ();

    /// Values of the cluster by name; null for an unknown name.
    Query Read QueryConfigValues [
        /// Of `cluster_name`, `watcher_pause`, `master_node`, `drain_flag` and others.
        names: Fields;
    ] -> Vec<Value>;

    /// Describe the cluster.
    Query Read QueryClusterInfo [] -> Value;

    /// Tags of an object.
    Query Read QueryTags [
        /// `cluster`, `node`, `instance`, `nodegroup` or `network`.
        kind: String;
        /// Its name; null or empty for the cluster.
        name: Option<String>;
    ] -> Vec<String>;

    /// Drain the queue, or open it again; always true.
    Change Administrator SetDrainFlag [
        /// Whether it is drained.
        drained: bool;
    ] -> bool;

    /// Pause the watcher; gives the time as set.
    Change Administrator SetWatcherPause [
        /// Seconds since the epoch until when; null goes on at once.
        until: Option<f64>;
    ] -> Option<f64>;

    /// Hand over the one-time secret of a node that is about to be added; never stored.
    Change Administrator GantryStageSecret [
        /// The node that will be added.
        node_name: NodeName;
        /// The secret that `noded enroll` showed.
        secret: StagedSecret;
    ] -> ();

    /// Have a node take the master role; null means the one that is asked. Gives `done`, `message`
    /// and what every node said.
    Wait Administrator GantryMasterFailover [
        /// The node that is to be master.
        to: Option<NodeName>;
        /// The checks that are waived, and how long to wait.
        request: RoleRequest;
    ] -> RoleTaken;

    /// Tell how the cluster stands, as far as the one that is asked knows: also of a standby.
    Query Read GantryClusterStatus [] -> ClusterStatus;

    /// Tell how the cluster stands, as far as the master knows.
    Query Read GantryMasterStatus [] -> ClusterStatus;

    /// Begin an export of the whole store as it is now; gives its id. With a passphrase, which root
    /// may give, the secrets are sealed with it; without one they are left out.
    Change Administrator GantryExport [
        /// With what secrets are sealed; null leaves them out.
        passphrase: Option<StagedSecret>;
    ] -> String;

    /// Fetch the next piece of an export, within a minute.
    Change Administrator GantryExportPiece [
        /// Its id.
        id: String;
        /// How many bytes were fetched before.
        offset: u64;
    ] -> ExportPiece;

    /// The rules by which machines get addresses; null where none are set.
    Query Read GantryIpam [] -> Option<IpamConfig>;

    /// The digest of a document of the configuration, for `unchanged` of opcodes; null where there is
    /// none.
    Query Read GantryDigest [
        /// Its key, such as `machines/SERIAL`.
        document: String;
    ] -> Option<String>;

    /// How agents serve DHCP.
    Query Read GantryDhcp [] -> DhcpConfig;

    /// Seal a secret, so that an opcode can carry it.
    Query Operator GantrySeal [
        /// The purpose, as the opcode names it: `disk-key/SERIAL/DISK`.
        purpose: String;
        /// The secret in Base64: 1 to 4,096 bytes.
        secret: StagedSecret;
    ] -> Sealed;

    /// The key of a machine's disk in Base64, for root and `rapi`; null where none is kept.
    Query Operator GantryDiskKey [
        /// The machine's serial number.
        serial: String;
        /// Its disk.
        disk: String;
    ] -> Option<StagedSecret>;

    /// The files that configure a machine's network.
    Query Read GantryNetworkFiles [
        /// The machine's serial number.
        serial: String;
        /// The version of the template of its role; null means the one that it has.
        version: Option<u32>;
        /// `netplan`, `networkd`, `network-manager`, `os-net-config`, `network-data` or `nmstate`.
        format: String;
    ] -> Vec<NetworkFile>;

    /// The document that a machine fetches to configure itself when it boots.
    Query Read GantryBootDocument [
        /// The machine's serial number.
        serial: String;
        /// Which document.
        kind: DocumentKind;
        /// The version of the template of its role; null means the newest one.
        version: Option<TemplateId>;
    ] -> BootDocument;

    /// The audit log: who asked for which change, and what came of it, in its order. The newest where
    /// there are more.
    Query Read GantryLog [
        /// Which entries.
        filter: AuditFilter;
        /// How many at most, up to 10,000.
        limit: u32;
    ] -> Vec<AuditEntry>;

    /// Keep in the audit log what a door of the cluster refused; between Gantry's own daemons.
    Change Administrator GantryNoteRefusals [
        /// At most 64.
        entries: Vec<AuditEntry>;
    ] -> ();

    /// The grant of a token; null where there is none.
    Query Administrator GantryToken [
        /// SHA-256 of the token.
        sha256: TokenDigest;
    ] -> Option<TokenGrant>;

    /// Type on the console of an instance, and tell what it says from a place on.
    Wait Operator GantryConsole [
        /// Its name.
        instance: String;
        /// The input, in Base64; null for none.
        input: Option<StagedSecret>;
        /// The place from which on; null begins near the end of what it said.
        from: Option<u64>;
        /// Seconds to wait where it said nothing since, at most 20.
        timeout: f64;
    ] -> ConsolePiece;

    /// Answer what a ramdisk asked the front door by Ironic's API; between Gantry's own daemons.
    Change Administrator GantryRamdisk [
        /// What it asked.
        asked: ironic::Asked;
        /// The address that it asked from.
        from: IpAddr;
    ] -> ironic::Answer;
}
