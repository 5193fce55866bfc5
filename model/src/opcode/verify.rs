//! Core: opcodes that look whether the cluster is as it should be, and that set it right.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job_id::JobId;

/// How a check tells what it finds; every check takes these.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Telling {
    /// Tell of every check as if it had failed.
    #[serde(default)]
    pub debug_simulate_errors: bool,
    /// Begin each line with a code for programs.
    #[serde(default)]
    pub error_codes: bool,
    /// Codes that only warn.
    #[serde(default)]
    pub ignore_errors: Vec<String>,
    /// Tell what is looked at, too.
    #[serde(default)]
    pub verbose: bool,
}

/// Parameters of `OP_CLUSTER_VERIFY`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterVerify {
    /// As in [`Telling`].
    pub debug_simulate_errors: bool,
    /// As in [`Telling`].
    pub error_codes: bool,
    /// As in [`Telling`].
    pub ignore_errors: Vec<String>,
    /// As in [`Telling`].
    pub verbose: bool,
    /// Checks to leave out; Ganeti's only one, `nplusone_mem`, is about instances.
    pub skip_checks: Vec<String>,
    /// Look at this node group alone; null means at everything.
    pub group_name: Option<String>,
    /// Taken from Ganeti's client; there are no SSH keys here.
    pub verify_clutter: bool,
}

/// Parameters of `OP_CLUSTER_VERIFY_CONFIG`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterVerifyConfig {
    /// As in [`Telling`].
    pub debug_simulate_errors: bool,
    /// As in [`Telling`].
    pub error_codes: bool,
    /// As in [`Telling`].
    pub ignore_errors: Vec<String>,
    /// As in [`Telling`].
    pub verbose: bool,
}

/// Parameters of `OP_CLUSTER_VERIFY_GROUP`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterVerifyGroup {
    /// The node group.
    pub group_name: String,
    /// As in [`Telling`].
    #[serde(default)]
    pub debug_simulate_errors: bool,
    /// As in [`Telling`].
    #[serde(default)]
    pub error_codes: bool,
    /// As in [`Telling`].
    #[serde(default)]
    pub ignore_errors: Vec<String>,
    /// As in [`Telling`].
    #[serde(default)]
    pub verbose: bool,
    /// As in [`ClusterVerify`].
    #[serde(default)]
    pub skip_checks: Vec<String>,
    /// As in [`ClusterVerify`].
    #[serde(default)]
    pub verify_clutter: bool,
}

macro_rules! telling {
    ($($op:ident)+) => {
        $(impl $op {
            /// How it tells what it finds.
            pub fn telling(&self) -> Telling {
                Telling {
                    debug_simulate_errors: self.debug_simulate_errors,
                    error_codes: self.error_codes,
                    ignore_errors: self.ignore_errors.clone(),
                    verbose: self.verbose,
                }
            }
        })+
    };
}

telling!(ClusterVerify ClusterVerifyConfig ClusterVerifyGroup);

/// Parameters of `OP_CLUSTER_VERIFY_DISKS`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterVerifyDisks {
    /// Look at this node group alone; null means at all.
    pub group_name: Option<String>,
}

/// Parameters of `OP_GROUP_VERIFY_DISKS`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupVerifyDisks {
    /// The node group.
    pub group_name: String,
}

/// Nodes that were not reached with the reason, instances whose disks need activation, instances
/// with missing disks.
pub type DisksFound = (Value, Vec<String>, Value);

/// Parameters of `OP_CLUSTER_REDIST_CONF`: none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterRedistConf {}

/// The result of an opcode that submits jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SubmittedJobs {
    /// For each whether it was accepted, and its id or the reason.
    pub jobs: Vec<(bool, Value)>,
}

impl FromIterator<Result<JobId, String>> for SubmittedJobs {
    fn from_iter<I: IntoIterator<Item = Result<JobId, String>>>(answers: I) -> Self {
        let entry = |answer| match answer {
            Ok(JobId(id)) => (true, Value::from(id)),
            Err(why) => (false, Value::from(why)),
        };
        Self { jobs: answers.into_iter().map(entry).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opcode::OpInput;

    #[test]
    fn reads_what_the_python_client_sends() {
        let text = r#"{"OP_ID": "OP_CLUSTER_VERIFY", "debug_simulate_errors": false,
            "error_codes": true, "skip_checks": [], "ignore_errors": ["ENODESSH"],
            "verbose": false, "group_name": null, "verify_clutter": false, "dry_run": false,
            "debug_level": 0, "priority": 0, "depends": null, "comment": null, "reason": []}"#;
        OpInput::parse(text).unwrap();
        assert!(OpInput::parse(r#"{"OP_ID": "OP_CLUSTER_VERIFY_GROUP"}"#).is_err());
    }

    #[test]
    fn submitted_jobs_have_ganetis_form() {
        let jobs = [Ok(JobId(3)), Err("full".to_owned())];
        let jobs: SubmittedJobs = jobs.into_iter().collect();
        let text = serde_json::to_string(&jobs).unwrap();
        assert_eq!(text, r#"{"jobs":[[true,3],[false,"full"]]}"#);
    }
}
