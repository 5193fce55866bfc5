use std::fmt::Write as _;
use std::time::Instant;

use model::boot_template::{BootTemplate, DocumentKind, TemplateKind};
use serde_json::json;

use super::*;
use crate::config::ConfigChange;
use crate::machines::machine::register;
use crate::testing::{NOW, config, spec};

/// A cluster with some machines, of which the first has labels.
fn cluster(count: u32) -> Config {
    let mut config = config(&[]);
    let specs: Vec<_> =
        (0..count).map(|number| spec(&format!("m{number:04}"), number / 25, "worker")).collect();
    let mut machines = register(&config, &specs, NOW).unwrap();
    let labels = [("zone", "\"a\" & {b}\\c\nd%"), ("plain", "x")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    machines[0].labels = labels.into();
    config.apply(machines.into_iter().map(ConfigChange::Machine));
    config
}

fn first(config: &Config) -> Arc<Machine> {
    Arc::clone(config.machine("m0000").unwrap())
}

fn rendered(text: &str) -> Result<Rendered, TemplateError> {
    let config = cluster(1);
    Prepared::new(TemplateKind::Ignition, text)?.render(&config, &first(&config))
}

fn read(text: &str) -> Json {
    serde_json::from_str(&rendered(text).unwrap().text).unwrap()
}

#[test]
fn sabakans_templates_are_taken_as_they_are() {
    let template = json!({
        "version": "2.3",
        "template": {
            "ignition": { "config": {}, "security": { "tls": {} }, "timeouts": {} },
            "networkd": { "units": [{ "name": "10-node0.netdev", "contents": "[NetDev]\nName={{ .Spec.Serial }}" }] },
            "passwd": { "users": [{ "name": "cybozu", "sshAuthorizedKeys": ["{{ .Spec.Labels.plain }}"] }] },
            "storage": { "files": [
                { "filesystem": "root", "path": "/etc/hostname", "contents": {
                    "source": "data:,%7B%7B%20.Spec.Serial%20%7D%7D-%7B%7B%20add%20.Spec.Rack%203%20%7D%7D%0A" } },
                { "filesystem": "root", "path": "/opt/img", "contents": { "source": "{{ MyURL }}/v1/assets/img" } },
                { "filesystem": "root", "path": "/etc/net", "contents": {
                    "source": "data:;base64,e3sgKGluZGV4IC5JbmZvLk5ldHdvcmsuSVB2NCAwKS5HYXRld2F5IH19" } },
            ] },
            "systemd": { "units": null },
        },
        "meta": { "key": [1, 2] },
    });
    let document = read(&template.to_string());
    assert_eq!(document["ignition"]["version"], "2.3.0");
    assert_eq!(document["networkd"]["units"][0]["contents"], "[NetDev]\nName=m0000");
    assert_eq!(document["passwd"]["users"][0]["sshAuthorizedKeys"][0], "x");
    let source = |at: usize| document["storage"]["files"][at]["contents"]["source"].clone();
    assert_eq!(source(0), "data:,m0000-3%0A");
    assert_eq!(source(1), "gantry-my-url-7f3a/v1/assets/img");
    assert_eq!(source(2), "data:,10.69.0.1");
    for (version, words) in [("2.1", "emergency shell"), ("3", "emergency shell")] {
        let mut other = template.clone();
        other["version"] = json!(version);
        assert!(rendered(&other.to_string()).unwrap_err().why.contains(words));
    }
    let mut other = template;
    other["include"] = json!("../base.yml");
    assert!(rendered(&other.to_string()).unwrap_err().why.contains("unknown field `include`"));
}

#[test]
fn no_label_breaks_a_document() {
    let odd = "\"a\" & {b}\\c\nd%";
    let plain = r#"{"ignition": {"version": "3.3.0"}, "systemd": {"units": [
        {"name": "a.service", "contents": "{{ .Spec.Labels.zone }}"}]}}"#;
    assert_eq!(read(plain)["systemd"]["units"][0]["contents"], odd);
    // No JSON before it is rendered.
    let text = "{\"ignition\": {\"version\": \"3.3.0\"}, \"systemd\": {\"units\": [\n\
                {{ range $i, $ip := .Spec.IPv4 }}{{ if $i }},{{ end }}\n\
                {\"name\": \"{{ $i }}.service\", \"contents\": \"{{ $ip }} {{ $.Spec.Labels.zone }}\"}\n\
                {{ end }}]}}";
    let document = read(text);
    assert_eq!(document["systemd"]["units"][2]["contents"], format!("10.69.0.132 {odd}"));
    let text = r#"{"ignition": {"version": "3.3.0"}, "storage": {"files": [{{ if true }}
        {"path": "/a", "contents": {"source": "data:,{{ .Spec.Labels.zone }}"}}{{ end }}]}}"#;
    let source = read(text)["storage"]["files"][0]["contents"]["source"].clone();
    assert_eq!(source, "data:,%22a%22%20%26%20%7Bb%7D%5Cc%0Ad%25");
    let file = r#"{"ignition": {"version": "3.3.0"}, "storage": {"files": [
        {"path": "/a", "contents": {"source": "data:,{{ .Spec.Labels.zone }}"}}]}}"#;
    let source = read(file)["storage"]["files"][0]["contents"]["source"].clone();
    assert_eq!(source, "data:,%22a%22%20%26%20%7Bb%7D%5Cc%0Ad%25");
}

fn text_of_machine(template: &str) -> Result<String, TemplateError> {
    // A comment, since a list would be read as the name of a section.
    let template = ignition(&format!("#{template}"));
    let text = rendered(&template)?.text;
    let document: Json = serde_json::from_str(&text).unwrap();
    Ok(document["systemd"]["units"][0]["contents"].as_str().unwrap()[1..].to_owned())
}

/// The words are sabakan's, as neco's templates use them.
#[test]
fn a_machine_is_told_as_by_sabakan() {
    let place = |address: &str| json!({"address": address, "netmask": "255.255.255.192", "maskbits": 26, "gateway": "10.69.0.1"});
    let bmc = json!({"address": "10.72.16.4", "netmask": "255.255.240.0", "maskbits": 20, "gateway": "10.72.16.1"});
    let read = |template: &str| -> Json {
        serde_json::from_str(&text_of_machine(template).unwrap()).unwrap()
    };
    assert_eq!(read("{{ json .Info.BMC }}"), json!({ "ipv4": bmc }));
    assert_eq!(read("{{ json (index .Info.Network.IPv4 0) }}"), place("10.69.0.4"));
    let whole = read("{{ json . }}");
    assert_eq!(whole["spec"]["index-in-rack"], 4, "{whole}");
    assert_eq!(whole["spec"]["register-date"], "2023-11-14T22:13:20Z");
    assert_eq!(
        whole["status"],
        json!({"state": "uninitialized", "timestamp": "2023-11-14T22:13:20Z"})
    );
    for (template, told) in [
        (
            "{{ .Info.BMC.IPv4.Netmask }}/{{ .Info.BMC.IPv4.MaskBits }} {{ .Info.BMC.IPv4.Gateway }}",
            "255.255.240.0/20 10.72.16.1",
        ),
        (
            "{{ (index .Info.Network.IPv4 1).MaskBits }} {{ (index .Info.Network.IPv4 1).Gateway }}",
            "26 10.69.0.65",
        ),
        (
            "{{ range .Info.Network.IPv4 }}{{ .Address }} {{ end }}",
            "10.69.0.4 10.69.0.68 10.69.0.132 ",
        ),
        (
            "{{ .Status.State }} {{ .Spec.RegisterDate }}",
            "uninitialized 2023-11-14 22:13:20 +0000 UTC",
        ),
        ("{{ print .Spec.RetireDate }}", "2023-11-14 22:13:20 +0000 UTC"),
        ("{{ json .Spec.RetireDate }}", "\"2023-11-14T22:13:20Z\""),
        ("{{ add 64600 .Spec.Rack }} {{ .Spec.Role }} {{ len .Spec.IPv6 }}", "64600 worker 0"),
        ("{{ if .Info }}yes{{ end }}{{ len .Spec.Labels }}", "yes2"),
        ("{{ range $name, $value := .Spec.Labels }}{{ $name }} {{ end }}", "plain zone "),
    ] {
        assert_eq!(text_of_machine(template).as_deref(), Ok(told), "{template}");
    }
    for (template, words) in [
        ("{{ range .Spec }}{{ . }}{{ end }}", "a structure"),
        ("{{ len .Info }}", "a structure"),
        ("{{ print .Info }}", "a structure"),
        ("{{ index .Spec \"Serial\" }}", "a structure"),
        ("{{ .Info.BMC }}", "no text"),
        ("{{ .Spec.RegisterDate.Year }}", "no `Year`"),
    ] {
        let why = text_of_machine(template).expect_err(template).why;
        assert!(why.contains(words), "{template}: {why}");
    }
}

/// An upload is tried for a sample machine, also before there are rules of addresses.
#[test]
fn a_sample_machine_has_whatever_a_template_names() {
    let words = "{{ index .Spec.Labels `machine-type` }}{{ .Spec.Labels.zone }}{{ .Info.BMC.IPv4.Gateway }}\
                 {{ (index .Info.Network.IPv4 1).MaskBits }}{{ .Spec.BMC.IPv4 }}{{ .Status.State }}\
                 {{ .Spec.RetireDate }}{{ with .Spec.Labels }}{{ .product }}{{ index . `a.b` }}{{ end }}";
    for ipam in [true, false] {
        let mut config = cluster(1);
        if !ipam {
            config.ipam = None;
        }
        let prepared = Prepared::new(TemplateKind::Ignition, &ignition(words)).unwrap();
        let sample = prepared.sample(&config, "worker").unwrap();
        assert!(sample.text.contains("samplesample10.72.16.1"), "{}", sample.text);
    }
}

#[test]
fn other_files_are_named() {
    for (text, words) in [
        ("variant: fcos\nversion: 1.4.0\nstorage: {}\n", "Butane"),
        (
            "variant: fcos\nversion: 1.4.0\npasswd:\n  users: [{name: \"{{ .Spec.Serial }}\"}]\n",
            "Butane",
        ),
        ("{\"variant\": \"fcos\", \"version\": \"1.4.0\"}", "Butane"),
        ("#cloud-config\nhostname: a\n", "cloud-init"),
    ] {
        assert!(rendered(text).unwrap_err().why.contains(words), "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (text, line, words) in [
        ("{", 1, "EOF"),
        ("[]", 1, "a JSON object"),
        ("{}", 1, "no `ignition.version`"),
        ("{\"ignition\": {\"version\": \"2.1.0\"}}", 1, "version 2.1.0"),
        (
            "{\"ignition\": {\"version\": \"3.3.0\"},\n\"passwd\": {\"users\": [\n{\"name\": \"{{ .Spec.Name }}\"}]}}",
            3,
            "passwd.users[0].name, its line 1: there is no `Name`",
        ),
        (
            "{\"ignition\": {\"version\": \"3.3.0\"},\n\"passwd\": {\"users\": [\n{\"name\": \"a\\n{{ env }}\"}]}}",
            3,
            "passwd.users[0].name, its line 2: there is no function `env`",
        ),
        (
            "{{ range .Spec.IPv4 }}\n{\"a\": \"{{ . }}\"},\n{{ end }}",
            2,
            "the rendered line is `{\"a\"",
        ),
        ("{\n\"ignition\": {{ .Spec.Nothing }}}", 2, "no `Nothing`"),
        (
            "{\"ignition\": {\"version\": \"3.3.0\"}, \"storage\": {\"files\": [{\"path\": \"{{ .Spec.Serial }}\"}]}}",
            1,
            "is `m0000`, which does not begin with /",
        ),
    ] {
        let wrong = rendered(text).unwrap_err();
        assert!(wrong.line == line && wrong.why.contains(words), "{text}: {wrong:?}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(rendered(&deep).is_err());
    let huge = json!({"ignition": {"version": "3.3.0"}, "systemd": {"units": [
        {"name": "a.service", "contents": "{{ range 90000 }}0123456789{{ end }}"}]}});
    assert!(rendered(&huge.to_string()).unwrap_err().why.contains("more than 524288 bytes"));
}

#[test]
fn user_data() {
    let config = cluster(1);
    let of = |text: &str| {
        let prepared = Prepared::new(TemplateKind::CloudInit, text)?;
        prepared.render(&config, &first(&config)).map(|rendered| rendered.text)
    };
    let yaml =
        "#cloud-config\nhostname: {{ .Spec.Serial }}\nzone: {{ .Spec.Labels.zone | json }}\n";
    let told = of(yaml).unwrap();
    assert_eq!(told, "#cloud-config\nhostname: m0000\nzone: \"\\\"a\\\" & {b}\\\\c\\nd%\"\n");
    assert_eq!(of("#!/bin/sh\necho {{ .Spec.Serial }}\n").unwrap(), "#!/bin/sh\necho m0000\n");
    let braces = "#!/bin/sh\ndocker ps --format '{{ \"{{\" }}.ID}}' {{ `\"$HOME\"` }}\n";
    assert_eq!(of(braces).unwrap(), "#!/bin/sh\ndocker ps --format '{{.ID}}' \"$HOME\"\n");
    for (text, words) in [
        ("hostname: a", "begins with #cloud-config or #!"),
        ("", "begins with"),
        ("#cloud-config\n- a: [", "no YAML"),
        ("#cloud-config\n[a]", "no YAML"),
        ("#cloud-config\na: {{ .Spec.Labels.zone }}", "more than text to YAML"),
        ("#!/bin/sh\necho '{{ .Spec.Labels.zone }}'", "more than text to a shell"),
        ("#!/bin/sh\necho '{{ \"{{\" }}{{ .Spec.Labels.zone }}'", "more than text to a shell"),
        ("#!/bin/sh\necho {{ .Spec.Labels.other }}", "no `other`"),
    ] {
        let wrong = of(text).unwrap_err();
        assert!(wrong.why.contains(words), "{text}: {wrong:?}");
    }
}

fn template(kind: TemplateKind, id: &str, text: &str) -> ConfigChange {
    let (role, id) = ("worker".parse().unwrap(), id.parse().unwrap());
    ConfigChange::BootTemplate(BootTemplate {
        kind,
        role,
        id,
        text: text.to_owned(),
        spec: String::new(),
        ctime: NOW,
    })
}

fn ignition(contents: &str) -> String {
    json!({ "ignition": { "version": "3.3.0" }, "systemd": { "units": [
        { "name": "a.service", "contents": contents }] } })
    .to_string()
}

#[test]
fn no_template_computes_with_the_url_of_an_agent() {
    let config = cluster(1);
    for (contents, is_taken) in [
        ("get {{ MyURL }}/a and {{ MyURLHTTPS }}/b", true),
        ("{{ with MyURL }}{{ . }}{{ end }}", true),
        ("{{ len MyURL }}", false),
        ("{{ slice MyURL 0 6 }}", false),
        ("{{ printf \"%x\" MyURL }}", false),
        ("{{ urlquery MyURL }}", false),
        ("gantry-my-url-7f3a", false),
    ] {
        let prepared = Prepared::new(TemplateKind::Ignition, &ignition(contents)).unwrap();
        let sample = prepared.sample(&config, "worker");
        assert_eq!(sample.is_ok(), is_taken, "{contents}: {sample:?}");
    }
}

#[test]
fn machines_of_a_rack_get_the_newest_versions() {
    let mut config = cluster(2);
    let all =
        |config: &Config| of_rack(config, config.machines_in(0).collect::<Vec<_>>().into_iter());
    assert!(all(&config).is_empty());
    config.apply([
        template(TemplateKind::Ignition, "1.9.0", &ignition("old {{ .Spec.Serial }}")),
        template(TemplateKind::Ignition, "1.10.0", &ignition("new {{ .Spec.Serial }}")),
        template(TemplateKind::Ignition, "1.8.0", &ignition("gone")),
        template(TemplateKind::CloudInit, "0.1.0", "#cloud-config\nhostname: {{ .Spec.Serial }}\n"),
    ]);
    let documents = all(&config);
    let told: Vec<(DocumentKind, String)> =
        documents["m0001"].iter().map(|d| (d.kind, d.id.to_string())).collect();
    let wanted = [
        (DocumentKind::Ignition, "1.10.0"),
        (DocumentKind::UserData, "0.1.0"),
        (DocumentKind::MetaData, "0.1.0"),
        (DocumentKind::Ignition, "1.9.0"),
    ];
    assert_eq!(told, wanted.map(|(kind, id)| (kind, id.to_owned())));
    assert!(documents["m0001"][0].text.contains("new m0001"));
    let meta: Json = serde_json::from_str(&documents["m0001"][2].text).unwrap();
    assert_eq!(meta, json!({ "instance-id": "m0001-1700000000", "local-hostname": "m0001" }));
    let mut machine = config.machine("m0001").unwrap().as_ref().clone();
    machine.deployed_by = Some(model::JobId(12));
    config.apply([ConfigChange::Machine(machine)]);
    let meta: Json = serde_json::from_str(&all(&config)["m0001"][2].text).unwrap();
    assert_eq!(meta["instance-id"], "m0001-1700000000-12");
    // A machine that the template does not fit gets what it can.
    config.apply([template(
        TemplateKind::Ignition,
        "2.0.0",
        &ignition("{{ .Spec.Labels.plain }}"),
    )]);
    let documents = all(&config);
    assert_eq!(documents["m0000"][0].id.to_string(), "2.0.0");
    assert_eq!(documents["m0001"][0].kind, DocumentKind::UserData);
    assert_eq!(documents["m0001"][2].id.to_string(), "1.10.0");
}

#[test]
fn a_thousand_machines_are_rendered_soon() {
    let config = cluster(1_000);
    let mut file = String::new();
    for line in 0..40 {
        writeln!(file, "# line {line} of {{{{ .Spec.Serial }}}} at {{{{ index .Spec.IPv4 0 }}}}")
            .unwrap();
    }
    let prepared = Prepared::new(TemplateKind::Ignition, &ignition(&file)).unwrap();
    let begun = Instant::now();
    for machine in config.machines.values() {
        prepared.render(&config, machine).unwrap();
    }
    let took = begun.elapsed();
    println!("1,000 machines with 80 actions each: {took:?}");
    assert!(took.as_secs() < 30, "{took:?}");
}
