//! The network of the kernel, over rtnetlink: reading it, and making one step at a time.
//!
//! [`socket`] sends requests and waits for answers. The module [`reading`] holds what the kernel told at
//! one moment, and [`found`] turns that into our type. For the kernel, [`message`] makes messages of our
//! links; [`saved`] keeps routes as they are.
#![expect(clippy::wildcard_enum_match_arm, reason = "the kernel's words are many, and become more")]

mod found;
mod message;
mod reading;
mod saved;
mod socket;

use std::collections::{BTreeMap, BTreeSet};

use rtnetlink::packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::packet_route::route::RouteMessage;
use rtnetlink::packet_route::rule::RuleMessage;
use stdx::Tasks;

use crate::model::link::{Kind, LinkName};
use crate::plan::step::Step;
pub use reading::Reading;
pub use saved::SavedRoute;
pub use socket::KernelError;
use socket::Socket;

/// With these flags an addition fails if the object exists.
const ADD: u16 = NLM_F_CREATE | NLM_F_EXCL;
/// How often routes are put back: the next hop of one may be behind another one.
const PUT_BACK_MAX: usize = 4;
/// Error numbers of Linux.
mod errno {
    pub(super) const ENOENT: i32 = 2;
    pub(super) const ESRCH: i32 = 3;
    pub(super) const EBUSY: i32 = 16;
    pub(super) const EEXIST: i32 = 17;
    pub(super) const ENODEV: i32 = 19;
    pub(super) const EOPNOTSUPP: i32 = 95;
    pub(super) const EADDRNOTAVAIL: i32 = 99;
}

/// The network of the namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Kernel {
    socket: Socket,
    /// How often it was read: one change reads it before and after.
    #[cfg(test)]
    pub(crate) readings: std::sync::atomic::AtomicUsize,
}

impl Kernel {
    /// Opens the way to it. The connection ends when this value does.
    pub(crate) fn open(tasks: &Tasks) -> Result<Self, KernelError> {
        Ok(Self {
            socket: Socket::open(tasks)?,
            #[cfg(test)]
            readings: std::sync::atomic::AtomicUsize::default(),
        })
    }

    pub(crate) async fn read(&self) -> Result<Reading, KernelError> {
        #[cfg(test)]
        self.readings.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut answers = Vec::new();
        for question in [
            RouteNetlinkMessage::GetLink(LinkMessage::default()),
            RouteNetlinkMessage::GetAddress(AddressMessage::default()),
            RouteNetlinkMessage::GetRoute(RouteMessage::default()),
            RouteNetlinkMessage::GetRule(RuleMessage::default()),
        ] {
            answers.extend(self.socket.list(question).await?);
        }
        let reading = Reading::of(answers);
        // Every namespace has `lo`: an empty list comes from a connection that ended.
        if reading.network.links.is_empty() { Err(KernelError::Ended) } else { Ok(reading) }
    }

    /// Adds those routes again that are missing in `reading`. `replaces`: also in place of one that
    /// means the same. Gives those that the kernel refuses.
    pub(crate) async fn put_back<'r>(
        &self,
        routes: &[&'r SavedRoute],
        replaces: bool,
        mut reading: Reading,
    ) -> Result<Vec<(&'r SavedRoute, KernelError)>, KernelError> {
        let mut refused = Vec::new();
        for round in 0..PUT_BACK_MAX {
            if routes.is_empty() {
                break;
            }
            if round > 0 {
                reading = self.read().await?;
            }
            let (found, numbers) = (reading.routes(), reading.numbers());
            let numbered = routes.iter().filter_map(|one| Some((*one, one.numbered(&numbers)?)));
            let missing: Vec<_> =
                numbered.filter(|(_, message)| !found.iter().any(|one| one.is(message))).collect();
            let was_refused = std::mem::take(&mut refused).len();
            for (route, message) in &missing {
                let meant = route.as_static().filter(|_| replaces);
                let is_meant = meant.is_some() && found.iter().any(|one| one.as_static() == meant);
                let flags = if is_meant { NLM_F_CREATE | NLM_F_REPLACE } else { ADD };
                match self.change(RouteNetlinkMessage::NewRoute(message.clone()), flags).await {
                    Ok(()) => {}
                    // The route there now belongs to somebody else, or to the configuration.
                    Err(error) if error.is(errno::EEXIST) => {}
                    Err(error @ KernelError::Refused(_)) => refused.push((*route, error)),
                    Err(error) => return Err(error),
                }
            }
            if refused.is_empty() || refused.len() == was_refused {
                break;
            }
        }
        Ok(refused)
    }

    /// Which of these kinds the kernel does not have.
    pub(crate) async fn lacks(
        &self,
        kinds: impl Iterator<Item = &Kind>,
    ) -> Result<BTreeSet<&'static str>, KernelError> {
        let kinds: BTreeMap<_, _> = kinds.map(|kind| (kind.word(), message::kind(kind))).collect();
        let mut lacking = BTreeSet::new();
        for (word, kind) in kinds {
            let probe = RouteNetlinkMessage::NewLink(message::probe(kind));
            match self.change(probe, ADD).await {
                Err(error) if error.is(errno::EOPNOTSUPP) => drop(lacking.insert(word)),
                // The kernel knows the kind, and therefore saw that no link has such an address.
                Err(KernelError::Refused(_)) => {}
                Err(error) => return Err(error),
                Ok(()) => self.delete(&message::probe_name()).await?,
            }
        }
        Ok(lacking)
    }

    /// Makes one step. An object that is gone already is no error.
    pub(crate) async fn make(&self, step: &Step) -> Result<(), KernelError> {
        use RouteNetlinkMessage as M;
        match step {
            Step::Create(link) => {
                let parent = match link.kind.parent() {
                    Some(parent) => Some(self.index(parent).await?),
                    None => None,
                };
                self.change(M::NewLink(message::create(link, parent)), ADD).await
            }
            Step::Delete(link) => match self.delete(&link.name).await {
                Err(error) if error.is(errno::ENODEV) => Ok(()),
                done => done,
            },
            Step::SetUp { link, up } => self.set(link, message::up(*up)).await,
            Step::SetMac { link, to, .. } => self.set_mac(link, *to).await,
            Step::SetMtu { link, to, .. } => {
                self.set(link, message::with(to.iter().map(|mtu| LinkAttribute::Mtu(*mtu)))).await
            }
            Step::SetStp { link, on } => self.alter(link, message::stp(*on)).await,
            Step::SetPrimary { link, to, .. } => {
                let primary = match to {
                    Some(to) => self.index(to).await?,
                    None => 0,
                };
                self.alter(link, message::primary(primary)).await
            }
            Step::Attach { member, controller } => {
                let controller = LinkAttribute::Controller(self.index(controller).await?);
                self.set(member, message::with([controller])).await
            }
            Step::Detach { member, .. } => {
                self.set(member, message::with([LinkAttribute::Controller(0)])).await
            }
            Step::AddAddress { link, address } => {
                let address = message::address(*address, self.index(link).await?);
                // A lease of the same address becomes a static one.
                self.change(M::NewAddress(address), NLM_F_CREATE | NLM_F_REPLACE).await
            }
            Step::RemoveAddress { link, address } => {
                let address = message::address(*address, self.index(link).await?);
                // With its first address a link may have lost the others of the same network.
                gone(self.change(M::DelAddress(address), 0).await, errno::EADDRNOTAVAIL)
            }
            Step::AddRoute { link, route } => {
                let route = message::route(route, self.index(link).await?);
                self.change(M::NewRoute(route), ADD).await
            }
            Step::RemoveRoute { link, route } => {
                let route = message::route(route, self.index(link).await?);
                gone(self.change(M::DelRoute(message::any_owner(route)), 0).await, errno::ESRCH)
            }
            Step::AddRule(rule) => self.change(M::NewRule(message::rule(rule)), ADD).await,
            Step::RemoveRule(rule) => {
                gone(self.change(M::DelRule(message::rule(rule)), 0).await, errno::ENOENT)
            }
        }
    }

    /// Some cards take another address only while they are down.
    async fn set_mac(
        &self,
        link: &LinkName,
        to: Option<model::MacAddress>,
    ) -> Result<(), KernelError> {
        let attributes = || to.map(|mac| LinkAttribute::Address(mac.bytes().to_vec()));
        match self.set(link, message::with(attributes())).await {
            Err(error) if error.is(errno::EBUSY) => {
                self.set(link, message::up(false)).await?;
                let set = self.set(link, message::with(attributes())).await;
                self.set(link, message::up(true)).await?;
                set
            }
            done => done,
        }
    }

    /// Changes what every link has.
    async fn set(&self, link: &LinkName, mut change: LinkMessage) -> Result<(), KernelError> {
        change.header.index = self.index(link).await?;
        self.change(RouteNetlinkMessage::SetLink(change), 0).await
    }

    /// Changes what only a kind of link has.
    async fn alter(&self, link: &LinkName, mut change: LinkMessage) -> Result<(), KernelError> {
        change.header.index = self.index(link).await?;
        self.change(RouteNetlinkMessage::NewLink(change), 0).await
    }

    async fn delete(&self, name: &LinkName) -> Result<(), KernelError> {
        let mut link = LinkMessage::default();
        link.header.index = self.index(name).await?;
        self.change(RouteNetlinkMessage::DelLink(link), 0).await
    }

    async fn index(&self, name: &LinkName) -> Result<u32, KernelError> {
        let question = message::with([LinkAttribute::IfName(name.to_string())]);
        let answers =
            self.socket.ask(RouteNetlinkMessage::GetLink(question), NLM_F_REQUEST).await?.0;
        let index = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link.header.index),
            _ => None,
        });
        let missing = || KernelError::Refused(std::io::Error::from_raw_os_error(errno::ENODEV));
        index.ok_or_else(missing)
    }

    async fn change(&self, message: RouteNetlinkMessage, flags: u16) -> Result<(), KernelError> {
        self.socket.ask(message, NLM_F_REQUEST | NLM_F_ACK | flags).await.map(drop)
    }
}

fn gone(done: Result<(), KernelError>, number: i32) -> Result<(), KernelError> {
    match done {
        Err(error) if error.is(number) => Ok(()),
        done => done,
    }
}
