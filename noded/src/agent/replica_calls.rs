//! Calls on copies of disks: those that this node serves, and those that its runs write.

use rpc::Failure;
use rpc::calls::{
    InstanceSeen, ReplicaDetach, ReplicaDrop, ReplicaJoin, ReplicaJoined, ReplicaServe,
    ReplicaServed,
};
use virt::{Copies, Join};

use super::Agent;
use super::instance_calls::{failed, seen};

impl Agent {
    pub(super) async fn replica_serve(&self, call: ReplicaServe) -> Result<ReplicaServed, Failure> {
        let ReplicaServe { uuid, name, run, disks, key } = call;
        let served = self.instances.serve(Copies { uuid, name, run, disks, key }).await;
        served.map(|port| ReplicaServed { port }).map_err(|error| failed(&error))
    }

    pub(super) async fn replica_drop(&self, call: ReplicaDrop) -> Result<(), Failure> {
        let dropped = self.instances.serve_no_more(call.uuid, call.run).await;
        dropped.map_err(|error| failed(&error))
    }

    pub(super) async fn replica_join(&self, call: ReplicaJoin) -> Result<ReplicaJoined, Failure> {
        let ReplicaJoin { uuid, run, disk, replica, key, whole } = call;
        let order = Join { disk, replica, key, is_new: whole };
        let joined = self.instances.join(uuid, run, order).await;
        let joined = joined.map_err(|error| failed(&error))?;
        let (known, sight) = joined.told;
        let (percent, failed) = (joined.percent, joined.failed);
        Ok(ReplicaJoined { seen: InstanceSeen { known, sight }, percent, failed })
    }

    pub(super) async fn replica_detach(
        &self,
        call: ReplicaDetach,
    ) -> Result<InstanceSeen, Failure> {
        seen(self.instances.detach(call.uuid, call.run, call.disks).await)
    }
}
