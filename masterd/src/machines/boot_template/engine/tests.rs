use std::time::{Duration, Instant};

use serde_json::json;

use super::super::facts;
use super::*;

fn machine() -> Value {
    facts::value(&json!({
        "Spec": {
            "Serial": "1234abcd", "Rack": 3, "IPv4": ["10.69.0.4", "10.69.0.68"],
            "Labels": { "plain": "a-b", "odd": "\"a\" & {b}\\c\n${d}", "empty": "" },
            "Missing": null,
        },
    }))
}

fn words() -> Words {
    let metadata = json!({ "key": "value", "list": [1, "a"], "map": { "a": "b" } });
    let Value::Map(map) = facts::value(&metadata) else { panic!("it is a map") };
    let entries = map.iter().map(|(key, value)| (key.to_string(), value.clone()));
    Words { metadata: Arc::new(entries.collect()) }
}

fn program(text: &str, place: Place) -> Result<Program, Wrong> {
    Program::new(text, place, (&words(), &Arc::default()), &mut BTreeSet::new())
}

fn run(text: &str, place: Place) -> Result<String, Wrong> {
    program(text, place)?.run(&machine(), 10_000)
}

#[test]
fn templates_of_sabakan() {
    for (text, told) in [
        ("plain }} text", "plain }} text"),
        ("{{ .Spec.Serial }}", "1234abcd"),
        ("{{ add .Spec.Rack 3 }} {{ sub .Spec.Rack 5 }} {{ mul 2 .Spec.Rack }}", "6 -2 6"),
        ("{{ div 7 2 }} {{ div 7.0 2 }}", "3 3.5"),
        ("{{ index .Spec.IPv4 1 }}", "10.69.0.68"),
        ("{{ MyURL }}/v1", "gantry-my-url-7f3a/v1"),
        ("{{ MyURLHTTPS }}", "gantry-my-https-url-7f3a"),
        ("{{ Metadata \"key\" }} {{ json (Metadata \"list\") }}", "value [1,\"a\"]"),
        (
            "{{ range $i, $ip := .Spec.IPv4 }}{{ if $i }},{{ end }}{{ $ip }}{{ end }}",
            "10.69.0.4,10.69.0.68",
        ),
        ("{{ with .Spec.Labels.empty }}x{{ else }}none{{ end }}", "none"),
        ("{{ if index .Spec.Labels \"unknown\" }}x{{ else }}none{{ end }}", "none"),
        (
            "{{ printf \"%s-%03d %5.1f%% %q %x\" .Spec.Serial .Spec.Rack 2.25 \"a\" 255 }}",
            "1234abcd-003   2.2% \"a\" ff",
        ),
        ("{{ print 1 2 \"a\" }}{{ println \"b\" 3 }}", "1 2ab 3\n"),
        ("{{ define \"x\" }}[{{ . }}]{{ end }}{{ template \"x\" .Spec.Rack }}", "[3]"),
        ("{{ $x := 1 }}{{ $x = add $x 1 }}{{ $x }}{{- /* not told */ -}} !", "2!"),
        ("{{ .Spec.Labels.odd | urlquery }}", "%22a%22+%26+%7Bb%7D%5Cc%0A%24%7Bd%7D"),
        ("{{ slice .Spec.Serial 0 4 }} {{ len .Spec.IPv4 }}", "1234 2"),
        // A label that is missing is the empty text to Go; a value of a map in metadata is none.
        ("{{ index .Spec.Labels \"plain\" }}{{ \"plain\" | index .Spec.Labels }}", "a-ba-b"),
        (
            "{{ eq (index .Spec.Labels \"zone\") \"\" }}{{ len (index .Spec.Labels \"zone\") }}",
            "true0",
        ),
        ("{{ or (index .Spec.Labels \"zone\") \"none\" }}", "none"),
        ("{{ with .Spec.Labels }}{{ eq (index . \"zone\") \"\" }}{{ end }}", "true"),
        ("{{ eq (index (Metadata \"map\") \"zone\") \"\" }}", "false"),
        ("{{ index (Metadata \"map\") \"a\" }} {{ index (Metadata \"list\") 1 }}", "b a"),
    ] {
        // Go rounds 2.25 to even.
        assert_eq!(run(text, Place::Value).as_deref(), Ok(told), "{text}");
    }
}

#[test]
fn what_templates_get_wrong_is_told_with_its_line() {
    for (text, line, words) in [
        ("\n{{ .Spec.Nothing }}", 2, "no `Nothing`"),
        ("{{ .Spec.Labels.zone }}", 1, "no `zone`"),
        ("\n\n{{ .Spec.Missing }}", 3, "no `Missing`"),
        ("{{ index .Spec.Labels \"zone\" }}", 1, "no label `zone`"),
        ("{{ index (Metadata \"map\") \"zone\" }}", 1, "missing"),
        ("{{ index .Spec.Serial \"a\" }}", 1, "cannot index"),
        ("{{ index .Spec.IPv4 7 }}", 1, "range"),
        ("a\n{{ env \"PATH\" }}", 2, "no function `env`, only MyURL"),
        ("{{ if false }}\n{{ readFile \"/etc/passwd\" }}{{ end }}", 2, "no function `readFile`"),
        ("{{ call .Spec }}", 1, "no function `call`"),
        ("{{ .Spec.Serial | os.Getenv }}", 1, "no function `os`"),
        ("{{ .Spec", 1, "unclosed"),
        ("{{ if .Spec }}\n\na", 3, "more or fewer {{ end }}"),
        ("{{ define \"x\" }}", 1, "more or fewer"),
        ("a {{ end }} b", 1, "more or fewer"),
        ("a {{ end }}{{ if true }} b", 1, "more or fewer"),
        ("a {{ else }} b", 1, "more or fewer"),
        ("{{ .Spec }}", 1, "a map or list is no text"),
        ("{{ .Spec.IPv4 }}", 1, "a map or list is no text"),
        ("{{ Metadata \"other\" }}", 1, "no metadata `other`"),
        ("{{ div 1 0 }}", 1, "have no such result"),
        ("{{ div 1.0 0 }}", 1, "have no such result"),
        ("{{ mul 9223372036854775807 2 }}", 1, "have no such result"),
        ("{{ add 1 \"a\" }}", 1, "not both numbers"),
        ("{{ add 1 }}", 1, "takes two numbers"),
        ("{{ printf \"%d\" \"a\" }}", 1, "does not fit"),
        ("{{ printf \"%d\" }}", 1, "has no value"),
        ("{{ printf \"a\" 1 }}", 1, "more values than verbs"),
        ("{{ printf \"%\" 1 }}", 1, "has no verb"),
        ("{{ printf \"%*d\" 9 1 }}", 1, ""),
        ("{{ printf \"%100000d\" 1 }}", 1, "wider than"),
        ("{{ template \"none\" }}", 1, "none"),
        ("{{ define \"x\" }}a{{ end }}{{ define \"x\" }}b{{ end }}", 1, "defined twice"),
    ] {
        let wrong = run(text, Place::Value).expect_err(text);
        assert!(wrong.line == line && wrong.why.contains(words), "{text}: {wrong:?}");
    }
}

/// Whatever a text asks for ends soon, in a few MiB.
#[test]
fn templates_that_do_not_end_are_ended() {
    let recursing =
        "{{ define \"x\" }}{{ template \"x\" }}{{ end }}{{ template \"x\" }}".to_owned();
    let mut doubling = String::new();
    for level in 0..40 {
        let (next, call) = (level + 1, format!("{{{{ template \"t{}\" }}}}", level + 1));
        doubling.push_str(&format!("{{{{ define \"t{level}\" }}}}{call}{call}{{{{ end }}}}"));
        if next == 40 {
            doubling.push_str("{{ define \"t40\" }}{{ end }}{{ template \"t0\" }}");
        }
    }
    let growing = format!("{{{{ $x := \"0123456789\" }}}}{}", "{{ $x = print $x $x }}".repeat(60));
    let quoting = format!("{{{{ $x := `\"` }}}}{}", "{{ $x = printf \"%q\" $x }}".repeat(60));
    let nested = format!("{{{{ {}1{} }}}}", "(".repeat(50_000), ")".repeat(50_000));
    let blocks = format!("{}{}", "{{ if true }}".repeat(9_000), "{{ end }}".repeat(9_000));
    for (text, words) in [
        (recursing, "limit"),
        (doubling, "more than 100000 steps"),
        (growing, "more than 65536 bytes"),
        (quoting, "more than 65536 bytes"),
        (nested, "depth"),
        (blocks, "depth"),
        ("{{ range 1000000000 }}{{ end }}".to_owned(), "more than 100000 steps"),
        ("{{ range 1000 }}{{ range 1000 }}{{ $x := 1 }}{{ end }}{{ end }}".to_owned(), "steps"),
        ("{{ range 3000 }}0123456789{{ end }}".to_owned(), "more than 10000 bytes"),
        (
            "{{ $x := printf \"%01000d\" 1 }}{{ range 99 }}{{ $x }}{{ end }}".to_owned(),
            "more than 10000",
        ),
    ] {
        let begun = Instant::now();
        let wrong = run(&text, Place::Value).unwrap_err();
        assert!(wrong.why.contains(words), "{wrong:?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{words}");
    }
}

#[test]
fn values_are_escaped_for_their_place() {
    let odd = "{{ .Spec.Labels.odd }}";
    let json =
        run(&format!("{{\"a\": \"{odd}\", \"b\": {{{{ .Spec.IPv4 | json }}}}}}"), Place::Json);
    let read: serde_json::Value = serde_json::from_str(&json.unwrap()).unwrap();
    let wanted = json!({ "a": "\"a\" & {b}\\c\n${d}", "b": ["10.69.0.4", "10.69.0.68"] });
    assert_eq!(read, wanted);
    assert_eq!(
        run("echo \"{{ .Spec.Labels.plain }}\"", Place::Script).as_deref(),
        Ok("echo \"a-b\"")
    );
    let wrong = run(odd, Place::Script).unwrap_err();
    assert!(wrong.why.contains("more than text to a shell"), "{wrong:?}");
    let wrong = run("{{ .Spec.Labels.odd | json }}", Place::Script).unwrap_err();
    assert!(wrong.why.contains("more than text to a shell"), "{wrong:?}");
    let wrong = run(odd, Place::Yaml).unwrap_err();
    assert!(wrong.why.contains("write `| json`"), "{wrong:?}");
    let yaml = run("a: {{ .Spec.Labels.odd | json }}", Place::Yaml).unwrap();
    assert_eq!(yaml, r#"a: "\"a\" & {b}\\c\n${d}""#);
    for more in ["- a", ": a", "a: b", "a:", "%a", "@a", " a", "a "] {
        let text = format!("{{{{ \"{more}\" }}}}");
        assert_eq!(run(&text, Place::Yaml).as_deref(), Ok(more), "the author wrote it");
    }
}

/// A constant of the template itself is no value of a machine.
#[test]
fn constants_are_inserted_as_they_are() {
    for (text, told) in [
        ("docker ps --format '{{ \"{{\" }}.ID}}'", "docker ps --format '{{.ID}}'"),
        ("{{ `'{{.ID}}'` }}", "'{{.ID}}'"),
        ("{{ print \"{{\" 1 \"}}\" }}{{ printf \"%q\" (print `$a`) }}", "{{1}}\"$a\""),
        ("{{ if true }}{{ `$(date)` }}{{ end }}", "$(date)"),
    ] {
        for place in [Place::Script, Place::Yaml] {
            assert_eq!(run(text, place).as_deref(), Ok(told), "{text}");
        }
    }
    for text in [
        "{{ print `{{` .Spec.Labels.odd }}",
        "{{ $x := .Spec.Labels.odd }}{{ $x }}",
        "{{ with .Spec.Labels.odd }}{{ print . }}{{ end }}",
        "{{ or `` .Spec.Labels.odd }}",
    ] {
        assert!(run(text, Place::Script).unwrap_err().why.contains("to a shell"), "{text}");
    }
    assert_eq!(run("{\"a\": \"{{ `\"` }}\"}", Place::Json).as_deref(), Ok(r#"{"a": "\""}"#));
}

#[test]
fn labels_that_a_text_names_are_known() {
    for (text, named) in [
        ("{{ if .Spec.Labels.a }}{{ $.Spec.Labels.b }}{{ end }}", &["a", "b"][..]),
        ("{{ print (len .Spec.Labels.c) }}{{ (index .Spec.Labels).d }}", &["c", "d"]),
        ("{{ index .Spec.Labels \"machine-type\" }}", &["machine-type"]),
        ("{{ \"a.b/c\" | index .Spec.Labels }}", &["a.b/c"]),
        ("{{ with .Spec.Labels }}{{ .zone }}{{ index . \"a-b\" }}{{ end }}", &["zone", "a-b"]),
        ("{{ $l := .Spec.Labels }}{{ $k := \"x-y\" }}{{ index $l $k }}{{ $l.z }}", &["x-y", "z"]),
    ] {
        let mut labels = BTreeSet::new();
        Program::new(text, Place::Value, (&words(), &Arc::default()), &mut labels).unwrap();
        assert!(named.iter().all(|name| labels.contains(*name)), "{text}: {labels:?}");
    }
}
