//! Core: the hypervisors of a node, and what each takes.

use std::path::{Path, PathBuf};

use model::instance::parameters::{ParameterError, Parameters, hypervisor, read};

use crate::VirtError;
use crate::kvm::plan::PlanError;
use crate::xen::is_xen;

/// Looks whether a hypervisor is here, and takes these parameters. Firmware is described in `firmware`, and
/// Xen's program is `xl`.
///
/// # Errors
/// It is not here; or the reason why it takes them not.
pub(crate) fn check(
    name: &str,
    parameters: &Parameters,
    firmware: &[PathBuf],
    xl: &Path,
) -> Result<(), CheckError> {
    is_here(name, xl)?;
    let table = hypervisor(name).ok_or_else(|| VirtError::Hypervisor(name.to_owned()))?;
    let told = parameters.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    read(table, &told, true)?;
    if name == "kvm" {
        crate::kvm::check(parameters, firmware)?;
    }
    if is_xen(name) {
        crate::xen::check(name, parameters)?;
    }
    Ok(())
}

/// # Errors
/// It is not.
pub(crate) fn is_here(name: &str, xl: &Path) -> Result<(), VirtError> {
    match name {
        "fake" | "kvm" => Ok(()),
        xen if is_xen(xen) && xl.is_file() => Ok(()),
        xen if is_xen(xen) => {
            Err(VirtError::NoXl { hypervisor: xen.to_owned(), xl: xl.to_owned() })
        }
        other => Err(VirtError::Hypervisor(other.to_owned())),
    }
}

/// Why parameters are not taken.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The hypervisor is not here.
    #[error(transparent)]
    Hypervisor(#[from] VirtError),
    /// A parameter does not read.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// No guest starts with it here.
    #[error(transparent)]
    Start(#[from] PlanError),
}
