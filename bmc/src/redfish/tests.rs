//! A controller in this process, with everything that real ones do wrong.

mod odd;

use std::time::Duration;

use model::bmc::{BmcTrust, BootOnce, PowerAction, PowerState};
use model::inventory::Parts;
use model::secret::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::simulated::{Faults, Odd, OddAnswers, PASSWORD, Simulated, USER};
use crate::{BmcError, Controller, Expected, Login, Times};

/// Times that end soon; none of the tests waits for one that is not about it.
fn times() -> Times {
    Times {
        answer: Duration::from_secs(5),
        switch: Duration::from_millis(200),
        look: Duration::from_millis(10),
        order_again: Duration::from_millis(20),
        keep: Duration::from_millis(20),
        busy: Duration::from_millis(1),
        ..Times::default()
    }
}

fn controller(bmc: &Simulated) -> Controller {
    Controller {
        url: bmc.url.clone(),
        trust: BmcTrust::Any,
        login: Login { user: USER.to_owned(), password: Secret::new(PASSWORD.to_owned()) },
        privilege: None,
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

/// One opcode that switches the power.
async fn power(controller: &Controller, action: PowerAction) -> Result<(), BmcError> {
    let mut session = controller.session();
    let done = session.power(action).await;
    session.close().await;
    done
}

async fn boot_once(controller: &Controller, from: BootOnce) -> Result<(), BmcError> {
    let mut session = controller.session();
    let done = session.boot_once(from).await;
    session.close().await;
    done
}

#[tokio::test]
async fn power_is_switched_and_sessions_end() {
    let (bmc, controller) = simulated(Faults::default()).await;
    boot_once(&controller, BootOnce::Network).await.unwrap();
    assert_eq!(bmc.seen().boot_once.as_deref(), Some("UefiHttp"));
    for (action, state, starts) in [
        (PowerAction::On, PowerState::On, 1),
        (PowerAction::On, PowerState::On, 1),
        (PowerAction::Cycle, PowerState::On, 2),
        (PowerAction::SoftOff, PowerState::Off, 2),
        (PowerAction::Off, PowerState::Off, 2),
        (PowerAction::Cycle, PowerState::On, 3),
    ] {
        power(&controller, action).await.unwrap();
        assert_eq!((bmc.seen().power, bmc.seen().starts), (state, starts), "{action}");
    }
    assert_eq!(bmc.seen().sessions, 0);
}

#[tokio::test]
async fn one_login_does_for_one_opcode_unless_it_is_forgotten() {
    for (faults, logins) in [
        (Faults::default(), 1..=1),
        (Faults { forgets_after: Some(4), ..Faults::default() }, 3..=8),
        (Faults { no_sessions: true, ..Faults::default() }, 0..=0),
    ] {
        let (bmc, controller) = simulated(faults).await;
        bmc.press(PowerState::On);
        let mut session = controller.session();
        assert_eq!(session.power_state().await.unwrap(), PowerState::On);
        session.power(PowerAction::Off).await.unwrap();
        session.boot_once(BootOnce::Network).await.unwrap();
        session.power(PowerAction::On).await.unwrap();
        session.close().await;
        let seen = bmc.seen();
        assert!(logins.contains(&seen.logins), "{faults:?}: {} logins", seen.logins);
        assert_eq!((seen.power, seen.starts), (PowerState::On, 1), "{faults:?}");
    }
}

#[tokio::test]
async fn a_login_that_is_refused_later_is_not_tried_for_ever() {
    let (bmc, mut controller) = simulated(Faults::default()).await;
    controller.login.password = Secret::new("wrong".to_owned());
    let told = power(&controller, PowerAction::On).await.unwrap_err();
    assert!(matches!(told, BmcError::Login { .. }), "{told}");
    assert_eq!(bmc.seen().requests, 2, "the root and one login");
    // Each request is refused, and each login behind it, so that a controller may lock us out.
    controller.login.password = Secret::new(PASSWORD.to_owned());
    let mut session = controller.session();
    assert_eq!(session.power_state().await.unwrap(), PowerState::Off);
    bmc.fail(Faults { forgets_after: Some(0), locks_out: true, ..Faults::default() });
    let mut kinds = Vec::new();
    for _try in 0..5 {
        let before = bmc.seen().requests;
        let told = session.power_state().await.unwrap_err();
        kinds.push((told.is_passing(), bmc.seen().requests - before));
    }
    assert_eq!(kinds, [(true, 2), (true, 2), (false, 2), (false, 1), (false, 1)]);
}

#[tokio::test]
async fn hardware_and_health_are_told() {
    let (_bmc, controller) = simulated(Faults::default()).await;
    let mut session = controller.session();
    let told = session.inventory().await.unwrap();
    assert_eq!((told.memory_mib, told.processors.threads), (96 * 1024, 16));
    assert_eq!(told.cards[0].mac.to_string(), "52:54:00:aa:bb:01");
    let health = session.health().await.unwrap();
    assert_eq!((health.health.as_deref(), health.sensors.len()), (Some("OK"), 1));
    assert_eq!(health.unread, [""; 0]);
}

#[tokio::test]
async fn what_could_not_be_read_is_not_taken_for_none() {
    let (bmc, controller) = simulated(Faults::default()).await;
    bmc.press(PowerState::On);
    let mut session = controller.session();
    let full = session.inventory().await.unwrap();
    let is_told = |told: &model::inventory::Inventory| !told.unread.contains_key(&Parts::Cards);
    assert!(is_told(&full));
    for (odd, at, times) in [
        (Odd::Failure, "/EthernetInterfaces", 9),
        (Odd::Failure, "/EthernetInterfaces/1", 9),
        (Odd::Nulls, "/EthernetInterfaces", 9),
        (Odd::Nulls, "/EthernetInterfaces/1", 9),
        (Odd::Empty, "/EthernetInterfaces", 9),
    ] {
        bmc.answer_oddly(OddAnswers { odd, at, after: 0, times, is_done: true });
        let told = session.inventory().await.unwrap();
        assert!(!is_told(&told), "{odd:?} {at}");
        assert_eq!(full.changes(&told.completed(&full)), [""; 0], "{odd:?} {at}");
    }
    // A controller's word on a running machine is believed when it is repeated, and only then.
    let none = |times| OddAnswers {
        odd: Odd::NoMembers,
        at: "/EthernetInterfaces",
        after: 0,
        times,
        is_done: true,
    };
    bmc.answer_oddly(none(1));
    assert_eq!(session.inventory().await.unwrap(), full);
    bmc.answer_oddly(none(2));
    let told = session.inventory().await.unwrap();
    assert!(is_told(&told) && told.cards.is_empty());
    bmc.press(PowerState::Off);
    bmc.answer_oddly(none(2));
    let told = session.inventory().await.unwrap();
    assert!(!is_told(&told) && told.unread[&Parts::Cards].contains("is off"), "{told:?}");

    let (odd, at) = (Odd::Failure, "/Thermal");
    bmc.answer_oddly(OddAnswers { odd, at, after: 0, times: 9, is_done: true });
    let health = session.health().await.unwrap();
    assert!(health.unread[0].contains("fails at GET /redfish/v1/Chassis/1/Thermal"), "{health:?}");
}

#[tokio::test]
async fn controllers_with_ways_of_their_own_are_spoken_to() {
    for (faults, boot) in [
        (Faults { no_sessions: true, ..Faults::default() }, "UefiHttp"),
        (Faults { busy: 3, ..Faults::default() }, "UefiHttp"),
        (Faults { settings_apart: true, ..Faults::default() }, "UefiHttp"),
        (Faults { settings_apart: true, strong_tags: true, ..Faults::default() }, "UefiHttp"),
        (Faults { tags_in_headers: true, ..Faults::default() }, "UefiHttp"),
        (Faults { fixed_mode: true, ..Faults::default() }, "UefiHttp"),
        (Faults { keeps_only: Some("Pxe"), ..Faults::default() }, "Pxe"),
        (Faults { has_baseboard: true, ..Faults::default() }, "UefiHttp"),
        (Faults { closes: true, ..Faults::default() }, "UefiHttp"),
    ] {
        let (bmc, controller) = simulated(faults).await;
        boot_once(&controller, BootOnce::Network).await.unwrap();
        power(&controller, PowerAction::On).await.unwrap();
        let seen = bmc.seen();
        assert_eq!(
            (seen.power, seen.boot_once.as_deref()),
            (PowerState::On, Some(boot)),
            "{faults:?}"
        );
    }
}

#[tokio::test]
async fn a_boot_order_that_is_not_kept_is_no_success() {
    for faults in [
        Faults { lies: true, ..Faults::default() },
        Faults { keeps_only: Some("Hdd"), ..Faults::default() },
        Faults { lies: true, settings_apart: true, ..Faults::default() },
    ] {
        let (_bmc, controller) = simulated(faults).await;
        let told = boot_once(&controller, BootOnce::Network).await.unwrap_err();
        let told = told.to_string();
        assert!(told.contains("shows target None, enabled Disabled instead"), "{faults:?}: {told}");
    }
}

#[tokio::test]
async fn faults_are_told_apart() {
    let on = async |faults: Faults| {
        let (_bmc, mut controller) = simulated(faults).await;
        controller.times.answer = Duration::from_millis(200);
        power(&controller, PowerAction::On).await.unwrap_err()
    };
    let lies = on(Faults { lies: true, ..Faults::default() }).await;
    assert!(matches!(lies, BmcError::NotDone { seen: PowerState::Off, .. }), "{lies}");
    let hangs = on(Faults { hangs: true, ..Faults::default() }).await;
    assert!(matches!(hangs, BmcError::Silent { .. }), "{hangs}");
    let busy = on(Faults { busy: 1_000, ..Faults::default() }).await;
    assert!(matches!(&busy, BmcError::NotReady { reason, .. } if reason.contains("in the middle")));
    for nonsense in ["", "{}", "[[[", "<html>"] {
        let told = on(Faults { nonsense: Some(nonsense), ..Faults::default() }).await;
        assert!(matches!(told, BmcError::Nonsense { .. }), "{nonsense}: {told}");
    }
}

#[tokio::test]
async fn the_controller_of_another_machine_is_not_obeyed() {
    let (bmc, mut controller) = simulated(Faults::default()).await;
    controller.expected.serial = Some("SN2".to_owned());
    let told = power(&controller, PowerAction::On).await.unwrap_err();
    assert!(matches!(told, BmcError::OtherMachine { .. }), "{told}");
    assert_eq!((bmc.seen().power, bmc.seen().sessions), (PowerState::Off, 0));
}

#[tokio::test]
async fn a_certificate_is_pinned() {
    let bmc = Simulated::start("SN1", true, None).await.unwrap();
    let mut controller = controller(&bmc);
    assert_eq!(controller.certificate().await.unwrap(), bmc.certificate);
    controller.trust = BmcTrust::Certificate(bmc.certificate.unwrap());
    power(&controller, PowerAction::On).await.unwrap();
    let other = Simulated::start("SN1", true, None).await.unwrap();
    controller.url = other.url.clone();
    let told = power(&controller, PowerAction::On).await.unwrap_err();
    assert!(matches!(told, BmcError::Certificate { .. }), "{told}");
    controller.trust = BmcTrust::Authority;
    let told = power(&controller, PowerAction::On).await.unwrap_err();
    assert!(matches!(told, BmcError::Certificate { .. }), "{told}");
    drop(other);
    let told = power(&controller, PowerAction::On).await.unwrap_err();
    assert!(matches!(told, BmcError::Unreachable { .. }), "{told}");
}

/// A port that answers whatever comes with this.
async fn port(answer: &'static [u8]) -> (tokio::task::JoinSet<()>, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _peer)) = listener.accept().await {
            let mut request = [0; 4_096];
            if stream.read(&mut request).await.is_ok() {
                // A client that went away needs no answer.
                drop(stream.write_all(answer).await);
            }
        }
    });
    (tasks, port)
}

#[tokio::test]
async fn the_wrong_scheme_is_told_with_the_right_one() {
    for (tls, told, right) in [(false, "https", "http"), (true, "http", "https")] {
        let bmc = Simulated::start("SN1", tls, None).await.unwrap();
        let mut controller = controller(&bmc);
        controller.url = format!("{told}://127.0.0.1:{}", bmc.url.port).parse().unwrap();
        let wanted = format!("reached as {right}://127.0.0.1:{}", bmc.url.port);
        let error = power(&controller, PowerAction::On).await.unwrap_err().to_string();
        assert!(error.contains(&wanted), "{error}");
        assert_eq!(error.contains("in the clear"), !tls, "{error}");
        if !tls {
            let error = controller.certificate().await.unwrap_err().to_string();
            assert!(error.contains(&wanted), "{error}");
        }
    }
    // A redirection to another port, and a server that speaks no HTTP.
    let bmc = Simulated::start("SN1", false, None).await.unwrap();
    let mut controller = controller(&bmc);
    let moved = b"HTTP/1.1 308 Permanent Redirect\r\nLocation: https://bmc:8443/redfish/v1/\r\n\
                  Content-Length: 0\r\n\r\n";
    let (_tasks, at) = port(moved).await;
    controller.url = format!("http://127.0.0.1:{at}").parse().unwrap();
    let error = power(&controller, PowerAction::On).await.unwrap_err().to_string();
    assert!(error.contains("reached as https://bmc:8443"), "{error}");
    let (_tasks, at) = port(b"SSH-2.0-OpenSSH_9.2p1\r\n").await;
    for scheme in ["http", "https"] {
        controller.url = format!("{scheme}://127.0.0.1:{at}").parse().unwrap();
        let error = power(&controller, PowerAction::On).await.unwrap_err().to_string();
        assert!(!error.contains("reached as") && !error.contains("cable"), "{error}");
    }
}
