//! Tags, by Ganeti's clients and by ours, over a restart.

use super::clients::Clients;

#[test]
fn tags_are_set_searched_and_taken_away() {
    let Some(clients) = Clients::begin("Ganeti's tags") else { return };
    clients.ok("gnt-cluster add-tags owner:ops blue");
    clients.ok("gnt-cluster add-tags blue");
    clients.ok("gnt-node add-tags n1 rack:1");
    clients.ok("gnt-group add-tags default rack:all");
    assert_eq!(clients.ok("gnt-cluster list-tags"), "blue\nowner:ops\n");
    assert!(clients.ok("gnt-cluster info").contains("Tags: blue, owner:ops\n"));
    clients.cluster.kill_master();
    clients.cluster.start_master();
    assert_eq!(clients.ok("gnt-node list-tags n1"), "rack:1\n");
    assert_eq!(clients.ok("gnt-group list-tags default"), "rack:all\n");
    assert_eq!(clients.ok("gnt-node list --no-headers -o tags"), "rack:1\n");
    let found = "/nodegroup/default rack:all\n/nodes/n1.example rack:1\n";
    assert_eq!(clients.ok("gnt-cluster search-tags ^rack"), found);
    assert_eq!(clients.line("gnt-cluster search-tags nothing").failed(1), "");
    clients.ok("gnt-cluster remove-tags blue");
    assert_eq!(clients.ok("gnt-cluster list-tags"), "owner:ops\n");
}

#[test]
fn what_is_no_tag_or_has_none_is_told() {
    let Some(clients) = Clients::begin("Ganeti's refusals of tags") else { return };
    let long = "x".repeat(129);
    for (arguments, told) in [
        (&["gnt-cluster", "add-tags", "a b"][..], "Tag contains invalid characters"),
        (&["gnt-cluster", "add-tags", &long], "Tag too long (>128 characters)"),
        (&["gnt-cluster", "remove-tags", "blue"], "Tag(s) 'blue' not found"),
        (&["gnt-cluster", "search-tags", "("], "Invalid search pattern"),
        (&["gnt-node", "add-tags", "nobody", "a"], "unknown_entity"),
        (&["gnt-node", "list-tags", "nobody"], "unknown_entity"),
        (&["gnt-group", "add-tags", "nobody", "a"], "unknown_entity"),
        (&["gnt-instance", "add-tags", "nobody", "a"], "unknown_entity"),
        (&["gnt-network", "list-tags", "nobody"], "unknown_entity"),
    ] {
        let ended = clients.run(arguments[0], &arguments[1..]);
        assert!(ended.failed(1).contains(told), "{arguments:?}: {ended:#?}");
    }
    assert_eq!(clients.ok("gnt-cluster list-tags"), "");
}
