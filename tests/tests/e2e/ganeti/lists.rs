//! Lists: every field of every kind of object, by its name and title, and filters.

use tests::ganeti::Ganeti;
use tests::run::run;

use super::clients::Clients;

/// Kind of object, field, title and kind of value of all that Ganeti lists.
const FIELDS: &str = include_str!("../../../../masterd/src/door/lists/ganeti-fields.txt");
/// Prints the same from the installed modules.
const PRINT_FIELDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/ganeti/fields.py");
/// The command that lists each kind of object.
const COMMANDS: [(&str, &str); 7] = [
    ("node", "gnt-node"),
    ("group", "gnt-group"),
    ("job", "gnt-job"),
    ("instance", "gnt-instance"),
    ("network", "gnt-network"),
    ("export", "gnt-backup"),
    ("filter", "gnt-filter"),
];

/// Fields of jobs on which `gnt-job list` breaks by itself: it joins lists as if they were text.
const UNPRINTABLE: [&str; 3] = ["opstart", "opexec", "opend"];

/// Names and titles of the fields of one kind, in Ganeti's order.
fn fields(what: &str) -> Vec<(&'static str, &'static str)> {
    let cells = FIELDS.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    cells.filter(|cells| cells[0] == what).map(|cells| (cells[1], cells[2])).collect()
}

/// The installed version has the fields with which we compare our tables.
#[test]
fn the_installed_version_has_the_fields_that_we_know() {
    let Some(ganeti) = Ganeti::find("Ganeti's tables of fields") else { return };
    let mut python = ganeti.python();
    python.arg(PRINT_FIELDS);
    assert_eq!(run(python).ok(), FIELDS);
}

#[test]
fn every_field_is_listed_under_its_title() {
    let Some(clients) = Clients::begin("Ganeti's lists of fields") else { return };
    for (what, program) in COMMANDS {
        let listed = clients.run(program, &["list-fields", "--no-headers", "--separator=\t"]);
        let listed: Vec<Vec<&str>> =
            listed.ok().lines().map(|line| line.split('\t').collect()).collect();
        let ganetis = fields(what);
        let first: Vec<(&str, &str)> =
            listed.iter().take(ganetis.len()).map(|cells| (cells[0], cells[2])).collect();
        assert_eq!(first, ganetis, "{what}");
    }
}

#[test]
fn every_field_has_its_column() {
    let Some(clients) = Clients::begin("Ganeti's lists") else { return };
    let _id = clients.cluster.gnt("debug delay 0").ok();
    for (what, program) in COMMANDS {
        let shown = |(name, _): &(&str, &str)| what != "job" || !UNPRINTABLE.contains(name);
        let (names, titles): (Vec<&str>, Vec<&str>) =
            fields(what).into_iter().filter(shown).unzip();
        let wanted = names.join(",");
        let listed = clients.run(program, &["list", "-o", &wanted, "--separator=\t"]);
        let mut lines = listed.ok().lines().map(|line| line.split('\t').collect::<Vec<_>>());
        assert_eq!(lines.next(), Some(titles), "{what}");
        let rows = match what {
            "node" | "group" | "job" => 1,
            _ => 0,
        };
        assert_eq!(lines.filter(|row| row.len() == names.len()).count(), rows, "{listed:#?}");
    }
    let usual = clients.ok("gnt-node list --no-headers --separator=:");
    let cells: Vec<&str> = usual.trim_end().split(':').collect();
    assert_eq!((cells[0], cells[6], cells[7]), ("n1.example", "0", "0"));
    assert!(cells[1..6].iter().all(|size| size.parse::<u64>().is_ok()), "{usual}");
}

#[test]
fn objects_are_found_by_name_and_by_filter() {
    let Some(clients) = Clients::begin("Ganeti's filters") else { return };
    let names = |arguments: &[&str]| {
        let usual = ["list", "--no-headers", "-o", "name"];
        clients.run("gnt-node", &[&usual, arguments].concat()).ok().to_owned()
    };
    let found = "n1.example\n";
    for filter in [
        "name == \"n1\"",
        "name == \"N1.EXAMPLE\"",
        "name =~ m/^N1[.]/i",
        "name =* \"n*\"",
        "not offline and (role == \"M\" or \"x\" in tags)",
        "mtotal > 0 and ctotal >= 1",
        "ctime > 1600000000",
    ] {
        assert_eq!(names(&["-F", filter]), found, "{filter}");
    }
    for filter in [
        "name == \"n\" and not offline",
        "offline",
        "master_candidate and role != \"M\"",
        "mtotal < 0",
    ] {
        assert_eq!(names(&["-F", filter]), "", "{filter}");
    }
    assert_eq!(names(&["n1"]), found);
    for line in [
        "gnt-node list nobody",
        "gnt-node list n1 nobody",
        "gnt-node info nobody",
        "gnt-group list nobody",
        "gnt-group info nobody",
        "gnt-instance list nobody",
        "gnt-instance info nobody",
    ] {
        let told = clients.line(line);
        assert!(told.failed(1).contains("unknown_entity"), "{told:#?}");
    }
    let told = clients.run("gnt-node", &["list", "-F", "nonsense == 1"]);
    assert!(told.failed(1).contains("`nonsense`"), "{told:#?}");
    let told = clients.run_anyhow("gnt-node", &["list", "-o", "name,nonsense"]);
    let warning = "Queried for unknown fields nonsense";
    assert!(told.failed(14).contains(warning), "{told:#?}");
}

#[test]
fn jobs_are_found_by_number_state_and_time() {
    let Some(clients) = Clients::begin("Ganeti's lists of jobs") else { return };
    let _id = clients.cluster.gnt("debug delay 0").ok();
    let _why = clients.cluster.gnt("debug delay 0 -n nobody.example").failed(1);
    let waiting = clients.cluster.submit("debug delay 1000");
    assert_eq!(waiting, 3);
    clients.cluster.wait_for_status(3, "running");
    let ids = |arguments: &[&str]| {
        let usual = ["list", "--no-headers", "-o", "id"];
        let told = clients.run("gnt-job", &[&usual, arguments].concat()).ok().to_owned();
        let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
        told.lines().map(first).collect::<Vec<_>>().join(" ")
    };
    for (arguments, found) in [
        (&["2"][..], "2"),
        (&["--error"], "2"),
        (&["--running"], "3"),
        (&["--finished"], "1 2"),
        (&["--pending"], ""),
        (&["-F", "status == \"success\" or id > 2"], "1 3"),
        (&["-F", "\"success\" in opstatus"], "1"),
        (&["-F", "received_ts > 1600000000 and not archived"], "1 2 3"),
        (&["-F", "end_ts < 1600000000"], ""),
    ] {
        assert_eq!(ids(arguments), found, "{arguments:?}");
    }
    let locks = clients.ok("gnt-debug locks --no-headers --separator=:");
    assert!(locks.lines().any(|lock| lock == "node/n1.example:exclusive:job/3:-"), "{locks}");
    clients.ok("gnt-job info 1 2 3");
    clients.ok("gnt-job archive 1");
    assert_eq!(ids(&["--archived"]), "1 2 3");
    assert_eq!(ids(&[]), "2 3");
}
