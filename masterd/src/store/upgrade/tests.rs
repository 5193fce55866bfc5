use super::*;

fn queue(drained: bool, unfinished: &[(u64, JobStatus)]) -> Queue {
    let unfinished = unfinished.iter().map(|(id, status)| (JobId(*id), *status)).collect();
    Queue { drained, unfinished }
}

fn report(found: &Found) -> String {
    Report { found, software: "1.2.3", formats: (1, 2) }.to_string()
}

#[test]
fn only_a_drained_and_empty_queue_is_left() {
    let jobs = [(3, JobStatus::Running), (9, JobStatus::Queued)];
    let running = |drained, jobs| Found::Running { queue: queue(drained, jobs), agents: vec![] };
    let stopped = |drained, jobs| Found::Stopped { format: 1, queue: queue(drained, jobs) };
    for (found, wanted) in [
        (Found::NoStore, None),
        (running(true, &[]), None),
        (running(false, &[]), Some("gnt cluster queue drain")),
        (running(false, &jobs), Some("gnt cluster queue drain")),
        (running(true, &jobs), Some("not finished: 2, the first of them job 3 (running)")),
        // Nothing begins where no master runs.
        (stopped(false, &[]), None),
        (stopped(true, &jobs[1..]), Some("job 9 (queued); start it")),
        (Found::NotClosed { format: 1 }, Some("did not close its store")),
    ] {
        let told = blocked(&found).map(|why| why.to_string());
        match wanted {
            None => assert_eq!(told, None, "{found:?}"),
            Some(words) => assert!(told.as_ref().is_some_and(|t| t.contains(words)), "{told:?}"),
        }
    }
}

#[test]
fn the_report_names_who_is_away_and_every_step() {
    let agents = vec![
        ("n1".to_owned(), Agent::Reached),
        ("n2".to_owned(), Agent::Away("not reached: refused".to_owned())),
        ("n3".to_owned(), Agent::Offline),
    ];
    let found = Found::Running { queue: queue(false, &[(3, JobStatus::Running)]), agents };
    let expected = "\
Gantry 1.2.3, asked before it is replaced:
  queue:  not drained, 1 job is left
  agents: 1 of 3 reached
          n2 is not reached: refused
          n3 is marked offline
  store:  format 2; this version reads formats 1 to 2

What to do next, in this order:
  1. `gnt cluster queue drain`
  2. wait until `gnt job list --pending --running` shows no job
  3. copy store and keys, see Backup in /usr/share/doc/gantry/install.md
  4. on each node, in any order, install the packages: `dpkg -i gantry_VERSION_amd64.deb`; when \
         they are back on n2, n3
  5. `gnt cluster queue undrain`
  6. `gnt cluster verify`";
    assert_eq!(report(&found), expected);
}

#[test]
fn a_step_that_is_done_is_not_asked_for() {
    let agents = vec![("n1".to_owned(), Agent::Reached)];
    let text = report(&Found::Running { queue: queue(true, &[]), agents });
    assert!(text.contains("  1. copy store") && !text.contains("back on"), "{text}");
    let text = report(&Found::Stopped { format: 1, queue: queue(true, &[]) });
    assert!(text.contains("3. `systemctl start") && text.contains("4. `gnt cluster"), "{text}");
    let text = report(&Found::Stopped { format: 1, queue: queue(false, &[]) });
    assert!(!text.contains("undrain"), "{text}");
    let text = report(&Found::Stopped { format: 1, queue: queue(true, &[(1, JobStatus::Queued)]) });
    assert!(text.contains("1. `systemctl start") && !text.contains("dpkg"), "{text}");
    assert!(!report(&Found::NotClosed { format: 1 }).contains("dpkg"));
    assert!(report(&Found::NoStore).contains("1. install the packages"));
}
