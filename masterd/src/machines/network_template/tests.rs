use super::*;

/// A host with addresses of two networks.
fn facts() -> Facts {
    let network = |name: &str, number: u8| {
        let mut network = crate::testing::network(name, number);
        network.subnets[0].gateway = Some([172, 16, number, 1].into());
        network.dns_servers = vec![[8, 8, 8, 8].into(), [8, 8, 4, 4].into()];
        (network.name.clone(), Arc::new(network))
    };
    let addresses = [("net0", [172, 16, 0, 10]), ("net1", [172, 16, 1, 10])];
    let addresses = addresses.map(|(name, address)| (name.parse().unwrap(), vec![address.into()]));
    Facts {
        name: "SN1".to_owned(),
        role: "worker".to_owned(),
        place: Some((3, 4)),
        macs: vec!["52:54:00:00:00:01".to_owned()],
        labels: [("zone".to_owned(), "a".to_owned())].into(),
        addresses: addresses.into(),
        networks: [network("net0", 0), network("net1", 1), network("net2", 2)]
            .into_iter()
            .collect(),
    }
}

fn told(text: &str) -> Result<String, String> {
    render(text, &facts()).0.map_err(|error| error.to_string())
}

#[test]
fn document_4s_words_are_known() {
    for (text, rendered) in [
        ("{{ ip['net0']}}", "172.16.0.10/24"),
        ("{{ip.net1}}", "172.16.1.10/24"),
        ("{{ config['net0'].gateway}}", "172.16.0.1"),
        ("{{ config['net0'].dnsServers }}", "['8.8.8.8', '8.8.4.4']"),
        ("{{ config.net2.prefix }} {{ config.net2.netmask }}", "172.16.2.0/24 24"),
        (
            "{{ machine.name }} {{ machine.rack }} {{ machine.index }} {{ machine.labels.zone }}",
            "SN1 3 4 a",
        ),
        ("{% for mac in machine.macs %}- {{ mac }}\n{% endfor %}", "- 52:54:00:00:00:01\n"),
        ("{{ machine.labels.rack | default('none') }}", "none"),
    ] {
        assert_eq!(told(text).as_deref(), Ok(rendered), "{text}");
    }
    let (_, used) = render("{{ ip.net1 }}{{ ip.net0 }}{{ config.net2.prefix }}", &facts());
    assert_eq!(used.iter().map(Word::as_str).collect::<Vec<_>>(), ["net0", "net1"]);
}

#[test]
fn what_is_not_there_is_told_with_its_line() {
    for (text, why) in [
        ("a\n{{ ip['net9'] }}", "line 2: `ip['net9']` is undefined"),
        ("{{ ip6.net0 }}", "`ip6.net0` is undefined"),
        ("{{ config.net0.mtu }}", "is undefined"),
        ("\n\n{{ nothing }}", "line 3: `nothing` is undefined"),
        ("{{ ip.net0 ", "unexpected end of input"),
        ("{% include 'other' %}", "unknown statement include"),
        ("{{ open('/etc/passwd') }}", "open is unknown"),
        ("{% for a in range(1000) %}{% for b in range(1000) %}x{% endfor %}{% endfor %}", "fuel"),
    ] {
        let error = told(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

/// Templates with methods of Python and macros, and what they become.
const RENDERED: &[(&str, &str)] = &[
    (
        "{% set mtus = [1500] %}{% for mtu in [9000, 1400] %}{{ mtus.append(mtu) }}{% endfor %}{{ mtus | max }} {{ mtus }}",
        "9000 [1500, 9000, 1400]",
    ),
    (
        "{% set l = [] %}{% set _ = l.append('a') %}{% do l.append(machine.name) %}{{ l | join(',') }} {{ l | length }}",
        "a,SN1 2",
    ),
    (
        "{% set l = ['a'] %}{% set _ = l.append('b') %}{{ l + ['c'] }} {{ 'b' in l }} {{ l[1] }}",
        "['a', 'b', 'c'] True b",
    ),
    // The words beside a list stay as they are.
    (
        "append {% set e = ['é'] %}{% set l = ['x']%}{% do l.append('y') %}{{ e }}{{ l }}",
        "append ['é']['x', 'y']",
    ),
    (
        "{% for name in ['Tenant', 'Storage'] if name.startswith('Ten') %}{{ name.lower() }}{% endfor %}",
        "tenant",
    ),
    ("{{ machine.labels.get('zone', 'none') }} {{ machine.labels.get('row', 'none') }}", "a none"),
    ("{% for key, value in machine.labels.items() %}{{ key }}={{ value }}{% endfor %}", "zone=a"),
    (
        "{{ ip.net0.split('/')[0] }} {{ 'a-b'.replace('-', '_') }} {{ ' x '.strip() }}",
        "172.16.0.10 a_b x",
    ),
    (
        "{% macro nic(name, mtu=1500) %}{name: {{ name }}, mtu: {{ mtu }}}{% endmacro %}{{ nic('em1') }}{{ nic(machine.name, mtu=9000) }}",
        "{name: em1, mtu: 1500}{name: SN1, mtu: 9000}",
    ),
];

/// The templates that are refused, and why.
const REFUSED: &[(&str, &str)] = &[
    ("{{ machine.macs.append('x') }}", "append"),
    ("{% set l = [] %}{% do l.append(l) %}", "a list takes texts and numbers, and no sequence"),
    ("{% set l = [] %}{% do l.append(nothing) %}", "undefined"),
    ("{% set l = [] %}{% do l.append(ip.net9) %}", "undefined"),
    ("{{ '{:>1000000000}'.format('x') }}", "`format` is a filter here"),
    (
        "{% set l = [] %}{% for a in range(9000) %}{% do l.append(a) %}{% endfor %}",
        "at most 65536 bytes",
    ),
    (
        "{% set l = [] %}{% set t = 'x'|indent(60000, true) %}{% do l.append(t) %}{% do l.append(t) %}",
        "at most 65536 bytes",
    ),
    // Each would hold twice as much at each call.
    (
        "{% macro m(x) %}{{ m([x, x]) }}{% endmacro %}{{ m(machine) }}",
        "a macro takes values that hold one",
    ),
    (
        "{% macro m(x) %}{% set y = [x, x] %}{% do n(y) %}{% endmacro %}{% macro n(x) %}{{ m(x) }}{% endmacro %}{{ m(machine) }}",
        "a macro takes",
    ),
    (
        "{% macro m(x) %}{{ x }}{% endmacro %}{% set f = [m] %}{{ f[0]([machine, machine]) }}",
        "it is no value",
    ),
    ("{% macro m(f, x) %}{{ f(m, [x, x]) }}{% endmacro %}{{ m(m, machine) }}", "it is no value"),
    ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
    (
        "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}",
        "`call` are not there",
    ),
    (
        "{% set s = 'x'|indent(9000, true) %}{% set s = s.replace(' ', s) %}{{ s.replace(' ', s) }}",
        "fuel",
    ),
];

#[test]
fn templates_for_ansible_call_methods_and_macros() {
    let mut wrong = Vec::new();
    for (text, rendered) in RENDERED {
        let told = told(text);
        if told.as_deref() != Ok(*rendered) {
            wrong.push((*text, told));
        }
    }
    for (text, why) in REFUSED {
        let told = told(text);
        if !told.as_ref().is_err_and(|error| error.contains(*why)) {
            wrong.push((*text, told));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_value_becomes_large() {
    let doubled = "{% set a = [machine] %}".to_owned() + &"{% set a = [a, a] %}".repeat(40);
    let long = format!("{{% for a in range(1000) %}}{}{{% endfor %}}", "x".repeat(2000));
    let captured = format!("{{% set a %}}{}{}{{% endset %}}", long.repeat(20), long);
    for (text, why) in [
        // Each made gigabytes, or took half a minute.
        ("{{ ([[range(90000)|list]*100]*10)|string|length }}", "line 1: `*` multiplies numbers"),
        ("a\n{{ ([[1]*100000]*100000) ~ '' }}", "line 2: `*` multiplies numbers alone"),
        ("{{ range(90000)|list|string }}", "range gives at most 10000 numbers"),
        (&doubled, "this holds 64 variables; a value may hold 32"),
        (
            "{% set a = [1] %}{% for i in range(40) %}{% set a = a + [i] %}{% endfor %}",
            "grows with each turn",
        ),
        ("{% for a in [machine] recursive %}{{ loop([a, a]) }}{% endfor %}", "may not call itself"),
        ("{% set n = namespace(a=1) %}", "namespace is unknown"),
        ("{{ [1]|batch(100000, machine) }}", "batch is unknown"),
        (
            "{{ range(1000)|map(attribute='x', default=machine)|list }}",
            "`map` takes literals alone",
        ),
        ("{{ 'x'|indent(1000000000) }}{{ 'a'|replace('', 'x'|indent(9000000)) }}", "fuel"),
        ("{{ '%1000000000s'|format(1) }}", "fuel"),
        (&long, "more than 1048576 bytes"),
        (&captured, "fuel"),
    ] {
        let error = told(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    for (text, rendered) in [
        ("{{ (machine.index|int) * 2 + 1 }}", "9"),
        ("{% for i in range(6, 0, -2) %}{{ i }} {% endfor %}", "6 4 2 "),
        ("{% for i in range(1, 4) %}em{{ i }} {% endfor %}", "em1 em2 em3 "),
        (
            "{% for name in ['net0', 'net1'] %}{{ ip[name] }} {% endfor %}",
            "172.16.0.10/24 172.16.1.10/24 ",
        ),
    ] {
        assert_eq!(told(text).as_deref(), Ok(rendered), "{text}");
    }
}
