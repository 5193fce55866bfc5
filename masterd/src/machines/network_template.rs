//! Core: what a template of a host's network becomes for one host.
//!
//! Templates have Jinja's syntax, and reach nothing but the words of [`Facts`]: no file, no environment, no
//! clock. A missing word is an error, and steps and size have limits; [`bounds`] keeps values small.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use ipnet::IpNet;
use minijinja::value::{Object, ObjectRepr, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use model::Word;
use model::network::Network;
use parking_lot::Mutex;

mod bounds;
mod facts;
pub(crate) mod files;
mod python;

/// Steps of one rendering, and 64 bytes that are made count as one: a loop over a thousand links takes
/// less than half of them.
const STEPS_MAX: u64 = 50_000;
/// Numbers of one `range`: ten for each link of the largest host.
const RANGE_MAX: i64 = 10_000;
/// Bytes of what is rendered: a host with a thousand links.
const RENDERED_BYTES_MAX: usize = 1 << 20;
/// Blocks within each other.
const DEPTH_MAX: usize = 64;

/// The facts about a host for its template.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The name of the host: a machine's serial number, or a node's name.
    pub(crate) name: String,
    /// The host's role.
    pub(crate) role: String,
    /// Its rack and number within it, where it is a machine.
    pub(crate) place: Option<(u32, u32)>,
    /// Its Ethernet addresses.
    pub(crate) macs: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// Its addresses, by network.
    pub(crate) addresses: BTreeMap<Word, Vec<IpAddr>>,
    pub(crate) networks: OrdMap<Word, Arc<Network>>,
}

/// A template that gives nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub(crate) struct TemplateError {
    /// The line in the template.
    pub(crate) line: usize,
    /// The fault there.
    pub(crate) why: String,
}

/// The result of a template for one host, and the networks whose addresses it asked for.
pub(crate) fn render(text: &str, facts: &Facts) -> (Result<String, TemplateError>, BTreeSet<Word>) {
    let used = Arc::new(Mutex::new(BTreeSet::new()));
    let rendered = rendered(text, words(facts, &used));
    let networks = std::mem::take(&mut *used.lock());
    (rendered, networks)
}

fn rendered(text: &str, words: Value) -> Result<String, TemplateError> {
    let lists = bounds::check(text)?;
    let text = &*python::with_growing_lists(text, &lists);
    let mut environment = Environment::new();
    only_bounded(&mut environment);
    python::add_methods(&mut environment);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_name| AutoEscape::None);
    environment.set_debug(true);
    environment.set_fuel(Some(STEPS_MAX));
    environment.set_recursion_limit(DEPTH_MAX);
    let wrong = |error: &minijinja::Error| TemplateError {
        line: error.line().unwrap_or(1),
        why: told(error),
    };
    let template = environment.template_from_str(text).map_err(|error| wrong(&error))?;
    let mut output = Bounded::default();
    let done = template.render_captured_to(words, &mut output).map(drop);
    if output.is_full {
        return Err(TemplateError {
            line: 1,
            why: format!("it gives more than {RENDERED_BYTES_MAX} bytes"),
        });
    }
    done.map_err(|error| wrong(&error))?;
    String::from_utf8(output.bytes)
        .map_err(|_error| TemplateError { line: 1, why: "it gives no text".to_owned() })
}

/// Leaves what makes nothing much larger than what it is given.
fn only_bounded(environment: &mut Environment<'_>) {
    const OTHERS: &[&str] =
        &["batch", "chain", "e", "escape", "groupby", "pprint", "safe", "slice", "zip"];
    OTHERS.iter().for_each(|name| environment.remove_filter(name));
    ["debug", "dict", "namespace"].iter().for_each(|name| environment.remove_global(name));
    environment.add_function("range", range);
}

fn range(first: i64, end: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let wrong = |why: String| Error::new(ErrorKind::InvalidOperation, why);
    let (first, end) = end.map_or((0, first), |end| (first, end));
    let step = step.unwrap_or(1);
    let width = step.unsigned_abs().try_into().ok().filter(|width: &usize| *width > 0);
    let width = width.ok_or_else(|| wrong("range takes no step of zero".to_owned()))?;
    let (low, high) = if step > 0 { (first, end) } else { (end, first) };
    let count = high.saturating_sub(low).max(0) / i64::try_from(width).unwrap_or(i64::MAX);
    if count > RANGE_MAX {
        return Err(wrong(format!("range gives at most {RANGE_MAX} numbers")));
    }
    let numbers: Vec<i64> = match step > 0 {
        true => (first..end).step_by(width).collect(),
        false => (end.saturating_add(1)..=first).rev().step_by(width).collect(),
    };
    Ok(Value::from(numbers))
}

/// The error and its causes.
fn told(error: &minijinja::Error) -> String {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match std::error::Error::source(error) {
        Some(source) => format!("{detail}: {source}"),
        None => detail,
    }
}

/// The words of a template.
fn words(facts: &Facts, used: &Arc<Mutex<BTreeSet<Word>>>) -> Value {
    let of_family = |is_ipv4: Option<bool>| {
        let (addresses, networks) = (facts.addresses.clone(), facts.networks.clone());
        Value::from_object(Addresses { addresses, networks, is_ipv4, used: Arc::clone(used) })
    };
    let texts = |all: &[String]| Value::from(all.iter().map(Value::from).collect::<Vec<_>>());
    let labels = facts.labels.iter().map(|(key, value)| (key.clone(), Value::from(value)));
    let mut machine = vec![
        ("name", Value::from(&facts.name)),
        ("role", Value::from(&facts.role)),
        ("macs", texts(&facts.macs)),
        ("labels", Value::from_pairs(labels)),
    ];
    if let Some((rack, index)) = facts.place {
        machine.extend([("rack", Value::from(rack)), ("index", Value::from(index))]);
    }
    let configs = facts.networks.iter().map(|(name, network)| (name.to_string(), config(network)));
    Value::from_pairs([
        ("ip", of_family(None)),
        ("ip4", of_family(Some(true))),
        ("ip6", of_family(Some(false))),
        ("config", Value::from_pairs(configs)),
        ("machine", Value::from_pairs(machine)),
    ])
}

/// A network, in the words of Metal3's IPAM study.
fn config(network: &Network) -> Value {
    let first = network.subnet(true).or_else(|| network.subnet(false));
    let text = |address: Option<IpAddr>| address.map(|address| Value::from(address.to_string()));
    let servers = network.dns_servers.iter().map(|address| Value::from(address.to_string()));
    let known = [
        ("gateway", text(first.and_then(|subnet| subnet.gateway))),
        ("gateway6", text(network.subnet(false).and_then(|subnet| subnet.gateway))),
        ("prefix", first.map(|subnet| Value::from(subnet.prefix.to_string()))),
        ("netmask", first.map(|subnet| Value::from(subnet.prefix.prefix_len()))),
        ("dnsServers", Some(Value::from(servers.collect::<Vec<_>>()))),
        ("mtu", network.mtu.map(Value::from)),
        ("vlan", network.vlan.map(Value::from)),
    ];
    Value::from_pairs(known.into_iter().filter_map(|(name, value)| Some((name, value?))))
}

/// The addresses of a host by network: the only one of a family, or the first of any.
#[derive(Debug)]
struct Addresses {
    addresses: BTreeMap<Word, Vec<IpAddr>>,
    networks: OrdMap<Word, Arc<Network>>,
    is_ipv4: Option<bool>,
    used: Arc<Mutex<BTreeSet<Word>>>,
}

impl Object for Addresses {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    /// The address with the length of its prefix.
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name: Word = key.as_str()?.parse().ok()?;
        let network = self.networks.get(&name)?;
        self.used.lock().insert(name.clone());
        let addresses = self.addresses.get(&name)?;
        let is_wanted = |address: &&IpAddr| self.is_ipv4.is_none_or(|v4| address.is_ipv4() == v4);
        let address = *addresses.iter().find(is_wanted)?;
        let length = network.subnet_of(address)?.prefix.prefix_len();
        Some(Value::from(IpNet::new(address, length).ok()?.to_string()))
    }
}

/// Takes so many bytes.
#[derive(Debug, Default)]
struct Bounded {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > RENDERED_BYTES_MAX {
            self.is_full = true;
            return Err(io::Error::other("too much"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) mod fields;
#[cfg(test)]
mod tests;
pub(crate) mod units;
