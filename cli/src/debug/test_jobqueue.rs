//! `gnt debug test-jobqueue`: jobs that do nothing, and what the queue promises about them.

mod talk;

use luxi::method::{QueryJobs, Submission};
use luxi::{Client, ClientError};
use model::JobId;
use serde_json::{Value, json};

use crate::batch::Batch;
use crate::error::CliError;
use crate::output::say;
use crate::session::Session;
use crate::submit::{Common, Priority, RawJob, RawJobs, opcode};
use talk::Talk;

/// Priorities that a submission may carry.
const ALLOWED: [i32; 3] = [-10, 0, 10];
/// The first and the last priority that a job may have later.
const ENDS: [i32; 2] = [-20, 19];
/// Seconds that jobs which depend on one another take, so that they overlap if they do not wait.
const STEP: f64 = 1.0;

/// The context that every test has.
struct Test<'a> {
    session: &'a Session,
    priority: Option<Priority>,
    client: Client,
}

/// Runs all tests, and stops at the first promise that is not kept.
pub(super) fn run(priority: Option<Priority>, session: &Session) -> Result<(), CliError> {
    let mut test = Test { session, priority, client: session.connect()? };
    test.submissions()?;
    test.dependencies()?;
    for mode in [Mode::Success, Mode::Several, Mode::Failure, Mode::Partly] {
        test.talk(mode)?;
    }
    say("Job queue test successful")
}

/// A promise that was not kept.
fn broken(told: impl Into<String>) -> CliError {
    CliError::Failed(told.into())
}

fn delay(duration: f64) -> Value {
    opcode("OP_TEST_DELAY", json!({"duration": duration}))
}

/// How jobs end that say something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Success,
    Several,
    Failure,
    Partly,
}

impl Mode {
    const fn title(self) -> &'static str {
        match self {
            Self::Success => "Testing job success",
            Self::Several => "Testing multiple successful opcodes",
            Self::Failure => "Testing job failure",
            Self::Partly => "Testing partial job failure",
        }
    }

    /// Whether each opcode is to fail, and how it is to end.
    const fn opcodes(self) -> &'static [(bool, &'static str)] {
        match self {
            Self::Success => &[(false, "success")],
            Self::Several => &[(false, "success"), (false, "success")],
            Self::Failure => &[(true, "error")],
            Self::Partly => {
                &[(false, "success"), (false, "success"), (true, "error"), (false, "error")]
            }
        }
    }
}

impl Test<'_> {
    /// Takes the refusal of what must be refused; everything else is an error.
    fn refused<T>(asked: Result<T, ClientError>, what: &str) -> Result<(), CliError> {
        match asked {
            Ok(_taken) => Err(broken(format!("{what} did not fail when it should"))),
            Err(ClientError::Failure(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn submissions(&mut self) -> Result<(), CliError> {
        say("Testing job submission")?;
        let mut cases: Vec<(usize, usize, i32)> = ENDS.map(|wrong| (0, 0, wrong)).to_vec();
        for priority in ALLOWED.into_iter().chain(ENDS) {
            for wrong in [priority - 1, priority + 1] {
                cases.extend([(0, 0, wrong), (3, 0, wrong), (0, 3, wrong), (4, 2, wrong)]);
            }
        }
        for (before, after, wrong) in cases {
            let mut ops = vec![delay(0.0); before];
            let mut op = delay(0.0);
            op["priority"] = wrong.into();
            ops.push(op);
            ops.extend(vec![delay(0.0); after]);
            let what = format!("Submitting an opcode with priority {wrong}");
            Self::refused(self.client.call(&RawJob::new(ops.clone())), &what)?;
            let mut dry = delay(0.0);
            dry["dry_run"] = true.into();
            let jobs = vec![vec![delay(0.0), dry], ops];
            let what = format!("Submitting many jobs, one with priority {wrong},");
            Self::refused(self.client.call(&RawJobs::new(jobs)), &what)?;
        }
        say("Job submission tests were successful")
    }

    fn dependencies(&mut self) -> Result<(), CliError> {
        say("Testing job dependencies")?;
        let after = |depends: Value| {
            let mut op = delay(STEP);
            op["depends"] = depends;
            vec![op]
        };
        let alone = RawJob::new(after(json!([[-1, null]])));
        Self::refused(
            self.client.call(&alone),
            "Submitting one job that depends on the one before",
        )?;
        let jobs = vec![
            vec![delay(STEP)],
            after(json!([[-1, []]])),
            after(json!([[-2, ["success"]]])),
            after(json!([])),
            after(json!([[-2, ["success"]]])),
        ];
        let submissions = self.client.call(&RawJobs::new(jobs))?;
        let mut ids = Vec::new();
        let mut batch = Batch::default();
        for submission in submissions {
            if let Submission::Accepted(id) = &submission {
                ids.push(*id);
            }
            batch.add(None, submission);
        }
        if batch.wait(self.session, &mut self.client, true)?.failed > 0 {
            return Err(broken("At least one of the submitted jobs failed"));
        }
        self.check_order(&ids)?;
        say("Job dependency tests were successful")
    }

    /// Whether the jobs depended on the right ones, and began behind them.
    fn check_order(&mut self, ids: &[JobId]) -> Result<(), CliError> {
        let fields = ["opexec", "ops"].into();
        let rows = self.client.call(&QueryJobs { job_ids: Some(ids.to_vec()), fields })?;
        let rows: Vec<Value> = rows.into_iter().map(|row| row.unwrap_or_default().into()).collect();
        let get = |job: usize, path: &str| rows.get(job).and_then(|row| row.pointer(path));
        for (job, first) in [(1, 0), (2, 0), (4, 2)] {
            let on = get(job, "/1/0/depends/0/0").and_then(Value::as_u64);
            if on.is_none() || on != ids.get(first).map(|id| id.0) {
                return Err(broken(format!("Job {job}'s opcode doesn't depend on correct job ID")));
            }
            let began = |job: usize| get(job, "/0/0").and_then(crate::moment::micros);
            if began(first).is_none() || began(first) > began(job) {
                return Err(broken(format!("Jobs did not run in correct order: {first}, {job}")));
            }
        }
        Ok(())
    }

    /// Jobs whose opcodes say something and wait for this program to listen.
    fn talk(&mut self, mode: Mode) -> Result<(), CliError> {
        say(mode.title())?;
        let words = ["Testing", "Hello World", "A", "", "B", "Foo|bar|baz", "Z"];
        let op = |fail: bool| {
            let mut op = opcode(
                "OP_TEST_JQUEUE",
                json!({"notify_waitlock": true, "notify_exec": true, "log_messages": words,
                    "fail": fail}),
            );
            Common::new(self.priority, false, self.session).complete(&mut op);
            op
        };
        let ops: Vec<Value> = mode.opcodes().iter().map(|(fail, _)| op(*fail)).collect();
        let fails = mode.opcodes().iter().any(|(fail, _)| *fail);
        let id = self.client.call(&RawJob::new(ops))?;
        let mut talk = Talk::new(id, self.session);
        let outcome = self.client.wait_for_job(id, &mut talk)?;
        let heard = talk.heard().map_err(broken)?;
        let opstatus: Vec<&str> = outcome.opstatus.iter().map(|status| status.as_str()).collect();
        let expected: Vec<&str> = mode.opcodes().iter().map(|(_, ends)| *ends).collect();
        match outcome.into_result() {
            Err(exception) if fails => {
                say(format_args!("Ignoring error for 'job fail' test: {exception}"))?;
            }
            Err(exception) => return Err(CliError::Job { id, exception, said: None }),
            Ok(_results) if fails => return Err(broken("Job didn't fail when it should")),
            Ok(results) if results.len() == expected.len() => {}
            Ok(results) => {
                let (got, wanted) = (results.len(), expected.len());
                return Err(broken(format!("Received {got} results, expected {wanted}")));
            }
        }
        if opstatus != expected {
            let told = format!("Opcode status is {opstatus:?}, expected {expected:?}");
            return Err(broken(told));
        }
        // The opcodes behind the one that fails say nothing.
        let begun = expected.len() - usize::from(mode == Mode::Partly);
        let said: Vec<&str> = std::iter::repeat_n(words, begun).flatten().collect();
        if heard != said {
            let told = "Received test messages don't match input";
            return Err(broken(format!("{told} (input {said:?}, received {heard:?})")));
        }
        Ok(())
    }
}
