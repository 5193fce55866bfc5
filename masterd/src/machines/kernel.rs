//! Opcodes on kernel parameters of all machines, and of roles.

use jobs::locks::Level;
use model::Exception;
use model::error::ErrorCode;
use model::image::PARAMETERS_MAX;
use model::kernel::{KernelParameters, ROLES_MAX};
use model::machine::check;
use model::opcode::KernelSet;

use super::rack;
use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted};

impl LogicalUnit for KernelSet {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        after(self, &context.config())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<KernelParameters, Failure> {
        let role = self.role.clone();
        let set = context
            .transact(move |config| {
                let set = after(&self, config)?;
                Ok((vec![ConfigChange::Kernel(set.clone())], set))
            })
            .await?;
        if let Some(role) = role.filter(|role| !has_machine(&context.config(), role)) {
            context.say(format!("no machine has the role `{role}` yet")).await;
        }
        rack::push_all(context).await?;
        Ok(set)
    }
}

fn has_machine(config: &Config, role: &str) -> bool {
    config.machines.values().any(|machine| machine.role == role)
}

/// The parameters once the opcode is done.
fn after(op: &KernelSet, config: &Config) -> Result<KernelParameters, Exception> {
    let wrong = |text: String| Err(Exception::prereq(text, ErrorCode::WrongInput));
    if let Some(problem) = op.role.as_deref().and_then(check::role) {
        return wrong(problem.to_string());
    }
    let count = op.parameters.len();
    if count > PARAMETERS_MAX {
        return wrong(format!("{count} kernel parameters; at most {PARAMETERS_MAX} are taken"));
    }
    let before = config.kernel.as_deref().cloned().unwrap_or_default();
    let after = before.with(op.role.clone(), op.parameters.clone());
    if after.roles.len() > ROLES_MAX {
        return wrong(format!("{ROLES_MAX} roles have kernel parameters, which is the limit"));
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    fn set(role: Option<&str>, count: usize) -> KernelSet {
        let parameters = vec!["quiet".parse().unwrap(); count];
        KernelSet { role: role.map(str::to_owned), parameters }
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        let mut config = config(&[]);
        for (op, told) in [
            (set(Some("Worker"), 1), "write `worker`"),
            (set(Some("a b"), 1), "role `a b`"),
            (set(None, PARAMETERS_MAX + 1), "65 kernel parameters"),
        ] {
            let error = after(&op, &config).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        for number in 0..ROLES_MAX {
            let kernel = after(&set(Some(&format!("r{number}")), 1), &config).unwrap();
            config.apply([ConfigChange::Kernel(kernel)]);
        }
        assert!(after(&set(Some("r0"), 2), &config).is_ok());
        let error = after(&set(Some("one-more"), 1), &config).unwrap_err().to_string();
        assert!(error.contains("64 roles"), "{error}");
    }
}
