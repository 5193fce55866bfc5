//! The cards of a guest: an interface of the host for each, in the bridge that it names.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use model::instance::launch::{Launch, NicLaunch};
use rtnetlink::{Handle, LinkUnspec};
use serde_json::Value;
use stdx::net::tap;

use super::parts::queues;
use super::words::Filled;
use crate::VirtError;

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

/// The name of a card's interface: unique on the host, and told by the card's UUID.
pub(super) fn interface(nic: &NicLaunch) -> String {
    let digits =
        nic.uuid.to_string().chars().filter(char::is_ascii_hexdigit).take(11).collect::<String>();
    format!("gnt{digits}")
}

/// Makes the cards of a guest, each up and in its bridge.
///
/// # Errors
/// One cannot be made, or there is no such bridge.
pub(super) async fn connect(launch: &Launch) -> Result<Vec<Card>, VirtError> {
    if launch.nics.is_empty() {
        return Ok(Vec::new());
    }
    let (connection, handle, _) = rtnetlink::new_connection().map_err(VirtError::Network)?;
    let talk = async {
        let mut cards = Vec::new();
        for nic in &launch.nics {
            cards.push(card(launch, nic, &handle).await?);
        }
        Ok(cards)
    };
    tokio::select! { cards = talk => cards, () = connection => Err(VirtError::Ends) }
}

async fn card(launch: &Launch, nic: &NicLaunch, handle: &Handle) -> Result<Card, VirtError> {
    let parameters = Filled(&launch.hvparams);
    let name = interface(nic);
    let failed = |what: &str| {
        let (what, name) = (what.to_owned(), launch.name.clone());
        move |error: String| VirtError::Refused {
            what: "connect",
            name,
            why: format!("{what}: {error}"),
        }
    };
    let mode = nic.nicparams.get("mode").and_then(Value::as_str).unwrap_or_default();
    let vlan = nic.nicparams.get("vlan").and_then(Value::as_str).unwrap_or_default();
    if mode != "bridged" || !vlan.is_empty() {
        let why =
            format!("this version makes bridged cards without a VLAN, not {mode} ones {vlan}");
        return Err(failed("a card")(why.trim_end().to_owned()));
    }
    let bridge = nic.nicparams.get("link").and_then(Value::as_str).unwrap_or_default();
    let has_headers = parameters.flag("vnet_hdr") && parameters.text("nic_type") == "paravirtual";
    let made = tap::open(&name, queues(parameters), has_headers);
    let queues = made.map_err(|error| failed(&format!("interface {name}"))(error.to_string()))?;
    let bridge_index =
        index(bridge).map_err(|error| failed(&format!("bridge {bridge}"))(error.to_string()))?;
    let own = index(&name).map_err(|error| failed(&name)(error.to_string()))?;
    let message = LinkUnspec::new_with_index(own).controller(bridge_index).up().build();
    let done = handle.link().set(message).execute().await;
    done.map_err(|error| failed(&format!("{name} in bridge {bridge}"))(error.to_string()))?;
    Ok(Card { queues: queues.into_iter() })
}

/// The number of an interface.
fn index(name: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(name)?)
}
