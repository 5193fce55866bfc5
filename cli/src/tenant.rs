//! `gnt tenant`.

use clap::{Args, Subcommand};
use luxi::method::What;
use model::opcode::tenant::LimitsTold;
use model::opcode::{TenantAdd, TenantGive, TenantRemove, TenantSetParams, TenantTake};
use model::switch::VlanSet;
use model::{OpCode, Serial, Word};

use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::session::Session;
use crate::submit::JobArguments;
use crate::switch::info;

/// The fields that `list` shows by default.
const USUAL: [&str; 5] = ["name", "members", "vlans", "machine_count", "port_count"];

/// The verbs of `gnt tenant`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tenant {
    /// Add a tenant, with its users and its limits.
    Add {
        /// Its name, with which the names of its configurations of ports begin.
        tenant: Word,
        /// A user of the front door who acts for it, or a token's name; may be given several times.
        #[arg(long = "member", value_name = "USER")]
        members: Vec<String>,
        #[command(flatten)]
        limits: LimitArguments,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Change users and limits of a tenant.
    Modify {
        /// Its name.
        tenant: Word,
        /// A user who acts for it from now on; may be given several times.
        #[arg(long = "add-member", value_name = "USER")]
        added: Vec<String>,
        /// A user who does not any more; may be given several times.
        #[arg(long = "remove-member", value_name = "USER")]
        removed: Vec<String>,
        #[command(flatten)]
        limits: LimitArguments,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Remove a tenant that has nothing.
    Remove {
        /// Its name.
        tenant: Word,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Give machines to a tenant.
    Give {
        /// To whom.
        tenant: Word,
        /// The machines.
        #[arg(required = true)]
        machines: Vec<Serial>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// Take machines from a tenant: their ports follow the cluster's policy from then on.
    Take {
        /// From whom.
        tenant: Word,
        /// The machines.
        #[arg(required = true)]
        machines: Vec<Serial>,
        /// Take machines that are in service, too.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        job: JobArguments,
    },
    /// List tenants.
    List {
        /// Only these.
        names: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// Show all there is to know about tenants.
    #[command(visible_alias = "show")]
    Info {
        /// Only these.
        names: Vec<String>,
        /// Print a JSON list with an object for each.
        #[arg(long)]
        json: bool,
    },
}

/// Limits of a tenant.
#[derive(Debug, Args)]
pub(crate) struct LimitArguments {
    /// The VLANs that its configurations of ports may name, such as `6-10,20`; none without it.
    #[arg(long, value_name = "VLANS")]
    vlans: Option<VlanSet>,
    /// Most machines.
    #[arg(long, value_name = "NUMBER")]
    machines: Option<u32>,
    /// Most ports of switches at its machines.
    #[arg(long, value_name = "NUMBER")]
    ports: Option<u32>,
    /// Most jobs of its in the queue that have not ended [default: 40]
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<u32>,
}

impl LimitArguments {
    fn told(self) -> LimitsTold {
        let Self { vlans, machines, ports, jobs } = self;
        LimitsTold { vlans, machines, ports, jobs }
    }
}

/// Carries out one verb.
pub(crate) fn run(verb: Tenant, session: &Session) -> Result<(), CliError> {
    let (op, job) = match verb {
        Tenant::List { names, list } => {
            let chosen = list.chosen(&names, Named::By("name"))?;
            return list.print(What::Tenant, list.fields(&USUAL), &chosen, session);
        }
        Tenant::ListFields(arguments) => return arguments.print(What::Tenant, session),
        Tenant::Info { names, json } => return info(What::Tenant, &names, json, session),
        Tenant::Add { tenant: tenant_name, members, limits, job } => {
            let (members, limits) = (members.into_iter().collect(), limits.told());
            (OpCode::TenantAdd(TenantAdd { tenant_name, members, limits }), job)
        }
        Tenant::Modify { tenant, added, removed, limits, job } => {
            let op = TenantSetParams {
                tenant_name: tenant.to_string(),
                add_members: added.into_iter().collect(),
                remove_members: removed.into_iter().collect(),
                limits: limits.told(),
            };
            (OpCode::TenantSetParams(op), job)
        }
        Tenant::Remove { tenant, job } => {
            (OpCode::TenantRemove(TenantRemove { tenant_name: tenant.to_string() }), job)
        }
        Tenant::Give { tenant, machines, job } => {
            (OpCode::TenantGive(TenantGive { tenant_name: tenant.to_string(), machines }), job)
        }
        Tenant::Take { tenant, machines, force, job } => {
            let tenant_name = tenant.to_string();
            (OpCode::TenantTake(TenantTake { tenant_name, machines, force }), job)
        }
    };
    job.run(op, session).map(drop)
}
