//! Opcodes on the address that moves with the master.

use std::net::IpAddr;
use std::sync::Arc;

use jobs::locks::Level;
use model::cluster::{Cluster, MasterAddress, master_address};
use model::error::ErrorCode;
use model::opcode::{ClusterActivateMasterIp, ClusterDeactivateMasterIp, ClusterSetParams};
use model::{Code, Exception};
use stdx::daemon::chain;

use crate::agents::master_address::{Raised, master};
use crate::config::Config;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// The word for no address.
const NONE: &str = "none";

/// The cluster's address, which it must have.
fn address(config: &Config) -> Result<MasterAddress, Exception> {
    config.cluster.master_address().ok_or_else(|| {
        let told = "the cluster has no address that moves with the master; \
                    `gnt cluster modify --master-ip IP --master-netdev NAME` gives it one";
        Exception::prereq(told, ErrorCode::WrongState)
    })
}

impl LogicalUnit for ClusterActivateMasterIp {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        address(&context.config()).map(drop)?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        context.point_of_no_return().await?;
        raise(context).await.map_err(|why| Exception::exec(why).coded(Code::MasterAddress).into())
    }
}

impl LogicalUnit for ClusterDeactivateMasterIp {
    type Plan = MasterAddress;

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<MasterAddress, Failure> {
        Ok(address(&context.config())?)
    }

    async fn exec(self, plan: MasterAddress, context: &mut Context) -> Result<(), Failure> {
        context.point_of_no_return().await?;
        let address = context.address();
        let held = &address.held;
        // Or it would be taken again at once.
        held.set_released(true);
        lower(context, plan).await.map_err(|why| {
            held.set_released(false);
            Exception::exec(why).coded(Code::MasterAddress).into()
        })
    }
}

/// Takes the address, and tells in the job's log where it was.
async fn raise(context: &mut Context) -> Result<(), String> {
    let behalf = context.behalf();
    context.agents().await.map_err(|_ending| "the master is ending".to_owned())?;
    let mover = context.address();
    let turn = mover.held.turn().await;
    mover.held.set_released(false);
    let raised = mover.raise(behalf).await.map_err(|error| chain(&error))?;
    drop(turn);
    let Raised { here, had_it, not_asked } = raised;
    for node in had_it {
        context.say(format!("{node} had the master's address and gave it up")).await;
    }
    for (node, why) in not_asked {
        context.say(format!("{node} was not asked to give the master's address up: {why}")).await;
    }
    if let Some((address, false)) = here {
        context
            .say(format!("The address {address} was here already; the link is told again"))
            .await;
    }
    Ok(())
}

/// Has the master's own agent give an address up.
async fn lower(context: &mut Context, address: MasterAddress) -> Result<(), String> {
    let behalf = context.behalf();
    context.agents().await.map_err(|_ending| "the master is ending".to_owned())?;
    let mover = context.address();
    let config = context.committed().config;
    let told = address.to_string();
    let me = master(&config).map_err(|error| chain(&error))?;
    let _turn = mover.held.turn().await;
    match mover.drop_for(me, address, behalf).await {
        Ok(true) => Ok(()),
        Ok(false) => {
            context.say(format!("The address {told} was not here")).await;
            Ok(())
        }
        Err(error) => Err(chain(&error)),
    }
}

/// Checks the parameters of the cluster after a change: they make an address, no node has it for its
/// own, and they can be read at all.
///
/// # Errors
/// What is wrong with them.
pub(super) fn checked(op: &ClusterSetParams, config: &Config) -> Result<(), Exception> {
    let wrong = |told: String| Exception::prereq(told, ErrorCode::WrongInput);
    let cluster = &config.cluster;
    let ip = wanted_ip(op, cluster).map_err(wrong)?;
    let netdev = op.master_netdev.as_deref().or(cluster.master_netdev.as_deref());
    // A netmask that an earlier address left behind is no mistake of this request.
    let prefix = op.master_netmask.or(cluster.master_netmask.filter(|_| ip.is_some()));
    let made = master_address::of(ip, netdev, prefix).map_err(|error| wrong(error.to_string()))?;
    let Some(MasterAddress { address, .. }) = made else { return Ok(()) };
    let own =
        |node: &Arc<model::node::Node>| node.primary_ip == address || node.secondary_ip == address;
    match config.nodes.values().find(|node| own(node)) {
        Some(node) => Err(wrong(format!(
            "{address} is the own address of {}; the master's moves from node to node",
            node.name
        ))),
        None if cluster.master_ip == Some(address) => Ok(()),
        None => config.unclaimed("master_ip", address),
    }
}

/// The address that the cluster has after a change.
pub(super) fn wanted_ip(
    op: &ClusterSetParams,
    cluster: &Cluster,
) -> Result<Option<IpAddr>, String> {
    match op.master_ip.as_deref() {
        None => Ok(cluster.master_ip),
        Some(NONE | "") => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_error| format!("master_ip `{text}` is no address, and not `{NONE}`")),
    }
}

/// Moves the address from where it was `before` a change of the parameters to where it belongs. The
/// change stands, whatever becomes of that; what fails is told in the job's log.
pub(super) async fn move_from(context: &mut Context, before: Option<MasterAddress>) {
    let now = context.committed().config.cluster.master_address();
    if let Some(before) = before.filter(|before| Some(before) != now.as_ref())
        && let Err(why) = lower(context, before).await
    {
        context.say(format!("Warning: {why}")).await;
    }
    if now.is_some()
        && let Err(why) = raise(context).await
    {
        context.say(format!("Warning: {why}")).await;
    }
}

#[cfg(test)]
mod tests {
    use model::node::NodeRole;

    use super::*;
    use crate::testing::{config, node};

    fn op(ip: Option<&str>, netdev: Option<&str>) -> ClusterSetParams {
        ClusterSetParams {
            master_ip: ip.map(str::to_owned),
            master_netdev: netdev.map(str::to_owned),
            ..ClusterSetParams::default()
        }
    }

    #[test]
    fn what_is_given_and_what_is_there_make_an_address() {
        let mut config = config(&[node("n2.example", NodeRole::Candidate)]);
        let told = |op: &ClusterSetParams, config: &Config| {
            checked(op, config).map_err(|error| error.to_string())
        };
        assert_eq!(told(&op(Some("10.0.0.99"), Some("eth0")), &config), Ok(()));
        let why = |ip, netdev| told(&op(Some(ip), netdev), &config).unwrap_err();
        assert!(why("10.0.0.99", None).contains("--master-netdev"));
        assert!(why("10.0.0.2", Some("eth0")).contains("own address of n2.example"));
        assert!(why("there", Some("eth0")).contains("`there` is no address"));

        let netmask =
            |bits| ClusterSetParams { master_netmask: Some(bits), ..ClusterSetParams::default() };
        assert_eq!(told(&netmask(24), &config), Ok(()));
        assert!(told(&netmask(99), &config).unwrap_err().contains("must be 1 to 32"));

        let mut cluster = config.cluster.as_ref().clone();
        cluster.master_netmask = Some(64);
        config.cluster = Arc::new(cluster.clone());
        assert_eq!(told(&netmask(24), &config), Ok(()));
        assert_eq!(told(&op(None, Some("eth1")), &config), Ok(()));
        assert!(
            told(&op(Some("10.0.0.99"), Some("eth0")), &config).unwrap_err().contains("32 bits")
        );

        cluster.master_netmask = None;
        cluster.master_ip = Some([10, 0, 0, 99].into());
        cluster.master_netdev = Some("eth0".to_owned());
        config.cluster = Arc::new(cluster);
        assert_eq!(told(&op(Some("10.0.0.98"), None), &config), Ok(()));
        let wanted = |ip| wanted_ip(&op(ip, None), &config.cluster);
        assert_eq!(wanted(None), Ok(Some([10, 0, 0, 99].into())));
        assert_eq!(wanted(Some("none")), Ok(None));
        assert_eq!(wanted(Some("fd00::9")), Ok(Some("fd00::9".parse().unwrap())));
    }
}
