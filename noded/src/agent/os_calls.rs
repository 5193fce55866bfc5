//! Calls on operating systems of instances.

use rpc::calls::OsRun;
use rpc::fence::Interrupt;
use rpc::{Failure, FailureKind};
use stdx::daemon::chain;
use virt::{ScriptRun, Storage};

use super::Agent;

/// The beginnings of names of variables that a script is told of: nothing that a shell or a linker obeys.
const TOLD: [&str; 6] = ["INSTANCE_", "OLD_INSTANCE_", "DISK_", "NIC_", "OSP_", "HYPERVISOR"];

impl Agent {
    pub(super) async fn os_run(
        &self,
        call: OsRun,
        mut interrupt: Interrupt,
    ) -> Result<(), Failure> {
        let OsRun { script, os, instance, disks, mut environment } = call;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_told = |name: &String| {
            TOLD.iter().any(|told| name.starts_with(told)) && name.chars().all(is_plain)
        };
        if let Some(name) = environment.keys().find(|name| !is_told(name)) {
            let text = format!("`{name}` is no variable that scripts are told");
            return Err(Failure::new(FailureKind::Malformed, text));
        }
        for (number, disk) in disks.iter().enumerate() {
            environment.insert(format!("DISK_{number}_PATH"), disk.place.path().to_owned());
        }
        let sizes = self.with_disks(disks, Storage::size).await?;
        if let Some(number) = sizes.iter().position(Option::is_none) {
            return Err(Failure::failed(format!("disk/{number} is not there")));
        }
        let run =
            ScriptRun { script, os: &os, instance: instance.as_str(), environment: &environment };
        tokio::select! {
            // The script ends with the call, so that none is left at work on a disk that goes.
            why = interrupt.wait() => Err(why.failure()),
            done = self.systems.run(run) => done.map_err(|error| Failure::failed(chain(&error))),
        }
    }
}
