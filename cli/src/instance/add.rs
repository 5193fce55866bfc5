//! `gnt instance add`.

use clap::Args;
use model::opcode::OpCode;
use model::opcode::instance::{CreateMode, CreateParameters, Told};
use serde_json::Value;

use crate::error::CliError;
use crate::parameters::{Named, keys, named, system_keys};
use crate::session::Session;
use crate::submit::JobArguments;

/// Arguments of `add`.
#[derive(Debug, Args)]
pub(crate) struct AddArguments {
    /// Its name.
    name: String,
    /// How its disks are stored; as the cluster has it first without it.
    #[arg(short = 't', long, value_name = "TEMPLATE")]
    disk_template: Option<String>,
    /// A disk, as `0:size=4G`; may be given several times.
    #[arg(long = "disk", value_name = "N:NAME=VALUE,...", value_parser = named)]
    disks: Vec<Named>,
    /// The size of the only disk.
    #[arg(short = 's', long, value_name = "SIZE", conflicts_with = "disks")]
    os_size: Option<String>,
    /// The operating system, with its variant behind a `+`.
    #[arg(short = 'o', long, value_name = "NAME")]
    os_type: Option<String>,
    /// Take a variant that the operating system does not list.
    #[arg(long)]
    force_variant: bool,
    /// Leave the operating system out.
    #[arg(long)]
    no_install: bool,
    /// Parameters of the operating system; a value `@FILE` is read from a file.
    #[arg(short = 'O', long, value_name = "NAME=VALUE,...", value_parser = system_keys)]
    os_parameters: Option<Told>,
    /// The node; the allocator chooses one without it.
    #[arg(short = 'n', long, value_name = "NODE[:SECONDARY]")]
    node: Option<String>,
    /// The allocator; `.` is the cluster's.
    #[arg(short = 'I', long, value_name = "NAME", conflicts_with = "node")]
    iallocator: Option<String>,
    /// The node group within which the allocator chooses.
    #[arg(short = 'g', long, value_name = "GROUP")]
    node_group: Option<String>,
    /// The hypervisor, and parameters of it, as `kvm:acpi=no`.
    #[arg(short = 'H', long, value_name = "NAME:NAME=VALUE,...", value_parser = named)]
    hypervisor_parameters: Option<Named>,
    /// Backend parameters, as `memory=1G,vcpus=2`.
    #[arg(short = 'B', long, value_name = "NAME=VALUE,...", value_parser = keys)]
    backend_parameters: Option<Told>,
    /// A network interface, as `0:link=br0`; may be given several times. One with the cluster's parameters
    /// without it.
    #[arg(long = "net", value_name = "N:NAME=VALUE,...", value_parser = named)]
    nics: Vec<Named>,
    /// No network interface.
    #[arg(long, conflicts_with = "nics")]
    no_nics: bool,
    /// Do not look whether the resolver knows its name.
    #[arg(long)]
    no_name_check: bool,
    /// Do not look whether its address answers.
    #[arg(long)]
    no_ip_check: bool,
    /// Take addresses that are of networks which its interfaces are not in.
    #[arg(long)]
    no_conflicts_check: bool,
    /// Let it break the limits of its group.
    #[arg(long)]
    ignore_ipolicy: bool,
    /// Do not start it.
    #[arg(long)]
    no_start: bool,
    /// Do not wait until its disks are in step.
    #[arg(long)]
    no_wait_for_sync: bool,
    /// Plan it only: it gets its share of its node, and nothing there.
    #[arg(long)]
    forthcoming: bool,
    /// Make a planned one a real one.
    #[arg(long, conflicts_with = "forthcoming")]
    commit: bool,
    /// A directory below the cluster's for the files of its disks.
    #[arg(long, value_name = "DIRECTORY")]
    file_storage_dir: Option<String>,
    /// The driver for files of disks, of which there is one.
    #[arg(long, value_name = "loop", hide = true)]
    file_driver: Option<String>,
    /// Leave nodes out that somebody else holds.
    #[arg(long, hide = true)]
    opportunistic_locking: bool,
    /// Its tags.
    #[arg(long, value_name = "TAG,...", value_delimiter = ',')]
    tags: Vec<String>,
    #[command(flatten)]
    job: JobArguments,
}

/// Devices in the order of their numbers, which must be all of those from 0 on.
fn numbered(what: &str, devices: Vec<Named>) -> Result<Vec<Told>, CliError> {
    let mut placed: Vec<(usize, Told)> = Vec::new();
    for (place, told) in devices {
        let number = place.parse().map_err(|_error| {
            CliError::Usage(format!("`{place}` is no number of a {what}; write 0:NAME=VALUE"))
        })?;
        placed.push((number, told));
    }
    placed.sort_by_key(|(number, _)| *number);
    match placed.iter().enumerate().all(|(at, (number, _))| at == *number) {
        true => Ok(placed.into_iter().map(|(_, told)| told).collect()),
        false => Err(CliError::Usage(format!("{what}s are numbered 0, 1, 2 and so on"))),
    }
}

impl AddArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), CliError> {
        let job = self.job.clone();
        let op = self.op(CreateMode::Create)?;
        job.run(OpCode::InstanceCreate(Box::new(op)), session).map(drop)
    }

    /// How the job is submitted.
    pub(crate) const fn job(&self) -> &JobArguments {
        &self.job
    }

    /// The opcode; the description of an import says what is not given.
    pub(crate) fn op(self, mode: CreateMode) -> Result<CreateParameters, CliError> {
        let mut disks = numbered("disk", self.disks)?;
        if let Some(size) = self.os_size {
            disks.push([("size".to_owned(), Value::from(size))].into_iter().collect());
        }
        let nics = match (self.no_nics, self.nics.is_empty()) {
            (true, _) => Vec::new(),
            (false, true) if mode == CreateMode::Import => Vec::new(),
            (false, true) => vec![Told::new()],
            (false, false) => numbered("network interface", self.nics)?,
        };
        let (pnode, snode) = match self.node {
            None => (None, None),
            Some(nodes) => match nodes.split_once(':') {
                Some((primary, secondary)) => {
                    (Some(primary.to_owned()), Some(secondary.to_owned()))
                }
                None => (Some(nodes), None),
            },
        };
        let (hypervisor, hvparams) = self.hypervisor_parameters.unzip();
        Ok(CreateParameters {
            mode,
            disks,
            nics,
            disk_template: self.disk_template,
            hypervisor,
            hvparams: hvparams.unwrap_or_default(),
            beparams: self.backend_parameters.unwrap_or_default(),
            os_type: self.os_type,
            osparams: self.os_parameters.unwrap_or_default(),
            force_variant: self.force_variant,
            no_install: Some(self.no_install),
            pnode,
            snode,
            iallocator: self.iallocator,
            group_name: self.node_group,
            opportunistic_locking: self.opportunistic_locking,
            ignore_ipolicy: self.ignore_ipolicy,
            name_check: !self.no_name_check,
            ip_check: !self.no_ip_check,
            conflicts_check: !self.no_conflicts_check,
            wait_for_sync: !self.no_wait_for_sync,
            start: !self.no_start,
            forthcoming: self.forthcoming,
            commit: self.commit,
            tags: self.tags,
            file_driver: self.file_driver,
            file_storage_dir: self.file_storage_dir,
            ..CreateParameters::named(self.name)
        })
    }
}
