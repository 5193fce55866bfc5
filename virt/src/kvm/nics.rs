//! The cards of a guest: an interface of the host for each, in the place that its mode and link name.
//!
//! [`plan`] decides what is done for a card, with the rules of `filter`; `kernel` and `programs` do it. An
//! interface goes with QEMU. Its filter, its port of Open vSwitch and its rules of routing stay, and are
//! removed when the run has ended.

mod filter;
mod kernel;
pub(crate) mod plan;
mod programs;

use std::fmt::Display;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use model::InstanceName;
use model::instance::launch::{Launch, NicLaunch};
use rtnetlink::Handle;
use stdx::net::tap;

use super::parts::queues;
use super::words::Filled;
use crate::VirtError;
use kernel::told;
use plan::{CardError, CardPlan, Place, VlanStep, interface};
use programs::{Event, Programs};

/// Lists of routing tables, as `ip` reads them: the host's own, and that of its distribution.
const TABLES: [&str; 3] =
    ["/etc/iproute2/rt_tables", "/usr/share/iproute2/rt_tables", "/usr/lib/iproute2/rt_tables"];
/// A directory with more of them.
const MORE_TABLES: &str = "/etc/iproute2/rt_tables.d";
/// Most files of that directory that are read.
const MORE_TABLES_MAX: usize = 100;

/// The interface of a card, while QEMU has not taken its descriptors.
#[derive(Debug)]
pub(super) struct Card {
    queues: std::vec::IntoIter<File>,
}

impl Card {
    /// The next queue that nobody has.
    pub(super) fn queue(&mut self) -> Option<OwnedFd> {
        self.queues.next().map(OwnedFd::from)
    }
}

/// The cards of this node's guests; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Nics {
    programs: Programs,
}

impl Nics {
    /// Tells the operator's program `hook` of each card, where there is one.
    pub(crate) fn new(hook: PathBuf) -> Self {
        Self { programs: Programs::new(hook) }
    }

    /// Makes the cards of a guest, each up and in its place.
    ///
    /// # Errors
    /// One cannot be made; [`Self::disconnect`] removes what is left of all.
    pub(super) async fn connect(&self, launch: &Launch) -> Result<Vec<Card>, VirtError> {
        let mut cards = Vec::new();
        for nic in &launch.nics {
            cards.push(self.card(launch, nic).await?);
        }
        Ok(cards)
    }

    /// Makes one card of a guest. After its end, [`Self::disconnect`] removes what is left of it.
    ///
    /// # Errors
    /// It cannot be made, or it lives already; nothing that was not there before is left then.
    pub(super) async fn card(&self, launch: &Launch, nic: &NicLaunch) -> Result<Card, VirtError> {
        match self.made(launch, nic).await {
            Ok(card) => Ok(card),
            Err(error) => {
                self.disconnect(&launch.name, std::slice::from_ref(nic)).await;
                Err(error)
            }
        }
    }

    async fn made(&self, launch: &Launch, nic: &NicLaunch) -> Result<Card, VirtError> {
        let refused = |what: &str, why: &dyn Display| VirtError::Refused {
            what: "connect",
            name: launch.name.clone(),
            why: format!("{what}: {why}"),
        };
        let plan = plan::plan(nic, &stdx::aside(tables))
            .map_err(|error| refused(&format!("card {}", nic.uuid), &error))?;
        let what = format!("card {} as {}", nic.uuid, plan.interface);
        let parameters = Filled(&launch.hvparams);
        let has_headers =
            parameters.flag("vnet_hdr") && parameters.text("nic_type") == "paravirtual";
        let make = || tap::open(&plan.interface, queues(parameters), has_headers);
        let (connection, handle, _) = rtnetlink::new_connection().map_err(VirtError::Network)?;
        let talk = async {
            let bridge = bridge(&handle, &plan).await.map_err(|why| refused(&what, &why))?;
            let queues = make().map_err(|error| refused(&what, &error))?;
            let done = self.place(&handle, &plan, bridge).await;
            done.map_err(|why| refused(&what, &why))?;
            Ok::<_, VirtError>(Card { queues: queues.into_iter() })
        };
        let card = tokio::select! {
            card = talk => card?,
            () = connection => return Err(VirtError::Ends),
        };
        let heard = self.programs.tell(Event::Up, &launch.name, nic).await;
        heard.map_err(|error| refused(&what, &error))?;
        Ok(card)
    }

    /// Gives an interface its filter, then its place: no frame passes that is not looked at.
    async fn place(
        &self,
        handle: &Handle,
        plan: &CardPlan,
        bridge: Option<Bridge>,
    ) -> Result<(), String> {
        let fault = |error: rtnetlink::Error| told(error).to_string();
        let name = plan.interface.as_str();
        let own = kernel::find(handle, name).await.map_err(fault)?;
        let index = own.ok_or_else(|| format!("{name} is gone"))?.index;
        let filtered = self.programs.filter(&plan.filter).await;
        filtered.map_err(|error| format!("the filter of its frames: {error}"))?;
        let mtu = bridge.as_ref().map(|bridge| bridge.mtu);
        kernel::dress(handle, index, plan.address, mtu).await.map_err(fault)?;
        match &plan.place {
            Place::Bridge { bridge: name, .. } => {
                let bridge = bridge.ok_or_else(|| CardError::NoBridge(name.clone()).to_string())?;
                let joined = kernel::join(handle, index, bridge.index, &bridge.vlans).await;
                joined.map_err(|error| format!("bridge {name}: {}", told(error)))?;
                kernel::up(handle, index).await.map_err(fault)
            }
            Place::Switch { bridge: name, .. } => {
                let plugged = self.programs.plug(plan).await;
                plugged.map_err(|error| format!("bridge {name} of Open vSwitch: {error}"))?;
                kernel::up(handle, index).await.map_err(fault)
            }
            Place::Routed { address, table } => {
                kernel::up(handle, index).await.map_err(fault)?;
                let routed = kernel::route(handle, name, index, *address, *table).await;
                routed.map_err(|error| format!("route to {address}: {}", told(error)))
            }
        }
    }

    /// Removes what is left of cards whose interfaces are gone. It may be repeated.
    pub(crate) async fn disconnect(&self, instance: &InstanceName, nics: &[NicLaunch]) {
        let is_gone = |nic: &&NicLaunch| {
            let interface = interface(nic);
            let is_there = nix::net::if_::if_nametoindex(interface.as_str()).is_ok();
            if is_there {
                // Its owner must not send without its filter.
                tracing::warn!(%instance, interface, "a card is not gone, so its filter stays");
            }
            !is_there
        };
        let nics: Vec<&NicLaunch> = nics.iter().filter(is_gone).collect();
        if nics.is_empty() {
            return;
        }
        let rules: String = nics.iter().map(|nic| filter::removal(&interface(nic))).collect();
        if let Err(error) = self.programs.filter(&rules).await {
            tracing::warn!(%instance, %error, "filters of cards stay");
        }
        for nic in nics {
            let interface = interface(nic);
            match plan::parameter(nic, "mode") {
                "openvswitch" => {
                    if let Err(error) = self.programs.unplug(&interface).await {
                        tracing::warn!(%instance, %interface, %error, "a port of Open vSwitch stays");
                    }
                }
                "routed" => {
                    if let Err(error) = unruled(&interface).await {
                        tracing::warn!(%instance, %interface, %error, "rules of routing stay");
                    }
                }
                _ => {}
            }
            if let Err(error) = self.programs.tell(Event::Down, instance, nic).await {
                tracing::warn!(%instance, %interface, %error, "a program was not told of a card's end");
            }
        }
    }

    /// Gives interfaces of a card that somebody else made the filter of that card.
    pub(crate) async fn guard(&self, nic: &NicLaunch, interfaces: &[String]) -> Result<(), String> {
        let is_routed = plan::parameter(nic, "mode") == "routed";
        let rules = |interface: &String| filter::rules(interface, nic.mac, nic.ip, is_routed);
        let rules: String = interfaces.iter().map(rules).collect();
        let filtered = self.programs.filter(&rules).await;
        filtered.map_err(|error| format!("card {}: the filter of its frames: {error}", nic.uuid))
    }

    /// Removes the filters of such interfaces, which are gone.
    pub(crate) async fn unguard(&self, instance: &InstanceName, interfaces: Vec<String>) {
        let is_gone = |name: &String| nix::net::if_::if_nametoindex(name.as_str()).is_err();
        let gone = interfaces.iter().filter(|name| is_gone(name));
        let rules: String = gone.map(|name| filter::removal(name)).collect();
        if rules.is_empty() {
            return;
        }
        if let Err(error) = self.programs.filter(&rules).await {
            tracing::warn!(%instance, %error, "filters of cards stay");
        }
    }

    /// Gives the cards of a guest that lives their filters again, which somebody may have flushed.
    pub(crate) async fn renew(&self, instance: &InstanceName, nics: &[NicLaunch]) {
        for nic in nics {
            let Ok(plan) = plan::plan(nic, &stdx::aside(tables)) else { continue };
            if let Err(error) = self.programs.filter(&plan.filter).await {
                let interface = plan.interface;
                tracing::warn!(%instance, interface, %error, "the filter of a card is not renewed");
            }
        }
    }
}

/// The bridge that a card joins.
#[derive(Debug)]
struct Bridge {
    index: u32,
    mtu: u32,
    vlans: Vec<VlanStep>,
}

/// Looks at the bridge of a card, before anything is made.
async fn bridge(handle: &Handle, plan: &CardPlan) -> Result<Option<Bridge>, String> {
    let (Place::Bridge { bridge, .. } | Place::Switch { bridge, .. }) = &plan.place else {
        return Ok(None);
    };
    let found = kernel::find(handle, bridge).await;
    let found = found.map_err(|error| format!("bridge {bridge}: {}", told(error)))?;
    match (&plan.place, found) {
        (Place::Bridge { vlans, .. }, Some(found)) => {
            let steps = plan::joins(bridge, &found, vlans.as_ref());
            let vlans = steps.map_err(|error| error.to_string())?;
            Ok(Some(Bridge { index: found.index, mtu: found.mtu, vlans }))
        }
        (Place::Bridge { .. }, None) => Err(CardError::NoBridge(bridge.clone()).to_string()),
        // Open vSwitch itself says what it knows of its bridges.
        (_, found) => {
            let bridge = |found: plan::FoundLink| Bridge {
                index: found.index,
                mtu: found.mtu,
                vlans: Vec::new(),
            };
            Ok(found.map(bridge))
        }
    }
}

async fn unruled(interface: &str) -> std::io::Result<()> {
    let (connection, handle, _) = rtnetlink::new_connection()?;
    tokio::select! {
        done = kernel::unrule(&handle, interface) => done.map_err(told),
        () = connection => Err(std::io::ErrorKind::ConnectionAborted.into()),
    }
}

/// The lists of routing tables of this node, one after another; a list that is not there has none.
fn tables() -> String {
    let more = std::fs::read_dir(MORE_TABLES).into_iter().flatten().flatten();
    let more = more.map(|entry| entry.path()).take(MORE_TABLES_MAX);
    let all = TABLES.iter().map(|path| Path::new(path).to_owned()).chain(more);
    let texts = all.filter_map(|path| std::fs::read_to_string(path).ok());
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
