//! Core: the limits of instances (Ganeti's instance policy): several pairs of least and most, of which an
//! instance must be within one.

use serde::{Deserialize, Serialize};

use super::parameters::SIZE_MAX;

/// Most pairs of a policy.
pub const PAIRS_MAX: usize = 16;

/// The measures of an instance, or a limit of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Measures {
    /// MiB.
    pub memory_size: i64,
    pub cpu_count: i64,
    /// MiB of each disk.
    pub disk_size: i64,
    pub disk_count: i64,
    pub nic_count: i64,
    pub spindle_use: i64,
}

impl Measures {
    fn all(self) -> [(&'static str, i64); 6] {
        [
            ("memory-size", self.memory_size),
            ("cpu-count", self.cpu_count),
            ("disk-size", self.disk_size),
            ("disk-count", self.disk_count),
            ("nic-count", self.nic_count),
            ("spindle-use", self.spindle_use),
        ]
    }
}

/// The least and the most of each measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    pub min: Measures,
    pub max: Measures,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Policy {
    pub minmax: Vec<Pair>,
    /// The measures of an instance where none are given.
    pub std: Measures,
    pub disk_templates: Vec<String>,
    /// Most virtual processors for each processor of a node.
    pub vcpu_ratio: f64,
    /// Most spindles in use for each of a node.
    pub spindle_ratio: f64,
}

impl Default for Policy {
    fn default() -> Self {
        let min = Measures {
            memory_size: 128,
            cpu_count: 1,
            disk_size: 1_024,
            disk_count: 1,
            nic_count: 1,
            spindle_use: 1,
        };
        let max = Measures {
            memory_size: 32_768,
            cpu_count: 8,
            disk_size: 1_048_576,
            disk_count: 16,
            nic_count: 8,
            spindle_use: 12,
        };
        let templates = [
            "blockdev",
            "diskless",
            "drbd",
            "ext",
            "file",
            "gluster",
            "plain",
            "rbd",
            "sharedfile",
        ];
        Self {
            minmax: vec![Pair { min, max }],
            std: min,
            disk_templates: templates.map(str::to_owned).into(),
            vcpu_ratio: 4.0,
            spindle_ratio: 32.0,
        }
    }
}

/// A policy that cannot hold.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// No pair, or more than anybody reads.
    #[error("it has {0} pairs of least and most; it has 1 to {PAIRS_MAX}")]
    Pairs(usize),
    /// Nothing is within it.
    #[error("{measure}: the least, {least}, is more than the most, {most}")]
    Empty { measure: &'static str, least: i64, most: i64 },
    /// The usual instance is not within any pair.
    #[error("the usual instance has {measure} {value}, which is not within any pair")]
    Usual { measure: &'static str, value: i64 },
    /// A measure that nothing has.
    #[error("{measure}: {value} is not a number from 0 to {SIZE_MAX}")]
    Measure { measure: &'static str, value: i64 },
    /// A ratio that leaves no room.
    #[error("{0}: a ratio is a number from 1 to 1000000")]
    Ratio(&'static str),
    /// A template that there is not.
    #[error("there is no disk template `{0}`")]
    Template(String),
}

impl Policy {
    /// Whether it can hold.
    ///
    /// # Errors
    /// It cannot.
    pub fn check(&self) -> Result<(), PolicyError> {
        if self.minmax.is_empty() || self.minmax.len() > PAIRS_MAX {
            return Err(PolicyError::Pairs(self.minmax.len()));
        }
        for Pair { min, max } in &self.minmax {
            for ((measure, least), (_, most)) in min.all().into_iter().zip(max.all()) {
                for value in [least, most] {
                    if !(0..=SIZE_MAX).contains(&value) {
                        return Err(PolicyError::Measure { measure, value });
                    }
                }
                if least > most {
                    return Err(PolicyError::Empty { measure, least, most });
                }
            }
        }
        // As Ganeti has it: each usual measure is within one pair, whichever that is.
        for (place, (measure, value)) in self.std.all().into_iter().enumerate() {
            let is_within =
                |pair: &Pair| (pair.min.all()[place].1..=pair.max.all()[place].1).contains(&value);
            if !self.minmax.iter().any(is_within) {
                return Err(PolicyError::Usual { measure, value });
            }
        }
        for (name, ratio) in
            [("vcpu-ratio", self.vcpu_ratio), ("spindle-ratio", self.spindle_ratio)]
        {
            if !(1.0..=1e6).contains(&ratio) {
                return Err(PolicyError::Ratio(name));
            }
        }
        let known = |name: &&String| super::parameters::template(name).is_none();
        match self.disk_templates.iter().find(known) {
            Some(unknown) => Err(PolicyError::Template(unknown.clone())),
            None => Ok(()),
        }
    }

    /// What an instance breaks: nothing if it is within one pair, else that of the pair it is nearest to.
    /// `disks` are sizes in MiB.
    pub fn broken(&self, of: Measures, disks: &[i64]) -> Vec<String> {
        let broken = |pair: &Pair| {
            let mut told = Vec::new();
            let mut look = |measure: &str, value: i64, least: i64, most: i64| {
                if !(least..=most).contains(&value) {
                    told.push(format!("{measure} is {value}, and may be {least} to {most}"));
                }
            };
            let limits = pair.min.all().into_iter().zip(pair.max.all());
            for (((measure, value), (_, least)), (_, most)) in
                of.all().into_iter().zip(limits).map(|(own, (least, most))| ((own, least), most))
            {
                match measure {
                    "disk-size" => {
                        disks.iter().for_each(|size| look("disk-size", *size, least, most));
                    }
                    _ => look(measure, value, least, most),
                }
            }
            told
        };
        self.minmax.iter().map(broken).min_by_key(Vec::len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: &dyn Fn(&mut Policy)) -> String {
        let mut policy = Policy::default();
        change(&mut policy);
        policy.check().unwrap_err().to_string()
    }

    #[test]
    fn a_policy_that_cannot_hold_is_refused() {
        assert_eq!(Policy::default().check(), Ok(()));
        assert!(with(&|p| p.minmax.clear()).contains("has 0 pairs"));
        assert!(with(&|p| p.minmax[0].min.cpu_count = 9).contains("cpu-count: the least, 9"));
        assert!(with(&|p| p.std.memory_size = 64).contains("usual instance has memory-size 64"));
        assert!(with(&|p| p.minmax[0].max.disk_size = -1).contains("-1 is not a number"));
        assert!(with(&|p| p.vcpu_ratio = f64::NAN).contains("vcpu-ratio"));
        assert!(with(&|p| p.disk_templates.push("zfs".to_owned())).contains("`zfs`"));
    }

    #[test]
    fn an_instance_is_within_one_pair() {
        let mut policy = Policy::default();
        let own = Measures { disk_count: 1, ..policy.std };
        assert!(policy.broken(own, &[2_048]).is_empty());
        let told = policy.broken(Measures { memory_size: 65_536, ..own }, &[10]);
        assert_eq!(
            told,
            [
                "memory-size is 65536, and may be 128 to 32768",
                "disk-size is 10, and may be 1024 to 1048576",
            ]
        );
        let mut big = policy.minmax[0];
        (big.min.memory_size, big.max.memory_size) = (65_536, 131_072);
        policy.minmax.push(big);
        assert!(policy.broken(Measures { memory_size: 65_536, ..own }, &[2_048]).is_empty());
    }
}
