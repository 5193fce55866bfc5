//! Ganeti's own test of a cluster, to its end.

use super::*;

/// Runs it on instances of a template, and looks that it did these steps and left nothing.
fn burns_in(rack: &Rack, options: &str, steps: &[&str]) {
    let mut burnin = rack.ganeti.tool("/usr/lib/ganeti/tools/burnin");
    // It asks Ganeti's confd for disks that it detached.
    let without = "--no-confd --no-add-disks";
    burnin.args(format!("-o noop --no-name-check --no-ip-check {without}").split(' '));
    burnin.args(options.split_whitespace()).args(["b1.example", "b2.example"]);
    burnin.env("GANETI_ROOTDIR", &rack.root).env("GANETI_HOSTNAME", MASTER).env("TZ", "UTC");
    let told = run(burnin);
    let text = format!("{}{}", told.ok(), told.stderr);
    for step in steps {
        assert!(text.contains(step), "{step}: {text}");
    }
    assert!(rack.list("name").is_empty());
    assert_eq!(rack.files(), 0);
}

/// A cluster with the system that is installed, on nodes with disks of their own.
fn rack() -> Option<Rack> {
    let rack = Rack::begin()?;
    for host in rack.nodes() {
        rack.ganeti.copy_definition("noop", &host.layout().os_directories()[0]);
    }
    rack.theirs("gnt-cluster modify -N mode=bridged,link=br0 -B minmem=128,maxmem=128").ok();
    std::fs::create_dir_all(rack.root.join("var/log/ganeti")).unwrap();
    wait_for("the definition", PATIENCE, || {
        (rack.theirs("gnt-os list --no-headers").ok() == "noop\n").then_some(())
    });
    Some(rack)
}

#[test]
fn ganetis_burnin_goes_to_its_end_with_shared_files() {
    let Some(rack) = rack() else { return };
    let steps =
        ["runtime memory", "Failing over", "Migrating", "Reinstalling", "Adding and removing NICs"];
    burns_in(&rack, "-t sharedfile --disk-size 1G,1G --disk-growth 128m,128m -p", &steps);
}

#[test]
fn ganetis_burnin_goes_to_its_end_with_files_of_nodes() {
    if !tests::is_root() {
        return tests::skip("Ganeti's burnin on files of nodes", "a mount needs root");
    }
    let Some(rack) = rack() else { return };
    for host in &rack.hosts {
        let own = rack.cluster.dir().join(format!("disks of {}", host.name));
        std::fs::create_dir_all(&own).unwrap();
        rack.start_with(host, &[(own, rack.disks())]);
    }
    let steps = ["Growing disks", "Moving instances", "Activating/deactivating disks", "Renaming"];
    let options = "-t file --disk-size 1G --disk-growth 128m --rename b3.example";
    burns_in(&rack, options, &steps);
}
