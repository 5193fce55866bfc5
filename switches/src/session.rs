//! One session for each switch: a task that does one thing at a time, and makes one batch of all changes
//! that came meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::Word;
use model::switch::change::digest;
use model::switch::{Actuals, PORTS_MAX, PortChange, PortOutcome, SwitchTarget, SwitchUrl};
use parking_lot::Mutex;
use stdx::Tasks;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::SwitchError;
use crate::command::Command;
use crate::ovsdb::Ovsdb;
use crate::provider::Provider;

/// Questions that may wait for one switch: as many jobs change its ports at the same time.
const ASKS_MAX: usize = 256;
/// Sessions of one agent; the least used one ends for a further one.
const SESSIONS_MAX: usize = 512;
/// After so long without a question a session ends.
const UNUSED: Duration = Duration::from_secs(600);
/// Before a lost connection is made again; each further try waits twice as long.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest wait between two tries.
const AGAIN_MAX: Duration = Duration::from_secs(30);
/// How long a watcher waits at most for something to change.
pub const WATCH_MAX: Duration = Duration::from_secs(25);

/// A question to a session.
enum Ask {
    Ports(oneshot::Sender<Result<Arc<Actuals>, SwitchError>>),
    Apply(Vec<PortChange>, Answer),
}

type Answer = oneshot::Sender<Result<Vec<PortOutcome>, SwitchError>>;
/// The last look at a switch; none before the first.
type Seen = Option<Result<Arc<Actuals>, SwitchError>>;

/// All switches that one agent talks to.
#[derive(Debug)]
pub struct Switches {
    tasks: Tasks,
    /// The directory of programs for the provider `command`.
    programs: PathBuf,
    sessions: Mutex<HashMap<Word, Session>>,
}

#[derive(Debug)]
struct Session {
    target: SwitchTarget,
    used: Instant,
    asks: mpsc::Sender<Ask>,
    seen: watch::Receiver<Seen>,
}

impl Switches {
    /// None yet; sessions run in `tasks`, and programs lie in `programs`.
    pub fn new(tasks: Tasks, programs: PathBuf) -> Self {
        Self { tasks, programs, sessions: Mutex::default() }
    }

    /// All ports of a switch, as they are.
    ///
    /// # Errors
    /// The switch does not tell.
    pub async fn ports(&self, target: SwitchTarget) -> Result<Arc<Actuals>, SwitchError> {
        let (reply, answer) = oneshot::channel();
        self.ask(target, Ask::Ports(reply))?;
        answer.await.unwrap_or(Err(SwitchError::Ends))
    }

    /// Makes changes to ports of a switch; an outcome for each, in their order.
    ///
    /// # Errors
    /// The switch does not answer: the changes may or may not be made.
    pub async fn apply(
        &self,
        target: SwitchTarget,
        changes: Vec<PortChange>,
    ) -> Result<Vec<PortOutcome>, SwitchError> {
        let (reply, answer) = oneshot::channel();
        self.ask(target, Ask::Apply(changes, reply))?;
        answer.await.unwrap_or(Err(SwitchError::Ends))
    }

    /// All ports of a switch, once they are not those with the digest `known`, or after `wait`.
    ///
    /// # Errors
    /// The switch is not reached.
    pub async fn watch(
        &self,
        target: SwitchTarget,
        known: Option<&str>,
        wait: Duration,
    ) -> Result<Arc<Actuals>, SwitchError> {
        let name = target.name.to_string();
        let mut seen = self.with_session(target, |session| session.seen.clone());
        let is_news = |seen: &Seen| match (seen, known) {
            (None, _) => false,
            (Some(Ok(ports)), Some(known)) => digest(ports) != known,
            (Some(_), _) => true,
        };
        let news = timeout(wait.min(WATCH_MAX), seen.wait_for(is_news)).await;
        let news = news.map(|seen| seen.map(|seen| seen.clone()));
        let unread = || SwitchError::Unread(name);
        match news {
            Ok(Ok(seen)) => seen.unwrap_or(Err(SwitchError::Ends)),
            Ok(Err(_ended)) => Err(SwitchError::Ends),
            Err(_elapsed) => seen.borrow().clone().unwrap_or_else(|| Err(unread())),
        }
    }

    fn ask(&self, target: SwitchTarget, ask: Ask) -> Result<(), SwitchError> {
        let name = target.name.to_string();
        let sent = self.with_session(target, |session| session.asks.try_send(ask));
        sent.map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => {
                SwitchError::Busy { switch: name, waiting: ASKS_MAX }
            }
            mpsc::error::TrySendError::Closed(_) => SwitchError::Ends,
        })
    }

    fn with_session<T>(&self, target: SwitchTarget, with: impl FnOnce(&Session) -> T) -> T {
        let now = Instant::now();
        let mut sessions = self.sessions.lock();
        // Without its sender a session ends.
        sessions.retain(|name, session| {
            *name == target.name || now.duration_since(session.used) < UNUSED
        });
        let is_here = sessions
            .get(&target.name)
            .is_some_and(|session| session.target == target && !session.asks.is_closed());
        if !is_here {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            if let Some((oldest, _)) = oldest.filter(|_| sessions.len() >= SESSIONS_MAX) {
                let oldest = oldest.clone();
                sessions.remove(&oldest);
            }
            sessions.insert(target.name.clone(), self.begin(target.clone(), now));
        }
        let session = sessions.get_mut(&target.name).expect("it was put there");
        session.used = now;
        with(session)
    }

    fn begin(&self, target: SwitchTarget, now: Instant) -> Session {
        let (asks, taken) = mpsc::channel(ASKS_MAX);
        let (told, seen) = watch::channel(None);
        match &target.url {
            SwitchUrl::Ovsdb { at, bridge } => {
                let provider = Ovsdb::new(at.clone(), bridge.clone(), &target);
                self.tasks.spawn("switch", run(provider, taken, told));
            }
            SwitchUrl::Command { program } => {
                let provider = Command::new(self.programs.join(program.as_str()), &target);
                self.tasks.spawn("switch", run(provider, taken, told));
            }
        }
        Session { target, used: now, asks, seen }
    }
}

/// Serves questions until nobody can ask any more.
async fn run<P: Provider>(
    mut provider: P,
    mut asks: mpsc::Receiver<Ask>,
    seen: watch::Sender<Seen>,
) {
    let mut waiting = VecDeque::new();
    let mut told = Told::new();
    let mut pause = AGAIN;
    loop {
        match open(&mut provider).await {
            Err(error) => {
                seen.send_replace(Some(Err(error.clone())));
                while let Ok(ask) = asks.try_recv() {
                    waiting.push_back(ask);
                }
                waiting.drain(..).for_each(|ask| refuse(ask, &error));
                let until = Instant::now() + pause;
                pause = (2 * pause).min(AGAIN_MAX);
                tokio::select! {
                    // A question does not wait for the whole pause: the switch may be back.
                    ask = asks.recv() => match ask {
                        Some(ask) => {
                            waiting.push_back(ask);
                            sleep(AGAIN.min(until.saturating_duration_since(Instant::now()))).await;
                        }
                        None => return,
                    },
                    () = tokio::time::sleep_until(until) => {}
                }
                continue;
            }
            Ok(ports) => {
                pause = AGAIN;
                seen.send_replace(Some(Ok(Arc::new(ports))));
            }
        }
        if serve(&mut provider, &mut asks, &seen, &mut waiting, &mut told).await.is_break() {
            return;
        }
    }
}

async fn open(provider: &mut impl Provider) -> Result<Actuals, SwitchError> {
    provider.connect().await?;
    provider.ports().await
}

/// Serves questions as long as the connection lasts.
async fn serve(
    provider: &mut impl Provider,
    asks: &mut mpsc::Receiver<Ask>,
    seen: &watch::Sender<Seen>,
    waiting: &mut VecDeque<Ask>,
    told: &mut Told,
) -> std::ops::ControlFlow<()> {
    use std::ops::ControlFlow::{Break, Continue};
    loop {
        if waiting.is_empty() {
            tokio::select! {
                ask = asks.recv() => match ask {
                    Some(ask) => waiting.push_back(ask),
                    None => return Break(()),
                },
                changed = provider.changed() => {
                    let ports = match changed {
                        Ok(()) => provider.ports().await,
                        Err(error) => Err(error),
                    };
                    match ports {
                        Ok(ports) => publish(seen, ports),
                        Err(error) => {
                            tracing::info!(why = %error, "the session with a switch begins anew");
                            return Continue(());
                        }
                    }
                }
            }
        }
        while let Ok(ask) = asks.try_recv() {
            waiting.push_back(ask);
        }
        let (looks, batch) = next(waiting);
        let is_changing = !batch.is_empty();
        if is_changing && !change(provider, batch, waiting, told).await {
            looks.into_iter().for_each(|look| waiting.push_back(Ask::Ports(look)));
            return Continue(());
        }
        if !looks.is_empty() || is_changing {
            match provider.ports().await {
                Ok(ports) => {
                    publish(seen, ports.clone());
                    let ports = Arc::new(ports);
                    for look in looks {
                        // A receiver that is gone needs no answer.
                        drop(look.send(Ok(Arc::clone(&ports))));
                    }
                }
                Err(error) => {
                    for look in looks {
                        drop(look.send(Err(error.clone())));
                    }
                    return Continue(());
                }
            }
        }
    }
}

fn publish(seen: &watch::Sender<Seen>, ports: Actuals) {
    seen.send_if_modified(|last| {
        let is_news = !matches!(last, Some(Ok(known)) if **known == ports);
        if is_news {
            *last = Some(Ok(Arc::new(ports)));
        }
        is_news
    });
}

/// The greatest revision that each port was told, by its name on the switch.
type Told = BTreeMap<String, u64>;
/// Changes that go together, and who asked for each part of them.
type Batch = Vec<(Vec<PortChange>, Answer)>;
/// Questions that change nothing.
type Looks = Vec<oneshot::Sender<Result<Arc<Actuals>, SwitchError>>>;

/// All looks, and the changes that can be one batch: no port twice. The others stay.
fn next(waiting: &mut VecDeque<Ask>) -> (Looks, Batch) {
    let (mut looks, mut batch) = (Vec::new(), Vec::new());
    let mut ports: BTreeSet<String> = BTreeSet::new();
    while let Some(ask) = waiting.pop_front() {
        match ask {
            Ask::Ports(reply) => looks.push(reply),
            Ask::Apply(changes, reply) => {
                let is_alone = changes.iter().all(|change| !ports.contains(&change.port));
                let fits = batch.is_empty() || ports.len() + changes.len() <= PORTS_MAX;
                if !is_alone || !fits {
                    waiting.push_front(Ask::Apply(changes, reply));
                    break;
                }
                ports.extend(changes.iter().map(|change| change.port.clone()));
                batch.push((changes, reply));
            }
        }
    }
    (looks, batch)
}

/// Makes one batch of changes. If the connection is lost meanwhile, the next one looks what was made of
/// it, and makes the rest: once.
async fn change(
    provider: &mut impl Provider,
    batch: Batch,
    waiting: &mut VecDeque<Ask>,
    told: &mut Told,
) -> bool {
    let all: Vec<PortChange> = batch.iter().flat_map(|(changes, _)| changes.clone()).collect();
    let mut outcomes = applied(provider, &all, told).await;
    let is_lost = matches!(&outcomes, Err(error) if error.is_passing());
    if is_lost && provider.connect().await.is_ok() {
        outcomes = applied(provider, &all, told).await;
    }
    match outcomes {
        Ok(mut outcomes) => {
            for (changes, reply) in batch {
                let rest = outcomes.split_off(changes.len().min(outcomes.len()));
                drop(reply.send(Ok(std::mem::replace(&mut outcomes, rest))));
            }
            true
        }
        Err(error) => {
            for (_, reply) in batch {
                drop(reply.send(Err(error.clone())));
            }
            waiting.drain(..).for_each(|ask| refuse(ask, &error));
            false
        }
    }
}

/// As the provider does, without changes that name a port twice, and those that come too late.
async fn applied(
    provider: &mut impl Provider,
    all: &[PortChange],
    told: &mut Told,
) -> Result<Vec<PortOutcome>, SwitchError> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for change in all {
        *places.entry(&change.port).or_default() += 1;
    }
    if let Some((port, _)) = places.iter().find(|(_, times)| **times > 1) {
        let text = format!("{port} is changed twice in one question");
        return Ok(vec![PortOutcome::Refused(text); all.len()]);
    }
    let mut is_late = |change: &PortChange| {
        let last = told.entry(change.port.clone()).or_default();
        let is_late = change.revision < *last;
        *last = change.revision.max(*last);
        is_late
    };
    let late: Vec<bool> = all.iter().map(&mut is_late).collect();
    if !late.contains(&true) {
        return provider.apply(all).await;
    }
    let rest = all.iter().zip(&late).filter(|(_, late)| !**late).map(|(change, _)| change.clone());
    let rest: Vec<PortChange> = rest.collect();
    let mut outcomes = match rest.is_empty() {
        true => Vec::new(),
        false => provider.apply(&rest).await?,
    }
    .into_iter();
    let outcome = |late: bool| match late {
        true => Some(PortOutcome::Superseded),
        false => outcomes.next(),
    };
    Ok(late.into_iter().map_while(outcome).collect())
}

fn refuse(ask: Ask, error: &SwitchError) {
    match ask {
        Ask::Ports(reply) => drop(reply.send(Err(error.clone()))),
        Ask::Apply(_, reply) => drop(reply.send(Err(error.clone()))),
    }
}

#[cfg(test)]
mod tests;
