//! Core: the tables of version 2 of Ignition's specification, which sabakan's templates have. A key that came
//! with 2.3 stands with that version.

use super::rules::{between, partitions, storage, units};
use super::schema::Takes::{List, Mode, Needed, Object as An, Text, Texts, Truth, Whole};
use super::schema::{Key, Object, Spec};
use super::v3::{DROP_IN, OWNER, TIMEOUTS, VERIFICATION};
use super::values::{self, any, filled};

pub(super) const V2_3: Spec = Spec(2, 3);

pub(super) static CONFIG: Object = Object {
    keys: &[&[
        Key::new("ignition", An(&IGNITION)),
        Key::new("networkd", An(&NETWORKD)),
        Key::new("passwd", An(&PASSWD)),
        Key::new("storage", An(&STORAGE)),
        Key::new("systemd", An(&SYSTEMD)),
    ]],
    rules: &[],
};

static IGNITION: Object = Object {
    keys: &[&[
        Key::new("config", An(&CONFIG_SOURCES)),
        Key::new("security", An(&SECURITY)),
        Key::new("timeouts", An(&TIMEOUTS)),
        Key::new("version", Text(any)),
    ]],
    rules: &[],
};

static CONFIG_SOURCES: Object = Object {
    keys: &[&[Key::new("append", List(&REFERENCE)), Key::new("replace", An(&REFERENCE))]],
    rules: &[],
};

static REFERENCE: Object = Object {
    keys: &[&[
        Key::new("source", Text(values::source)),
        Key::new("verification", An(&VERIFICATION)),
    ]],
    rules: &[],
};

static SECURITY: Object = Object { keys: &[&[Key::new("tls", An(&TLS))]], rules: &[] };
static TLS: Object =
    Object { keys: &[&[Key::new("certificateAuthorities", List(&REFERENCE))]], rules: &[] };

static PASSWD: Object = Object {
    keys: &[&[Key::new("groups", List(&GROUP)), Key::new("users", List(&USER))]],
    rules: &[],
};

static GROUP: Object = Object {
    keys: &[&[
        Key::new("gid", Whole),
        Key::new("name", Needed(values::account)),
        Key::new("passwordHash", Text(any)),
        Key::new("system", Truth),
    ]],
    rules: &[],
};

/// The keys for a new account.
const ACCOUNT: &[Key] = &[
    Key::new("gecos", Text(any)),
    Key::new("groups", Texts(any)),
    Key::new("homeDir", Text(any)),
    Key::new("noCreateHome", Truth),
    Key::new("noLogInit", Truth),
    Key::new("noUserGroup", Truth),
    Key::new("primaryGroup", Text(any)),
    Key::new("shell", Text(any)),
    Key::new("system", Truth),
    Key::new("uid", Whole),
];

static USER: Object = Object {
    keys: &[
        ACCOUNT,
        &[
            Key::new("create", An(&CREATED_ACCOUNT)),
            Key::new("name", Needed(values::account)),
            Key::new("passwordHash", Text(any)),
            Key::new("sshAuthorizedKeys", Texts(any)),
        ],
    ],
    rules: &[between::create_is_alone],
};
static CREATED_ACCOUNT: Object = Object { keys: &[ACCOUNT], rules: &[] };

static STORAGE: Object = Object {
    keys: &[&[
        Key::new("directories", List(&DIRECTORY)),
        Key::new("disks", List(&DISK)),
        Key::new("files", List(&FILE)),
        Key::new("filesystems", List(&FILESYSTEM)),
        Key::new("links", List(&LINK)),
        Key::new("raid", List(&RAID)),
    ]],
    rules: &[],
};

/// The common keys of a file, a directory and a link.
const NODE: &[Key] = &[
    Key::new("filesystem", Needed(filled)),
    Key::new("group", An(&OWNER)),
    Key::new("overwrite", Truth),
    Key::new("path", Needed(values::absolute_path)),
    Key::new("user", An(&OWNER)),
];

static DIRECTORY: Object = Object { keys: &[NODE, &[Key::new("mode", Mode)]], rules: &[] };

static FILE: Object = Object {
    keys: &[
        NODE,
        &[Key::new("append", Truth), Key::new("contents", An(&CONTENTS)), Key::new("mode", Mode)],
    ],
    rules: &[storage::append_or_overwrite],
};

static CONTENTS: Object = Object {
    keys: &[&[
        Key::new("compression", Text(values::compression)),
        Key::new("source", Text(values::source)),
        Key::new("verification", An(&VERIFICATION)),
    ]],
    rules: &[],
};

static LINK: Object = Object {
    keys: &[NODE, &[Key::new("hard", Truth), Key::new("target", Needed(filled))]],
    rules: &[],
};

static DISK: Object = Object {
    keys: &[&[
        Key::new("device", Needed(values::absolute_path)),
        Key::new("partitions", List(&PARTITION)),
        Key::new("wipeTable", Truth),
    ]],
    rules: &[
        partitions::numbers,
        partitions::sectors,
        partitions::zeros,
        partitions::one_unit_for_all,
    ],
};

static PARTITION: Object = Object {
    keys: &[&[
        Key::new("guid", Text(values::guid)),
        Key::new("label", Text(values::partition_label)),
        Key::new("number", Whole),
        Key::since(V2_3, "shouldExist", Truth),
        Key::new("size", Whole),
        Key::since(V2_3, "sizeMiB", Whole),
        Key::new("start", Whole),
        Key::since(V2_3, "startMiB", Whole),
        Key::new("typeGuid", Text(values::guid)),
        Key::since(V2_3, "wipePartitionEntry", Truth),
    ]],
    rules: &[partitions::absent_is_nothing_else],
};

static FILESYSTEM: Object = Object {
    keys: &[&[
        Key::new("mount", An(&MOUNT)),
        Key::new("name", Text(any)),
        Key::new("path", Text(values::absolute_path)),
    ]],
    rules: &[storage::mount_or_path],
};

static MOUNT: Object = Object {
    keys: &[&[
        Key::new("create", An(&CREATION)),
        Key::new("device", Needed(values::absolute_path)),
        Key::new("format", Needed(values::format)),
        Key::new("label", Text(any)),
        Key::new("options", Texts(any)),
        Key::new("uuid", Text(any)),
        Key::new("wipeFilesystem", Truth),
    ]],
    rules: &[storage::label_of_filesystem],
};

static CREATION: Object =
    Object { keys: &[&[Key::new("force", Truth), Key::new("options", Texts(any))]], rules: &[] };

static RAID: Object = Object {
    keys: &[&[
        Key::new("devices", Texts(values::absolute_path)),
        Key::new("level", Needed(values::raid_level)),
        Key::new("name", Needed(filled)),
        Key::new("options", Texts(any)),
        Key::new("spares", Whole),
    ]],
    rules: &[storage::spares],
};

static SYSTEMD: Object = Object { keys: &[&[Key::new("units", List(&UNIT))]], rules: &[] };

static UNIT: Object = Object {
    keys: &[&[
        Key::new("contents", Text(values::unit_contents)),
        Key::new("dropins", List(&DROP_IN)),
        Key::new("enable", Truth),
        Key::new("enabled", Truth),
        Key::new("mask", Truth),
        Key::new("name", Needed(values::unit_name)),
    ]],
    rules: &[units::enabled_is_installed],
};

static NETWORKD: Object = Object { keys: &[&[Key::new("units", List(&NETWORK))]], rules: &[] };

static NETWORK: Object = Object {
    keys: &[&[
        Key::new("contents", Text(values::unit_contents)),
        Key::new("dropins", List(&DROP_IN)),
        Key::new("name", Needed(values::network_name)),
    ]],
    rules: &[],
};
