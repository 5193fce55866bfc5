//! A front door without TLS, on loopback, and the master behind it.

use std::collections::HashMap;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use luxi::method::{JobChange, Row};
use luxi::{Caller, Limits, Request, Response, Service, serve};
use model::job::RequestDigest;
use model::layout::Layout;
use rapi::access_log::AccessLog;
use rapi::authenticate::Authenticator;
use rapi::denied::Refusals;
use rapi::front::router;
use rapi::master::Master;
use rapi::master_pool::MasterPool;
use rapi::meters::Meters;
use rapi::rules::KnownRules;
use rapi::server;
use rapi::shares::Shares;
use rapi::state::{Compatibility, Front};
use rapi::tokens::Tokens;
use rapi::users::UsersFile;
use serde_json::json;
use stdx::{Clock, Tasks};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

/// `bob` looks; the others operate. `bob` and `alice` are answered never, as far as they ask for jobs.
const USERS: &str = "bob secret read\nalice secret write\ncarol secret write\n";
const LATE: [&str; 2] = ["bob", "alice"];
/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A master that counts whose questions it leaves without an answer.
#[derive(Debug, Default)]
pub(crate) struct ToyMaster(watch::Sender<HashMap<Arc<str>, usize>>);

impl ToyMaster {
    /// Questions of this user that are not answered.
    pub(crate) fn asked(&self, user: &str) -> usize {
        self.0.borrow().get(user).copied().unwrap_or_default()
    }
}

impl Service for ToyMaster {
    async fn call(
        &self,
        request: Request,
        caller: Caller,
        _digest: Option<RequestDigest>,
    ) -> Response {
        let user = caller.asker.as_deref().map(|asker| Arc::clone(&asker.user));
        let is_about_jobs = matches!(request, Request::QueryJobs(_) | Request::WaitForJobChange(_));
        if let Some(user) = user.filter(|user| is_about_jobs && LATE.contains(&&**user)) {
            self.0.send_modify(|asked| *asked.entry(user).or_default() += 1);
            pending::<()>().await;
        }
        match request {
            Request::QueryJobs(_) => Response::success(&Vec::<Option<Row>>::new()),
            Request::WaitForJobChange(_) => Response::success(&JobChange::Unchanged),
            _ => Response::success(&json!({})),
        }
    }
}

/// A front door, and its master where there is one.
pub(crate) struct Door {
    address: SocketAddr,
    pub(crate) master: Arc<ToyMaster>,
    _tasks: Tasks,
    _stop: watch::Sender<bool>,
    _dir: TempDir,
}

impl Door {
    pub(crate) async fn open() -> Self {
        Self::open_with(true).await
    }

    /// One whose master does not answer.
    pub(crate) async fn without_master() -> Self {
        Self::open_with(false).await
    }

    async fn open_with(has_master: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (stop, stopped) = watch::channel(false);
        let (tasks, master) = (Tasks::new(), Arc::<ToyMaster>::default());
        let socket = dir.path().join("luxi.sock");
        if has_master {
            let listener = luxi::listen(&socket).unwrap();
            let serving = serve(listener, Arc::clone(&master), Limits::default(), stopped.clone());
            tasks.spawn("toy master", serving);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = router(Arc::new(front(dir.path(), &socket)));
        tasks.spawn("front door", server::serve(listener, None, router, stopped));
        Self { address, master, _tasks: tasks, _stop: stop, _dir: dir }
    }

    /// A connection from an address of loopback with this last number.
    pub(crate) async fn connect(&self, from: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 1, from), 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// The status line, headers and body of an answer.
    pub(crate) async fn ask(&self, from: u8, request: &str) -> String {
        let mut stream = self.connect(from).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    }

    /// Waits until so many questions of a user have come to the master.
    pub(crate) async fn until_asked(&self, user: &str, count: usize) {
        let mut asked = self.master.0.subscribe();
        let come = asked.wait_for(|asked| asked.get(user).is_some_and(|asked| *asked >= count));
        let come = tokio::time::timeout(PATIENCE, come).await;
        drop(come.expect("so many come to the master").expect("the master is there"));
    }
}

/// A request without a body, after which the connection ends.
pub(crate) fn request(user: &str, line: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{}\r\n", login(user))
}

/// The header by which a user logs in; none for nobody.
pub(crate) fn login(user: &str) -> String {
    match user {
        "bob" => "Authorization: Basic Ym9iOnNlY3JldA==\r\n".to_owned(),
        "alice" => "Authorization: Basic YWxpY2U6c2VjcmV0\r\n".to_owned(),
        "carol" => "Authorization: Basic Y2Fyb2w6c2VjcmV0\r\n".to_owned(),
        _ => String::new(),
    }
}

fn front(dir: &Path, socket: &Path) -> Front {
    let users = dir.join("users");
    stdx::atomic::write(&users, USERS.as_bytes(), 0o600).unwrap();
    let master = Master::new(socket.to_owned()).with_times(Duration::ZERO, Duration::ZERO);
    let link = Arc::new(MasterPool::new(master, Clock::system()));
    let tokens = Tokens::of(Arc::clone(&link));
    Front {
        link,
        authenticator: Authenticator::new(UsersFile::new(users), tokens, None, None),
        layout: Layout::new(dir),
        shares: Shares::default(),
        access_log: AccessLog::open(&dir.join("access.log")).unwrap(),
        refusals: Refusals::default(),
        meters: Meters::default(),
        compatibility: Compatibility::default(),
        rules: KnownRules::default(),
        machines_by_address: false,
        ramdisk_endpoints: true,
        ramdisks: ironic::Door::default(),
        tls_port: 5080,
    }
}
