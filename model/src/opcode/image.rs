//! Core: opcodes on images.

use serde::{Deserialize, Serialize};

use crate::image::{ImageFiles, ImageId, Parameter};

/// Parameters of `OP_IMAGE_ADD`. The files lie in the spool of the master's machine, each named by its
/// digest, or are blobs already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageAdd {
    /// Name and version.
    pub image: ImageId,
    /// The files that a machine loads.
    pub files: ImageFiles,
    /// Kernel parameters; refused beside a unified kernel image, which holds its own.
    #[serde(default)]
    pub parameters: Vec<Parameter>,
}

/// Parameters of `OP_IMAGE_REMOVE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRemove {
    /// Which image; refused while a machine is to boot it.
    pub image: ImageId,
}

/// Parameters of `OP_KERNEL_SET`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSet {
    /// Machines of which role get them; null means all machines.
    #[serde(default)]
    pub role: Option<String>,
    /// The kernel parameters, in place of those that they had; they stand behind those of the image, and a
    /// role's behind those of all machines.
    #[serde(default)]
    pub parameters: Vec<Parameter>,
}

impl super::common::Summary for ImageId {
    fn text(&self) -> String {
        self.to_string()
    }
}
