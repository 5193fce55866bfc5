use std::net::Ipv4Addr;

use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream};
use tokio::net::TcpListener;

use rpc::Client;
use rpc::calls::{AllowList, Caller, Version};
use rpc::enrol::Invitation;
use rpc::identity::Authority;
use stdx::Tasks;

use super::*;
use crate::daemon::{Daemon, Settings};
use netboot::leasing::Leasing;
use netboot::testing::{SMALL, epoch, membership, name, now};

const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn options(port: Option<u16>) -> EnrollOptions {
    let name = Some(name("n2"));
    EnrollOptions { address: None, port, name, exit: false, again: false, token_file: None }
}

/// The output of `enroll`, as it appears.
struct Screen(DuplexStream);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        use tokio::io::AsyncWrite;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(&mut self.0).poll_write(&mut context, bytes) {
            std::task::Poll::Ready(result) => result,
            std::task::Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn read_token(screen: DuplexStream) -> Token {
    let mut lines = BufReader::new(screen).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some(token) = line.strip_prefix("token: ") {
            return token.parse().unwrap();
        }
    }
    panic!("no token was shown");
}

#[tokio::test]
async fn a_machine_becomes_a_node_and_serves_on_the_same_port() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    let authority = Authority::create(&name("c1"), now()).unwrap();
    let master = Arc::new(authority.issue(&name("n1"), &[LOCAL.ip()], now()).unwrap());
    let client = Client::new(Arc::clone(&master), Tasks::new());
    let caller = Caller { name: name("n1"), fingerprint: master.fingerprint() };
    let allow = AllowList { epoch: epoch(1), callers: vec![caller] };
    let member = rpc::calls::Membership { allow, ..membership("n2") };
    let (near, far) = tokio::io::duplex(4_096);
    let (mut screen, clock, waiting) = (Screen(near), Clock::system(), options(None));
    let enrolling = enroll(&layout, LOCAL, &waiting, &clock, &mut screen);
    let adding = async {
        let token = read_token(far).await;
        let address = token.address().parse().unwrap();
        let (fingerprint, secret) = (token.fingerprint, token.secret);
        let invitation = Invitation { node: name("n2"), address, fingerprint, secret };
        let enrolment = invitation.begin(master.name(), &Tasks::new()).await.unwrap();
        let request = &enrolment.offer().request;
        let pem = authority.sign(request, &name("n2"), &[LOCAL.ip()], now()).unwrap();
        let pin = enrolment.finish(&pem, authority.certificate(), &member, &client).await.unwrap();
        (address, pin)
    };
    let (enrolled, (address, pin)) = tokio::join!(enrolling, adding);
    enrolled.unwrap();
    let settings = Settings {
        layout: layout.clone(),
        rpc: address,
        boot: LOCAL,
        boot_alias: None,
        keys: None,
        metrics: stdx::metrics::Endpoint::Nowhere,
        versions: rpc::wire::Versions::OURS,
        leasing: Leasing {
            port: 1,
            relays_only: Vec::new(),
            boot: LOCAL,
            counters: Arc::default(),
        },
        powercycle: crate::powercycle::of_machine(false, &layout),
        segment_bytes: SMALL,
        blob_bytes_max: 1 << 30,
        ipxe: "/nowhere".into(),
        clock: clock.clone(),
    };
    let daemon = Daemon::start(settings).await.unwrap();
    let target = rpc::NodeTarget {
        name: name("n2"),
        address,
        fingerprint: Some(pin),
        renewing: None,
        offline: false,
    };
    let meta = rpc::Meta { epoch: epoch(1), job: None };
    assert_eq!(client.call(&target, Version {}, meta).await.unwrap().node, name("n2"));
    daemon.stop().await.unwrap();
    let again = enroll(&layout, LOCAL, &waiting, &clock, &mut io::sink()).await.unwrap_err();
    assert!(again.to_string().contains("gnt node remove n2"), "{again}");
}

#[tokio::test]
async fn a_taken_port_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind(LOCAL).await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let layout = Layout::new(dir.path());
    let waiting = options(Some(port));
    let clock = Clock::system();
    let error = enroll(&layout, LOCAL, &waiting, &clock, &mut io::sink()).await.unwrap_err();
    assert!(error.to_string().contains(&port.to_string()), "{error}");
    assert!(!is_enrolled(&layout));
}

#[test]
fn a_token_names_an_address_that_others_can_reach() {
    let named: IpAddr = [192, 0, 2, 4].into();
    assert_eq!(reachable(named), named);
    assert!(!reachable([0, 0, 0, 0].into()).is_unspecified());
}
