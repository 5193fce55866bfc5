//! Two failovers at once: one wins, and the other one's node says so at once and goes on.

use tests::candidates::{LONG, is_master};
use tests::run::wait_for;

use super::three;

#[test]
fn of_two_failovers_one_wins_and_the_other_names_the_winner() {
    let (mut cluster, n2, n3) = three();
    let n1 = cluster.master.clone();
    // It holds both of them up until both have asked.
    let running = cluster.submit("debug delay 1000");
    cluster.wait_for_status(running, "running");
    let attempts = [&n2, &n3].map(|host| {
        let attempt = cluster.gnt_start_on(host, "cluster master-failover --drain-timeout 60");
        wait_for("an attempt", LONG, || {
            host.masterd_log().contains("has the lead handed over").then_some(())
        });
        attempt
    });
    // The leadership may end by it, before its answer.
    let _told = cluster.gnt(&format!("job cancel {running}"));

    let ended = attempts.map(tests::run::Running::end);
    let won = ended.iter().position(|one| one.code() == 0).expect("one of them to win");
    let hosts = [&n2, &n3];
    let (winner, loser) = (hosts[won], hosts[1 - won]);
    assert!(ended[won].ok().contains("is the master, in epoch"), "{ended:#?}");
    let lost = &ended[1 - won];
    assert_eq!(lost.code(), 1, "{lost:#?}");
    let wanted = format!("{} was elected meanwhile, in epoch", winner.name);
    assert!(lost.stderr.contains(&wanted), "{lost:#?}");
    assert!(is_master(winner), "{ended:#?}");
    cluster.master = winner.clone();
    for host in [&n1, loser] {
        let _done = cluster.gnt_on(host, "debug delay 0 --no-locks").ok();
    }
    cluster.wait_for_same_files(&[&n1, &n2, &n3]);
}
