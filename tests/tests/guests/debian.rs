//! The life of an instance with a Debian, from its image to its return from an export.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use tests::cluster::{MASTER, PATIENCE};
use tests::run::{run, wait_for};

use crate::instances::{Node, with, words};

/// How long Debian's systemd and cloud-init may take: over a minute, without hardware and alone.
const LONG: Duration = PATIENCE.saturating_mul(5);
/// The line at which one logs in, which systemd offers when all else has begun.
const LOGIN: &str = "deb1 login:";
/// Its first user has a password, and its first boot leaves a mark on the disk.
const USER_DATA: &str = "#cloud-config
chpasswd: {expire: false, users: [{name: root, password: gantry, type: text}]}
runcmd: [[sh, -c, 'echo once >>/root/marks; echo MARKED >/dev/ttyS0']]
";

/// Types a line on the guest's console, and waits for an answer.
fn typed(node: &Node, line: &str, answer: &str, times: usize) {
    let mut talk = node.cluster.gnt_command("instance console deb1");
    talk.stdin(File::open(node.cluster.write("typed", &format!("{line}\n"))).unwrap());
    let talked = talk.output().unwrap();
    assert!(talked.status.success(), "{talked:?}");
    node.wait_for_console("deb1", answer, times);
}

#[test]
fn a_debian_lives_from_its_image_to_its_return_from_an_export() {
    if !tests::has_time("a Debian with cloud-init as an instance") {
        return;
    }
    let fresh = match xtask::debian::fresh() {
        Ok(fresh) => fresh,
        Err(why) => return tests::skip("an instance with Debian", &why),
    };
    let Some(node) = Node::begin(None) else { return };
    let cluster = &node.cluster;
    let file = cluster.dir().join("debian.raw");
    let make = format!("mkfs.ext4 -q -d {} {} 2G", fresh.display(), file.display());
    run(with(Command::new(words(&make)[0]), &words(&make)[1..])).ok();
    cluster.gnt(&format!("image upload debian/12 --disk {}", file.display())).ok();
    std::fs::remove_file(&file).unwrap();
    let arguments =
        "kvm:kernel_args=gantry.root=/dev/vda datasource_list=[NoCloud],use_guest_agent=yes";
    let line = format!(
        "instance add -t file --disk 0:size=3G --ignore-ipolicy -B memory=1G -o image+debian --no-nics \
         --no-name-check --no-ip-check -n {MASTER} deb1.example"
    );
    let user_data = format!("user_data=@{}", cluster.write("user-data", USER_DATA).display());
    run(with(cluster.gnt_command(&line), &["-H", arguments, "-O", &user_data])).ok();
    // The agent's death is nothing to a guest that boots.
    let process = node.process("deb1");
    cluster.kill_agent(&cluster.master);
    cluster.start_agent(&cluster.master);
    let says = |text: &str, times: usize| {
        wait_for(&format!("{text} on the console"), LONG, || {
            (node.console("deb1").matches(text).count() >= times).then_some(())
        });
    };
    says("Datasource DataSourceNoCloud [seed=/dev/vdb]", 1);
    says("MARKED", 1);
    says(LOGIN, 1);
    assert!(!node.console("deb1").contains("Invalid cloud-config"));
    assert_eq!(node.process("deb1"), process);
    typed(&node, "root", "Password:", 1);
    typed(&node, "gantry", "root@deb1:~#", 1);
    // The first word is what was typed, the second one what the shell made of it.
    typed(&node, "echo $((6*7))-from-$(hostname); sync", "42-from-deb1", 1);
    // Its own agent tells of it, and stills its disk for a copy.
    node.wait_for("deb1", "guest_hostname", "deb1");
    assert!(node.fields("deb1", "guest_os").starts_with("Debian GNU/Linux"));
    cluster.gnt(&format!("backup export -n {MASTER} --noshutdown deb1")).ok();
    let log = std::fs::read_to_string(cluster.master.layout().node_log()).unwrap();
    assert!(!log.contains("copied while it writes them"), "{log}");
    assert!(!log.contains("not told that it may write again"), "{log}");
    // Stilled by a call that nobody waits for, it is told that it may write again.
    let uuid = node.fields("deb1", "uuid");
    let socket = cluster.master.layout().instances().join(format!("{uuid}.agent"));
    let mut agent = UnixStream::connect(socket).unwrap();
    agent.write_all(b"{\"execute\": \"guest-fsfreeze-freeze\"}\n").unwrap();
    let mut answer = [0; 10];
    agent.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"{\"return\":");
    drop(agent);
    typed(&node, "echo x >/root/written; sync; echo written-$((6*7))", "written-42", 1);
    // It shuts down as its power button is pressed, is copied, and starts again.
    cluster.gnt(&format!("backup export -n {MASTER} deb1")).ok();
    says(LOGIN, 2);
    cluster.gnt("instance remove -f --shutdown-timeout 0 deb1").ok();
    assert!(!cluster.dir().join("disks/file/deb1.example").exists());
    let import = "backup import --start --no-name-check --no-ip-check --ignore-ipolicy -n";
    cluster.gnt(&format!("{import} {MASTER} deb1.example")).ok();
    says(LOGIN, 1);
    typed(&node, "root", "Password:", 1);
    typed(&node, "gantry", "root@deb1:~#", 1);
    typed(&node, "echo marks: $(cat /root/marks)", "marks: once", 1);
    cluster.gnt("instance remove -f --shutdown-timeout 0 deb1").ok();
}
