use serde_json::json;

use super::*;

fn told(value: Value) -> Told {
    serde_json::from_value(value).unwrap()
}

fn by_name(value: Value) -> BTreeMap<String, Told> {
    serde_json::from_value(value).unwrap()
}

#[test]
fn only_what_differs_is_stored_and_the_rest_is_filled() {
    let mut settings = InstanceSettings::default();
    settings.check().unwrap();
    settings
        .set_hypervisors(&by_name(json!({"kvm": {"acpi": "no", "serial_speed": 9_600}})))
        .unwrap();
    let stored = json!({"acpi": false, "serial_speed": 9_600});
    assert_eq!(json!(settings.hvparams["kvm"]), stored);
    assert_eq!(settings.hypervisor("kvm")["acpi"], json!(false));
    assert_eq!(settings.hypervisor("kvm")["vhost_net"], json!(true));
    settings
        .set_hypervisors(&by_name(json!({"kvm": {"acpi": "default", "serial_speed": null}})))
        .unwrap();
    assert!(settings.hvparams.is_empty());
    settings.set_backend(&told(json!({"memory": "1G"}))).unwrap();
    assert_eq!(json!(settings.beparams), json!({"maxmem": 1_024, "minmem": 1_024}));
    settings.set_policy(&told(json!({"vcpu-ratio": 8, "std": {"cpu-count": 2}}))).unwrap();
    assert_eq!((settings.ipolicy.vcpu_ratio, settings.ipolicy.std.cpu_count), (8.0, 2));
    assert_eq!(settings.ipolicy.std.memory_size, 128);
    let systems = json!({"debian": {"kvm": {"kernel_args": "quiet"}}});
    settings.set_of_systems(&serde_json::from_value(systems).unwrap()).unwrap();
    assert_eq!(settings.os_hvp["debian"]["kvm"]["kernel_args"], json!("quiet"));
}

#[test]
fn what_cannot_be_is_refused_with_its_name() {
    let tried = |try_it: &dyn Fn(&mut InstanceSettings) -> Result<(), SettingsError>| {
        let mut settings = InstanceSettings::default();
        let done = try_it(&mut settings).and_then(|()| settings.check());
        done.unwrap_err().to_string()
    };
    for (error, wanted) in [
        (tried(&|s| s.set_hypervisors(&by_name(json!({"vmware": {}})))), "hypervisor `vmware`"),
        (
            tried(&|s| s.set_hypervisors(&by_name(json!({"kvm": {"acpi": 3}})))),
            "kvm: parameter acpi: 3",
        ),
        (
            tried(&|s| s.set_backend(&told(json!({"minmem": 256})))),
            "minmem 256 MiB is more than maxmem 128",
        ),
        (tried(&|s| s.set_templates(&by_name(json!({"zfs": {}})))), "disk template `zfs`"),
        (
            tried(&|s| s.set_policy(&told(json!({"std": {"cpu-count": 99}})))),
            "usual instance has cpu-count 99",
        ),
        (tried(&|s| s.set_policy(&told(json!({"bounds": 1})))), "unknown field `bounds`"),
        (
            tried(&|s| {
                s.enabled_hypervisors = vec!["lxc".to_owned()];
                Ok(())
            }),
            "hypervisor `lxc` runs no instances",
        ),
        (
            tried(&|s| {
                s.enabled_disk_templates = vec!["plain".to_owned()];
                Ok(())
            }),
            "`plain` needs a volume group",
        ),
        (
            tried(&|s| {
                s.file_storage_dir = "/srv/../etc".to_owned();
                Ok(())
            }),
            "file_storage_dir `/srv/../etc`",
        ),
        (
            tried(&|s| {
                s.uid_pool = vec![(0, 5)];
                Ok(())
            }),
            "users 0-5",
        ),
        (
            tried(&|s| {
                s.reserved_lvs = vec!["a(".to_owned()];
                Ok(())
            }),
            "`a(` is no regular expression",
        ),
    ] {
        assert!(error.contains(wanted), "{error}");
    }
    let mut list = vec!["a".to_owned()];
    let change = |list: &mut Vec<String>, verb: &str, entry: &str| {
        change_list("hidden_os", list, &[(verb.to_owned(), entry.to_owned())])
    };
    assert_eq!(change(&mut list, "add", "b"), Ok(()));
    assert_eq!(list, ["a", "b"]);
    assert!(change(&mut list, "add", "a").unwrap_err().to_string().contains("is in it already"));
    assert!(change(&mut list, "remove", "c").unwrap_err().to_string().contains("is not in it"));
}
