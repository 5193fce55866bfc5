//! Opcodes that exercise the queue.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jobs::locks::{Level, LockName, Mode};
use model::error::ErrorCode;
use model::job::LogType;
use model::node::Node;
use model::opcode::{TestDelay, TestJqueue};
use model::{Code, Coded as _, Exception};
use rpc::calls;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;
use tokio::time::{Instant, timeout, timeout_at};

use crate::agents::Agents;
use crate::config::Config;
use crate::units::{Context, Failure, LogicalUnit, Wanted};

/// How long a client may take to connect to a test's socket (Ganeti's).
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// How long it may then take to let the test go on (Ganeti's).
const CONFIRM_WITHIN: Duration = Duration::from_secs(60);

/// Bytes that are read from a client before it counts as done; it should send none.
const CONFIRM_BYTES_MAX: u64 = 1_024;

pub(crate) struct DelayPlan {
    duration: Duration,
    nodes: Vec<model::NodeName>,
}

impl LogicalUnit for TestDelay {
    type Plan = DelayPlan;

    fn big_lock(&self) -> Option<Mode> {
        (!self.no_locks).then_some(Mode::Shared)
    }

    fn locks(&self, level: Level, config: &Config) -> Result<Wanted, Exception> {
        if self.no_locks || level != Level::Node {
            return Ok(Vec::new());
        }
        let mut names = self.nodes(config)?;
        if self.on_master {
            names.push(config.role.master.clone());
        }
        names.sort();
        names.dedup();
        Ok(names.iter().map(|name| (lock(name), Mode::Exclusive)).collect())
    }

    fn enough(&self, _level: Level) -> Option<usize> {
        self.opportunistic_locking.then_some(1)
    }

    async fn check(&self, context: &mut Context) -> Result<DelayPlan, Failure> {
        let mut nodes = self.nodes(&context.config())?;
        if self.opportunistic_locking && !self.no_locks {
            nodes.retain(|name| context.holds(&lock(name)));
            let had: Vec<&str> = nodes.iter().map(model::NodeName::as_str).collect();
            context.say(format!("Locks that were free: {}", had.join(", "))).await;
        }
        Ok(DelayPlan { duration: Duration::from_secs_f64(self.duration), nodes })
    }

    async fn exec(self, plan: DelayPlan, context: &mut Context) -> Result<(), Failure> {
        if self.repeat == 0 {
            sleep(&self, &plan, context).await?;
            return Ok(());
        }
        let last = self.repeat - 1;
        for turn in 0..self.repeat {
            context.say(format!(" - INFO: Test delay iteration {turn}/{last}")).await;
            if sleep(&self, &plan, context).await? == Slept::Interrupted {
                break;
            }
        }
        Ok(())
    }
}

fn lock(node: &model::NodeName) -> LockName {
    LockName::member(Level::Node, node.as_str())
}

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slept {
    /// When its time was over.
    Through,
    /// When a client wished.
    Interrupted,
}

/// Sleeps once, everywhere at the same time. A sleep that may be interrupted is on the master alone
/// (Ganeti's).
async fn sleep(op: &TestDelay, plan: &DelayPlan, context: &mut Context) -> Result<Slept, Failure> {
    if op.interruptible {
        return sleep_unless_interrupted(plan.duration, context).await;
    }
    let agents = match plan.nodes.is_empty() {
        true => None,
        false => Some(context.agents().await?.clone()),
    };
    let here = op.on_master || agents.is_none();
    let here = async {
        if here {
            sleep_here(plan.duration).await;
        }
    };
    let there = async {
        match agents {
            Some(agents) => sleep_on_nodes(plan, agents, context).await,
            None => Ok(()),
        }
    };
    let everywhere = async { tokio::join!(here, there).1 };
    everywhere.await?;
    Ok(Slept::Through)
}

async fn sleep_here(duration: Duration) {
    // A timer wakes a millisecond later at least.
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

trait OnNodes {
    fn nodes(&self, config: &Config) -> Result<Vec<model::NodeName>, Exception>;
}

impl OnNodes for TestDelay {
    fn nodes(&self, config: &Config) -> Result<Vec<model::NodeName>, Exception> {
        let named = |node: &Arc<Node>| node.name.clone();
        if !self.on_nodes.is_empty() {
            return self.on_nodes.iter().map(|name| config.node(name).map(named)).collect();
        }
        let uuids = self.on_node_uuids.iter().flatten();
        let node = |uuid: &String| {
            let found = config.nodes.values().find(|node| node.uuid == *uuid).map(named);
            let unknown = || format!("Node with UUID {uuid} is not known");
            found.ok_or_else(|| Exception::prereq(unknown(), ErrorCode::UnknownEntity))
        };
        uuids.map(node).collect()
    }
}

/// Sleeps until the time is over, or until a client that has connected to the socket which the log
/// names sends something or leaves.
async fn sleep_unless_interrupted(duration: Duration, context: &Context) -> Result<Slept, Failure> {
    let socket = TestSocket::bind(context)?;
    context.show(LogType::DelayTest, json!([socket.path])).await?;
    let begun = Instant::now();
    let due = begun + duration;
    let interrupted = async {
        let (mut client, _) = timeout_at(due, socket.listener.accept()).await.ok()?.ok()?;
        let left = due.saturating_duration_since(Instant::now()).as_secs();
        context.say(format!("Received connection, time to go is {left}")).await;
        let mut byte = [0];
        let _sent_or_gone = timeout_at(due, client.read(&mut byte)).await.ok()?;
        Some(())
    };
    if interrupted.await.is_none() {
        return Ok(Slept::Through);
    }
    let seconds = begun.elapsed().as_secs();
    context.say(format!("Interrupted, time spent waiting: {seconds}")).await;
    Ok(Slept::Interrupted)
}

async fn sleep_on_nodes(
    plan: &DelayPlan,
    agents: Agents,
    context: &Context,
) -> Result<(), Exception> {
    let config = context.config();
    let behalf = context.behalf();
    let mut sleeping = tokio::task::JoinSet::new();
    for name in &plan.nodes {
        let node = config.node(name.as_str())?.clone();
        let (agents, seconds) = (agents.clone(), plan.duration.as_secs_f64());
        sleeping.spawn(async move {
            let called = agents.call(&node, calls::TestDelay { seconds }, behalf).await;
            called.map_err(|error| {
                let why = stdx::daemon::chain(&error);
                (error.code(), format!("Failure during rpc call to node {}: {why}", node.name))
            })
        });
    }
    let mut failed = Vec::new();
    while let Some(call) = sleeping.join_next().await {
        match call {
            Ok(called) => failed.extend(called.err()),
            Err(error) => failed.push((Some(Code::Fault), stdx::daemon::chain(&error))),
        }
    }
    let code = failed.iter().find_map(|(code, _)| *code);
    let texts: Vec<String> = failed.into_iter().map(|(_, text)| text).collect();
    match texts.is_empty() {
        true => Ok(()),
        false => Err(Exception::exec(texts.join("; ")).coded(code)),
    }
}

impl LogicalUnit for TestJqueue {
    type Plan = ();

    async fn expand(&self, context: &mut Context) -> Result<(), Failure> {
        if self.notify_waitlock {
            notify(context, "expandnames", Value::Null).await?;
        }
        Ok(())
    }

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, _context: &mut Context) -> Result<(), Failure> {
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<bool, Failure> {
        if self.notify_exec {
            notify(context, "exec", Value::Null).await?;
        }
        context.say("Executing").await;
        if !self.log_messages.is_empty() {
            notify(context, "startmsg", Value::from(self.log_messages.len())).await?;
        }
        for (index, message) in self.log_messages.iter().enumerate() {
            context.say(format!("Sending log message {}", index + 1)).await;
            context.say(format!("TESTMSG={message}")).await;
            notify(context, "logmsg", Value::from(index + 1)).await?;
        }
        if self.fail {
            return Err(Exception::exec("Opcode failure was requested").into());
        }
        Ok(true)
    }
}

/// Tells the client where the test stands, and waits until it lets the test go on by connecting to
/// the socket that is named and closing the connection.
async fn notify(context: &Context, test: &str, argument: Value) -> Result<(), Failure> {
    let socket = TestSocket::bind(context)?;
    context.show(LogType::JqueueTest, json!([socket.path, test, argument])).await?;
    let late = |what: &str| Exception::exec(format!("the test's client did not {what} in time"));
    let confirmed = async {
        let accepted = timeout(CONNECT_WITHIN, socket.listener.accept()).await;
        let accepted = accepted.map_err(|_elapsed| late("connect"))?;
        let (client, _) = accepted.map_err(|error| Exception::exec(error.to_string()))?;
        let mut client = client.take(CONFIRM_BYTES_MAX);
        let mut ignored = Vec::new();
        let closed = timeout(CONFIRM_WITHIN, client.read_to_end(&mut ignored)).await;
        closed
            .map_err(|_elapsed| late("confirm"))?
            .map_err(|error| Exception::exec(format!("the test's client was lost: {error}")))?;
        Ok::<(), Exception>(())
    };
    Ok(confirmed.await?)
}

/// A socket that exists as long as a test needs it.
#[derive(Debug)]
struct TestSocket {
    path: PathBuf,
    listener: UnixListener,
}

impl TestSocket {
    fn bind(context: &Context) -> Result<Self, Exception> {
        let name = format!("test-{}-{}-{}.sock", context.job(), context.op(), uuid::Uuid::new_v4());
        let path = context.layout().run().join(name);
        let listener = UnixListener::bind(&path).map_err(|error| {
            Exception::exec(format!("cannot listen on `{}`: {error}", path.display()))
        })?;
        Ok(Self { path, listener })
    }
}

impl Drop for TestSocket {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a test's socket");
        }
    }
}

#[cfg(test)]
mod tests {
    use model::node::NodeRole;
    use model::opcode::{OpCode, Reach};

    use super::*;
    use crate::testing::{config, node};

    #[test]
    fn nodes_are_found_by_name_or_else_by_uuid() {
        let config = config(&[node("n7", NodeRole::Regular)]);
        let uuid = &config.node("n7").unwrap().uuid;
        let op = |names: &[&str], uuids: &[&str]| TestDelay {
            on_nodes: names.iter().map(|&name| name.to_owned()).collect(),
            on_node_uuids: Some(uuids.iter().map(|&uuid| uuid.to_owned()).collect()),
            ..TestDelay::on_master(0.0)
        };
        let names = |op: TestDelay| {
            let found = op.nodes(&config).map_err(|error| error.to_string())?;
            Ok::<_, String>(found.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(names(op(&[], &[uuid])), Ok(vec!["n7".to_owned()]));
        assert_eq!(names(op(&["n7"], &["nothing"])), Ok(vec!["n7".to_owned()]));
        assert!(names(op(&[], &["nothing"])).unwrap_err().contains("UUID nothing"));
        assert_eq!(names(op(&[], &[])), Ok(Vec::new()));
        let reach = |op| OpCode::TestDelay(op).reach();
        assert_eq!(reach(op(&[], &[])), Reach::Master);
        assert_eq!(reach(op(&[], &[uuid])), Reach::Agents);
    }
}
