//! Core: the number of a job.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

/// Number of a job, from 1; never used twice in the life of a cluster.
///
/// Clients may send it as a number or as decimal text; it is always answered as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct JobId(pub u64);

/// Jobs whose archived files share a directory (Ganeti's `archive/<id // 10000>`).
const JOBS_PER_ARCHIVE_DIRECTORY: u64 = 10_000;

impl JobId {
    /// Number of the archive directory that holds this job.
    pub const fn archive_directory(self) -> u64 {
        self.0 / JOBS_PER_ARCHIVE_DIRECTORY
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Text that is no job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no job id: it must be a whole number from 1")]
pub struct JobIdError(String);

impl FromStr for JobId {
    type Err = JobIdError;

    fn from_str(text: &str) -> Result<Self, JobIdError> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let id = text.parse().ok().filter(|&id| digits && id > 0);
        id.map(Self).ok_or_else(|| JobIdError(text.chars().take(40).collect()))
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a job id: a whole number from 1, or text with one")]
        enum Form<'a> {
            Number(u64),
            #[serde(borrow)]
            Text(std::borrow::Cow<'a, str>),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(0) => Err(serde::de::Error::custom(JobIdError("0".to_owned()))),
            Form::Number(id) => Ok(Self(id)),
            Form::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_as_numbers_and_text() {
        assert_eq!(serde_json::from_str::<JobId>("5").unwrap(), JobId(5));
        assert_eq!(serde_json::from_str::<JobId>("\"5\"").unwrap(), JobId(5));
        for bad in [
            "0",
            "-1",
            "1.5",
            "\"\"",
            "\"+5\"",
            "\"0\"",
            "\" 5\"",
            "null",
            "\"99999999999999999999\"",
        ] {
            assert!(serde_json::from_str::<JobId>(bad).is_err(), "{bad}");
        }
        assert_eq!(serde_json::to_string(&JobId(5)).unwrap(), "5");
        assert_eq!(JobId(9_999).archive_directory(), 0);
        assert_eq!(JobId(10_000).archive_directory(), 1);
    }
}
