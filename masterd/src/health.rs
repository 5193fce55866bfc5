//! How the cluster is doing: [`alarm`] is the table of alarms, [`status`] tells all on one page, [`watcher`]
//! raises alarms and submits jobs that mend.

pub mod alarm;
pub mod status;
pub mod watcher;
