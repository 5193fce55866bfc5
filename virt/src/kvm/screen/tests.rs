use std::os::unix::net::UnixStream;

use model::Uuid;
use model::instance::Parameters;
use stdx::Tasks;
use stdx::process::Process;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use super::*;

/// The launch of a guest whose screen has these parameters.
fn launch(bind: &str, password_file: &str) -> Launch {
    let hvparams = [("vnc_bind_address", bind), ("vnc_password_file", password_file)];
    let hvparams = hvparams.map(|(name, value)| (name.to_owned(), value.into()));
    Launch {
        uuid: Uuid::from_u128(1),
        name: "web1".parse().unwrap(),
        run: 1,
        hypervisor: "kvm".to_owned(),
        hvparams: hvparams.into(),
        beparams: Parameters::new(),
        nics: Vec::new(),
        disks: Vec::new(),
        paused: false,
        seed: None,
        users: Vec::new(),
        network_port: None,
    }
}

/// Answers a monitor's questions, with so many viewers; gives the commands until the viewer is there.
async fn answer(socket: tokio::net::UnixListener, viewers: usize) -> Vec<String> {
    let (stream, _) = socket.accept().await.unwrap();
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from).lines();
    to.write_all(b"{\"QMP\":{}}\n").await.unwrap();
    let mut commands = Vec::new();
    while let Some(line) = from.next_line().await.unwrap() {
        let asked: Value = serde_json::from_str(&line).unwrap();
        let clients = vec![json!({}); viewers];
        let answer = match asked["execute"].as_str().unwrap() {
            "query-vnc-servers" => json!([{"id": "default", "clients": clients}]),
            _ => json!({}),
        };
        let answer = json!({"return": answer, "id": asked["id"]});
        to.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        commands.push(asked["execute"].as_str().unwrap().to_owned());
        if commands.last().is_some_and(|last| last == "add_client") {
            break;
        }
    }
    commands
}

#[tokio::test]
async fn viewers_are_handed_to_qemu_until_there_are_too_many() {
    let directory = tempfile::tempdir().unwrap();
    let launch = launch(directory.path().to_str().unwrap(), "");
    let place = directory.path().join("web1.vnc");
    for viewers in [VIEWERS_MAX - 1, VIEWERS_MAX] {
        let (tasks, socket) = (Tasks::new(), directory.path().join(format!("{viewers}.qmp")));
        let monitor = tokio::net::UnixListener::bind(&socket).unwrap();
        let (qmp, talk) = Qmp::new(socket, Process::of(std::process::id()).unwrap());
        tasks.spawn("monitor", talk);
        // Another life of the agent left its socket.
        drop(UnixListener::bind(&place));
        tasks.spawn("screen", serve(qmp, listen(&launch).unwrap()));
        let viewer = UnixStream::connect(&place).unwrap();
        viewer.set_nonblocking(true).unwrap();
        let mut viewer = tokio::net::UnixStream::from_std(viewer).unwrap();
        let answered = answer(monitor, viewers);
        if viewers < VIEWERS_MAX {
            let commands = answered.await;
            assert_eq!(commands, ["qmp_capabilities", "query-vnc-servers", "getfd", "add_client"]);
        } else {
            let mut nothing = Vec::new();
            tokio::select! {
                end = viewer.read_to_end(&mut nothing) => assert_eq!(end.unwrap(), 0),
                commands = answered => panic!("{commands:?}"),
            }
        }
        tasks.shutdown().await;
    }
    clean(&launch);
    assert!(!place.exists());
}

#[tokio::test]
async fn a_place_that_is_taken_is_told_and_no_file_of_an_operator_is_removed() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let of = |port| Launch { network_port: port, ..launch("127.0.0.1", "") };
    let told = listen(&of(Some(address.port()))).unwrap_err();
    assert!(told.contains(&address.to_string()) && told.contains("in use"), "{told}");
    let told = listen(&of(None)).unwrap_err();
    assert!(told.starts_with("parameter vnc_bind_address: the instance has no port"), "{told}");
    drop(taken);
    assert!(listen(&of(Some(address.port()))).unwrap().is_some());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("web1.vnc");
    stdx::atomic::write(&file, b"notes", 0o644).unwrap();
    let odd = launch(directory.path().to_str().unwrap(), "");
    assert!(listen(&odd).unwrap_err().contains("web1.vnc"));
    clean(&odd);
    assert!(file.exists());
    assert!(listen(&launch("", "")).unwrap().is_none());
}

#[test]
fn a_password_is_the_first_line_of_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    let name = file.to_str().unwrap();
    let with = |text: &[u8]| {
        stdx::atomic::write(&file, text, 0o600).unwrap();
        password(&launch("127.0.0.1", name))
    };
    assert_eq!(with(b"secret\n").unwrap().unwrap().expose(), "secret");
    assert!(with(b"\nsecret").unwrap_err().contains("holds no password"));
    assert!(with(b"").unwrap_err().contains("holds no password"));
    assert!(with(b"\xff").unwrap_err().contains("cannot read the password"));
    assert_eq!(password(&launch("", name)), Ok(None), "there is no screen");
    std::fs::remove_file(&file).unwrap();
    assert!(password(&launch("127.0.0.1", name)).unwrap_err().contains(name));
}
