//! Guests have screens by VNC, sound and devices of USB for people, and a TPM for themselves.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use stdx::process::Process;
use tests::cluster::PATIENCE;
use tests::run::{Ended, run, wait_for};
use xtask::needs;

use crate::instances::{BARE, LISTENS, Node, with};

/// The kinds of authentication of VNC (RFC 6143, section 7.1.2).
const NO_PASSWORD: u8 = 1;
const PASSWORD: u8 = 2;

/// Agrees on the protocol with a guest's screen, as a viewer does; gives the kinds that it offers.
fn greet(viewer: &mut (impl Read + Write)) -> std::io::Result<Vec<u8>> {
    let mut version = [0; 12];
    viewer.read_exact(&mut version)?;
    assert_eq!(&version, b"RFB 003.008\n");
    viewer.write_all(&version)?;
    let mut count = [0];
    viewer.read_exact(&mut count)?;
    let mut kinds = vec![0; count[0].into()];
    viewer.read_exact(&mut kinds)?;
    Ok(kinds)
}

/// Chooses a password, and gets the text that is to be encrypted with it.
fn challenge(viewer: &mut TcpStream) -> [u8; 16] {
    viewer.write_all(&[PASSWORD]).unwrap();
    let mut challenge = [0; 16];
    viewer.read_exact(&mut challenge).unwrap();
    challenge
}

/// Answers it with nonsense; gives the guest's word on that, where 0 is welcome.
fn answer(viewer: &mut TcpStream) -> u32 {
    viewer.write_all(&[0; 16]).unwrap();
    let mut verdict = [0; 4];
    viewer.read_exact(&mut verdict).unwrap();
    u32::from_be_bytes(verdict)
}

/// A viewer of a guest at this port, which may not listen yet.
fn viewer(port: u16, kind: u8) -> TcpStream {
    wait_for("a screen", PATIENCE, || {
        let mut viewer = TcpStream::connect(("127.0.0.1", port)).ok()?;
        viewer.set_read_timeout(Some(PATIENCE)).unwrap();
        let kinds = greet(&mut viewer).ok()?;
        assert_eq!(kinds, [kind]);
        Some(viewer)
    })
}

fn modify(node: &Node, parameters: &str) -> Ended {
    let command = node.cluster.gnt_command("instance modify --ignore-ipolicy web1 -H");
    run(with(command, &[parameters]))
}

#[test]
fn viewers_reach_a_guest_by_its_agent_and_stay_when_it_ends() {
    let Some(node) = Node::begin(None) else { return };
    let cluster = &node.cluster;
    let file = cluster.write("password", "secret\n");
    let screen = format!("vnc_bind_address=127.0.0.1,vnc_password_file={}", file.display());
    node.add("web1.example", &format!("{BARE} -H kvm:{screen}"));
    let port: u16 = node.fields("web1", "network_port").parse().unwrap();
    let mut stays = viewer(port, PASSWORD);
    assert_ne!(challenge(&mut stays), [0; 16]);
    assert_eq!(node.fields("web1", "status"), "running");
    node.wait_for_console("web1", LISTENS, 1);
    assert_eq!(node.devices("web1"), "vda=2097152 screen usb");
    let process = node.process("web1");
    cluster.kill_agent(&cluster.master);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "QEMU listens nowhere");
    assert_eq!(answer(&mut stays), 1, "QEMU itself says that this is not the password");
    // The next agent waits for a place that is taken meanwhile: the guest goes on.
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    cluster.start_agent(&cluster.master);
    node.wait_for("web1", "status", "running");
    drop(taken);
    let mut again = viewer(port, PASSWORD);
    challenge(&mut again);
    assert_eq!(answer(&mut again), 1);
    assert_eq!(node.process("web1"), process);
    told_where_it_is(&node, port);
    cluster.gnt("instance shutdown --timeout 0 web1").ok();
    refused_starts(&node, port, &file);
    in_a_directory(&node);
    cluster.gnt("instance remove -f --shutdown-timeout 0 web1").ok();
}

/// The answers of `gnt instance console` for the instance as it is, and without a serial console.
fn told_where_it_is(node: &Node, port: u16) {
    let shown = node.cluster.gnt("instance console --show-cmd web1");
    assert!(shown.ok().contains("ssh -t"), "{shown:?}");
    modify(node, "serial_console=no").ok();
    let words = format!(
        "Instance web1.example has VNC listening on 127.0.0.1:{port} (display {}), \
         URL <vnc://127.0.0.1:{port}/>\n",
        port - 5_900
    );
    assert_eq!(node.cluster.gnt("instance console web1").ok(), words);
    assert_eq!(node.cluster.gnt("instance console --show-cmd web1").ok(), words);
    modify(node, "serial_console=default").ok();
}

/// Starts that are refused, each with its reason.
fn refused_starts(node: &Node, port: u16, password: &Path) {
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let start = || node.cluster.gnt("instance startup web1");
    let told = start();
    let why = format!("cannot listen for viewers at 127.0.0.1:{port}: Address already in use");
    assert!(told.failed(1).contains(&why), "{told:?}");
    node.cluster.gnt("instance shutdown --timeout 0 web1").ok();
    drop(taken);
    node.cluster.write("password", "\n");
    let told = start();
    let why = format!("the first line of {} holds no password", password.display());
    assert!(told.failed(1).contains(&why), "{told:?}");
    node.cluster.gnt("instance shutdown --timeout 0 web1").ok();
    for (parameters, why) in [
        ("vnc_tls=yes", "reach it by `ssh -L`"),
        ("vga=cga", "`cga` is none of std, cirrus"),
        ("vnc_password_file=/nowhere", "there is no file /nowhere"),
    ] {
        let told = modify(node, parameters);
        assert!(told.failed(1).contains(why), "{told:?}");
    }
}

/// The screen at a socket, with all else that a guest may have for people.
fn in_a_directory(node: &Node) {
    let cluster = &node.cluster;
    let directory = cluster.dir().join("vnc");
    std::fs::create_dir_all(&directory).unwrap();
    let parameters = format!(
        "vnc_bind_address={},vnc_password_file=none,vga=virtio,soundhw=ac97 hda pcspk,\
         usb_devices=keyboard audio wacom-tablet,keymap=de",
        directory.display()
    );
    modify(node, &parameters).ok();
    let before = node.console("web1").matches(LISTENS).count();
    cluster.gnt("instance startup web1").ok();
    let socket = directory.join("web1.example.vnc");
    let mut viewer = UnixStream::connect(&socket).unwrap();
    assert_eq!(greet(&mut viewer).unwrap(), [NO_PASSWORD]);
    node.wait_for_console("web1", LISTENS, before + 1);
    assert_eq!(node.devices("web1"), "vda=2097152 screen sound sound usb");
    modify(node, "serial_console=no").ok();
    let told = cluster.gnt("instance console web1");
    let place = format!("has VNC listening on the socket {} of node", socket.display());
    assert!(told.ok().contains(&place), "{told:?}");
    cluster.gnt("instance shutdown --timeout 0 web1").ok();
    assert!(!socket.exists());
}

/// The process that has a file below this directory open, by its number.
fn user_of(directory: &Path) -> Option<u32> {
    let has = |pid: &u32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .any(|file| file.starts_with(directory))
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(has)
}

#[test]
fn a_guest_has_a_tpm_of_its_own_that_ends_with_it() {
    if let Some(why) = needs::missing(&["swtpm"]) {
        return tests::skip("a guest with a TPM", &why);
    }
    let Some(node) = Node::begin(None) else { return };
    let cluster = &node.cluster;
    node.add("web1.example", &format!("{BARE} -H kvm:tpm=yes"));
    node.wait_for_console("web1", LISTENS, 1);
    assert_eq!(node.devices("web1"), "vda=2097152 tpm0");
    let uuid = node.fields("web1", "uuid");
    let state = cluster.master.layout().instances().join(format!("{uuid}.tpm"));
    let tpm = user_of(&state).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{tpm}/status")).unwrap();
    for line in ["\nNoNewPrivs:\t1\n", "\nCapPrm:\t0000000000000000\n"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    assert!(!status.contains("\nUid:\t0\t"), "{status}");
    // The next agent did not start it, and it ends nevertheless.
    cluster.kill_agent(&cluster.master);
    cluster.start_agent(&cluster.master);
    node.wait_for("web1", "status", "running");
    Process::of(node.process("web1")).unwrap().kill().unwrap();
    node.wait_for_console("web1", LISTENS, 2);
    assert_eq!(node.devices("web1"), "vda=2097152 tpm0");
    assert_ne!(user_of(&state), Some(tpm));
    cluster.gnt("instance shutdown --timeout 0 web1").ok();
    assert_eq!(user_of(&state), None);
    let memory = state.join("tpm2-00.permall");
    assert!(memory.exists(), "it remembers beyond its runs");
    stdx::atomic::write(&memory, b"nonsense", 0o666).unwrap();
    let told = cluster.gnt("instance startup web1");
    assert!(told.failed(1).contains("swtpm: "), "{told:?}");
    assert_eq!(user_of(&state), None);
    cluster.gnt("instance remove -f --shutdown-timeout 0 web1").ok();
    assert!(!state.exists());
}
