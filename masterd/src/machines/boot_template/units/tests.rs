use model::boot_template::TemplateId;
use serde_json::json;

use super::*;
use crate::machines::machine::register;
use crate::testing::{NOW, config, spec};

fn cluster() -> Config {
    let mut config = config(&[]);
    let specs = [spec("s1", 0, "worker"), spec("s2", 3, "worker"), spec("s3", 4, "boot")];
    let machines = register(&config, &specs, NOW).unwrap();
    config.apply(machines.into_iter().map(ConfigChange::Machine));
    config
}

fn text(version: &str, more: &str) -> String {
    json!({ "ignition": { "version": version }, "passwd": { "users": [{ "name": more }] } })
        .to_string()
}

fn op(id: &str, text: String) -> BootTemplateAdd {
    let (role, id) = ("worker".parse().unwrap(), id.parse().unwrap());
    BootTemplateAdd { kind: TemplateKind::Ignition, role, id, text, other_spec: false }
}

fn ids(config: &Config) -> Vec<String> {
    let all = config.boot_templates_of(TemplateKind::Ignition, &"worker".parse().unwrap());
    all.map(|template| template.id.to_string()).collect()
}

fn upload(config: &mut Config, op: &BootTemplateAdd) -> Result<Added, Exception> {
    let (changes, added) = super::added(op, config, NOW)?;
    config.apply(changes);
    Ok(added)
}

#[test]
fn ten_versions_are_kept_and_the_newest_is_used() {
    let mut config = cluster();
    let first = upload(&mut config, &op("1.9.0", text("3.3.0", "{{ .Spec.Serial }}"))).unwrap();
    assert_eq!((first.machines, first.racks), (2, BTreeSet::from([0, 3])));
    assert_eq!(first.template.spec, "3.3.0");
    let older = upload(&mut config, &op("1.1.0", text("3.3.0", "a"))).unwrap();
    assert_eq!(older.newer.map(|key| key.to_string()).as_deref(), Some("ignition/worker/1.9.0"));
    for minor in 10..19 {
        upload(&mut config, &op(&format!("1.{minor}.0"), text("3.3.0", "a"))).unwrap();
    }
    let kept = ids(&config);
    assert_eq!((kept.len(), kept[0].as_str(), kept[9].as_str()), (10, "1.9.0", "1.18.0"));
    let old = upload(&mut config, &op("1.2.0", text("3.3.0", "a")));
    let why = old.map(drop).unwrap_err().to_string();
    assert!(why.contains("10 newer versions are kept"), "{why}");
    let (changes, _) = super::added(&op("1.18.0", text("3.3.0", "a")), &config, NOW).unwrap();
    assert!(changes.is_empty(), "the same again is the same success");
}

#[test]
fn what_cannot_be_is_refused() {
    let mut config = cluster();
    upload(&mut config, &op("1.0.0", text("3.3.0", "a"))).unwrap();
    for (op, words) in [
        (op("1.0.0", text("3.3.0", "b")), "exists with another text"),
        (op("1.1.0", text("2.3.0", "b")), "ignition/worker/1.0.0 declares 3.3.0: a system that"),
        (op("1.1.0", text("2.1.0", "b")), "emergency shell"),
        (op("1.1.0", text("3.3.0", "{{ .Spec.Labels.zone }}")), "for machine 's1': line 1: passwd"),
        (op("1.1.0", text("3.3.0", "{{ .Spec.Zone }}")), "for a sample machine: line 1"),
        (op("1.1.0", text("3.3.0", "{{ env }}")), "no function `env`"),
        (op("1.1.0", text("3.3.0", &"x".repeat(TEXT_BYTES_MAX))), "at most 262144 are taken"),
    ] {
        let why = super::added(&op, &config, NOW).map(drop).unwrap_err().to_string();
        assert!(why.contains(words), "{why}");
    }
    let other = BootTemplateAdd { other_spec: true, ..op("1.1.0", text("2.3.0", "b")) };
    upload(&mut config, &other).unwrap();
    let remove = |id: Option<TemplateId>| BootTemplateRemove {
        kind: TemplateKind::Ignition,
        role: "worker".parse().unwrap(),
        id,
    };
    let unknown = removed(&remove(Some("7.0.0".parse().unwrap())), &config).unwrap_err();
    assert!(unknown.to_string().contains("'ignition/worker/7.0.0' not known"), "{unknown}");
    // A version that was uploaded when its machines were others.
    let odd = op("0.1.0", text("3.3.0", "{{ .Spec.Labels.zone }}"));
    let BootTemplateAdd { kind, role, id, text, .. } = odd;
    let spec = "3.3.0".to_owned();
    config.apply([ConfigChange::BootTemplate(BootTemplate {
        kind,
        role,
        id,
        text,
        spec,
        ctime: NOW,
    })]);
    let newest = |id: &str| remove(Some(id.parse().unwrap()));
    config.apply(removed(&newest("1.1.0"), &config).unwrap());
    let refused = removed(&newest("1.0.0"), &config).unwrap_err().to_string();
    assert!(refused.contains("0.1.0, which machines would get, for machine 's1'"), "{refused}");
    config.apply(removed(&remove(None), &config).unwrap());
    assert!(ids(&config).is_empty());
}

#[test]
fn a_rack_has_room_for_so_much() {
    let mut config = config(&[]);
    let specs: Vec<_> = (0..25).map(|at| spec(&format!("m{at}"), 0, "worker")).collect();
    let machines = register(&config, &specs, NOW).unwrap();
    config.apply(machines.into_iter().map(ConfigChange::Machine));
    let large = "{{ range 30000 }}#12345678\n{{ end }}";
    let unit = json!({"ignition": {"version": "3.3.0"}, "systemd": {"units": [
        {"name": "a.service", "contents": large}]}});
    let why = super::added(&op("1.0.0", unit.to_string()), &config, NOW).map(drop).unwrap_err();
    assert!(why.to_string().contains("rack 0 get takes more than"), "{why}");
}
