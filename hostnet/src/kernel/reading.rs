//! Core: the network of a host as the kernel told it at one moment.

use std::collections::BTreeMap;

use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::route::RouteMessage;

use super::found;
use super::saved::{self, SavedRoute};
use crate::model::HostNetwork;
use crate::model::link::LinkName;

/// The network of a host as the kernel told it at one moment.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The part of it that a configuration can express.
    pub network: HostNetwork,
    /// The names of the numbers that routes have for links.
    names: BTreeMap<u32, LinkName>,
    routes: Vec<RouteMessage>,
}

impl Reading {
    /// Reads the answers to four dumps.
    pub(super) fn of(answers: Vec<RouteNetlinkMessage>) -> Self {
        let (mut links, mut routes, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for answer in answers {
            match answer {
                RouteNetlinkMessage::NewLink(link) => links.push(link),
                RouteNetlinkMessage::NewRoute(route) => routes.push(route),
                other => rest.push(other),
            }
        }
        let (network, names) = found::network(&links, &routes, &rest);
        Self { network, names, routes }
    }

    /// All routes but those that the kernel makes itself.
    pub(crate) fn routes(&self) -> Vec<SavedRoute> {
        self.routes.iter().filter_map(|message| saved::saved(message, &self.names)).collect()
    }

    pub(super) fn numbers(&self) -> BTreeMap<LinkName, u32> {
        self.names.iter().map(|(number, name)| (name.clone(), *number)).collect()
    }
}
