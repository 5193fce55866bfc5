//! Core: what Ganeti's tools have and this one has not, and why.

/// Kinds of objects that do not exist.
const OBJECTS: [(&str, &str); 1] = [("storage", INSTANCES)];

const INSTANCES: &str = "this version does not do that with instances yet";
const CONSOLE: &str = "use ssh, or what you manage hosts with; gnt runs nothing on nodes";
const POWER: &str = "nodes are not switched by gnt yet";

const UPGRADE: &str =
    "packages are upgraded by the package manager; `gnt cluster check-upgrade` says what to do";

/// Verbs that do not exist: object, verb, why.
const VERBS: [(&str, &str, &str); 17] = [
    ("cluster", "command", CONSOLE),
    ("cluster", "copyfile", CONSOLE),
    ("cluster", "destroy", "remove the packages and the data directory of each node instead"),
    ("cluster", "epo", POWER),
    ("cluster", "rename", "a cluster keeps the name that it was begun with"),
    ("cluster", "upgrade", UPGRADE),
    ("node", "health", POWER),
    ("node", "power", POWER),
    ("node", "list-drbd", "no disk is DRBD's in this version; `gnt instance info` shows copies"),
    ("node", "restricted-command", CONSOLE),
    (
        "instance",
        "replace-disks",
        "copies of disks stay on their nodes in this version; `gnt instance resync` fills them",
    ),
    ("instance", "snapshot", INSTANCES),
    ("instance", "move-disk", INSTANCES),
    ("os", "modify", "`gnt cluster modify` has the parameters of operating systems"),
    ("debug", "wconfd", "the configuration has no daemon of its own: masterd keeps it"),
    ("debug", "metad", "there is no metadata daemon: machines are served by noded"),
    ("debug", "test-osparams", INSTANCES),
];

/// Why Gantry has no such object, or no such verb of it; `None` for what Ganeti has not either.
pub(crate) fn why(object: &str, verb: &str) -> Option<&'static str> {
    let verbs = VERBS.iter().find(|known| known.0 == object && known.1 == verb);
    let objects = || OBJECTS.iter().find(|known| known.0 == object).map(|known| known.1);
    verbs.map(|known| known.2).or_else(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_absent_that_is_there() {
        let all = crate::command();
        for (object, verb, _why) in VERBS {
            let object = all.find_subcommand(object).unwrap();
            assert!(object.find_subcommand(verb).is_none(), "{verb}");
        }
        for (object, _why) in OBJECTS {
            assert!(all.find_subcommand(object).is_none(), "{object}");
        }
        assert!(why("storage", "info").is_some() && why("debug", "metad").is_some());
        assert!(why("job", "list").is_none() && why("nothing", "list").is_none());
    }
}
