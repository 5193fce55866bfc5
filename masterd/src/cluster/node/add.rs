//! Adds a node: signs its certificate and makes it a member.

use std::net::IpAddr;

use jobs::locks::{Level, LockName, Mode};
use model::cluster::Cluster;
use model::enrol::Fingerprint;
use model::error::ErrorCode;
use model::layout::{PEER_PORT, RPC_PORT};
use model::network::Owner;
use model::node::{Node, NodeRole};
use model::opcode::NodeAdd;
use model::{Code, Exception, NodeName, Serial, Timestamp};

use super::by_machine::{self, Recruit, recruit};
use super::{goes_on_if_silent, pool_has_room, readd, tell_callers};
use crate::agents::Signed;
use crate::cluster::group;
use crate::config::queue::Decision;
use crate::config::{Config, ConfigChange};
use crate::machines::rack;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

pub(crate) struct AddPlan {
    pub(super) name: NodeName,
    /// The name under which its secret was handed over.
    asked: NodeName,
    pub(super) primary_ip: IpAddr,
    pub(super) rpc_port: u16,
    known_by: KnownBy,
}

/// By what the master and the machine that waits know each other.
enum KnownBy {
    /// The certificate that it shows, and the secret that was handed over beside the job.
    Secret(Fingerprint),
    /// The token that its deployment told it.
    Token(Recruit),
}

impl KnownBy {
    /// The machine, where it is one.
    fn recruit(self) -> Option<Recruit> {
        match self {
            Self::Token(recruit) => Some(recruit),
            Self::Secret(_) => None,
        }
    }
}

impl AddPlan {
    /// The machine, where the node is one.
    pub(super) fn recruit(self) -> Option<Recruit> {
        self.known_by.recruit()
    }
}

impl LogicalUnit for NodeAdd {
    type Plan = AddPlan;

    /// A node of this name may have been removed, and its lock with it.
    async fn expand(&self, context: &mut Context) -> Result<(), Failure> {
        if by_machine::readds(self, &context.config()) {
            return Ok(());
        }
        context.add_lock(&node_lock(&self.node_name)?);
        Ok(())
    }

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        match level {
            Level::Node if by_machine::readds(self, config) => {
                let name = readd::member(self, config)?.name.as_str();
                Ok(vec![(LockName::member(Level::Node, name), Mode::Exclusive)])
            }
            Level::Node => Ok(vec![(node_lock(&self.node_name)?, Mode::Exclusive)]),
            _ => Ok(Vec::new()),
        }
    }

    async fn check(&self, context: &mut Context) -> Result<AddPlan, Failure> {
        let refuse = |text: String, code| Err(Exception::prereq(text, code).into());
        let config = context.config();
        let asked = node_name(&self.node_name)?;
        let (readds, recruit) =
            (by_machine::readds(self, &config), recruit(self, &config, context.now())?);
        let name = match readds {
            true => readd::member(self, &config)?.name.clone(),
            false => asked.clone(),
        };
        let primary_ip = recruit.as_ref().map_or(self.primary_ip, |recruit| Some(recruit.address));
        let Some(primary_ip) = primary_ip else {
            let text =
                format!("primary_ip of {name} is missing; the token of `noded enroll` has it");
            return refuse(text, ErrorCode::WrongInput);
        };
        let rpc_port = self.rpc_port.unwrap_or(RPC_PORT);
        match readds {
            true => {
                drop(readd::renewed(self, &config, (primary_ip, rpc_port))?);
                goes_on_if_silent(context, config.node(name.as_str())?, "be readded").await?;
            }
            false => {
                let machine = recruit.as_ref().map(|recruit| &recruit.serial);
                is_new(&config, &name, machine, (primary_ip, rpc_port))?;
                config.group_for(self.group.as_deref())?;
            }
        }
        if let Some(rack) = self.rack
            && let Some(ipam) = &config.ipam
        {
            ipam.lease_ranges(rack)
                .map_err(|error| Exception::prereq(error.to_string(), ErrorCode::WrongInput))?;
        }
        let known_by = match (recruit, self.fingerprint) {
            (Some(recruit), _) => KnownBy::Token(recruit),
            (None, Some(_)) if !context.secrets().has(&asked) => {
                return Err(no_secret(&asked).into());
            }
            (None, Some(fingerprint)) => KnownBy::Secret(fingerprint),
            (None, None) => {
                let text =
                    format!("fingerprint of {name} is missing; the token of `noded enroll` has it");
                return refuse(text, ErrorCode::WrongInput);
            }
        };
        Ok(AddPlan { name, asked, primary_ip, rpc_port, known_by })
    }

    async fn exec(self, plan: AddPlan, context: &mut Context) -> Result<(), Failure> {
        let signed = sign(&plan, context).await;
        if by_machine::readds(&self, &context.config()) {
            if signed.is_err() && readd::resumed(&plan, context).await? {
                return Ok(());
            }
            return readd::run(self, plan, signed?, context).await;
        }
        let signed = signed?;
        let AddPlan { name, primary_ip, rpc_port, known_by, .. } = plan;
        let recruit = known_by.recruit();
        let new = New {
            name: name.clone(),
            machine: recruit.as_ref().map(|recruit| recruit.serial.clone()),
            address: (primary_ip, rpc_port),
            fingerprint: signed.fingerprint,
            now: context.now(),
        };
        let enrolling = context.enrol(name.clone());
        context.transact(move |config| added(&self, new, config)).await?;
        let config = context.config();
        let node = config.node(name.as_str())?;
        let delivered = signed.deliver(node, config.callers()).await;
        if let Err(error) = delivered {
            let why = stdx::daemon::chain(&error);
            context.transact(move |_| Ok((vec![ConfigChange::NodeRemoved(name)], ()))).await?;
            let address = std::net::SocketAddr::new(primary_ip, rpc_port);
            let text = format!("{address} did not take its certificate: {why}");
            return Err(Exception::exec(text).coded(Code::EnrolmentFailed).into());
        }
        drop(enrolling);
        if let Some(recruit) = recruit {
            by_machine::used(recruit, context).await?;
        }
        let config = context.config();
        let node = config.node(name.as_str())?;
        let warning = unreachable_master(&config, node)?;
        let member = format!("{} is a member, as {:?}", node.name, node.role).to_lowercase();
        for text in [member].into_iter().chain(warning) {
            context.say(text).await;
        }
        if node.role == NodeRole::Candidate {
            tell_callers(context, Some(&node.name)).await?;
        }
        match node.rack {
            Some(rack) => rack::push(context, &std::collections::BTreeSet::from([rack])).await,
            None => Ok(()),
        }
    }
}

/// The facts about a node before it is one.
struct New {
    name: NodeName,
    machine: Option<Serial>,
    address: (IpAddr, u16),
    fingerprint: Fingerprint,
    now: Timestamp,
}

/// The configuration with a new node.
fn added(op: &NodeAdd, new: New, config: &Config) -> Decision<()> {
    let New { name, machine, address, fingerprint, now } = new;
    is_new(config, &name, machine.as_ref(), address)?;
    if let Some(serial) = &machine {
        // Somebody may have removed it meanwhile.
        config.machine(serial.as_str())?;
    }
    // The token of a machine travelled in the clear: it opens no way to the keys of the cluster.
    let capable = op.master_capable.unwrap_or(machine.is_none());
    let witness = op.witness == Some(true);
    let cluster = config.cluster.as_ref().clone();
    let candidate = capable && !witness && pool_has_room(config);
    let (primary_ip, rpc_port) = address;
    let node = Node {
        name,
        uuid: uuid::Uuid::new_v4().to_string(),
        id: cluster.next_node_id,
        role: if candidate { NodeRole::Candidate } else { NodeRole::Regular },
        primary_ip,
        rpc_port,
        peer_port: op.peer_port.unwrap_or(PEER_PORT),
        member: None,
        secondary_ip: op.secondary_ip.unwrap_or(primary_ip),
        fingerprint,
        renewing: None,
        rack: op.rack,
        machine,
        group: group::reference(config.group_for(op.group.as_deref())?),
        master_capable: capable,
        witness,
        vm_capable: op.vm_capable != Some(false),
        powered: true,
        serial_no: 1,
        ctime: now,
        mtime: now,
        tags: Vec::new(),
    };
    let next_node_id = cluster.next_node_id + 1;
    let serial_no = cluster.serial_no + 1;
    let cluster = Cluster { next_node_id, serial_no, mtime: now, ..cluster };
    Ok((vec![ConfigChange::Cluster(cluster), ConfigChange::Node(node)], ()))
}

/// A warning where a new candidate does not reach the master.
fn unreachable_master(config: &Config, node: &Node) -> Result<Option<String>, Exception> {
    let master = config.node(config.role.master.as_str())?;
    let alone = master.primary_ip.is_loopback() && !node.primary_ip.is_loopback();
    Ok((alone && node.role == NodeRole::Candidate).then(|| {
        format!(
            "warning: the master {} has the address {}, where {name} does not reach it: {name} gets no \
             replica; `gnt cluster init --primary-ip` of a new cluster gives the master another one",
            master.name,
            master.primary_ip,
            name = node.name
        )
    }))
}

/// Asks the machine that waits for its key, and signs it.
async fn sign(plan: &AddPlan, context: &mut Context) -> Result<Signed, Failure> {
    let address = std::net::SocketAddr::new(plan.primary_ip, plan.rpc_port);
    let signed = match &plan.known_by {
        KnownBy::Token(recruit) => by_machine::sign(&plan.name, address, recruit, context).await?,
        KnownBy::Secret(fingerprint) => {
            let secret = context.secrets().take(&plan.asked);
            let secret = secret.ok_or_else(|| no_secret(&plan.asked))?;
            let agents = context.agents().await?.clone();
            context.say(format!("asking {address} for its key")).await;
            let signed = agents.enrol(&plan.name, address, *fingerprint, secret).await;
            signed.map_err(|error| {
                let text = format!("{address} did not enrol: {}", stdx::daemon::chain(&error));
                Exception::exec(text).coded(Code::EnrolmentFailed)
            })?
        }
    };
    if let Some(own) = signed.other_name(&plan.name) {
        context.say(format!("the host name of that machine is {own}")).await;
    }
    Ok(signed)
}

/// Whether neither name nor address belong to a node, which is to run on `machine`.
fn is_new(
    config: &Config,
    name: &NodeName,
    machine: Option<&Serial>,
    (ip, port): (IpAddr, u16),
) -> Result<(), Exception> {
    if config.nodes.contains_key(name) {
        let text = format!(
            "Node {name} is already in the configuration; if it lost its disk, `noded enroll --again` there \
             and `gnt node add --readd {name} --secret -` here"
        );
        return Err(Exception::prereq(text, ErrorCode::AlreadyExists));
    }
    // Nodes are named by their first label where that is clear.
    let dots = name.as_str().match_indices('.');
    let shorter = dots.filter_map(|(dot, _)| config.nodes.get(name.as_str().get(..dot)?));
    if let Some(other) = config.nodes_named(name.as_str()).chain(shorter).next() {
        let text =
            format!("Node {name} would be mistaken for {}; give it another name", other.name);
        return Err(Exception::prereq(text, ErrorCode::AlreadyExists));
    }
    is_free(config, name, machine, (ip, port))
}

/// Whether no other node than `name`, which runs on `machine`, has this address.
pub(super) fn is_free(
    config: &Config,
    name: &NodeName,
    machine: Option<&Serial>,
    (ip, port): (IpAddr, u16),
) -> Result<(), Exception> {
    let mut there = config.nodes.by.address.of((ip, port).into());
    let Some(other) = there.find(|node| node.name != *name) else {
        let is_its_own = config.claimed(ip).is_some_and(|claim| match &claim.owner {
            Owner::Machine(serial) => Some(serial) == machine,
            other => other.to_string() == name.as_str(),
        });
        return if is_its_own { Ok(()) } else { config.unclaimed("node", ip) };
    };
    let text = format!("{ip}:{port} is the address of {} already", other.name);
    Err(Exception::prereq(text, ErrorCode::ResourceNotUnique))
}

fn no_secret(name: &NodeName) -> Exception {
    let text = format!(
        "the one-time secret of {name} is not here (the master may have been restarted); give \
         the same command again, with the token that `noded enroll` shows there"
    );
    Exception::prereq(text, ErrorCode::WrongState).coded(Code::EnrolmentFailed)
}

fn node_lock(name: &str) -> Result<LockName, Exception> {
    Ok(LockName::member(Level::Node, node_name(name)?.as_str()))
}

fn node_name(text: &str) -> Result<NodeName, Exception> {
    text.parse().map_err(|error: model::name::NameError| {
        Exception::prereq(error.to_string(), ErrorCode::WrongInput)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config, node};

    #[test]
    fn a_new_node_is_not_mistaken_for_another() {
        let config = config(&[node("n2.example", NodeRole::Regular)]);
        let told = |name: &str, ip: [u8; 4]| {
            let address = (IpAddr::from(ip), 1811);
            is_new(&config, &name.parse().unwrap(), None, address)
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(told("n3.example", [10, 0, 0, 3]), None);
        assert_eq!(told("n22.example", [10, 0, 0, 3]), None);
        for (name, ip, why) in [
            ("n2.example", [10, 0, 0, 3], "already in the configuration"),
            ("n2", [10, 0, 0, 3], "mistaken for n2.example"),
            ("n2.example.com", [10, 0, 0, 3], "mistaken for n2.example"),
            ("n3.example", [10, 0, 0, 2], "is the address of n2.example"),
        ] {
            let told = told(name, ip).unwrap_or_default();
            assert!(told.contains(why), "{name}: {told}");
        }
    }
}
