//! Opcodes on the cluster itself.

pub mod fields;
pub mod info;
pub mod instances;

use std::collections::BTreeSet;

use jobs::locks::{Level, LockName, Mode};
use model::cluster::{Cluster, SILENCE_MIN};
use model::error::ErrorCode;
use model::node::{Node, NodeRole};
use model::opcode::{ClusterPostInit, ClusterQuery, ClusterRedistConf, ClusterSetParams};
use model::{Code, Exception, NodeName};
use serde_json::Value;

use super::master_ip;
use super::node::{tell_if_alone, votes};
use crate::agents::ssconf;
use crate::cluster::settings::info as cluster_info;
use crate::config::{Config, ConfigChange};
use crate::instances::allocator::program_file;
use crate::units::{Context, Failure, LogicalUnit, Wanted};
use membership::pool::VOTERS_MIN;

impl LogicalUnit for ClusterPostInit {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, _context: &mut Context) -> Result<(), Failure> {
        Ok(())
    }

    async fn exec(self, (): (), _context: &mut Context) -> Result<bool, Failure> {
        Ok(true)
    }
}

impl LogicalUnit for ClusterQuery {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, _context: &mut Context) -> Result<(), Failure> {
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<Value, Failure> {
        Ok(cluster_info::describe(&context.config()))
    }
}

impl LogicalUnit for ClusterSetParams {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        let wrong = |text: String| Err(Exception::prereq(text, ErrorCode::WrongInput).into());
        let unsupported = self.unsupported();
        if !unsupported.is_empty() {
            return wrong(format!(
                "this version cannot set {}; leave them out",
                unsupported.join(", ")
            ));
        }
        if let Some(prefix) = &self.mac_prefix
            && format!("{prefix}:00:00:00").parse::<model::MacAddress>().is_err()
        {
            return wrong(format!("mac_prefix `{prefix}` is not three bytes, as aa:00:00"));
        }
        if self.silence_deadline.is_some_and(|seconds| seconds != 0 && seconds < SILENCE_MIN) {
            return wrong(format!("silence_deadline is 0 for never, or at least {SILENCE_MIN} s"));
        }
        let config = context.config();
        if self.override_seen && config.cluster.overridden.is_some() {
            seen_by_all(&config)?;
        }
        master_ip::checked(self, &config)?;
        if let Some(name) = self.default_iallocator.as_deref().filter(|name| !name.is_empty()) {
            program_file(context.layout(), name)?;
        }
        instances::changed(self, &config)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        let (moves, voted) = (self.moves_the_address(), votes(context));
        let by_itself = self.auto_failover == Some(true);
        let before = context.committed().config.cluster.master_address();
        context
            .transact(move |config| {
                // Looked at again: the parameters may have been changed since.
                master_ip::checked(&self, config)?;
                let master_ip = master_ip::wanted_ip(&self, &config.cluster)
                    .map_err(|told| Exception::prereq(told, ErrorCode::WrongInput))?;
                let settings = instances::changed(&self, config)?;
                let old = config.cluster.as_ref().clone();
                let keep = |new: Option<u32>, old| new.unwrap_or(old);
                let cluster = Cluster {
                    serial_no: old.serial_no + 1,
                    mtime: now,
                    max_running_jobs: keep(self.max_running_jobs, old.max_running_jobs),
                    max_tracked_jobs: keep(self.max_tracked_jobs, old.max_tracked_jobs),
                    candidate_pool_size: keep(self.candidate_pool_size, old.candidate_pool_size),
                    mac_prefix: self.mac_prefix.unwrap_or(old.mac_prefix),
                    master_ip,
                    master_netdev: self.master_netdev.or(old.master_netdev),
                    master_netmask: self.master_netmask.or(old.master_netmask),
                    auto_failover: self.auto_failover.unwrap_or(old.auto_failover),
                    mend_network: self.mend_network.unwrap_or(old.mend_network),
                    silence_deadline: keep(self.silence_deadline, old.silence_deadline),
                    ramdisk_image: match self.ramdisk_image {
                        None => old.ramdisk_image,
                        Some(image) => Some(image).filter(|image| !image.is_local()),
                    },
                    overridden: old.overridden.filter(|_| !self.override_seen),
                    ..old
                };
                let mut changes = vec![ConfigChange::Cluster(cluster)];
                changes.extend(settings.map(ConfigChange::InstanceSettings));
                Ok((changes, ()))
            })
            .await?;
        tell_if_alone(context, voted).await;
        if by_itself && votes(context) < VOTERS_MIN {
            let text = "auto_failover does nothing as long as fewer than three vote: have three candidates, \
                        or two and a witness";
            context.say(text).await;
        }
        if moves {
            master_ip::move_from(context, before).await;
        }
        Ok(())
    }
}

/// Whether what others held when they were overridden is put aside by now, so that it can be looked at.
///
/// # Errors
/// Some are to come back that were not here since.
fn seen_by_all(config: &Config) -> Result<(), Exception> {
    let comes = |node: &Node| {
        node.may_pass_on() && node.member.is_some_and(|member| member.incarnation.is_none())
    };
    let away = config.nodes.values().filter(|node| comes(node)).map(|node| node.name.as_str());
    let away: Vec<&str> = away.collect();
    if away.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{} did not follow since the override, and may hold what is not known here: bring them back, or \
         take out who is lost, by `gnt node remove` or `gnt node modify --offline yes`; then look at what \
         they keep aside",
        away.join(", ")
    );
    Err(Exception::prereq(text, ErrorCode::WrongState))
}

impl LogicalUnit for ClusterRedistConf {
    type Plan = ();

    fn locks(&self, level: Level, _config: &Config) -> Result<Wanted, Exception> {
        let all = (level == Level::Node).then(|| (LockName::set(level), Mode::Shared));
        Ok(all.into_iter().collect())
    }

    async fn check(&self, _context: &mut Context) -> Result<(), Failure> {
        Ok(())
    }

    /// The log names an agent that does not take all of it, and the job fails. The agent gets what it
    /// should hold when it is back.
    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let mut without: BTreeSet<NodeName> = BTreeSet::new();
        without.extend(super::node::tell_callers_again(context).await?);
        without.extend(push_master_files(context).await?);
        without.extend(crate::machines::rack::push_all(context).await?);
        if without.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = without.iter().map(NodeName::as_str).collect();
        let text = format!(
            "agents that are not marked offline did not take all that they should hold: {}; the log \
             above says why, and what else there was is done",
            names.join(", ")
        );
        Err(Exception::exec(text).coded(Code::Agent).into())
    }
}

/// Sends the files to every node that is not offline. The job's log names a node that does not take
/// them; it gets them when it is back. Gives those nodes.
///
/// # Errors
/// The master is ending.
async fn push_master_files(context: &mut Context) -> Result<Vec<NodeName>, Failure> {
    let snapshot = context.committed();
    let ssconf = ssconf::nodes::compile(&snapshot);
    let behalf = context.behalf();
    let mut without = Vec::new();
    for node in snapshot.config.nodes.values().filter(|node| node.role != NodeRole::Offline) {
        // "Running" must be durable before the first call.
        let agents = context.agents().await?.clone();
        if let Err(why) = ssconf::push_one(&agents, node, &ssconf, behalf).await {
            let name = &node.name;
            let text = format!("{name} did not take the files of who is master ({why})");
            context.say(text).await;
            without.push(name.clone());
        }
    }
    Ok(without)
}
