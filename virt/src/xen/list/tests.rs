use super::*;

const HEAD: &str = "Name                                        ID   Mem VCPUs\tState\tTime(s)   UUID                            Reason-Code\tSecurity Label\n";
const FIRST: &str = "Domain-0                                     0   768     1     r-----       9.0 00000000-0000-0000-0000-000000000000        -                -\n";
const WEB1: &str = "12345678-9abc-4def-8123-456789abcdef";

/// A line as Xen 4.17 prints it.
fn line(name: &str, id: u32, state: &str, reason: &str) -> String {
    format!("{name:40} {id:5}   128     1     {state}       6.4 {WEB1} {reason:>8} {:>16}\n", "-")
}

fn list(lines: &[String]) -> String {
    format!("{HEAD}{FIRST}{}", lines.concat())
}

fn life(state: &str, reason: &str) -> Option<Life> {
    let domains = read(&list(&[line("web1.example.com", 7, state, reason)])).ok()?;
    Some(domains.of(WEB1.parse().unwrap()).first()?.life)
}

#[test]
fn what_a_real_xen_printed() {
    let text = include_str!("xl-list-4.17.txt");
    let lives: Vec<Life> = text
        .split("\n\n")
        .flat_map(|list| read(&format!("{}\n", list.trim_end())).unwrap().of(WEB1.parse().unwrap()))
        .map(|domain| domain.life)
        .collect();
    let wanted = [
        Life::Paused,
        Life::Running,
        Life::Ended(Reason::PowerOff),
        Life::Ended(Reason::Reboot),
        Life::Ended(Reason::Crash),
    ];
    assert_eq!(lives, wanted);
}

#[test]
fn how_a_domain_stands() {
    for (state, reason, wanted) in [
        ("r-----", "-", Some(Life::Running)),
        ("-b----", "-", Some(Life::Running)),
        ("------", "-", Some(Life::Running)),
        ("--p---", "-", Some(Life::Paused)),
        ("-bp---", "-", Some(Life::Paused)),
        ("---s--", "0", Some(Life::Ended(Reason::PowerOff))),
        ("---sr-", "1", Some(Life::Ended(Reason::Reboot))),
        ("---ss-", "2", Some(Life::Ended(Reason::Suspend))),
        ("---sc-", "3", Some(Life::Ended(Reason::Crash))),
        ("---sw-", "4", Some(Life::Ended(Reason::Watchdog))),
        ("---sS-", "5", Some(Life::Ended(Reason::Other(5)))),
        ("---s?-", "fe", Some(Life::Ended(Reason::Other(254)))),
        ("---s-d", "0", Some(Life::Dying)),
        ("-----d", "-", Some(Life::Dying)),
        ("---s--", "-", None),
        ("r----", "-", None),
        ("r------", "-", None),
    ] {
        assert_eq!(life(state, reason), wanted, "{state} {reason}");
    }
}

#[test]
fn a_list_that_is_not_whole_says_nothing() {
    let whole = list(&[line("web1", 7, "r-----", "-")]);
    assert_eq!(read(&whole).unwrap().of(WEB1.parse().unwrap()).len(), 1);
    // A list that ends between two lines is none either, unless it is longer than its first domain.
    for cut in 0..whole.len() {
        let told = read(&whole[..cut]);
        let lacks_the_last = cut == HEAD.len() + FIRST.len();
        assert_eq!(told.is_ok(), lacks_the_last, "{:?}", &whole[..cut]);
    }
    for odd in [
        String::new(),
        "rubbish\n".to_owned(),
        HEAD.to_owned(),
        format!("{HEAD}{}", line("web1", 7, "r-----", "-")),
        format!("{whole}libxl: error: something\n"),
        format!("{HEAD}{FIRST}\n"),
        whole.replace("Reason-Code", ""),
        whole.replace(WEB1, "12345678"),
        whole.replace("    7  ", "    x  "),
        "[{\"domid\": 0}]\n".to_owned(),
    ] {
        assert!(read(&odd).is_err(), "{odd}");
    }
}

#[test]
fn a_name_may_be_odd_and_the_domain_that_lives_comes_first() {
    let lines = [
        line("(null)", 3, "-----d", "-"),
        line("two words r-----", 4, "---s--", "0"),
        line("", 5, "-b----", "-"),
    ];
    let domains = read(&list(&lines)).unwrap();
    let ids: Vec<u32> = domains.of(WEB1.parse().unwrap()).iter().map(|domain| domain.id).collect();
    assert_eq!(ids, [5, 4, 3]);
    assert!(domains.has(0) && domains.has(4) && !domains.has(6));
}
