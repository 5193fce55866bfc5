//! The verdicts of Ignition's own validator and of the checks here on randomly changed documents. They
//! are the same, but for faults that Ignition finds out only while it works.

use std::path::Path;
use std::process::Command;

use proptest::prelude::{Just, Strategy};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{SPECS, check};

const VALIDATOR: &str = "ignition-validate";
/// Changed documents of each version, each of which starts a process.
const USUAL: usize = 150;
/// The same by `cargo xtask test --long`.
const LONG: usize = 3_000;

/// Reasons of ours that the validator does not have: it lets a machine find out.
const OURS: &[&str] = &[
    // useradd, mdadm and cryptsetup want a name.
    "which is no name",
    ".name` is missing",
    ".name` is empty",
    // So does a link, before version 3.3.
    ".target` is missing",
    ".target` is empty",
    // A digest with other digits is that of no file.
    "hexadecimal digits",
    // The systems of the time before 3.4 refuse it.
    "beside one without a `number`",
];
/// The warning about documents that newer validators refuse, whatever the version.
const REFUSED_LATER: &str = "newer systems refuse that";
/// How the validators of both major versions tell of a key that there is not.
const UNKNOWN: [&str; 2] = ["unused key", "unrecognized key"];

/// The validator adds this where it cannot look for such keys, as in a section that is `null`.
const CANNOT_TELL: &str = "unused keys may not be reported";

/// A configuration with every key of version 3.
pub(super) fn newest() -> Value {
    let source = json!({"source": "https://a/b", "compression": "gzip",
        "verification": {"hash": format!("sha512-{}", "a".repeat(128))},
        "httpHeaders": [{"name": "a", "value": "b"}, {"name": "c"}]});
    json!({
        "ignition": {
            "version": "3.0.0",
            "config": {"merge": [source, {"source": "data:,a"}], "replace": source},
            "proxy": {"httpProxy": "http://a", "httpsProxy": "https://a", "noProxy": ["a", "b"]},
            "security": {"tls": {"certificateAuthorities": [source]}},
            "timeouts": {"httpResponseHeaders": 1, "httpTotal": 2},
        },
        "kernelArguments": {"shouldExist": ["a"], "shouldNotExist": ["b"]},
        "passwd": {
            "groups": [{"gid": 1, "name": "a", "passwordHash": "x", "shouldExist": true, "system": true}],
            "users": [{"gecos": "a", "groups": ["a", "b"], "homeDir": "/a", "name": "a", "noCreateHome": true,
                "noLogInit": true, "noUserGroup": true, "passwordHash": "x", "primaryGroup": "a",
                "sshAuthorizedKeys": ["k", "l"], "shell": "/a", "shouldExist": true, "system": true, "uid": 1}],
        },
        "storage": {
            "directories": [{"path": "/d", "mode": 493, "overwrite": true, "user": {"id": 0}, "group": {"name": "a"}}],
            "disks": [{"device": "/dev/a", "wipeTable": true, "partitions": [
                {"number": 1, "label": "a", "startMiB": 1, "sizeMiB": 10, "resize": false, "shouldExist": true,
                    "guid": "01234567-89ab-cdef-0123-456789abcdef", "typeGuid": "", "wipePartitionEntry": true},
                {"number": 2, "startMiB": 11, "sizeMiB": 0}, {"number": 3, "shouldExist": false}, {"label": "b", "number": 4}]}],
            "files": [
                {"path": "/f", "mode": 420, "contents": source, "overwrite": true, "append": [source, source],
                    "user": {"name": "a"}, "group": {"id": 1}},
                {"path": "/g", "contents": {"source": "data:;base64,YQ=="}}],
            "filesystems": [{"device": "/dev/b", "format": "ext4", "label": "a", "mountOptions": ["a", "a"],
                "options": ["b", "b"], "path": "/m", "uuid": "u", "wipeFilesystem": true}],
            "links": [{"path": "/l", "target": "/f", "hard": true}, {"path": "/k", "target": "f"}],
            "luks": [
                {"name": "a", "device": "/dev/c", "label": "a", "uuid": "u", "wipeVolume": true, "discard": true,
                    "keyFile": source, "openOptions": ["a"], "options": ["b", "b"], "cex": {"enabled": false},
                    "clevis": {"tang": [{"url": "http://a", "thumbprint": "x", "advertisement": "{}"}],
                        "threshold": 1, "tpm2": true}},
                {"name": "b", "device": "/dev/d", "clevis": {"custom": {"pin": "sss", "config": "{}", "needsNetwork": true}}}],
            "raid": [{"name": "a", "level": "raid1", "devices": ["/dev/e", "/dev/f"], "options": ["a"], "spares": 1}],
        },
        "systemd": {"units": [{"name": "a.service", "enabled": true, "mask": false,
            "contents": "[Unit]\nA=b\n[Install]\nWantedBy=c\n",
            "dropins": [{"name": "a.conf", "contents": "[Unit]\nA=b\n"}]}]},
    })
}

/// A configuration with every key of version 2.
pub(super) fn oldest() -> Value {
    let source = json!({"source": "https://a/b",
        "verification": {"hash": format!("sha512-{}", "a".repeat(128))}});
    let dropins = json!([{"name": "a.conf", "contents": "[Unit]\nA=b\n"}]);
    json!({
        "ignition": {
            "version": "2.2.0", "config": {"append": [source], "replace": source},
            "security": {"tls": {"certificateAuthorities": [source]}},
            "timeouts": {"httpResponseHeaders": 1, "httpTotal": 2},
        },
        "networkd": {"units": [{"name": "a.network", "contents": "[Match]\nName=a\n", "dropins": dropins}]},
        "passwd": {
            "groups": [{"gid": 1, "name": "a", "passwordHash": "x", "system": true}],
            "users": [
                {"gecos": "a", "groups": ["a", "a"], "homeDir": "/a", "name": "a", "noCreateHome": true,
                    "noLogInit": true, "noUserGroup": true, "passwordHash": "x", "primaryGroup": "a",
                    "sshAuthorizedKeys": ["k"], "shell": "/a", "system": true, "uid": 1},
                {"name": "b", "create": {"gecos": "a", "groups": ["a"], "homeDir": "/a", "noCreateHome": true,
                    "noLogInit": true, "noUserGroup": true, "primaryGroup": "a", "shell": "/a", "system": true, "uid": 1}}],
        },
        "storage": {
            "directories": [{"filesystem": "root", "path": "/d", "mode": 493, "overwrite": true, "user": {"id": 0}, "group": {"name": "a"}}],
            "disks": [
                {"device": "/dev/a", "wipeTable": true, "partitions": [
                    {"number": 1, "label": "a", "start": 2048, "size": 2048, "guid": "", "typeGuid": ""},
                    {"number": 2, "start": 4096, "size": 0}]},
                {"device": "/dev/b", "partitions": [{"number": 1, "startMiB": 1, "sizeMiB": 2, "shouldExist": true,
                    "wipePartitionEntry": true}, {"number": 2, "shouldExist": false}]}],
            "files": [{"filesystem": "root", "path": "/f", "mode": 420, "append": false, "overwrite": true,
                "contents": {"source": "data:,a", "compression": "gzip", "verification": {"hash": null}},
                "user": {"name": "a"}, "group": {"id": 1}}],
            "filesystems": [
                {"name": "a", "mount": {"device": "/dev/c", "format": "ext4", "label": "a", "options": ["a"],
                    "uuid": "u", "wipeFilesystem": true}},
                {"name": "b", "path": "/b"},
                {"name": "c", "mount": {"device": "/dev/d", "format": "xfs", "create": {"force": true, "options": ["a"]}}}],
            "links": [{"filesystem": "root", "path": "/l", "target": "/f", "hard": true}],
            "raid": [{"name": "a", "level": "raid1", "devices": ["/dev/e"], "options": ["a"], "spares": 1}],
        },
        "systemd": {"units": [{"name": "a.service", "enable": true, "enabled": true, "mask": false,
            "contents": "[Unit]\nA=b\n[Install]\nWantedBy=c\n", "dropins": dropins}]},
    })
}

/// The texts that may replace a text.
const TEXTS: &[&str] = &[
    "",
    "x",
    "/",
    "/x",
    "/x/",
    "//x",
    "/a/../b",
    "./x",
    "data:",
    "data:,",
    "data:,a b",
    "data:,%41%zz",
    "data:;base64,@@@",
    "data:;base64,YQ",
    "data:;base64,YQ==",
    "data:;base64,YR==",
    "data:;base64;x=1,YQ==",
    "data:text/plain,x",
    "data:text/plain;charset=utf-8;base64,YQ==",
    "data:nope/x,y",
    "data:x-a/b,y",
    "data:text/plain;a=\"b,\\\"\",x",
    "DATA:,x",
    "data:,x#y",
    "data:,ä",
    "http://a b/",
    "http://h:80x/",
    "http://h:/",
    "http://[::1",
    "http://[::1]:80/",
    "http://[fe80::1%25e%20]/",
    "http://u:p@h/",
    "http://u p@h/",
    "http://h/%zz",
    "http://h/#%zz",
    "http://h%41/",
    "http://h%c3%a4/",
    "HTTP://h/",
    "http:x",
    "http",
    "://x",
    "1http://x",
    "file:///a",
    "s3://b/k?versionId=",
    "s3://b/k?versionId=a&versionId=",
    "gs://b/k",
    "arn:aws:s3:::b/k",
    "arn:aws:s3:::accesspoint/a",
    "arn:aws:ec2:::b/k",
    "arn:aws:s3",
    "oem:///x",
    "tftp://h/x",
    "x\ny",
    "sha512-00",
    "gzip",
    "xz",
    "ext4",
    "none",
    "zfs",
    "vfat",
    "a label with twenty-seven",
    "a:b",
    "a-label-with-forty-eight-bytes-is-too-long-for-luks",
    "01234567-89AB-CDEF-EDCB-A98765432101",
    "01234567-89ab",
    "[Unit]\nA=b\n",
    "[Unit",
    "[Unit]\nA",
    "[Unit] x",
    "# x \\\n[",
    "a.service",
    "b.conf",
    "b.network",
    "a.mount/x",
    ".service",
    "raid0",
    "linear",
    "stripe",
    "tpm2",
    "sss",
    "{}",
    "{",
    "a/b",
    "/f",
    "/l/x",
    "/etc/systemd/system/a.service",
];

/// The values that may replace anything.
fn values() -> Vec<Value> {
    let texts = [64, 128].map(|digits| format!("sha{}-{}", digits * 4, "f".repeat(digits)));
    let long = format!("[Unit]\nA=b\n#{}\n", "x".repeat(3_000));
    let late = format!("[Unit]\n{}#{}\n", "A=b\n".repeat(700), "x".repeat(2_500));
    let texts = texts.into_iter().chain([long, late]).map(Value::from);
    let others = json!([null, true, false, 0, 1, -1, 4095, 4096, 1.5, 9_223_372_036_854_775_808_u64,
        [], {}, [null], ["x"], ["x", "x"], [{}], {"nope": 1}, {"name": "x"}, {"id": 1}, {"pin": "x"}]);
    let others = others.as_array().cloned().unwrap_or_default();
    TEXTS.iter().map(|text| Value::from(*text)).chain(texts).chain(others).collect()
}

/// A change of a document at one place.
#[derive(Debug, Clone)]
enum Change {
    Remove,
    Replace(Value),
    /// An entry of a list once more.
    Again,
    /// A key that there is not.
    Unknown,
    /// A key in other letters.
    Loud,
}

/// The places of all values in a document, as JSON pointers.
fn places(document: &Value, at: &str, all: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match document {
        Value::Array(list) => list.iter().enumerate().map(|(at, v)| (at.to_string(), v)).collect(),
        Value::Object(map) => map.iter().map(|(key, v)| (key.clone(), v)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in below {
        let path = format!("{at}/{name}");
        places(value, &path, all);
        all.push(path);
    }
}

fn changed(document: &Value, place: &str, change: &Change) -> Option<Value> {
    let mut document = document.clone();
    let (parent, name) = place.rsplit_once('/')?;
    let parent = document.pointer_mut(parent)?;
    match (parent, change) {
        (parent, Change::Replace(value)) => {
            let meant = match parent {
                Value::Array(list) => list.get_mut(name.parse::<usize>().ok()?)?,
                other => other.get_mut(name)?,
            };
            // One text is enough for what is none.
            if value.is_string() && value != "x" && !meant.is_string() {
                return None;
            }
            *meant = value.clone();
        }
        (Value::Object(map), Change::Remove) => drop(map.remove(name)),
        (Value::Array(list), Change::Remove) => drop(list.remove(name.parse().ok()?)),
        (Value::Array(list), Change::Again) => {
            let again = list.get(name.parse::<usize>().ok()?)?.clone();
            list.push(again);
        }
        (Value::Object(map), Change::Unknown) => drop(map.insert("nope".to_owned(), json!(1))),
        (Value::Object(map), Change::Loud) => {
            let value = map.remove(name)?;
            map.insert(name.to_ascii_uppercase(), value);
        }
        (_, Change::Again | Change::Unknown | Change::Loud | Change::Remove) => return None,
    }
    // The version is what both sides must agree on.
    document.pointer("/ignition/version").is_some_and(Value::is_string).then_some(document)
}

/// The validator's verdict: whether it takes a document, and its text.
fn asked(file: &Path, document: &Value) -> Option<(bool, String)> {
    stdx::atomic::write(file, document.to_string().as_bytes(), 0o600).unwrap();
    let done = Command::new(VALIDATOR).arg(file).output().ok()?;
    let told = [done.stdout, done.stderr].concat();
    Some((done.status.success(), String::from_utf8_lossy(&told).into_owned()))
}

fn compare(file: &Path, document: &Value) {
    let (is_taken, told) = asked(file, document).expect("it ran before");
    match check(document) {
        Ok(taken) => {
            let warns = |words: &str| taken.warnings.iter().any(|one| one.contains(words));
            let is_later = warns(REFUSED_LATER);
            assert!(is_taken || is_later, "{VALIDATOR} refuses: {told}\n{document}");
            let told = told.to_lowercase().replace(CANNOT_TELL, "");
            let knows_not = UNKNOWN.iter().any(|words| told.contains(words));
            let is_told = warns("is no key") || warns("is read as");
            assert_eq!(is_told, knows_not, "{:?} and {told}\n{document}", taken.warnings);
        }
        Err(why) => {
            let is_ours = OURS.iter().any(|ours| why.contains(ours));
            assert!(!is_taken || is_ours, "{VALIDATOR} takes it, and here: {why}\n{document}");
        }
    }
}

#[test]
fn changed_documents_are_taken_and_refused_as_by_ignition() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.ign");
    let minimal = |version: &str| json!({"ignition": {"version": version}});
    if asked(&file, &minimal("3.3.0")).is_none() {
        println!("skipped: {VALIDATOR} is not installed");
        return;
    }
    let cases = if std::env::var_os("GANTRY_TEST_LONG").is_some() { LONG } else { USUAL };
    let mut runner = TestRunner::default();
    let mut unknown = Vec::new();
    for (version, ..) in SPECS {
        let mut document = if version.starts_with('2') { oldest() } else { newest() };
        document["ignition"]["version"] = json!(version);
        if asked(&file, &minimal(version)).is_none_or(|(is_taken, _)| !is_taken) {
            unknown.push(*version);
            continue;
        }
        compare(&file, &document);
        let mut all = Vec::new();
        places(&document, "", &mut all);
        let place = proptest::sample::select(all);
        let value = proptest::sample::select(values()).prop_map(Change::Replace);
        let change = proptest::prop_oneof![
            2 => Just(Change::Remove), 20 => value, 2 => Just(Change::Again),
            1 => Just(Change::Unknown), 1 => Just(Change::Loud),
        ];
        let changes = (place, change);
        let mut compared = 0;
        while compared < cases {
            let (place, change) = changes.new_tree(&mut runner).unwrap().current();
            let Some(document) = changed(&document, &place, &change) else { continue };
            compare(&file, &document);
            compared += 1;
        }
    }
    println!("{VALIDATOR} does not know the versions {}", unknown.join(", "));
}
