//! Core: what users of this machine may do at a socket, by what the kernel tells of them.

use model::audit::Interface;
use model::role::Role;

/// The rights of clients at one socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// The interface by which clients come.
    pub interface: Interface,
    /// Users who may do everything: root, and the daemon's own.
    pub owners: Vec<u32>,
    /// Groups with the roles of their members.
    pub groups: Vec<(u32, Role)>,
    /// Users whose word on for whom they ask counts: the front door's, and the owners.
    pub speakers: Vec<u32>,
}

impl Rights {
    /// Those of a socket at which one user may do everything, and others nothing.
    pub fn of_one(uid: u32) -> Self {
        let (interface, groups, speakers) = (Interface::Luxi, Vec::new(), Vec::new());
        Self { interface, owners: vec![uid], groups, speakers }
    }

    /// The greatest role of a user that is in these groups.
    pub fn role(&self, uid: u32, groups: impl IntoIterator<Item = u32>) -> Option<Role> {
        if self.owners.contains(&uid) {
            return Some(Role::Administrator);
        }
        let of = |group| {
            let row = self.groups.iter().filter(move |(known, _)| *known == group);
            row.map(|(_, role)| *role).max()
        };
        groups.into_iter().filter_map(of).max()
    }

    /// Whether the word of this user on for whom it asks counts.
    pub fn may_speak(&self, uid: u32) -> bool {
        self.speakers.contains(&uid) || self.owners.contains(&uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_role_counts() {
        let groups = vec![(10, Role::Administrator), (20, Role::Operator), (30, Role::Read)];
        let owners = vec![0, 5];
        let rights = Rights { interface: Interface::Luxi, owners, groups, speakers: vec![7] };
        for (uid, groups, role) in [
            (0, vec![], Some(Role::Administrator)),
            (5, vec![30], Some(Role::Administrator)),
            (9, vec![99, 30, 20], Some(Role::Operator)),
            (9, vec![30], Some(Role::Read)),
            (9, vec![10, 30], Some(Role::Administrator)),
            (9, vec![99], None),
            (9, vec![], None),
        ] {
            assert_eq!(rights.role(uid, groups), role, "{uid}");
        }
        assert_eq!([0, 5, 7, 9].map(|uid| rights.may_speak(uid)), [true, true, true, false]);
    }
}
