//! Changes that end badly: in the middle, against the kernel's will, or with nobody to be reached.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::namespace::{Fixture, LONG, in_namespace, ip, open, own};
use super::{FULL, OTHER, state};
use crate::host::HostError;

#[test]
fn an_end_between_any_two_steps_gives_the_old_state_or_the_new_one() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        let mut host = fixture.open();
        host.change(&own(FULL), LONG).await.unwrap();
        host.commit().unwrap();
        let old = state(&host).await;
        for stop in 0.. {
            let mut left = stop;
            let mut goes_on = |_: &_| {
                left -= 1;
                left >= 0
            };
            host.interrupted(&own(OTHER), &mut goes_on).await.unwrap();
            let is_done = left >= 0;
            drop(host);
            host = fixture.open();
            assert!(host.recover().await.unwrap(), "stopped after {stop} steps");
            assert_eq!(state(&host).await, old, "stopped after {stop} steps");
            if is_done {
                assert!(stop > 20, "{stop} steps are few");
                break;
            }
        }
        host.change(&own(OTHER), LONG).await.unwrap();
        let new = state(&host).await;
        host.commit().unwrap();
        drop(host);
        let mut host = fixture.open();
        assert!(!host.recover().await.unwrap(), "what is committed stays");
        assert_eq!(state(&host).await, new);
        // The way back itself may be interrupted.
        host.change(&own(FULL), LONG).await.unwrap();
        for stop in 1.. {
            let mut left = stop;
            let before = host.pending().unwrap().unwrap().before;
            let reading = host.read().await.unwrap();
            host.converge(reading, &before, &mut |_| {
                left -= 1;
                left >= 0
            })
            .await
            .unwrap();
            drop(host);
            host = fixture.open();
            if left >= 0 {
                break;
            }
        }
        assert!(host.recover().await.unwrap());
        assert_eq!(state(&host).await, new);
    });
}

#[test]
fn a_step_that_the_kernel_refuses_is_undone() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        let mut host = fixture.open();
        let before = state(&host).await;
        // A port of a bridge carries no macvlan.
        let wrong = "links: [{name: card0}, {name: br0, kind: bridge, members: [card0], addresses: [192.0.2.10/24]},
            {name: mv0, kind: macvlan, parent: card0}]";
        let error = host.change(&own(wrong), LONG).await.unwrap_err();
        assert!(
            matches!(&error, HostError::Step { step, .. } if step.contains("mv0") || step.contains("br0")),
            "{error:?}"
        );
        let told = stdx::daemon::chain(&error);
        assert_eq!(told.matches("os error").count(), 1, "{told}");
        assert_eq!(state(&host).await, before);
        assert_eq!(host.pending().unwrap(), None);
    });
}

#[test]
fn rules_that_no_configuration_can_ask_for_are_no_obstacle() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        ip("rule add from 10.1.0.0/16 table 5 priority 0 protocol static");
        ip("rule add from 10.2.0.0/16 table 5 priority 40000 protocol static");
        let before = ip("rule");
        let mut host = fixture.open();
        host.change(&own("links: [{name: card0, mtu: 1400}]"), LONG).await.unwrap();
        assert!(host.roll_back().await.unwrap());
        assert_eq!(ip("rule"), before);
    });
}

/// Says in the environment of a child how many steps it may make.
const STEPS: &str = "HOSTNET_TEST_STEPS";
const DIRECTORY: &str = "HOSTNET_TEST_DIRECTORY";

/// The agent that is killed. Alone it does nothing: [`a_killed_agent_leaves_old_or_new`] starts it.
#[test]
fn killed_agent() {
    let (Ok(steps), Ok(directory)) = (std::env::var(STEPS), std::env::var(DIRECTORY)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut left: i32 = steps.parse().unwrap();
        let (tasks, clock) = (stdx::Tasks::new(), stdx::Clock::manual(1));
        let mut host = open(&tasks, directory.as_ref(), &clock);
        let mut goes_on = |_: &_| {
            left -= 1;
            if left < 0 {
                nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
            }
            true
        };
        host.interrupted(&own(OTHER), &mut goes_on).await.unwrap();
        host.commit().unwrap();
    });
}

#[test]
fn a_killed_agent_leaves_old_or_new() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        let mut host = fixture.open();
        host.change(&own(FULL), LONG).await.unwrap();
        host.commit().unwrap();
        let old = state(&host).await;
        drop(host);
        let mut ends = 0;
        for steps in (0..).step_by(3) {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "host::tests::trouble::killed_agent", "--nocapture"])
                .env(STEPS, steps.to_string())
                .env(DIRECTORY, fixture.directory.path())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stderr);
            let is_killed = child.status.signal() == Some(9);
            assert!(is_killed || child.status.success(), "{said}");
            let mut host = fixture.open();
            if child.status.success() {
                assert!(!host.recover().await.unwrap());
                assert!(host.planned(&own(OTHER)).await.unwrap().is_empty());
                break;
            }
            ends += 1;
            assert!(host.recover().await.unwrap(), "killed after {steps} steps");
            assert_eq!(state(&host).await, old, "killed after {steps} steps");
        }
        assert!(ends > 6, "{ends} ends are few");
    });
}

/// A master behind `far0`, in a namespace of its own. It answers as long as the tests run.
fn start_master() {
    let (tell, told) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    std::thread::spawn(move || {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        tell.send(nix::unistd::gettid()).unwrap();
        gone.recv().unwrap();
        ip("addr add 192.0.2.1/24 dev far0");
        ip("link set far0 up");
        let listener = TcpListener::bind("192.0.2.1:1811").unwrap();
        tell.send(nix::unistd::gettid()).unwrap();
        while let Ok((mut agent, _)) = listener.accept() {
            drop(agent.write_all(b"here"));
        }
    });
    let thread = told.recv().unwrap();
    ip(&format!("link set far0 netns {thread}"));
    go.send(()).unwrap();
    told.recv().unwrap();
}

/// Whether the master answers once within some time: links take a moment until they carry packets.
fn master_comes_back() -> bool {
    let started = Instant::now();
    while started.elapsed() < LONG {
        if master_is_heard() {
            return true;
        }
    }
    false
}

fn master_is_heard() -> bool {
    let address: SocketAddr = "192.0.2.1:1811".parse().unwrap();
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) else {
        return false;
    };
    let mut text = String::new();
    stream.read_to_string(&mut text).is_ok_and(|_| text == "here")
}

#[test]
fn a_host_that_cuts_itself_off_comes_back() {
    in_namespace(|| async {
        let fixture = Fixture::new();
        let mut host = fixture.open();
        start_master();
        let right = "links: [{name: card0, addresses: [192.0.2.10/24]}]";
        host.change(&own(right), LONG).await.unwrap();
        assert!(master_comes_back());
        host.commit().unwrap();
        for wrong in [
            "links: [{name: card0, addresses: [198.51.100.10/24]}]",
            "links: [{name: card0, up: false, addresses: [192.0.2.10/24]}]",
        ] {
            host.change(&own(wrong), Duration::from_secs(5)).await.unwrap();
            assert!(!master_is_heard(), "{wrong}");
            fixture.clock.set(fixture.clock.now_micros() + 5_000_000);
            assert!(host.roll_back_if_due().await.unwrap());
            assert!(master_comes_back(), "{wrong}");
        }
        // A change of one address, with the look whether the master is still there.
        let started = Instant::now();
        host.change(&own(&right.replace(".10/", ".11/")), LONG).await.unwrap();
        assert!(master_comes_back());
        host.commit().unwrap();
        println!("one address changed and verified in {:?}", started.elapsed());
    });
}
