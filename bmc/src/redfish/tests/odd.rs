//! Each odd answer to each request of each operation: it is tried again, and what was wanted happens.

use std::time::Duration;

use model::bmc::{BootOnce, PowerAction, PowerState};
use tokio::task::JoinSet;

use super::controller;
use crate::simulated::{Odd, OddAnswers, Simulated};
use crate::{BmcError, Controller, Session, Times};

/// How often whoever uses this crate asks again.
const TRIES: u32 = 3;
/// Requests until the machine is seen: root, session, systems, system, and that again.
const ENTRY: u32 = 5;

#[derive(Debug, Clone, Copy)]
enum Operation {
    /// Switch a machine that is so.
    Power(PowerState, PowerAction),
    BootOnce,
    Inventory,
    Health,
}

impl Operation {
    async fn once(self, session: &mut Session<'_>) -> Result<(), BmcError> {
        match self {
            Self::Power(_, action) => session.power(action).await,
            Self::BootOnce => session.boot_once(BootOnce::Network).await,
            Self::Inventory => session.inventory().await.map(drop),
            Self::Health => session.health().await.map(drop),
        }
    }

    async fn run(self, controller: &Controller) -> Result<(), BmcError> {
        let mut session = controller.session();
        let mut tries = 1;
        let done = loop {
            match self.once(&mut session).await {
                Err(error) if error.is_passing() && tries < TRIES => tries += 1,
                done => break done,
            }
        };
        session.close().await;
        done
    }
}

/// A machine before an operation. A busy computer is no silent controller, so that only who waits for silence
/// has little patience.
async fn machine(operation: Operation, odd: Option<Odd>) -> (Simulated, Controller) {
    let bmc = Simulated::start("SN1", false, None).await.unwrap();
    if let Operation::Power(before, _) = operation {
        bmc.press(before);
    }
    let mut controller = controller(&bmc);
    let (short, second) = (Duration::from_millis(1), Duration::from_secs(1));
    let answer = if odd == Some(Odd::Silence) { second } else { 20 * second };
    controller.times = Times {
        answer,
        farewell: answer,
        switch: second / 2,
        soft_off: second / 2,
        look: short,
        order_again: short,
        keep: Duration::from_millis(100),
        busy: short,
        ..Times::default()
    };
    (bmc, controller)
}

/// Every request of an operation is answered oddly in turn, so many times. The operation survives that,
/// unless the machine was never seen: then nothing was ordered.
async fn survives(operation: Operation, times: u32) {
    let (bmc, controller) = machine(operation, None).await;
    operation.run(&controller).await.unwrap();
    let requests = bmc.seen().requests;
    for odd in Odd::ALL {
        let mut cases = JoinSet::new();
        for (after, is_done) in (0..requests).flat_map(|after| [(after, true), (after, false)]) {
            cases.spawn(async move {
                let (bmc, controller) = machine(operation, Some(odd)).await;
                let before = bmc.seen();
                bmc.answer_oddly(OddAnswers { odd, at: "", after, times, is_done });
                let done = operation.run(&controller).await;
                let seen = bmc.seen();
                let case = format!(
                    "{operation:?} {odd:?} {times} times after {after} {is_done}: {seen:?}: {done:?}"
                );
                assert!(done.is_ok() || times > 1 && after < ENTRY, "{case}");
                let wanted = match operation {
                    Operation::Power(_, action) if done.is_ok() => action.ends_in(),
                    _ => before.power,
                };
                assert_eq!(seen.power, wanted, "{case}");
                let is_set = done.is_ok() && matches!(operation, Operation::BootOnce);
                assert_eq!(seen.boot_once.is_some(), is_set, "{case}");
            });
        }
        while let Some(case) = cases.join_next().await {
            case.unwrap();
        }
    }
}

#[tokio::test]
async fn switching_on_and_off_survives() {
    for (before, action) in [
        (PowerState::Off, PowerAction::On),
        (PowerState::On, PowerAction::Off),
        (PowerState::On, PowerAction::SoftOff),
    ] {
        survives(Operation::Power(before, action), 1).await;
    }
}

#[tokio::test]
async fn a_cycle_survives() {
    for times in [1, 3] {
        survives(Operation::Power(PowerState::On, PowerAction::Cycle), times).await;
    }
}

#[tokio::test]
async fn a_boot_order_survives() {
    survives(Operation::BootOnce, 1).await;
}

#[tokio::test]
async fn an_inspection_survives() {
    for operation in [Operation::Inventory, Operation::Health] {
        survives(operation, 1).await;
    }
}

/// From some look on, the controller shows nothing of the machine any more.
#[tokio::test]
async fn a_cycle_switches_on_whatever_it_sees_behind_its_off() {
    let operation = Operation::Power(PowerState::On, PowerAction::Cycle);
    let mut cases = JoinSet::new();
    for (odd, after) in Odd::ALL.into_iter().flat_map(|odd| (0..8).map(move |after| (odd, after))) {
        cases.spawn(async move {
            let (bmc, mut controller) = machine(operation, Some(odd)).await;
            controller.times.switch = Duration::from_millis(200);
            let at = "/Systems/1";
            bmc.answer_oddly(OddAnswers { odd, at, after, times: u32::MAX, is_done: true });
            let done = operation.run(&controller).await;
            let seen = bmc.seen();
            assert_eq!(seen.power, PowerState::On, "{odd:?} after {after}: {seen:?} {done:?}");
        });
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}
