//! Core: one thing that a check finds, and how that is told: the lines of Ganeti's `gnt-cluster verify`.

use model::Exception;
use model::error::ErrorCode;
use model::opcode::verify::Telling;

/// The kind of object that a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// The cluster as a whole.
    Cluster,
    /// One node.
    Node,
    /// One instance.
    Instance,
}

impl Object {
    /// Ganeti's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Node => "node",
            Self::Instance => "instance",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $code:ident = $name:literal, $object:ident;)+ others: $($other:literal)+) => {
        /// The kind of a finding; Ganeti's codes, as far as something here gives them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $($(#[doc = $doc])+ $code,)+ }

        impl Code {
            /// The code for programs.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$code => $name,)+ }
            }

            /// The kind of object that it is about.
            pub const fn object(self) -> Object {
                match self { $(Self::$code => Object::$object,)+ }
            }
        }

        /// Every code of Ganeti: what a client may name.
        const KNOWN: &[&str] = &[$($name,)+ $($other,)+];
    };
}

codes! {
    /// The authority's certificate ends soon, or has.
    ClusterCertificate = "ECLUSTERCERT", Cluster;
    /// A node's certificate ends soon, has ended, or is another one than it should be.
    NodeCertificate = "ECLUSTERCLIENTCERT", Cluster;
    /// Objects of the configuration contradict each other.
    Configuration = "ECLUSTERCFG", Cluster;
    /// A node does not serve what it should.
    Files = "ENODEFILECHECK", Node;
    /// The master's address is not on the master's node.
    Address = "ENODENET", Node;
    /// A node is not reached.
    Reach = "ENODERPC", Node;
    /// A node knows the wrong masters, or obeys another one.
    Setup = "ENODESETUP", Node;
    /// A node's disk is nearly full.
    Storage = "ENODEFILESTORAGEPATHUNUSABLE", Node;
    /// A node's clock is wrong.
    Time = "ENODETIME", Node;
    /// A node runs other software.
    Version = "ENODEVERSION", Node;
    /// An instance that is to run does not.
    InstanceDown = "EINSTANCEDOWN", Instance;
    /// An instance runs on another node than its own.
    InstanceWrongNode = "EINSTANCEWRONGNODE", Instance;
    /// The node of an instance is offline.
    InstanceBadNode = "EINSTANCEBADNODE", Instance;
    /// An instance is not within the limits of its group.
    InstancePolicy = "EINSTANCEPOLICY", Instance;
    /// A disk of an instance is not on its node.
    InstanceMissingDisk = "EINSTANCEMISSINGDISK", Instance;
    /// A node runs an instance that nobody knows.
    NodeOrphanInstance = "ENODEORPHANINSTANCE", Node;
    others:
    "ECLUSTERDANGLINGINST" "ECLUSTERDANGLINGNODES" "ECLUSTERFILECHECK" "EEXTAGS"
    "EGROUPDIFFERENTPVSIZE" "EGROUPMIXEDESFLAG" "EINSTANCEFAULTYDISK" "EINSTANCELAYOUT" "EINSTANCEMISSINGCFGPARAMETER"
    "EINSTANCESPLITGROUPS" "EINSTANCEUNSUITABLENODE"
    "ENODEDRBD" "ENODEDRBDHELPER" "ENODEDRBDVERSION" "ENODEFILESTORAGEPATHS"
    "ENODEGLUSTERSTORAGEPATHUNUSABLE" "ENODEHOOKS" "ENODEHV" "ENODELVM" "ENODEN1"
    "ENODEOOBPATH" "ENODEORPHANLV" "ENODEOS"
    "ENODESHAREDFILESTORAGEPATHUNUSABLE" "ENODESSH" "ENODEUSERSCRIPTS"
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The check fails.
    Error,
    /// Worth a look.
    Warning,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The object's name; empty for the cluster.
    pub item: String,
    /// The fault and its remedy.
    pub text: String,
}

impl Finding {
    pub(crate) fn error(code: Code, item: &str, text: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, item: item.to_owned(), text: text.into() }
    }

    pub(crate) fn warning(code: Code, item: &str, text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, item, text) }
    }

    /// How it counts where some codes only warn.
    fn severity(&self, telling: &Telling) -> Severity {
        let ignored = telling.ignore_errors.iter().any(|code| code == self.code.as_str());
        if ignored { Severity::Warning } else { self.severity }
    }

    /// Its line in the log.
    pub fn line(&self, telling: &Telling) -> String {
        let severity = match self.severity(telling) {
            Severity::Error => "ERROR",
            Severity::Warning => "WARNING",
        };
        let (code, object) = (self.code.as_str(), self.code.object().as_str());
        let (item, text) = (&self.item, &self.text);
        if telling.error_codes {
            format!("  - {severity}:{code}:{object}:{item}:{text}")
        } else {
            format!("  - {severity}: {object} {item}: {text}")
        }
    }
}

/// Whether a check with these findings passes.
pub fn passes(findings: &[Finding], telling: &Telling) -> bool {
    findings.iter().all(|finding| finding.severity(telling) == Severity::Warning)
}

/// Checks what a client says of how it wants to be told.
///
/// # Errors
/// A code that does not exist.
pub fn accept(telling: &Telling) -> Result<(), Exception> {
    match telling.ignore_errors.iter().find(|code| !KNOWN.contains(&code.as_str())) {
        None => Ok(()),
        Some(code) => Err(Exception::prereq(
            format!("`{code}` is no code of this check; they are {}", KNOWN.join(", ")),
            ErrorCode::WrongInput,
        )),
    }
}

/// Every finding that a check could have, where errors are to be simulated.
pub(crate) fn simulated(codes: &[Code], item: &str) -> Vec<Finding> {
    codes.iter().map(|&code| Finding::error(code, item, "simulated error")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_ganetis() {
        let finding = Finding::error(Code::Reach, "n2", "not reached");
        let mut telling = Telling::default();
        assert_eq!(finding.line(&telling), "  - ERROR: node n2: not reached");
        assert!(!passes(std::slice::from_ref(&finding), &telling));
        telling.error_codes = true;
        assert_eq!(finding.line(&telling), "  - ERROR:ENODERPC:node:n2:not reached");
        telling.ignore_errors = vec!["ENODERPC".to_owned()];
        assert_eq!(finding.line(&telling), "  - WARNING:ENODERPC:node:n2:not reached");
        assert!(passes(&[finding], &telling));
    }

    #[test]
    fn codes_are_known_or_refused() {
        let telling =
            |code: &str| Telling { ignore_errors: vec![code.to_owned()], ..Telling::default() };
        assert!(accept(&telling("ENODESSH")).is_ok() && accept(&telling("ENODERPC")).is_ok());
        let told = accept(&telling("ENONSENSE")).unwrap_err().to_string();
        assert!(told.contains("`ENONSENSE`") && told.contains("ENODERPC"), "{told}");
    }
}
