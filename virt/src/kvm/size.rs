//! Orders to a guest that lives; those on its memory and its processors count from then on.
//!
//! More memory than a guest began with is `virtio-mem`, less is a balloon. More processors are plugged in, and
//! the guest lets go of those that leave.

use model::instance::launch::Launch;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use super::guest::Guest;
use super::plug::{AGAIN, UNPLUG};
use super::words::Filled;
use crate::{Order, VirtError};

/// The memory that is plugged in, as QEMU names it.
const MORE: &str = "/machine/peripheral/memory";
/// The begin of the names of processors that were plugged in.
const PLUGGED: &str = "vcpu-";

/// Gives a guest an order.
///
/// # Errors
/// QEMU says no, or the guest was not started with room for it.
pub(crate) async fn order(guest: &Guest, launch: &Launch, order: Order) -> Result<(), VirtError> {
    let plain = match order {
        Order::Pause => "stop",
        Order::Resume => "cont",
        Order::Reset => {
            guest.ask("system_reset", json!({})).await?;
            // A guest that stood still would do so with its new system, too.
            "cont"
        }
        Order::Memory(mib) => return memory(guest, launch, mib).await,
        Order::Processors(count) => return processors(guest, launch, count).await,
    };
    Ok(guest.ask(plain, json!({})).await.map(drop)?)
}

fn refused(launch: &Launch, why: String) -> VirtError {
    VirtError::Refused { what: "change the size of", name: launch.name.clone(), why }
}

async fn memory(guest: &Guest, launch: &Launch, mib: u64) -> Result<(), VirtError> {
    let parameters = Filled(&launch.hvparams);
    let (began, most) = (launch.memory(), parameters.number("max_memory"));
    if mib > began.max(most) {
        let why = format!(
            "it began with {began} MiB, and with max_memory={most}; a greater one counts from its next start on"
        );
        return Err(refused(launch, why));
    }
    if most > began {
        let property = |name: &str| json!({"path": MORE, "property": name});
        let block = guest.ask("qom-get", property("block-size")).await?.as_u64().unwrap_or(1);
        let wanted = (mib.saturating_sub(began) << 20).next_multiple_of(block.max(1));
        let mut set = property("requested-size");
        set["value"] = wanted.into();
        guest.ask("qom-set", set).await?;
    }
    if parameters.flag("balloon") {
        guest.ask("balloon", json!({"value": mib.min(began) << 20})).await?;
    } else if mib < began {
        return Err(refused(launch, "it has no balloon (parameter balloon)".to_owned()));
    }
    Ok(())
}

async fn processors(guest: &Guest, launch: &Launch, count: u32) -> Result<(), VirtError> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let end = Instant::now() + UNPLUG;
    let mut changes = guest.changes();
    let mut was_asked = false;
    loop {
        changes.mark_unchanged();
        let told = guest.ask("query-hotpluggable-cpus", json!({})).await?;
        let places = places(&told);
        match steps(&places, count).map_err(|why| refused(launch, why))? {
            Steps::Done => return Ok(()),
            Steps::Plug(all) => {
                for device in all {
                    guest.ask("device_add", device).await?;
                }
            }
            Steps::Unplug(ids) if !was_asked => {
                was_asked = true;
                for id in ids {
                    guest.ask("device_del", json!({"id": id})).await?;
                }
            }
            Steps::Unplug(ids) if Instant::now() >= end => {
                let why = format!("the guest does not let go of {} of its processors", ids.len());
                return Err(refused(launch, why));
            }
            // Each way out means another look.
            Steps::Unplug(_) => drop(timeout(AGAIN, changes.changed()).await),
        }
    }
}

/// A place for a processor.
#[derive(Debug, Clone, PartialEq)]
struct VcpuPlace {
    driver: String,
    /// Socket, core and thread, as QEMU counts them.
    properties: Map<String, Value>,
    /// The name of the processor there, where one was plugged in; empty for one that cannot leave.
    held: Option<String>,
}

/// The places of processors, by the answer to `query-hotpluggable-cpus`, the first ones first.
fn places(told: &Value) -> Vec<VcpuPlace> {
    let place = |told: &Value| {
        let path = told["qom-path"].as_str();
        let named = |path: &str| path.strip_prefix("/machine/peripheral/").map(str::to_owned);
        Some(VcpuPlace {
            driver: told["type"].as_str()?.to_owned(),
            properties: told["props"].as_object()?.clone(),
            held: path.map(|path| named(path).unwrap_or_default()),
        })
    };
    let mut all: Vec<VcpuPlace> = told.as_array().into_iter().flatten().filter_map(place).collect();
    all.sort_by_key(|place| {
        let number = |name: &str| place.properties.get(name).and_then(Value::as_u64);
        ["socket-id", "die-id", "core-id", "thread-id"].map(number)
    });
    all
}

/// The way to a number of processors.
#[derive(Debug, PartialEq)]
enum Steps {
    Done,
    Plug(Vec<Value>),
    /// The names of those that leave, the last ones first.
    Unplug(Vec<String>),
}

/// # Errors
/// There is none; the text says why.
fn steps(places: &[VcpuPlace], count: usize) -> Result<Steps, String> {
    let held = places.iter().filter(|place| place.held.is_some()).count();
    if count > places.len() {
        return Err(format!(
            "it began with room for {} processors; a greater max_vcpus counts from its next start on",
            places.len()
        ));
    }
    if count == held {
        return Ok(Steps::Done);
    }
    if count > held {
        let free = places.iter().filter(|place| place.held.is_none()).take(count - held);
        let device = |place: &VcpuPlace| {
            let number = |name: &str| place.properties.get(name).unwrap_or(&Value::Null);
            let [socket, core, thread] = ["socket-id", "core-id", "thread-id"].map(number);
            let mut device = place.properties.clone();
            device.insert("driver".to_owned(), place.driver.clone().into());
            device.insert("id".to_owned(), format!("{PLUGGED}{socket}-{core}-{thread}").into());
            Value::from(device)
        };
        return Ok(Steps::Plug(free.map(device).collect()));
    }
    let plugged = places.iter().rev().filter_map(|place| place.held.clone());
    let leaving: Vec<String> =
        plugged.filter(|id| id.starts_with(PLUGGED)).take(held - count).collect();
    match leaving.len() < held - count {
        true => Err(format!("it began with {} processors, which stay", held - leaving.len())),
        false => Ok(Steps::Unplug(leaving)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place as QEMU 7.2 tells it.
    fn told(core: u64, path: Option<&str>) -> Value {
        let mut told = json!({"type": "max-x86_64-cpu", "vcpus-count": 1,
            "props": {"socket-id": core, "core-id": 0, "thread-id": 0}});
        if let Some(path) = path {
            told["qom-path"] = path.into();
        }
        told
    }

    #[test]
    fn processors_come_into_free_places_and_the_last_ones_leave() {
        let all = [
            told(3, None),
            told(2, None),
            told(1, Some("/machine/peripheral/vcpu-1-0-0")),
            told(0, Some("/machine/unattached/device[0]")),
        ];
        let all = places(&json!(all));
        assert_eq!(steps(&all, 2), Ok(Steps::Done));
        let device = json!({"driver": "max-x86_64-cpu", "id": "vcpu-2-0-0", "socket-id": 2,
            "core-id": 0, "thread-id": 0});
        assert_eq!(steps(&all, 3), Ok(Steps::Plug(vec![device])));
        assert_eq!(steps(&all, 1), Ok(Steps::Unplug(vec!["vcpu-1-0-0".to_owned()])));
        assert!(steps(&all, 5).unwrap_err().contains("room for 4 processors"));
        assert!(steps(&all, 0).unwrap_err().contains("it began with 1 processors, which stay"));
    }

    #[test]
    fn odd_answers_have_no_places() {
        for odd in [json!(null), json!([{"type": 5}]), json!({"a": 1})] {
            assert_eq!(places(&odd), []);
            assert!(steps(&places(&odd), 1).is_err());
        }
    }
}
