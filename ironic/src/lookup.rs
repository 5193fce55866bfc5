//! Core: a ramdisk looks itself up, and gets its token.

use http::StatusCode;
use model::{MacAddress, Timestamp, Uuid};
use serde_json::{Value, json};

use crate::body::{Answer, links};
use crate::machines::{Machines, Node, asked_by};
use crate::{Asked, Effect, Outcome};

/// Seconds in which a heartbeat is due: agents send one each 18 to 36 s then. A machine that died is
/// noticed in a minute, and ten thousand of them send some 370 a second.
pub const HEARTBEAT_TIMEOUT_SECONDS: u32 = 60;
/// The text in place of a token that is not told.
const MASKED: &str = "******";

pub(crate) fn answer(
    asked: &Asked,
    uuid: Option<Uuid>,
    macs: &[MacAddress],
    machines: &impl Machines,
    now: Timestamp,
) -> Outcome {
    let nodes = match uuid {
        Some(uuid) => machines.by_uuid(uuid),
        None => machines.by_macs(&usable(macs)),
    };
    let node = match asked_by(nodes, machines, macs) {
        Ok(node) => node,
        Err(missing) => return missing,
    };
    let mut heard = node.heard();
    let is_first = heard.token_told.is_none() || machines.has_claimed(&node);
    let token = node.token().filter(|_| is_first);
    let told = token.as_ref().map_or(MASKED, |token| token.expose());
    let body = json!({ "node": partial(&node, &asked.base), "config": config(told) });
    let answer = Answer::json(StatusCode::OK, &body);
    if !is_first {
        return Outcome::plain(answer);
    }
    heard.token_told = Some(node.told_at(now));
    let observation = node.ramdisk_heard(heard);
    Outcome { answer, effect: Effect::Heard { observation, is_vital: true } }
}

/// Addresses that may tell machines apart.
pub(crate) fn usable(macs: &[MacAddress]) -> Vec<MacAddress> {
    let mut macs: Vec<_> = macs.iter().copied().filter(|mac| mac.unusable().is_none()).collect();
    macs.sort();
    macs.dedup();
    macs
}

/// The node as far as a ramdisk may see it.
fn partial(node: &Node, base: &str) -> Value {
    json!({
        "uuid": node.uuid,
        "properties": {},
        "instance_info": {},
        "driver_internal_info": { "agent_secret_token": MASKED },
        "links": links(base, &format!("nodes/{}", node.uuid)),
    })
}

/// The configuration of the agent. Without the keys of TLS it keeps its own, which are up to date where
/// it is.
fn config(token: &str) -> Value {
    json!({
        "metrics": {
            "backend": "noop",
            "prepend_host": false,
            "prepend_uuid": false,
            "prepend_host_reverse": true,
            "global_prefix": null,
        },
        "metrics_statsd": { "statsd_host": "localhost", "statsd_port": 8125 },
        "heartbeat_timeout": HEARTBEAT_TIMEOUT_SECONDS,
        "agent_containers": {},
        "agent_token": token,
        "agent_token_required": true,
        "agent_md5_checksum_enable": false,
        "disable_deep_image_inspection": false,
        "permitted_image_formats": ["raw", "qcow2"],
        "agent_skip_bmc_detect": false,
        "enable_bios_bootloader_install": true,
    })
}

#[cfg(test)]
mod tests;
