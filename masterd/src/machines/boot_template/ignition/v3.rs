//! Core: the tables of version 3 of Ignition's specification. A key that came with a later version than 3.0
//! stands with that version.

use super::rules::{between, partitions, storage, units};
use super::schema::Takes::{
    List, ListOnce, Mode, Needed, Object as An, Text, Texts, TextsOnce, Truth, Whole,
};
use super::schema::{Key, Object, Spec};
use super::values::{self, any, filled};

pub(super) const V3_1: Spec = Spec(3, 1);
pub(super) const V3_2: Spec = Spec(3, 2);
pub(super) const V3_3: Spec = Spec(3, 3);
pub(super) const V3_4: Spec = Spec(3, 4);
pub(super) const V3_5: Spec = Spec(3, 5);
pub(super) const V3_6: Spec = Spec(3, 6);

pub(super) static CONFIG: Object = Object {
    keys: &[&[
        Key::new("ignition", An(&IGNITION)),
        Key::since(V3_3, "kernelArguments", An(&KERNEL_ARGUMENTS)),
        Key::new("passwd", An(&PASSWD)),
        Key::new("storage", An(&STORAGE)),
        Key::new("systemd", An(&SYSTEMD)),
    ]],
    rules: &[units::no_file_is_a_unit],
};

static IGNITION: Object = Object {
    keys: &[&[
        Key::new("config", An(&CONFIG_SOURCES)),
        Key::since(V3_1, "proxy", An(&PROXY)),
        Key::new("security", An(&SECURITY)),
        Key::new("timeouts", An(&TIMEOUTS)),
        Key::new("version", Text(any)),
    ]],
    rules: &[],
};

static CONFIG_SOURCES: Object = Object {
    keys: &[&[
        Key::new("merge", ListOnce(&MERGED, "source")),
        Key::new("replace", An(&REPLACEMENT)),
    ]],
    rules: &[],
};

/// What is fetched.
const RESOURCE: &[Key] = &[
    Key::since(V3_1, "httpHeaders", ListOnce(&HEADER, "name")),
    Key::new("source", Text(values::source)),
    Key::new("verification", An(&VERIFICATION)),
];
const COMPRESSION: Key = Key::new("compression", Text(values::compression));
const COMPRESSION_OF_CONFIG: Key = Key::since(V3_1, "compression", Text(values::compression));

static REPLACEMENT: Object = Object {
    keys: &[RESOURCE, &[COMPRESSION_OF_CONFIG]],
    rules: &[between::hash_of_later_source, between::headers],
};
static MERGED: Object = Object {
    keys: &[RESOURCE, &[COMPRESSION_OF_CONFIG]],
    rules: &[between::later_source, between::hash_of_later_source, between::headers],
};
static AUTHORITY: Object = Object {
    keys: &[RESOURCE, &[COMPRESSION_OF_CONFIG]],
    rules: &[between::source, between::hash_of_later_source, between::headers],
};
static CONTENTS: Object = Object {
    keys: &[RESOURCE, &[COMPRESSION]],
    rules: &[between::hash_of_source, between::headers],
};

static HEADER: Object = Object {
    keys: &[&[Key::new("name", Needed(filled)), Key::new("value", Text(filled))]],
    rules: &[],
};

pub(super) static VERIFICATION: Object =
    Object { keys: &[&[Key::new("hash", Text(values::hash))]], rules: &[] };

static PROXY: Object = Object {
    keys: &[&[
        Key::new("httpProxy", Text(values::proxy)),
        Key::new("httpsProxy", Text(values::proxy)),
        Key::new("noProxy", TextsOnce(any)),
    ]],
    rules: &[between::plain_proxy],
};

static SECURITY: Object = Object { keys: &[&[Key::new("tls", An(&TLS))]], rules: &[] };
static TLS: Object = Object {
    keys: &[&[Key::new("certificateAuthorities", ListOnce(&AUTHORITY, "source"))]],
    rules: &[],
};

pub(super) static TIMEOUTS: Object = Object {
    keys: &[&[Key::new("httpResponseHeaders", Whole), Key::new("httpTotal", Whole)]],
    rules: &[],
};

static KERNEL_ARGUMENTS: Object = Object {
    keys: &[&[Key::new("shouldExist", TextsOnce(any)), Key::new("shouldNotExist", TextsOnce(any))]],
    rules: &[between::kernel_arguments],
};

static PASSWD: Object = Object {
    keys: &[&[
        Key::new("groups", ListOnce(&GROUP, "name")),
        Key::new("users", ListOnce(&USER, "name")),
    ]],
    rules: &[],
};

static GROUP: Object = Object {
    keys: &[&[
        Key::new("gid", Whole),
        Key::new("name", Needed(values::account)),
        Key::new("passwordHash", Text(any)),
        Key::since(V3_2, "shouldExist", Truth),
        Key::new("system", Truth),
    ]],
    rules: &[],
};

static USER: Object = Object {
    keys: &[&[
        Key::new("gecos", Text(any)),
        Key::new("groups", TextsOnce(any)),
        Key::new("homeDir", Text(any)),
        Key::new("name", Needed(values::account)),
        Key::new("noCreateHome", Truth),
        Key::new("noLogInit", Truth),
        Key::new("noUserGroup", Truth),
        Key::new("passwordHash", Text(any)),
        Key::new("primaryGroup", Text(any)),
        Key::new("sshAuthorizedKeys", TextsOnce(any)),
        Key::new("shell", Text(any)),
        Key::since(V3_2, "shouldExist", Truth),
        Key::new("system", Truth),
        Key::new("uid", Whole),
    ]],
    rules: &[],
};

static STORAGE: Object = Object {
    keys: &[&[
        Key::new("directories", List(&DIRECTORY)),
        Key::new("disks", ListOnce(&DISK, "device")),
        Key::new("files", List(&FILE)),
        Key::new("filesystems", ListOnce(&FILESYSTEM, "device")),
        Key::new("links", List(&LINK)),
        Key::since(V3_2, "luks", ListOnce(&LUKS, "name")),
        Key::new("raid", ListOnce(&RAID, "name")),
    ]],
    rules: &[storage::paths_once, storage::nothing_behind_links, storage::hard_links],
};

/// The common keys of a file, a directory and a link.
const NODE: &[Key] = &[
    Key::new("group", An(&OWNER)),
    Key::new("overwrite", Truth),
    Key::new("path", Needed(values::clean_path)),
    Key::new("user", An(&OWNER)),
];

pub(super) static OWNER: Object = Object {
    keys: &[&[Key::new("id", Whole), Key::new("name", Text(any))]],
    rules: &[between::id_or_name],
};

static DIRECTORY: Object =
    Object { keys: &[NODE, &[Key::new("mode", Mode)]], rules: &[storage::special_bits] };

static FILE: Object = Object {
    keys: &[
        NODE,
        &[
            Key::new("append", List(&CONTENTS)),
            Key::new("contents", An(&CONTENTS)),
            Key::new("mode", Mode),
        ],
    ],
    rules: &[storage::special_bits, storage::overwrite_has_source],
};

static LINK: Object = Object {
    keys: &[NODE, &[Key::new("hard", Truth), Key::new("target", Needed(filled))]],
    rules: &[],
};

static DISK: Object = Object {
    keys: &[&[
        Key::new("device", Needed(values::clean_path)),
        Key::new("partitions", List(&PARTITION)),
        Key::new("wipeTable", Truth),
    ]],
    rules: &[partitions::numbers, partitions::extents, partitions::labels, partitions::zeros],
};

static PARTITION: Object = Object {
    keys: &[&[
        Key::new("guid", Text(values::guid)),
        Key::new("label", Text(values::partition_label)),
        Key::new("number", Whole),
        Key::since(V3_2, "resize", Truth),
        Key::new("shouldExist", Truth),
        Key::new("sizeMiB", Whole),
        Key::new("startMiB", Whole),
        Key::new("typeGuid", Text(values::guid)),
        Key::new("wipePartitionEntry", Truth),
    ]],
    rules: &[partitions::absent_is_nothing_else, partitions::number_or_label],
};

static FILESYSTEM: Object = Object {
    keys: &[&[
        Key::new("device", Needed(values::clean_path)),
        Key::new("format", Text(values::format)),
        Key::new("label", Text(any)),
        Key::since(V3_1, "mountOptions", Texts(any)),
        Key::new("options", Texts(any)),
        Key::new("path", Text(values::clean_path_or_none)),
        Key::new("uuid", Text(any)),
        Key::new("wipeFilesystem", Truth),
    ]],
    rules: &[storage::format_is_needed, storage::label_of_filesystem],
};

static LUKS: Object = Object {
    keys: &[&[
        Key::since(V3_5, "cex", An(&CEX)),
        Key::new("clevis", An(&CLEVIS)),
        Key::new("device", Needed(values::clean_path)),
        Key::since(V3_4, "discard", Truth),
        Key::new("keyFile", An(&CONTENTS)),
        Key::new("label", Text(values::luks_label)),
        Key::new("name", Needed(values::luks_name)),
        Key::since(V3_4, "openOptions", TextsOnce(any)),
        Key::new("options", Texts(any)),
        Key::new("uuid", Text(any)),
        Key::new("wipeVolume", Truth),
    ]],
    rules: &[between::custom_clevis, between::cex],
};

static CEX: Object = Object { keys: &[&[Key::new("enabled", Truth)]], rules: &[] };

static CLEVIS: Object = Object {
    keys: &[&[
        Key::new("custom", An(&CUSTOM_CLEVIS)),
        Key::new("tang", ListOnce(&TANG, "url")),
        Key::new("threshold", Whole),
        Key::new("tpm2", Truth),
    ]],
    rules: &[],
};

static CUSTOM_CLEVIS: Object = Object {
    keys: &[&[
        Key::new("config", Text(any)),
        Key::new("needsNetwork", Truth),
        Key::new("pin", Text(any)),
    ]],
    rules: &[between::pin_and_config],
};

static TANG: Object = Object {
    keys: &[&[
        Key::since(V3_4, "advertisement", Text(values::json_or_none)),
        Key::new("thumbprint", Needed(filled)),
        Key::new("url", Needed(values::tang)),
    ]],
    rules: &[],
};

static RAID: Object = Object {
    keys: &[&[
        Key::new("devices", TextsOnce(values::clean_path)),
        Key::new("level", Needed(values::raid_level)),
        Key::new("name", Needed(filled)),
        Key::new("options", Texts(any)),
        Key::new("spares", Whole),
    ]],
    rules: &[storage::devices_of_raid, storage::spares],
};

static SYSTEMD: Object =
    Object { keys: &[&[Key::new("units", ListOnce(&UNIT, "name"))]], rules: &[] };

static UNIT: Object = Object {
    keys: &[&[
        Key::new("contents", Text(values::unit_contents)),
        Key::new("dropins", ListOnce(&DROP_IN, "name")),
        Key::new("enabled", Truth),
        Key::new("mask", Truth),
        Key::new("name", Needed(values::unit_name)),
    ]],
    rules: &[units::enabled_is_installed],
};

pub(super) static DROP_IN: Object = Object {
    keys: &[&[
        Key::new("contents", Text(values::unit_contents)),
        Key::new("name", Needed(values::drop_in_name)),
    ]],
    rules: &[],
};
