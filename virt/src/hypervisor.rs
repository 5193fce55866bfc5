//! Core: the hypervisors of a node, and what each takes.

use std::path::PathBuf;

use model::instance::parameters::{ParameterError, Parameters, hypervisor, read};

use crate::VirtError;
use crate::kvm::plan::PlanError;

/// Looks whether a hypervisor is here, and takes these parameters. Firmware is described in `firmware`.
///
/// # Errors
/// It is not here; or the reason why it takes them not.
pub(crate) fn check(
    name: &str,
    parameters: &Parameters,
    firmware: &[PathBuf],
) -> Result<(), CheckError> {
    is_here(name)?;
    let table = hypervisor(name).ok_or_else(|| VirtError::Hypervisor(name.to_owned()))?;
    let told = parameters.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    read(table, &told, true)?;
    if name == "kvm" {
        crate::kvm::check(parameters, firmware)?;
    }
    Ok(())
}

/// # Errors
/// It is not.
pub(crate) fn is_here(name: &str) -> Result<(), VirtError> {
    match name {
        "fake" | "kvm" => Ok(()),
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
