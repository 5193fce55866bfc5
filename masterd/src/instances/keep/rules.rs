//! Core: which instances get a job, and when the next one.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use model::instance::state::{self, AdminState, NodeState, Status};
use model::instance::{Instance, Phase};
use model::{InstanceName, JobId, Timestamp};

use crate::config::Config;
use crate::instances::copies::rules::{MIRROR, Need};
use crate::instances::standing::Stands;

/// Seconds after the first try; each further one within the hour waits twice as long.
const AGAIN: i64 = 10;
/// Most seconds between two tries.
const AGAIN_MAX: i64 = 600;
/// Tries within an hour; then an operator is needed.
pub(crate) const TRIES_MAX: usize = 5;
/// Seconds of that hour.
const HOUR: i64 = 3_600;
/// Jobs of one look: a node that comes back does not start all of its instances at once.
const ORDERS_MAX: usize = 50;
/// Tries that are remembered, where they are not given up.
const TRIES_KEPT: usize = 10;

/// Something to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Start,
    /// Its own user shut it down: that is its wish now.
    NoteShutdown,
    /// A job left it between two nodes.
    FinishMove,
    /// A job left it half removed.
    RemoveAgain,
    /// A job left its files below two names.
    FinishRename,
    /// A run does not write copies of its disks: its guest may wait for that to be recorded.
    DetachCopies,
    /// Copies of its disks lack writes, or are filled and not recorded as such.
    Resync,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "it is to run, and does not",
            Self::NoteShutdown => "its own user shut it down",
            Self::FinishMove => "a job left it between two nodes",
            Self::RemoveAgain => "a job left it half removed",
            Self::FinishRename => "a job left it half renamed",
            Self::DetachCopies => "it lost copies of its disks",
            Self::Resync => "copies of its disks lack writes, or do not any more",
        })
    }
}

/// An instance as it is seen.
#[derive(Debug, Clone)]
pub(crate) struct InstanceStands {
    pub(crate) stands: Stands,
    /// Whether a job holds it.
    pub(crate) is_held: bool,
    /// Whether the job that brought it to its phase has ended.
    pub(crate) is_unfinished: bool,
    /// The needs of copies of its disks on nodes that answer.
    pub(crate) needs: Vec<Need>,
}

/// The jobs that were tried with an instance.
#[derive(Debug, Clone, Default)]
struct Tried {
    /// When its jobs of the last hour were submitted.
    at: VecDeque<Timestamp>,
    /// The last of them.
    job: Option<JobId>,
}

/// The jobs that were tried with instances.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// To have them live, or be whole.
    lives: BTreeMap<InstanceName, Tried>,
    /// To have copies of their disks whole.
    copies: BTreeMap<InstanceName, Tried>,
}

impl Tried {
    fn forget_old(&mut self, now: Timestamp) {
        while self.at.front().is_some_and(|first| first.plus_seconds(HOUR) <= now) {
            self.at.pop_front();
        }
    }

    /// Whether the next try is due, and they are not too many.
    fn is_due(&self, now: Timestamp) -> bool {
        self.at.len() < TRIES_MAX && self.is_due_again(now)
    }

    /// Whether the next try is due.
    fn is_due_again(&self, now: Timestamp) -> bool {
        let Some(last) = self.at.back() else { return true };
        let doubled = u32::try_from(self.at.len() - 1).unwrap_or(u32::MAX).min(10);
        let pause = (AGAIN << doubled).min(AGAIN_MAX);
        last.plus_seconds(pause) <= now
    }
}

impl Attempts {
    /// The orders of this moment, those first that a node starts first.
    pub(crate) fn orders(
        &mut self,
        config: &Config,
        seen: impl Fn(&Instance) -> InstanceStands,
        has_ended: impl Fn(JobId) -> bool,
        now: Timestamp,
    ) -> Vec<(InstanceName, Order)> {
        for tried in [&mut self.lives, &mut self.copies] {
            tried.retain(|name, tried| {
                tried.forget_old(now);
                // A shutdown by an operator begins the count anew.
                let is_meant = |instance: &Arc<Instance>| {
                    instance.phase != Phase::Ready || instance.admin_state == AdminState::Up
                };
                let is_at_work = tried.job.is_some_and(|job| !has_ended(job));
                is_at_work
                    || !tried.at.is_empty() && config.instances.get(name).is_some_and(is_meant)
            });
        }
        let mut orders = Vec::new();
        for instance in config.instances.values() {
            let is_at_work = |tried: &Tried| tried.job.is_some_and(|job| !has_ended(job));
            let copies = self.copies.get(&instance.name);
            if instance.disk_template == MIRROR
                && instance.phase == Phase::Ready
                && !copies.is_some_and(is_at_work)
                && let Some(order) =
                    of_copies(&seen(instance), copies.is_none_or(|tried| tried.is_due_again(now)))
            {
                orders.push((instance.start_order, instance.name.clone(), order));
                continue;
            }
            let tried = self.lives.get(&instance.name);
            if tried.is_some_and(is_at_work) || !tried.is_none_or(|tried| tried.is_due(now)) {
                continue;
            }
            if let Some(order) = order(instance, || seen(instance)) {
                orders.push((instance.start_order, instance.name.clone(), order));
            }
        }
        // A guest stands still until its copies are let go.
        let place =
            |(start_order, _, order): &(_, _, Order)| (*order != Order::DetachCopies, *start_order);
        orders.sort_by(|one, other| (place(one), &one.1).cmp(&(place(other), &other.1)));
        orders.truncate(ORDERS_MAX);
        orders.into_iter().map(|(_, name, order)| (name, order)).collect()
    }

    /// Notes a job that was submitted.
    pub(crate) fn submitted(
        &mut self,
        name: &InstanceName,
        order: Order,
        job: JobId,
        now: Timestamp,
    ) {
        let tried = match order {
            Order::DetachCopies | Order::Resync => &mut self.copies,
            _ => &mut self.lives,
        };
        let tried = tried.entry(name.clone()).or_default();
        tried.job = Some(job);
        match order {
            Order::Start
            | Order::FinishMove
            | Order::RemoveAgain
            | Order::FinishRename
            | Order::Resync => {
                tried.at.push_back(now);
                if tried.at.len() > TRIES_KEPT {
                    tried.at.pop_front();
                }
            }
            // It is no failure, and is not repeated; or a guest waits for it.
            Order::NoteShutdown | Order::DetachCopies => {}
        }
    }

    /// The instances with which it was tried as often as it may be, each since when.
    pub(crate) fn given_up(&self) -> Vec<(InstanceName, Timestamp)> {
        let given_up = self.lives.iter().filter(|(_, tried)| tried.at.len() >= TRIES_MAX);
        given_up.filter_map(|(name, tried)| Some((name.clone(), *tried.at.back()?))).collect()
    }
}

/// The order for copies of an instance's disks. Nobody's lock keeps a guest from going on.
fn of_copies(seen: &InstanceStands, is_due: bool) -> Option<Order> {
    let has = |need| seen.needs.contains(&need);
    if seen.stands.node != NodeState::Up {
        return None;
    }
    if has(Need::Detach) {
        return Some(Order::DetachCopies);
    }
    let resync = has(Need::Fresh) || has(Need::Join) && is_due;
    (resync && !seen.is_held).then_some(Order::Resync)
}

/// The order for one instance.
fn order(instance: &Instance, seen: impl FnOnce() -> InstanceStands) -> Option<Order> {
    let is_whole = instance.phase == Phase::Ready;
    let rests = instance.admin_state != AdminState::Up && instance.renaming.is_none();
    if instance.forthcoming || is_whole && rests {
        return None;
    }
    let InstanceStands { stands, is_held, is_unfinished, needs: _ } = seen();
    if is_held || stands.node != NodeState::Up {
        return None;
    }
    match &instance.phase {
        Phase::Ready if instance.renaming.is_some() => return Some(Order::FinishRename),
        Phase::Ready => {}
        Phase::Moving { .. } | Phase::Copying { .. } => {
            return is_unfinished.then_some(Order::FinishMove);
        }
        Phase::Removing { .. } => return is_unfinished.then_some(Order::RemoveAgain),
        // Its maker decides whether it is made again, or removed.
        Phase::Creating { .. } => return None,
    }
    match stands.status()? {
        Status::ErrorDown => Some(Order::Start),
        Status::UserDown if stands.standing.is_some_and(|it| it.seen == state::Seen::Stopped) => {
            Some(Order::NoteShutdown)
        }
        Status::Running
        | Status::AdminDown
        | Status::AdminOffline
        | Status::UserDown
        | Status::ErrorUp
        | Status::ErrorWrongNode
        | Status::ErrorNodeDown
        | Status::ErrorNodeOffline => None,
    }
}

#[cfg(test)]
mod tests {
    use model::instance::Run;
    use model::instance::state::Standing;

    use super::*;
    use crate::config::ConfigChange;
    use crate::testing::{NOW, config, instance};

    fn seen(of: state::Seen, user_shutdown: bool) -> InstanceStands {
        let standing =
            Standing { wish: AdminState::Up, seen: of, user_shutdown, ..Standing::default() };
        let stands = Stands { node: NodeState::Up, sight: None, standing: Some(standing) };
        InstanceStands { stands, is_held: false, is_unfinished: false, needs: Vec::new() }
    }

    #[test]
    fn what_is_done_with_an_instance() {
        let whole = instance("i1", "n1.example");
        let with = |seen: InstanceStands| order(&whole, || seen);
        assert_eq!(with(seen(state::Seen::Running, false)), None);
        assert_eq!(with(seen(state::Seen::Crashed, true)), Some(Order::Start));
        assert_eq!(with(seen(state::Seen::Absent, false)), Some(Order::Start));
        assert_eq!(with(seen(state::Seen::Stopped, false)), Some(Order::Start));
        assert_eq!(with(seen(state::Seen::Stopped, true)), Some(Order::NoteShutdown));
        assert_eq!(
            with(InstanceStands { is_held: true, ..seen(state::Seen::Absent, false) }),
            None
        );
        let mut unknown = seen(state::Seen::Absent, false);
        unknown.stands.standing = None;
        assert_eq!(with(unknown), None, "its node has told nothing yet");
        let mut silent = seen(state::Seen::Absent, false);
        silent.stands.node = NodeState::Down;
        assert_eq!(with(silent), None, "it may live there");
        let from = Run { number: 1, node: whole.primary_node.clone(), since: NOW };
        let to = "n2.example".parse().unwrap();
        let phase = Phase::Moving { job: JobId(1), from, to };
        let moving = Instance { phase, ..whole };
        let left =
            |is_unfinished| InstanceStands { is_unfinished, ..seen(state::Seen::Paused, false) };
        assert_eq!(order(&moving, || left(false)), None);
        assert_eq!(order(&moving, || left(true)), Some(Order::FinishMove));
    }

    #[test]
    fn copies_are_let_go_at_once_and_filled_ever_more_slowly() {
        let with = |needs: &[Need], is_held| InstanceStands {
            needs: needs.to_vec(),
            is_held,
            ..seen(state::Seen::IoError, false)
        };
        let both = with(&[Need::Join, Need::Detach], true);
        assert_eq!(of_copies(&both, false), Some(Order::DetachCopies), "a lock does not matter");
        assert_eq!(of_copies(&with(&[Need::Join], true), true), None, "a job holds it");
        assert_eq!(of_copies(&with(&[Need::Join], false), true), Some(Order::Resync));
        assert_eq!(of_copies(&with(&[Need::Join], false), false), None, "it was tried just now");
        assert_eq!(of_copies(&with(&[Need::Fresh], false), false), Some(Order::Resync));
        assert_eq!(of_copies(&with(&[], false), true), None);
    }

    #[test]
    fn a_rename_that_was_left_goes_on() {
        let renaming = Some("i2".parse().unwrap());
        let admin_state = AdminState::Down;
        let left = Instance { renaming, admin_state, run: None, ..instance("i1", "n1.example") };
        let mut stands = seen(state::Seen::Absent, false);
        assert_eq!(order(&left, || stands.clone()), Some(Order::FinishRename));
        stands.is_held = true;
        assert_eq!(order(&left, || stands.clone()), None, "its job is at it");
    }

    #[test]
    fn an_instance_that_keeps_dying_is_tried_ever_more_slowly_and_then_given_up() {
        let mut config = config(&[]);
        config.apply([ConfigChange::Instance(instance("i1", "n1.example"))]);
        let mut attempts = Attempts::default();
        let (mut tried, mut now) = (Vec::new(), NOW);
        for _ in 0..HOUR {
            let dead = |_: &Instance| seen(state::Seen::Crashed, false);
            for (name, order) in attempts.orders(&config, dead, |_| true, now) {
                attempts.submitted(&name, order, JobId(1), now);
                tried.push(now.seconds() - NOW.seconds());
            }
            now = now.plus_seconds(1);
        }
        assert_eq!(tried, [0, 10, 30, 70, 150]);
        assert_eq!(attempts.given_up(), [("i1".parse().unwrap(), NOW.plus_seconds(150))]);
        let down = Instance { admin_state: AdminState::Down, ..instance("i1", "n1.example") };
        let mut rests = config.clone();
        rests.apply([ConfigChange::Instance(down)]);
        let mut ended = Attempts { lives: attempts.lives.clone(), ..Attempts::default() };
        assert!(
            ended.orders(&rests, |_| seen(state::Seen::Absent, false), |_| true, now).is_empty()
        );
        assert!(ended.given_up().is_empty(), "it is to stay down");
        let dead = |_: &Instance| seen(state::Seen::Crashed, false);
        assert!(!attempts.orders(&config, dead, |_| true, now).is_empty(), "an hour later");
        assert!(attempts.given_up().is_empty());
    }
}
