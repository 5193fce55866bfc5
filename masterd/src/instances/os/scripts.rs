//! Definitions of operating systems on nodes, whose scripts their agents run.

use model::Exception;
use model::error::ErrorCode;
use model::instance::Instance;
use model::instance::os::{OS_API_PARAMETERS, OsDefinition, OsScript, os_parts};
use rpc::calls::OsRun;

use super::super::agent::{self, NotDone};
use super::super::launch;
use super::environment::environment;
use crate::units::{Context, Failure, wrong};

/// Looks whether the node of an instance has its definition, which takes its variant, hypervisor and
/// parameters.
///
/// # Errors
/// It has not, or it does not.
pub(super) async fn suits(
    context: &mut Context,
    instance: &Instance,
    force_variant: bool,
) -> Result<(), Failure> {
    let node = &instance.primary_node;
    let (name, _) = os_parts(&instance.os);
    let facts = context.contacts().facts();
    let systems = facts.get(node).map(|facts| &facts.systems[..]).unwrap_or_default();
    let Some(found) = systems.iter().find(|one| one.name == name) else {
        let text = format!("OS '{}' not in supported OS list for node {node}", instance.os);
        return Err(Exception::prereq(text, ErrorCode::WrongInput).into());
    };
    let parameters = context.config().settings_of(instance).system_of(instance);
    takes(found, instance, force_variant, parameters.keys().map(String::as_str))?;
    if found.version() >= Some(OS_API_PARAMETERS) {
        // Its disks are not there yet.
        let verified = call(context, instance, OsScript::Verify, None, false).await?;
        verified.map_err(|not| {
            let text = format!("OS parameters validation failed on node {node}: {}", not.why);
            Exception::prereq(text, ErrorCode::WrongInput)
        })?;
    }
    Ok(())
}

/// The rules of a definition, in Ganeti's words.
fn takes<'p>(
    found: &OsDefinition,
    instance: &Instance,
    force_variant: bool,
    parameters: impl Iterator<Item = &'p str>,
) -> Result<(), Exception> {
    let (os, hypervisor) = (&instance.os, &instance.hypervisor);
    if let Some(fault) = &found.fault {
        let text = format!("OS '{os}' is invalid on node {}: {fault}", instance.primary_node);
        return Err(wrong(text));
    }
    match os_parts(os).1 {
        None if !found.variants.is_empty() => {
            let known = found.variants.join(", ");
            return Err(wrong(format!("OS name must include a variant: one of {known}")));
        }
        Some(variant) if found.variants.is_empty() => {
            return Err(wrong(format!(
                "OS '{}' doesn't support variants ('{variant}' passed)",
                found.name
            )));
        }
        Some(variant) if !force_variant && !found.variants.iter().any(|one| one == variant) => {
            let known = found.variants.join(", ");
            return Err(wrong(format!("Unsupported OS variant '{variant}'; it has {known}")));
        }
        Some(_) | None => {}
    }
    if !found.hypervisors.is_empty() && !found.hypervisors.contains(hypervisor) {
        let known = found.hypervisors.join(", ");
        return Err(wrong(format!(
            "OS '{os}' is not for hypervisor {hypervisor}, but for {known}"
        )));
    }
    let is_known = |name: &&str| found.parameters.iter().any(|(known, _)| known == name);
    let unknown: Vec<&str> = parameters.filter(|name| !is_known(name)).collect();
    if !unknown.is_empty() {
        let text = format!(
            "The following parameters are not supported by the OS {}: {}",
            found.name,
            unknown.join(", ")
        );
        return Err(wrong(text));
    }
    Ok(())
}

/// Runs a script on the disks of an instance, which are there; `more` is told to this script alone.
pub(super) async fn run(
    context: &mut Context,
    instance: &Instance,
    script: OsScript,
    more: Option<(&str, String)>,
) -> Result<Result<(), NotDone>, Failure> {
    call(context, instance, script, more, true).await
}

async fn call(
    context: &mut Context,
    instance: &Instance,
    script: OsScript,
    more: Option<(&str, String)>,
    has_disks: bool,
) -> Result<Result<(), NotDone>, Failure> {
    let config = context.config();
    let disks = if has_disks { launch::disks(&config, instance) } else { Vec::new() };
    let mut environment = environment(&config, instance);
    environment.extend(more.map(|(name, value)| (name.to_owned(), value)));
    let (os, name) = (instance.os.clone(), instance.name.clone());
    let run = OsRun { script, os, instance: name, disks, environment };
    agent::call(context, &instance.primary_node, run).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::instance;

    #[test]
    fn a_definition_has_rules() {
        let texts = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let found = OsDefinition {
            name: "debian".to_owned(),
            path: "/os/debian".to_owned(),
            fault: None,
            api_versions: vec![20],
            variants: texts(&["small", "large"]),
            parameters: vec![("mirror".to_owned(), String::new())],
            hypervisors: texts(&["kvm", "fake"]),
            scripts: vec![OsScript::Create, OsScript::Verify],
        };
        let with = |found: &OsDefinition, os: &str, hypervisor: &str, force, parameter: &str| {
            let mut one = instance("web1", "n1.example");
            (one.os, one.hypervisor) = (os.to_owned(), hypervisor.to_owned());
            takes(found, &one, force, [parameter].into_iter())
                .map_err(|error| error.message().to_owned())
        };
        assert_eq!(with(&found, "debian+small", "kvm", false, "mirror"), Ok(()));
        assert_eq!(with(&found, "debian+other", "kvm", true, "mirror"), Ok(()));
        for (os, hypervisor, parameter, why) in [
            ("debian", "kvm", "mirror", "must include a variant"),
            ("debian+other", "kvm", "mirror", "Unsupported OS variant 'other'"),
            ("debian+small", "xen-pvm", "mirror", "not for hypervisor xen-pvm"),
            ("debian+small", "kvm", "miror", "not supported by the OS debian: miror"),
        ] {
            let told = with(&found, os, hypervisor, false, parameter).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        let plain = OsDefinition { variants: Vec::new(), ..found.clone() };
        assert!(with(&plain, "debian+small", "kvm", false, "mirror").is_err());
        let broken = OsDefinition { fault: Some("no create".to_owned()), ..found };
        assert!(with(&broken, "debian+small", "kvm", false, "mirror").is_err());
    }
}
