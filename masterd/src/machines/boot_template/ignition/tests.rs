use model::boot_template::MY_URL;
use serde_json::{Value, json};

use super::differential::{newest, oldest};
use super::*;

fn of_version(version: &str, document: &Value) -> Value {
    let mut document = document.clone();
    document["ignition"]["version"] = json!(version);
    document
}

/// The versions from one on.
fn from(version: &'static str) -> impl Iterator<Item = &'static str> {
    SPECS.iter().map(|(spec, ..)| *spec).filter(move |spec| *spec >= version)
}

fn file(file: &Value) -> Value {
    json!({"storage": {"files": [file]}})
}

fn contents(source: &str) -> Value {
    file(&json!({"path": "/a", "contents": {"source": source}}))
}

#[test]
fn versions_and_sections() {
    for (document, words) in [
        (json!([]), "a JSON object"),
        (json!({}), "no `ignition.version`"),
        (json!({"ignition": {"version": 3}}), "no `ignition.version`"),
        (json!({"ignition": {"version": "2.1.0"}}), "emergency shell; write one of 2.2.0"),
        (json!({"ignition": {"version": "3.9.0"}}), "3.9.0"),
        (json!({"ignition": {"version": "3.3"}}), "write \"3.3.0\""),
        (json!({"ignition": {"version": "3.2.0"}, "storage": []}), "`storage` is a list"),
        (json!({"ignition": {"version": "3.2.0"}, "storage": {"files": {}}}), "takes a list there"),
        (json!({"variant": "fcos", "version": "1.4.0"}), "Butane"),
    ] {
        let why = check(&document).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

/// Every key is known in the versions that have it, and told in those that have not.
#[test]
fn every_version_knows_its_keys() {
    for (version, number, _) in SPECS {
        let is_old = *number < Spec(3, 0);
        let document = of_version(version, &if is_old { oldest() } else { newest() });
        let taken = check(&document).unwrap_or_else(|why| panic!("{version}: {why}"));
        let later: &[(&str, &str)] = if is_old {
            &[("2.3.0", "partitions[0].sizeMiB"), ("2.3.0", "partitions[1].shouldExist")]
        } else {
            &[
                ("3.1.0", "ignition.proxy"),
                ("3.1.0", "ignition.config.replace.compression"),
                ("3.1.0", "files[0].contents.httpHeaders"),
                ("3.1.0", "filesystems[0].mountOptions"),
                ("3.2.0", "storage.luks"),
                ("3.2.0", "users[0].shouldExist"),
                ("3.2.0", "partitions[0].resize"),
                ("3.3.0", "kernelArguments"),
                ("3.4.0", "luks[0].discard"),
                ("3.4.0", "luks[0].openOptions"),
                ("3.4.0", "tang[0].advertisement"),
                ("3.5.0", "luks[0].cex"),
            ]
        };
        for (since, key) in later {
            let is_told = taken.warnings.iter().any(|warning| warning.contains(&format!("{key}`")));
            let is_within = *version < "3.2.0" && *since > "3.2.0" && key.contains("luks[")
                || *version < "3.2.0" && key.contains("tang[");
            assert!(
                is_told == (version < since) || is_within,
                "{version} {key}: {:?}",
                taken.warnings
            );
        }
    }
}

#[test]
fn types_and_needed_keys() {
    let storage = |list: &str, entry: Value| json!({"storage": {list: [entry]}});
    for (document, words) in [
        (
            file(&json!({"path": "/a", "mode": "0644"})),
            "`storage.files[0].mode` is a text; Ignition takes a whole number in decimal, as 420",
        ),
        (file(&json!({"path": "/a", "mode": 420.5})), "a whole number"),
        (file(&json!({"path": "/a", "mode": 4096})), "7777 in octal"),
        (file(&json!({"path": "/a", "mode": -1})), "7777 in octal"),
        (file(&json!({"path": "/a", "overwrite": "yes"})), "takes true or false there"),
        (file(&json!({"path": "/a", "contents": "hello"})), "takes an object there"),
        (file(&json!({"path": "/a", "user": "core"})), "takes an object there"),
        (file(&json!({"path": "/a", "overwrite": true})), "no `contents.source`"),
        (file(&json!({})), "`storage.files[0].path` is missing"),
        (file(&json!(null)), "`storage.files[0].path` is missing"),
        (file(&json!({"path": "a"})), "`a`, which does not begin with /"),
        (file(&json!({"path": "/a/"})), "write `/a`"),
        (file(&json!({"path": "/a", "Path": "/b"})), "the same key as `path`"),
        (file(&json!({"path": "/a", "user": {"id": 1, "name": "a"}})), "both `id` and `name`"),
        (json!({"kernelArguments": {"shouldExist": "quiet"}}), "takes a list of texts there"),
        (json!({"kernelArguments": {"shouldExist": ["a"], "shouldNotExist": ["a"]}}), "both"),
        (json!({"ignition": {"timeouts": {"httpTotal": "30s"}}}), "takes a whole number there"),
        (
            storage("filesystems", json!({"format": "ext4"})),
            "`storage.filesystems[0].device` is missing",
        ),
        (storage("filesystems", json!({"device": "/a", "path": "/b"})), "no `format`"),
        (storage("filesystems", json!({"device": "/a", "format": "zfs"})), "no one of ext4"),
        (
            storage(
                "filesystems",
                json!({"device": "/a", "format": "vfat", "label": "123456789012"}),
            ),
            "takes 11",
        ),
        (storage("links", json!({"path": "/a"})), "`storage.links[0].target` is missing"),
        (storage("luks", json!({"name": "a"})), "`storage.luks[0].device` is missing"),
        (
            storage("raid", json!({"name": "a", "level": "raid7", "devices": ["/a"]})),
            "no one of linear",
        ),
        (
            storage("raid", json!({"name": "a", "level": "raid0", "devices": ["/a"], "spares": 1})),
            "`spares`",
        ),
    ] {
        is_refused(&document, words);
    }
}

/// Looks at a document in every version from 3.3 on.
fn is_refused(document: &Value, words: &str) {
    for version in from("3.3.0") {
        let why = check(&of_version(version, document)).expect_err(words);
        assert!(why.contains(words), "{version}: {why}");
    }
}

#[test]
fn entries_that_do_not_go_together() {
    let user = |user: Value| json!({"passwd": {"users": [user]}});
    for (document, words) in [
        (user(json!({})), "`passwd.users[0].name` is missing"),
        (user(json!({"name": "a", "sshAuthorizedKeys": ["k", "k"]})), "\"k\" twice"),
        (json!({"passwd": {"users": [{"name": "a"}, {"name": "a"}]}}), "has name \"a\" twice"),
        (
            json!({"storage": {"files": [{"path": "/a"}], "links": [{"path": "/a", "target": "b"}]}}),
            "\"/a\" twice",
        ),
        (
            json!({"storage": {"files": [{"path": "/a/b"}], "links": [{"path": "/a", "target": "b"}]}}),
            "behind the link",
        ),
        (json!({"systemd": {"units": [{"name": "x"}]}}), "ends with one of .service"),
        (
            json!({"systemd": {"units": [{"name": "x.service", "dropins": [{"name": "y"}]}]}}),
            ".conf",
        ),
        (
            json!({"systemd": {"units": [{"name": "x.service", "contents": "[Unit"}]}}),
            "without its `]`",
        ),
        (
            json!({"storage": {"disks": [{"device": "/a", "partitions": [{"sizeMiB": 1}]}]}}),
            "no `number`",
        ),
        (
            json!({"storage": {"disks": [{"device": "/a", "partitions": [
            {"number": 1, "startMiB": 1, "sizeMiB": 2}, {"number": 2, "startMiB": 2, "sizeMiB": 2}]}]}}),
            "overlap",
        ),
    ] {
        is_refused(&document, words);
    }
}

#[test]
fn sources() {
    let longest = "f".repeat(128);
    for (source, since, words) in [
        ("data:;base64,@@@", "2.2.0", "Base64"),
        ("data:;base64,YQ", "2.2.0", "Base64"),
        ("data:abc", "2.2.0", "comma"),
        ("data:,a b", "2.2.0", "escaped"),
        ("data:,%zz", "2.2.0", "escaped"),
        ("data:nope/x,y", "2.2.0", "media type"),
        ("DATA:,x", "2.2.0", "small letters"),
        ("file:///etc/passwd", "2.2.0", "no URL that machines can fetch"),
        ("etc/passwd", "2.2.0", "no URL that machines can fetch"),
        ("http://a b/", "2.2.0", "is no URL"),
        ("http://a:b/", "2.2.0", "is no URL"),
        ("oem:///a", "3.0.0", "begin it with one of http"),
        ("s3://a/b?versionId=", "3.0.0", "versionId"),
    ] {
        for version in from(since) {
            let document = of_version(version, &contents(source));
            let mut document = document;
            document["storage"]["files"][0]["filesystem"] = json!("root");
            let why = check(&document).expect_err(source);
            assert!(why.contains(words), "{version} {source}: {why}");
        }
    }
    for (source, since) in [
        ("", "2.2.0"),
        ("data:,", "2.2.0"),
        ("data:text/plain;charset=utf-8;base64,YQ==", "2.2.0"),
        (&format!("{MY_URL}/x"), "2.2.0"),
        ("https://u:p@[fe80::1%25eth0]:8080/%20?a=%zz", "2.2.0"),
        ("gs://a/b", "3.2.0"),
        ("arn:aws:s3:::a/b", "3.4.0"),
    ] {
        for (version, ..) in SPECS {
            let mut document = of_version(version, &contents(source));
            document["storage"]["files"][0]["filesystem"] = json!("root");
            assert_eq!(check(&document).is_ok(), *version >= since, "{version} {source}");
        }
    }
    let hash = |hash: String| {
        file(&json!({"path": "/a", "contents": {"source": "", "verification": {"hash": hash}}}))
    };
    for (value, since) in
        [(format!("sha512-{longest}"), "3.0.0"), (format!("sha256-{}", &longest[..64]), "3.1.0")]
    {
        for version in from("3.0.0") {
            let document = of_version(version, &hash(value.clone()));
            assert_eq!(check(&document).is_ok(), version >= since, "{version}");
        }
    }
    assert!(check(&of_version("3.3.0", &hash(format!("sha512-{}", "g".repeat(128))))).is_err());
}

/// A warning tells what Ignition passes over.
#[test]
fn what_is_passed_over_is_told() {
    for (version, document, words) in [
        (
            "3.3.0",
            file(&json!({"path": "/a", "contentss": {}})),
            "`storage.files[0].contentss` is no key",
        ),
        ("3.3.0", file(&json!({"path": "/a", "contents": {"inline": "x"}})), "Butane"),
        (
            "3.3.0",
            json!({"passwd": {"users": [{"name": "a", "ssh_authorized_keys": []}]}}),
            "Butane",
        ),
        (
            "3.3.0",
            json!({"systemd": {"units": [{"name": "a.service", "enable": true}]}}),
            "it knows contents",
        ),
        ("3.3.0", json!({"networkd": {}}), "`networkd` is no key"),
        ("3.0.0", json!({"storage": {"luks": []}}), "`storage.luks` is no key"),
        ("3.3.0", file(&json!({"Path": "/a"})), "read as `path`"),
        ("3.5.0", file(&json!({"path": "/a", "mode": 0o4755})), "3.6.0"),
        ("3.3.0", json!({"ignition": {"proxy": {"httpsProxy": "http://a"}}}), "without TLS"),
        (
            "3.3.0",
            json!({"systemd": {"units": [
            {"name": "a.service", "enabled": true, "contents": "[Unit]\nA=b\n"}]}}),
            "[Install]",
        ),
        (
            "3.3.0",
            json!({"storage": {"files": [{"path": "/etc/systemd/system/a.service"}]},
            "systemd": {"units": [{"name": "a.service", "contents": "[Unit]\nA=b\n"}]}}),
            "newer systems refuse",
        ),
    ] {
        let taken = check(&of_version(version, &document)).unwrap();
        let [warning] = taken.warnings.as_slice() else { panic!("{:?}", taken.warnings) };
        assert!(warning.contains(words), "{warning}");
    }
    let bits = of_version("3.6.0", &file(&json!({"path": "/a", "mode": 0o4755})));
    assert_eq!(check(&bits).unwrap().warnings, [""; 0]);
}

/// Documents that one version takes and another does not.
#[test]
fn versions_differ() {
    let clevis = |clevis: Value| json!({"storage": {"luks": [{"name": "a", "device": "/a", "clevis": clevis}]}});
    let partitions = |partitions: Value| json!({"storage": {"disks": [{"device": "/a", "partitions": partitions}]}});
    let tang = json!([{"url": "http://a", "thumbprint": "x", "advertisement": "{"}]);
    for (document, taken) in [
        (
            json!({"storage": {"filesystems": [{"device": "/a", "format": "none"}]}}),
            "3.3.0 3.4.0 3.5.0 3.6.0",
        ),
        (clevis(json!({"custom": {"pin": "own", "config": "x"}})), "3.0.0 3.1.0 3.6.0"),
        (clevis(json!({"custom": {"needsNetwork": true}})), "3.0.0 3.1.0 3.2.0"),
        (clevis(json!({"custom": {}, "tpm2": true})), "3.0.0 3.1.0 3.3.0 3.4.0 3.5.0 3.6.0"),
        (clevis(json!({"tang": tang})), "3.0.0 3.1.0 3.2.0 3.3.0"),
        (
            partitions(json!([{"label": "a"}, {"number": 1, "shouldExist": false}])),
            "3.4.0 3.5.0 3.6.0",
        ),
        (json!({"ignition": {"config": {"merge": [{}]}}}), "3.0.0"),
        (
            json!({"storage": {"luks": [{"name": "a", "device": "/a", "cex": {"enabled": true},
            "clevis": {"tpm2": true}}]}}),
            "3.0.0 3.1.0 3.2.0 3.3.0 3.4.0",
        ),
        (
            json!({"storage": {"luks": [{"name": "a", "device": "/a", "openOptions": ["a", "a"]}]}}),
            "3.0.0 3.1.0 3.2.0 3.3.0",
        ),
        (
            json!({"storage": {"files": [{"path": "/etc/systemd/system/a.service"}]},
            "systemd": {"units": [{"name": "a.service", "contents": "[Unit]\nA=b\n"}]}}),
            "3.0.0 3.1.0 3.2.0 3.3.0",
        ),
    ] {
        let all = from("3.0.0").filter(|version| check(&of_version(version, &document)).is_ok());
        assert_eq!(all.collect::<Vec<_>>().join(" "), taken, "{document}");
    }
}

#[test]
fn version_2() {
    let disk = |partitions: Value| json!({"storage": {"disks": [{"device": "/a", "partitions": partitions}]}});
    let filesystem = |filesystem: Value| json!({"storage": {"filesystems": [filesystem]}});
    let mount = json!({"device": "/a", "format": "ext4"});
    for (document, refused) in [
        (file(&json!({"path": "/a"})), "2.2.0 2.3.0"),
        (file(&json!({"path": "a", "filesystem": "root"})), "2.2.0 2.3.0"),
        (file(&json!({"path": "/a/", "filesystem": "root"})), ""),
        (
            file(&json!({"path": "/a", "filesystem": "root", "append": true, "overwrite": true})),
            "2.2.0 2.3.0",
        ),
        (
            json!({"storage": {"files": [{"path": "/a", "filesystem": "x"}, {"path": "/a", "filesystem": "x"}]}}),
            "",
        ),
        (disk(json!([{"start": 1}])), "2.2.0 2.3.0"),
        (
            disk(
                json!([{"number": 1, "start": 2048, "size": 4096}, {"number": 2, "start": 4096, "size": 1}]),
            ),
            "2.2.0 2.3.0",
        ),
        (
            disk(json!([{"number": 1, "start": 2048, "size": 4096}, {"number": 2, "start": 4096}])),
            "2.2.0",
        ),
        (disk(json!([{"number": 1, "start": 2048}, {"number": 2, "sizeMiB": 1}])), "2.3.0"),
        (disk(json!([{"number": 1, "shouldExist": false, "label": "a"}])), "2.3.0"),
        (disk(json!([{"number": 1, "label": "a:b"}])), ""),
        (filesystem(json!({})), "2.2.0 2.3.0"),
        (filesystem(json!({"path": "/a", "mount": mount})), "2.2.0 2.3.0"),
        (filesystem(json!({"mount": {"device": "/a", "format": ""}})), "2.2.0 2.3.0"),
        (
            filesystem(
                json!({"mount": {"device": "/a", "format": "ext4", "create": {}, "wipeFilesystem": true}}),
            ),
            "2.2.0 2.3.0",
        ),
        (json!({"passwd": {"users": [{"name": "a", "create": {}, "uid": 1}]}}), "2.2.0 2.3.0"),
        (json!({"networkd": {"units": [{"name": "a.service"}]}}), "2.2.0 2.3.0"),
        (
            json!({"networkd": {"units": [{"name": "a.netdev", "contents": "[Match"}]}}),
            "2.2.0 2.3.0",
        ),
        (json!({"systemd": {"units": [{"name": "a.service", "enable": "true"}]}}), "2.2.0 2.3.0"),
    ] {
        let versions = ["2.2.0", "2.3.0"].into_iter();
        let all = versions.filter(|version| check(&of_version(version, &document)).is_err());
        assert_eq!(all.collect::<Vec<_>>().join(" "), refused, "{document}");
    }
}
