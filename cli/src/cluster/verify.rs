//! `gnt cluster verify` and `verify-disks`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use luxi::method::{Query, What};
use luxi::query::Filter;
use model::JobId;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::follow::wait;
use crate::output::{say, say_json};
use crate::session::Session;
use crate::several::made_by;
use crate::submit::{JobArguments, Priority, opcode};
use crate::{list, python};

/// The codes that Ganeti's tools take; one that no check here gives is ignored in vain.
const CODES: [&str; 41] = [
    "ECLUSTERCERT",
    "ECLUSTERCFG",
    "ECLUSTERCLIENTCERT",
    "ECLUSTERDANGLINGINST",
    "ECLUSTERDANGLINGNODES",
    "ECLUSTERFILECHECK",
    "EEXTAGS",
    "EGROUPDIFFERENTPVSIZE",
    "EINSTANCEBADNODE",
    "EINSTANCEDOWN",
    "EINSTANCEFAULTYDISK",
    "EINSTANCELAYOUT",
    "EINSTANCEMISSINGCFGPARAMETER",
    "EINSTANCEMISSINGDISK",
    "EINSTANCEPOLICY",
    "EINSTANCESPLITGROUPS",
    "EINSTANCEUNSUITABLENODE",
    "EINSTANCEWRONGNODE",
    "ENODEDRBD",
    "ENODEDRBDHELPER",
    "ENODEDRBDVERSION",
    "ENODEFILECHECK",
    "ENODEFILESTORAGEPATHS",
    "ENODEFILESTORAGEPATHUNUSABLE",
    "ENODEGLUSTERSTORAGEPATHUNUSABLE",
    "ENODEHOOKS",
    "ENODEHV",
    "ENODELVM",
    "ENODEN1",
    "ENODENET",
    "ENODEOOBPATH",
    "ENODEORPHANINSTANCE",
    "ENODEORPHANLV",
    "ENODEOS",
    "ENODERPC",
    "ENODESETUP",
    "ENODESHAREDFILESTORAGEPATHUNUSABLE",
    "ENODESSH",
    "ENODETIME",
    "ENODEUSERSCRIPTS",
    "ENODEVERSION",
];

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// Say more.
    #[arg(short, long)]
    verbose: bool,
    /// Have every check find an error, to see what it would say.
    #[arg(long)]
    debug_simulate_errors: bool,
    /// Name errors by codes, for programs.
    #[arg(long)]
    error_codes: bool,
    /// Do not check whether the memory suffices when a node fails.
    #[arg(long)]
    no_nplus1_mem: bool,
    /// Check this node group only.
    #[arg(short = 'g', long, value_name = "GROUP")]
    node_group: Option<String>,
    /// Take errors of this code for warnings; may be given several times.
    #[arg(
        short = 'I',
        long,
        value_name = "CODE",
        value_parser = PossibleValuesParser::new(CODES),
        hide_possible_values = true
    )]
    ignore_errors: Vec<String>,
    /// Look for keys of nodes that are none.
    #[arg(long)]
    verify_ssh_clutter: bool,
    /// How urgent the job is; as usual without it.
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<Priority>,
    /// Check everything, change nothing.
    #[arg(long, conflicts_with = "json")]
    dry_run: bool,
    /// Print what was found as JSON: whether all is well, and each job with its log and result.
    #[arg(long)]
    json: bool,
}

/// Submits the check, which makes further jobs, and waits for all of them.
pub(super) fn run(arguments: VerifyArguments, session: &Session) -> Result<(), CliError> {
    let skip: &[&str] = if arguments.no_nplus1_mem { &["nplusone_mem"] } else { &[] };
    let op = opcode(
        "OP_CLUSTER_VERIFY",
        json!({
            "verbose": arguments.verbose,
            "error_codes": arguments.error_codes,
            "debug_simulate_errors": arguments.debug_simulate_errors,
            "skip_checks": skip,
            "ignore_errors": arguments.ignore_errors,
            "group_name": arguments.node_group,
            "verify_clutter": arguments.verify_ssh_clutter,
        }),
    );
    let (priority, dry_run) = (arguments.priority, arguments.dry_run);
    let job = JobArguments { priority, dry_run, ..JobArguments::default() };
    if arguments.json {
        return as_json(op, &job, is_good, session);
    }
    let Some(result) = job.run_raw(op, session)? else { return Ok(()) };
    let outcome = made_by(&result).wait(session, &mut session.connect()?, true)?;
    let all_good = outcome.results.iter().all(|(_place, results)| is_good(results));
    if outcome.failed > 0 {
        let count = outcome.failed;
        say(format_args!("{count} job(s) failed while verifying the cluster."))?;
    }
    if all_good && outcome.failed == 0 { Ok(()) } else { Err(CliError::Told) }
}

/// Whether a check found nothing.
fn is_good(results: &[Value]) -> bool {
    results.first().is_some_and(python::is_true)
}

/// Submits a check, waits in silence for the jobs that it makes, and prints what they found.
fn as_json(
    op: Value,
    job: &JobArguments,
    is_good: fn(&[Value]) -> bool,
    session: &Session,
) -> Result<(), CliError> {
    let mut client = session.connect()?;
    let id = job.begin(op, &mut client, session)?;
    let result = CliError::of_end(id, wait(session, &mut client, id)?)?;
    let made = result.first().map(made_by).unwrap_or_default();
    let mut all_good = made.refused().is_empty();
    let ids: Vec<JobId> = made.ids().collect();
    for id in &ids {
        let outcome = wait(session, &mut client, *id)?;
        all_good &= outcome.into_result().is_ok_and(|results| is_good(&results));
    }
    let fields = ["id", "status", "summary", "opresult", "oplog"].into();
    let filter = Some(Filter::any_of("id", ids.iter().map(|id| id.0)));
    let table = client.call(&Query { what: What::Job, fields, filter })?;
    let jobs = list::as_json(&table);
    say_json(&json!({"good": all_good, "jobs": jobs, "refused": made.refused()}))?;
    if all_good { Ok(()) } else { Err(CliError::Told) }
}

/// Arguments of `verify-disks`.
#[derive(Debug, Args)]
pub(crate) struct VerifyDisksArguments {
    /// Check the disks of this node group only.
    #[arg(short = 'g', long, value_name = "GROUP")]
    node_group: Option<String>,
    /// How urgent the job is; as usual without it.
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<Priority>,
    /// Print what was found as JSON: whether all is well, and each job with its log and result.
    #[arg(long)]
    json: bool,
}

/// Submits the check of disks, which makes a job for each node group, and waits for all of them.
pub(super) fn disks(arguments: VerifyDisksArguments, session: &Session) -> Result<(), CliError> {
    let op = opcode("OP_CLUSTER_VERIFY_DISKS", json!({ "group_name": arguments.node_group }));
    let job = JobArguments { priority: arguments.priority, ..JobArguments::default() };
    if arguments.json {
        return as_json(
            op,
            &job,
            |results| unasked(results).is_empty() && missing(results).is_empty(),
            session,
        );
    }
    let Some(result) = job.run_raw(op, session)? else { return Ok(()) };
    let outcome = made_by(&result).wait(session, &mut session.connect()?, true)?;
    let mut all_well = true;
    for (_place, results) in &outcome.results {
        let unasked = unasked(results);
        for (node, why) in &unasked {
            say(format_args!("Error gathering data on node {node}: {why}"))?;
            say("You need to fix these nodes first before fixing instances")?;
        }
        all_well &= unasked.is_empty();
        let missing = missing(results);
        for (instance, volumes) in &missing {
            say(format_args!("Instance {instance} has missing disks:"))?;
            for volume in *volumes {
                let part = |at: usize| python::text(&volume[at]);
                say(format_args!("  {} on node {}", part(1), part(0)))?;
            }
        }
        all_well &= missing.is_empty();
        if missing.is_empty() {
            say("No disks need to be activated.")?;
        } else {
            say(
                "`gnt instance recreate-disks` makes disks anew that are lost, without their content",
            )?;
        }
    }
    if all_well && outcome.failed == 0 { Ok(()) } else { Err(CliError::Told) }
}

/// The instances of which disks are missing, each with those.
fn missing(results: &[Value]) -> Vec<(&str, &[Value])> {
    let found = results.first().and_then(|found| found.get(2)).and_then(Value::as_object);
    found
        .into_iter()
        .flatten()
        .filter_map(|(name, of)| Some((name.as_str(), of.as_array()?.as_slice())))
        .collect()
}

/// The nodes that a check of disks could not ask, and why not.
fn unasked(results: &[Value]) -> Vec<(&str, String)> {
    let nodes = results.first().and_then(|found| found.get(0)).and_then(Value::as_object);
    nodes.into_iter().flatten().map(|(node, why)| (node.as_str(), python::text(why))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_were_not_asked_are_named() {
        assert_eq!(unasked(&[json!([{}, [], {}])]), []);
        let found = [json!([{"n1": "no answer"}, [], {}])];
        assert_eq!(unasked(&found), [("n1", "no answer".to_owned())]);
        let lost = [json!([{}, [], {"web1": [["n1", "/srv/d0"]]}])];
        assert_eq!(missing(&lost), [("web1", [json!(["n1", "/srv/d0"])].as_slice())]);
    }
}
