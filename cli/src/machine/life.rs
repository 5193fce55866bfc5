//! `gnt machine deploy`, `clean`, `rescue`, `unrescue`, `reboot`, `retire`, `abort` and `enlist`, and `inspect`.

use clap::Args;
use luxi::method::{Query, What};
use luxi::query::Filter;
use luxi::query::filter::Operand;
use model::bmc::PowerAction;
use model::image::BootTarget;
use model::machine::life::{Intent, State, Status};
use model::name::NameError;
use model::opcode::{
    MachineAwait, MachineDiskKeysRemove, MachineInspect, MachinePower, MachineProvision,
    MachineSetState, NodeAdd,
};
use model::{JobId, NodeName, OpCode, Serial};
use serde_json::Value;

use super::bmc::Pace;
use super::chosen::Conditions;
use super::meant;
use crate::error::CliError;
use crate::job::exists;
use crate::list::as_json;
use crate::output::warn;
use crate::session::{Session, confirm};
use crate::submit::JobArguments;

/// Machines that a question names one by one: one line.
const NAMED_MAX: usize = 10;

/// Which machines, how many at a time, and from where on.
#[derive(Debug, Args)]
pub(crate) struct Machines {
    /// Serial numbers; or conditions instead.
    #[arg(required_unless_present = "Conditions", conflicts_with = "Conditions")]
    serials: Vec<Serial>,
    #[command(flatten)]
    conditions: Box<Conditions>,
    #[command(flatten)]
    pace: Pace,
    /// Leave out machines for which this job or a later one has done the same.
    #[arg(long, value_name = "JOB")]
    resume: Option<u64>,
    #[command(flatten)]
    job: JobArguments,
}

/// How the power is switched.
#[derive(Debug, Args)]
pub(crate) struct Power {
    /// Somebody switches the power by hand, once the job says so.
    #[arg(long)]
    manual_power: bool,
    /// Do not ask.
    #[arg(short = 'f', long, visible_alias = "force")]
    yes: bool,
}

/// Arguments of `deploy`.
#[derive(Debug, Args)]
pub(crate) struct DeployArguments {
    #[command(flatten)]
    machines: Machines,
    /// NAME for the newest version of an image, or NAME/VERSION; without it, what each machine is to boot.
    #[arg(long, value_name = "IMAGE")]
    image: Option<BootTarget>,
    /// Their role from then on.
    #[arg(long, value_name = "WORD")]
    new_role: Option<String>,
    #[command(flatten)]
    node: NodeArguments,
    #[command(flatten)]
    power: Power,
}

/// How machines become nodes.
#[derive(Debug, Default, Args)]
pub(crate) struct NodeArguments {
    /// Make them nodes of the cluster, in a further job: a template of their role must have
    /// {{ EnrolToken }}. A machine that is a node already is added again.
    #[arg(long)]
    node: bool,
    /// Domain of new nodes: their names are the serial numbers in lower case with a dash for what no
    /// name has, and this [default: none].
    #[arg(long, value_name = "NAME", requires = "node")]
    domain: Option<NodeName>,
    /// New nodes may become the master; without it, `gnt node modify --master-capable yes` can say so later.
    #[arg(long, requires = "node")]
    master_capable: bool,
}

impl NodeArguments {
    /// The opcode that adds the node.
    fn op(&self, serial: &str) -> Result<OpCode, CliError> {
        let wrong = |error: &dyn std::error::Error| CliError::Usage(error.to_string());
        let name = serial.parse::<Serial>().map_err(|error| wrong(&error))?.host_name();
        let name = match &self.domain {
            Some(domain) => format!("{name}.{domain}"),
            None => name,
        };
        let name: NodeName = name.parse().map_err(|error: NameError| wrong(&error))?;
        Ok(OpCode::NodeAdd(NodeAdd {
            node_name: name.to_string(),
            machine: Some(serial.to_owned()),
            master_capable: self.master_capable.then_some(true),
            ..NodeAdd::default()
        }))
    }
}

/// Arguments of verbs that boot a ramdisk.
#[derive(Debug, Args)]
pub(crate) struct RamdiskArguments {
    #[command(flatten)]
    machines: Machines,
    /// The ramdisk: NAME or NAME/VERSION; without it, that of the cluster.
    #[arg(long, value_name = "IMAGE")]
    image: Option<BootTarget>,
    #[command(flatten)]
    power: Power,
}

/// Arguments of verbs that boot what machines boot anyway.
#[derive(Debug, Args)]
pub(crate) struct OwnArguments {
    #[command(flatten)]
    machines: Machines,
    #[command(flatten)]
    power: Power,
}

/// Arguments of `inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    #[command(flatten)]
    machines: Machines,
    /// Boot a ramdisk that looks at the machine from inside.
    #[arg(long)]
    ramdisk: bool,
    /// The ramdisk: NAME or NAME/VERSION; without it, that of the cluster.
    #[arg(long, value_name = "IMAGE", requires = "ramdisk")]
    image: Option<BootTarget>,
    /// Leave machines on with their ramdisk, which are switched off otherwise once it told.
    #[arg(long, requires = "ramdisk")]
    leave_on: bool,
    #[command(flatten)]
    power: Power,
}

/// Arguments of `retire`.
#[derive(Debug, Args)]
pub(crate) struct RetireArguments {
    #[command(flatten)]
    machines: Machines,
    /// Have a ramdisk wipe the disks, and forget their keys.
    #[arg(long)]
    erase: bool,
    /// The ramdisk: NAME or NAME/VERSION; without it, that of the cluster.
    #[arg(long, value_name = "IMAGE", requires = "erase")]
    image: Option<BootTarget>,
    /// Switch machines off before they are retired; without it, they stay on.
    #[arg(long, conflicts_with = "manual_power")]
    power_off: bool,
    #[command(flatten)]
    power: Power,
}

/// The operator's wishes for each machine.
#[derive(Debug, Default)]
struct Wish {
    image: Option<BootTarget>,
    role: Option<String>,
    manual_power: bool,
    enrol: bool,
}

impl Wish {
    /// The opcodes that carry it out and await the end.
    fn ops(&self, serial: &str, target: Intent) -> [OpCode; 2] {
        let Self { image, role, manual_power, enrol } = self;
        let (serial, image, role) = (serial.to_owned(), image.clone(), role.clone());
        let op = MachineProvision {
            serial: serial.clone(),
            target,
            image,
            role,
            manual_power: *manual_power,
            enrol: *enrol,
        };
        [OpCode::MachineProvision(op), OpCode::MachineAwait(MachineAwait { serial })]
    }
}

/// Carries out `deploy`.
pub(super) fn deploy(arguments: DeployArguments, session: &Session) -> Result<(), CliError> {
    let does = "This restarts, with a new system,";
    put_in_service(arguments, does, session, |_serial| None)
}

/// A chain of jobs for each machine: what comes first, its deployment, and what makes it a node.
fn put_in_service(
    arguments: DeployArguments,
    does: &str,
    session: &Session,
    first: impl Fn(&str) -> Option<OpCode>,
) -> Result<(), CliError> {
    let DeployArguments { machines, image, new_role: role, node, power } = arguments;
    let wish = Wish { image, role, manual_power: power.manual_power, enrol: node.node };
    // There is no token yet by which one could be added.
    let adds = node.node && !machines.job.dry_run;
    let goal = Goal { target: Intent::Deploy, node: node.node };
    machines.each_chain(goal, Some((does, &power)), session, |serial| {
        let mut jobs: Vec<Vec<OpCode>> = first(serial).map(|op| vec![op]).into_iter().collect();
        jobs.push(wish.ops(serial, Intent::Deploy).into());
        if adds {
            jobs.push(vec![node.op(serial)?]);
        }
        Ok(jobs)
    })
}

/// Carries out `clean` and `rescue`.
pub(super) fn ramdisk(
    target: Intent,
    arguments: RamdiskArguments,
    session: &Session,
) -> Result<(), CliError> {
    let RamdiskArguments { machines, image, power } = arguments;
    let wish = Wish { image, manual_power: power.manual_power, ..Wish::default() };
    let does = match target {
        Intent::Clean => "This wipes",
        _ => "This restarts, with a rescue system,",
    };
    machines.each(target, Some((does, &power)), session, |serial| wish.ops(serial, target).into())
}

/// Carries out `reboot` and `unrescue`.
pub(super) fn own(
    target: Intent,
    arguments: OwnArguments,
    session: &Session,
) -> Result<(), CliError> {
    let OwnArguments { machines, power } = arguments;
    let wish = Wish { manual_power: power.manual_power, ..Wish::default() };
    machines.each(target, Some(("This restarts", &power)), session, |serial| {
        wish.ops(serial, target).into()
    })
}

/// Carries out `inspect`.
pub(super) fn inspect(arguments: InspectArguments, session: &Session) -> Result<(), CliError> {
    let InspectArguments { machines, ramdisk, image, leave_on, power } = arguments;
    if !ramdisk {
        return machines.each(Intent::Inspect, None, session, |serial| vec![by_bmc(serial)]);
    }
    let wish = Wish { image, manual_power: power.manual_power, ..Wish::default() };
    let does = "This restarts, with a ramdisk,";
    // Nothing runs there that anybody needs: it waits for what is to be next.
    let switches_off = !leave_on && !power.manual_power;
    machines.each(Intent::Inspect, Some((does, &power)), session, |serial| {
        let mut ops: Vec<OpCode> = wish.ops(serial, Intent::Inspect).into();
        if switches_off {
            let (serial, action) = (serial.to_owned(), Some(PowerAction::Off));
            ops.push(OpCode::MachinePower(MachinePower { serial, action, boot_once: None }));
        }
        ops
    })
}

/// Carries out `enlist`.
pub(super) fn enlist(arguments: DeployArguments, session: &Session) -> Result<(), CliError> {
    let does = "This inspects, and restarts with a new system,";
    put_in_service(arguments, does, session, |serial| Some(by_bmc(serial)))
}

fn by_bmc(serial: &str) -> OpCode {
    OpCode::MachineInspect(MachineInspect { serial: serial.to_owned() })
}

/// Carries out `retire`.
pub(super) fn retire(arguments: RetireArguments, session: &Session) -> Result<(), CliError> {
    let RetireArguments { machines, erase, image, power_off, power } = arguments;
    let wish = Wish { image, manual_power: power.manual_power, ..Wish::default() };
    let does = match (erase, power_off) {
        (true, true) => "This wipes, switches off and retires",
        (true, false) => "This wipes and retires, and leaves on,",
        (false, true) => "This switches off and retires",
        (false, false) => "This retires, and leaves on,",
    };
    machines.each(Intent::Retire, Some((does, &power)), session, |serial| {
        let [retiring, _] = Wish::default().ops(serial, Intent::Retire);
        let serial_text = serial.to_owned();
        let retired = MachineSetState { serial: serial_text, state: Status::Retired, why: None };
        let mut ops = vec![retiring];
        if erase {
            ops.extend(wish.ops(serial, Intent::Clean));
            let keys = MachineDiskKeysRemove { serial: serial.to_owned(), only_retiring: true };
            ops.push(OpCode::MachineDiskKeysRemove(keys));
        }
        if power_off {
            let (serial, action) = (serial.to_owned(), Some(PowerAction::Off));
            ops.push(OpCode::MachinePower(MachinePower { serial, action, boot_once: None }));
        }
        ops.push(OpCode::MachineSetState(retired));
        ops
    })
}

/// Carries out `abort`.
pub(super) fn abort(machines: &Machines, session: &Session) -> Result<(), CliError> {
    machines.each(Intent::Abort, None, session, |serial| {
        let [abort, _] = Wish::default().ops(serial, Intent::Abort);
        vec![abort]
    })
}

impl Machines {
    /// A job for each machine, rolling.
    fn each(
        &self,
        target: Intent,
        asks: Option<(&str, &Power)>,
        session: &Session,
        ops: impl Fn(&str) -> Vec<OpCode>,
    ) -> Result<(), CliError> {
        let goal = Goal { target, node: false };
        self.each_chain(goal, asks, session, |serial| Ok(vec![ops(serial)]))
    }

    /// A chain of jobs for each machine.
    fn each_chain(
        &self,
        goal: Goal,
        asks: Option<(&str, &Power)>,
        session: &Session,
        jobs: impl Fn(&str) -> Result<Vec<Vec<OpCode>>, CliError>,
    ) -> Result<(), CliError> {
        let mut serials = meant(&self.serials, self.conditions.filters(), session)?;
        // In the order in which they were named, and else in one that is the same at the next run.
        let place = |text: &str| self.serials.iter().position(|serial| serial.as_str() == text);
        serials.sort_by_cached_key(|serial| (place(serial), serial.clone()));
        let serials = match self.resume {
            None => serials,
            Some(job) => {
                exists(&mut session.connect()?, JobId(job))?;
                without_done(serials, goal, JobId(job), session)?
            }
        };
        if serials.is_empty() {
            return Ok(());
        }
        if let Some((does, power)) = asks {
            let (named, more) = serials.split_at(serials.len().min(NAMED_MAX));
            let more = if more.is_empty() {
                String::new()
            } else {
                format!(" and {} more machines", more.len())
            };
            let question = format!("{does} {}{more}. Go on?", named.join(", "));
            confirm(&question, power.yes || self.job.dry_run)?;
        }
        let jobs = serials.iter().map(|serial| jobs(serial)).collect::<Result<_, _>>()?;
        self.job.run_rolling(jobs, self.pace.parallel.into(), session)
    }
}

/// When a machine is done.
#[derive(Debug, Clone, Copy)]
struct Goal {
    target: Intent,
    /// Whether it is a node then.
    node: bool,
}

/// The machines for which no job from this one on has done it; the others are told.
fn without_done(
    serials: Vec<String>,
    goal: Goal,
    since: JobId,
    session: &Session,
) -> Result<Vec<String>, CliError> {
    let named: Vec<Operand> = serials.iter().map(|serial| serial.as_str().into()).collect();
    let query = Query {
        what: What::Machine,
        fields: ["serial", "state", "intent", "intent_job", "node"].into(),
        filter: Some(Filter::any_of("serial", named)),
    };
    let rows = as_json(&session.ask(&query)?);
    let (done, left): (Vec<String>, Vec<String>) = serials.into_iter().partition(|serial| {
        rows.iter().find(|row| row["serial"] == **serial).is_some_and(|r| is_done(r, goal, since))
    });
    if !done.is_empty() {
        warn(format_args!("done since job {since}, and left out: {}", done.join(", ")))?;
    }
    Ok(left)
}

fn is_done(row: &Value, Goal { target, node }: Goal, since: JobId) -> bool {
    let is_of = row["intent"] == target.as_str() && row["intent_job"].as_u64() >= Some(since.0);
    let is_retired = target == Intent::Retire && row["state"] == State::Retired.as_str();
    let is_node = !node || row["node"].is_string();
    is_retired
        || (is_of && is_node && target.ends_in().iter().any(|state| row["state"] == state.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_same_since_then_is_done() {
        let row = |state: &str, intent: &str, job: u64| json!({"serial": "S1", "state": state, "intent": intent, "intent_job": job});
        let goal = |target| Goal { target, node: false };
        let done = |row: &Value| is_done(row, goal(Intent::Deploy), JobId(7));
        assert!(done(&row("healthy", "deploy", 7)));
        assert!(!done(&row("healthy", "deploy", 6)));
        assert!(!done(&row("healthy", "reboot", 8)));
        assert!(!done(&row("deploy-failed", "deploy", 8)));
        let never = json!({"serial": "S1", "state": "healthy", "intent": null, "intent_job": null});
        assert!(!done(&never));
        assert!(is_done(&json!({"state": "retired"}), goal(Intent::Retire), JobId(7)));
        let as_node = Goal { target: Intent::Deploy, node: true };
        let mut row = row("healthy", "deploy", 7);
        assert!(!is_done(&row, as_node, JobId(7)));
        row["node"] = json!("s1");
        assert!(is_done(&row, as_node, JobId(7)));
    }
}
