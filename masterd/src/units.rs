//! Logical units: what each opcode does (Ganeti's 2.0 design: ExpandNames, locks by level, CheckPrereq,
//! Exec). The result of `check` is a value that `exec` consumes.

pub mod context;
pub mod list;
mod resources;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jobs::locks::{Level, LockName, Mode};
use model::Exception;
use model::error::ErrorCode;
use model::opcode::{OpCode, Verb};
use serde_json::Value;
use tokio::time::timeout;

use crate::config::Config;

pub use context::Context;
pub use resources::Resources;

/// How long an opcode may hold its locks: nothing that it does may take longer than what waits for
/// those locks has patience ([`context`]). An operator who knows earlier kills its job.
const OP_DEADLINE: Duration = Duration::from_secs(24 * 3_600);

/// Locks that an opcode wants at one level.
pub type Wanted = Vec<(LockName, Mode)>;

/// Why an opcode did not end well.
#[derive(Debug)]
pub enum Failure {
    /// It failed.
    Exception(Exception),
    /// It was asked to end, and did before it had changed anything, or between two of its steps.
    Canceled,
    /// The leadership ended before it had begun to run: it does so under the next master.
    Withdrawn,
}

impl From<Exception> for Failure {
    fn from(failure: Exception) -> Self {
        Self::Exception(failure)
    }
}

/// The work of an opcode.
pub(crate) trait LogicalUnit: Verb + Sized {
    /// The facts that `check` established, for `exec`.
    type Plan: Send;

    /// Whether it works through a list, and is canceled between two steps, whatever it changed. It looks
    /// for that itself, and logs what is done and what is not. Other units are canceled wherever they
    /// wait, as long as they have changed nothing.
    const BY_STEPS: bool = false;

    /// How it takes the big lock; a unit that needs the whole cluster still takes it exclusively.
    fn big_lock(&self) -> Option<Mode> {
        Some(Mode::Shared)
    }

    /// Prepares for the locks; nothing is held. Most units have nothing to do here.
    fn expand(&self, _context: &mut Context) -> impl Future<Output = Result<(), Failure>> + Send {
        async { Ok(()) }
    }

    /// The locks of one level, from the parameters and the configuration; those of lower levels
    /// are held.
    ///
    /// # Errors
    /// A parameter names what is not there.
    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception>;

    /// How many locks of a level are enough, where those that are free now will do (opportunistic
    /// locking). None where all of them are needed, as by most units.
    fn enough(&self, _level: Level) -> Option<usize> {
        None
    }

    /// Checks what must hold, changing nothing; the locks are held.
    fn check(
        &self,
        context: &mut Context,
    ) -> impl Future<Output = Result<Self::Plan, Failure>> + Send;

    /// Carries out the plan; the locks are held.
    fn exec(
        self,
        plan: Self::Plan,
        context: &mut Context,
    ) -> impl Future<Output = Result<Self::Output, Failure>> + Send;
}

/// Runs one opcode to its end.
///
/// # Errors
/// Its failure, or that it was canceled.
pub(crate) async fn run(op: OpCode, context: &mut Context) -> Result<Value, Failure> {
    // An earlier version may have queued it.
    op.check_ranges()
        .map_err(|wrong| Exception::prereq(wrong.to_string(), ErrorCode::WrongInput))?;
    model::with_parameters!(op, unit => boxed(unit, context).await)
}

/// Each unit's future has a place of its own: the largest would else be moved about for all.
fn boxed<U: LogicalUnit + Sync + 'static>(
    unit: U,
    context: &mut Context,
) -> Pin<Box<impl Future<Output = Result<Value, Failure>> + Send>> {
    Box::pin(run_one(unit, context))
}

async fn run_one<U: LogicalUnit + Sync>(unit: U, context: &mut Context) -> Result<Value, Failure> {
    let (ended, cancel) = (context.ended(), context.cancel().clone());
    tokio::select! {
        biased;
        locked = lock(&unit, context) => locked?,
        () = cancel.cancelled() => return Err(Failure::Canceled),
        () = ended => return Err(Failure::Withdrawn),
    }
    context.granted().await?;
    let canceled = async {
        if U::BY_STEPS {
            std::future::pending::<()>().await;
        }
        cancel.cancelled().await;
    };
    let done = tokio::select! {
        biased;
        done = timeout(OP_DEADLINE, check_and_exec(unit, context)) => done,
        () = canceled => Ok(Err(Failure::Canceled)),
    };
    let output = match done {
        Ok(Err(Failure::Canceled)) if !U::BY_STEPS => {
            context.say(context.told_of_cancel()).await;
            return Err(Failure::Canceled);
        }
        Ok(done) => done?,
        Err(_elapsed) => return Err(overdue(U::ID, context.has_called()).into()),
    };
    let Some(output) = output else { return Ok(Value::Null) };
    let output = serde_json::to_value(output).map_err(|error| {
        Exception::exec(format!("the result of {} cannot be written: {error}", U::ID))
    })?;
    Ok(output)
}

/// Waits until the unit has its locks, and may run.
async fn lock<U: LogicalUnit + Sync>(unit: &U, context: &mut Context) -> Result<(), Failure> {
    unit.expand(context).await?;
    if let Some(mode) = unit.big_lock() {
        context.acquire(vec![(LockName::big(), mode)]).await?;
    }
    for level in Level::ALL {
        let wanted = unit.locks(level, &context.config())?;
        match unit.enough(level) {
            _ if wanted.is_empty() => {}
            Some(count) => context.acquire_some(wanted, count).await?,
            None => context.acquire(wanted).await?,
        }
    }
    context.pass_gate().await;
    Ok(())
}

/// Runs the unit under its locks; none if it was only to check.
async fn check_and_exec<U: LogicalUnit + Sync>(
    unit: U,
    context: &mut Context,
) -> Result<Option<U::Output>, Failure> {
    if U::BY_STEPS {
        context.go_by_steps();
    }
    context.check_unchanged()?;
    context.check_tenant()?;
    let plan = unit.check(context).await?;
    if context.dry_run() {
        return Ok(None);
    }
    unit.exec(plan, context).await.map(Some)
}

/// The failure of a request that makes no sense.
pub(crate) fn wrong(text: impl Into<String>) -> Exception {
    Exception::prereq(text, ErrorCode::WrongInput)
}

fn overdue(id: &str, has_called: bool) -> Exception {
    let hours = OP_DEADLINE.as_secs() / 3_600;
    let agents = if has_called { "; what it had asked of agents may still be done" } else { "" };
    Exception::exec(format!("{id} did not end within {hours} hours and was given up{agents}"))
}
