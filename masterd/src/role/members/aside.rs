//! Core: why a store is kept aside.

use model::NodeName;
use model::cluster::{Cluster, Overridden};

/// The reason that the node keeps with the store, for people who look at it later: `was` is the member
/// whose store it is, `becomes` the one in its place.
pub(super) fn reason(cluster: &Cluster, node: &NodeName, was: u64, becomes: u64) -> String {
    let known = format!(
        "store of member {was} on {node}; the cluster {} knows member {becomes} there",
        cluster.cluster_name
    );
    match &cluster.overridden {
        Some(Overridden { at, node, .. }) => {
            format!("{known}, since the override by {node} at {at}")
        }
        None => known,
    }
}
