//! A controller in this process, with everything that real ones do wrong.

use std::time::Duration;

use model::bmc::{BmcTrust, BootOnce, PowerAction, PowerState};
use model::secret::Secret;

use crate::simulated::{Faults, PASSWORD, Simulated, USER};
use crate::{BmcError, Controller, Expected, Login, Times};

/// Times that end soon; none of the tests waits for one that is not about it.
fn times() -> Times {
    Times {
        answer: Duration::from_secs(5),
        switch: Duration::from_millis(200),
        look: Duration::from_millis(10),
        busy: Duration::from_millis(1),
        ..Times::default()
    }
}

fn controller(bmc: &Simulated) -> Controller {
    Controller {
        url: bmc.url.clone(),
        trust: BmcTrust::Any,
        login: Login { user: USER.to_owned(), password: Secret::new(PASSWORD.to_owned()) },
        expected: Expected { serial: Some("sn1".to_owned()), uuid: None },
        times: times(),
    }
}

async fn simulated(faults: Faults) -> (Simulated, Controller) {
    let bmc = Simulated::start("SN1", false, None).await.unwrap();
    bmc.fail(faults);
    let controller = controller(&bmc);
    (bmc, controller)
}

#[tokio::test]
async fn power_is_switched_and_sessions_end() {
    let (bmc, controller) = simulated(Faults::default()).await;
    assert_eq!(controller.power_state().await.unwrap(), PowerState::Off);
    controller.boot_once(BootOnce::Network).await.unwrap();
    assert_eq!(bmc.seen().boot_once.as_deref(), Some("UefiHttp"));
    for (action, power, starts) in [
        (PowerAction::On, PowerState::On, 1),
        (PowerAction::On, PowerState::On, 1),
        (PowerAction::Cycle, PowerState::On, 2),
        (PowerAction::SoftOff, PowerState::Off, 2),
        (PowerAction::Off, PowerState::Off, 2),
        (PowerAction::Cycle, PowerState::On, 3),
    ] {
        controller.power(action).await.unwrap();
        assert_eq!((bmc.seen().power, bmc.seen().starts), (power, starts), "{action}");
    }
    assert_eq!(bmc.seen().sessions, 0);
}

#[tokio::test]
async fn hardware_and_health_are_told() {
    let (_bmc, controller) = simulated(Faults::default()).await;
    let told = controller.inventory().await.unwrap();
    assert_eq!((told.memory_mib, told.processors.threads), (96 * 1024, 16));
    assert_eq!(told.cards[0].mac.to_string(), "52:54:00:aa:bb:01");
    let health = controller.health().await.unwrap();
    assert_eq!(health.health.as_deref(), Some("OK"));
}

#[tokio::test]
async fn controllers_with_ways_of_their_own_are_spoken_to() {
    for faults in [
        Faults { no_sessions: true, ..Faults::default() },
        Faults { busy: 3, ..Faults::default() },
        Faults { settings_apart: true, ..Faults::default() },
        Faults { closes: true, ..Faults::default() },
    ] {
        let (bmc, controller) = simulated(faults).await;
        controller.boot_once(BootOnce::Network).await.unwrap();
        controller.power(PowerAction::On).await.unwrap();
        let seen = bmc.seen();
        assert_eq!((seen.power, seen.boot_once.is_some()), (PowerState::On, true), "{faults:?}");
    }
}

#[tokio::test]
async fn faults_are_told_apart() {
    let on = async |faults: Faults| {
        let (_bmc, mut controller) = simulated(faults).await;
        controller.times.answer = Duration::from_millis(200);
        controller.power(PowerAction::On).await.unwrap_err()
    };
    let lies = on(Faults { lies: true, ..Faults::default() }).await;
    assert!(matches!(lies, BmcError::NotDone { seen: PowerState::Off, .. }), "{lies}");
    let hangs = on(Faults { hangs: true, ..Faults::default() }).await;
    assert!(matches!(hangs, BmcError::Silent { .. }), "{hangs}");
    let busy = on(Faults { busy: 1_000, ..Faults::default() }).await;
    assert!(matches!(&busy, BmcError::Refused { reason, .. } if reason.contains("in the middle")));
    for nonsense in ["", "{}", "[[[", "<html>"] {
        let told = on(Faults { nonsense: Some(nonsense), ..Faults::default() }).await;
        assert!(matches!(told, BmcError::Nonsense { .. }), "{nonsense}: {told}");
    }
}

#[tokio::test]
async fn the_controller_of_another_machine_is_not_obeyed() {
    let (bmc, mut controller) = simulated(Faults::default()).await;
    controller.expected.serial = Some("SN2".to_owned());
    let told = controller.power(PowerAction::On).await.unwrap_err();
    assert!(matches!(told, BmcError::OtherMachine { .. }), "{told}");
    assert_eq!((bmc.seen().power, bmc.seen().sessions), (PowerState::Off, 0));
    controller.login.password = Secret::new("wrong".to_owned());
    let told = controller.power(PowerAction::On).await.unwrap_err();
    assert!(matches!(told, BmcError::Login { .. }), "{told}");
}

#[tokio::test]
async fn a_certificate_is_pinned() {
    let bmc = Simulated::start("SN1", true, None).await.unwrap();
    let mut controller = controller(&bmc);
    assert_eq!(controller.certificate().await.unwrap(), bmc.certificate);
    controller.trust = BmcTrust::Certificate(bmc.certificate.unwrap());
    controller.power(PowerAction::On).await.unwrap();
    let other = Simulated::start("SN1", true, None).await.unwrap();
    controller.url = other.url.clone();
    let told = controller.power(PowerAction::On).await.unwrap_err();
    assert!(matches!(told, BmcError::Certificate { .. }), "{told}");
    controller.trust = BmcTrust::Authority;
    let told = controller.power(PowerAction::On).await.unwrap_err();
    assert!(matches!(told, BmcError::Certificate { .. }), "{told}");
    drop(other);
    let told = controller.power_state().await.unwrap_err();
    assert!(matches!(told, BmcError::Unreachable { .. }), "{told}");
}
