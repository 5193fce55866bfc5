//! How the cluster is doing: [`status`] tells it on one page, [`watcher`] raises alarms and submits jobs that
//! mend.

pub mod status;
pub mod watcher;
