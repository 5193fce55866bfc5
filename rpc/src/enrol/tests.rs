use std::sync::Arc;

use tokio::net::TcpListener;

use model::enrol::{Fingerprint, Token};
use model::layout::Layout;
use model::power_cycle::MachineToken;
use model::power_cycle::RamdiskToken;
use stdx::Tasks;

use super::*;
use crate::calls::{Membership, Version, WasNode};
use crate::client::{Client, RpcError};
use crate::identity::{Authority, NodeIdentity, is_enrolled};
use crate::server::Server;
use crate::testing::{LOCALHOST, allow, membership, name, now};
use crate::wire::FailureKind;

struct Scene {
    dir: tempfile::TempDir,
    authority: Authority,
    master: Arc<NodeIdentity>,
    desk: Arc<Desk>,
    server: Server<Arc<Desk>>,
    tasks: Tasks,
}

impl Scene {
    async fn new() -> Self {
        Self::of(None).await
    }

    /// A machine that is a node already, if it `was` one.
    async fn of(was: Option<Membership>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::create(&name("c1"), now()).unwrap();
        let master = Arc::new(authority.issue(&name("n1"), &[LOCALHOST], now()).unwrap());
        let layout = Layout::new(dir.path());
        let desk = Desk::new(layout, "n2".to_owned(), "0.1".to_owned(), now()).unwrap();
        let desk = Arc::new(match was {
            Some(was) => desk.of_member(WasNode::of(&was)),
            None => desk,
        });
        let listener = TcpListener::bind((LOCALHOST, 0)).await.unwrap();
        let server = desk.serve(listener).unwrap();
        Self { dir, authority, master, desk, server, tasks: Tasks::new() }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.dir.path())
    }

    /// As the operator's token has it, once written and read.
    fn invitation(&self) -> Invitation {
        let address = self.server.address();
        let token = Token {
            host: address.ip().to_string(),
            port: address.port(),
            fingerprint: self.desk.fingerprint(),
            secret: self.desk.secret().clone(),
        };
        let token: Token = token.to_text().expose().parse().unwrap();
        let (fingerprint, secret) = (token.fingerprint, token.secret);
        Invitation { node: name("n2"), address, fingerprint, secret }
    }

    fn client(&self) -> Client {
        Client::new(Arc::clone(&self.master), Tasks::new())
    }

    async fn begin(&self, invitation: Invitation) -> Result<Enrolment, EnrolError> {
        invitation.begin(self.master.name(), &self.tasks).await
    }

    fn sign(&self, enrolment: &Enrolment) -> String {
        self.authority.sign(&enrolment.offer().request, &name("n2"), &[LOCALHOST], now()).unwrap()
    }

    async fn finish(&self, enrolment: &Enrolment, pem: &str) -> Result<Fingerprint, EnrolError> {
        let membership = membership("n2", allow(&[&self.master]));
        let client = self.client();
        enrolment.finish(pem, self.authority.certificate(), &membership, &client).await
    }
}

#[tokio::test]
async fn a_node_gets_its_identity_and_a_repetition_does_no_harm() {
    let scene = Scene::new().await;
    let enrolment = scene.begin(scene.invitation()).await.unwrap();
    assert_eq!(enrolment.offer().hostname, "n2");
    let again = scene.begin(scene.invitation()).await.unwrap();
    assert_eq!(again.offer(), enrolment.offer());
    let pem = scene.sign(&enrolment);
    let fingerprint = scene.finish(&enrolment, &pem).await.unwrap();
    assert_eq!(scene.desk.outcome().await, EnrolmentEnd::Enrolled);
    let (identity, member) = NodeIdentity::load(&scene.layout()).unwrap();
    assert_eq!(identity.fingerprint(), fingerprint);
    assert_eq!((member.node, member.node_id), (name("n2"), 4));
    assert_eq!(scene.finish(&enrolment, &pem).await.unwrap(), fingerprint);
    // Another identity is no repetition.
    let other = scene.sign(&enrolment);
    assert!(matches!(
        scene.finish(&enrolment, &other).await,
        Err(EnrolError::Call(RpcError::Failed { kind: FailureKind::Failed, .. }))
    ));
    assert_eq!(NodeIdentity::load(&scene.layout()).unwrap().0.fingerprint(), fingerprint);
}

#[test]
fn a_machine_with_a_name_takes_no_other_one() {
    let offer = |hostname: &str, named| crate::calls::EnrolOffer {
        hostname: hostname.to_owned(),
        named,
        software: String::new(),
        protocol: crate::wire::Versions::OURS,
        request: String::new(),
        was: None,
        proof: None,
    };
    for (own, node, taken) in [
        ("n3", "n3", true),
        ("N3", "n3", true),
        ("n3", "n3.example", false),
        ("n3.example", "n3", false),
        ("n3", "n33", false),
        ("n33", "n3", false),
        ("n3.example", "n3.example.com", false),
        ("n3.example", "n3.other", false),
    ] {
        assert_eq!(offer(own, true).may_be_called(&name(node)).is_ok(), taken, "{own} as {node}");
        assert_eq!(offer(own, false).may_be_called(&name(node)), Ok(()));
    }
    let why = offer("n3", true).may_be_called(&name("n33")).unwrap_err();
    assert!(why.contains("waits as `n3`") && why.contains("not as `n33`"), "{why}");
}

#[tokio::test]
async fn five_wrong_secrets_end_it() {
    let scene = Scene::new().await;
    let wrong = Invitation { secret: new_secret().unwrap(), ..scene.invitation() };
    for left in (0..5).rev() {
        let error = scene.begin(wrong.clone()).await.unwrap_err().to_string();
        let expected = if left == 0 { "void".to_owned() } else { format!("{left} tries are left") };
        assert!(error.contains(&expected), "{error}");
    }
    assert_eq!(scene.desk.outcome().await, EnrolmentEnd::Void);
    let late = scene.begin(scene.invitation()).await.unwrap_err();
    assert!(late.to_string().contains("void"), "{late}");
    assert!(!is_enrolled(&scene.layout()));
}

#[tokio::test]
async fn another_node_is_not_told_the_secret() {
    let scene = Scene::new().await;
    let elsewhere = Scene::new().await;
    let misled = Invitation { address: elsewhere.server.address(), ..scene.invitation() };
    let error = scene.begin(misled).await.unwrap_err();
    assert!(matches!(error, EnrolError::OtherKey(RpcError::Refused { .. })), "{error:?}");
}

#[tokio::test]
async fn an_identity_for_another_key_is_not_kept() {
    let scene = Scene::new().await;
    let enrolment = scene.begin(scene.invitation()).await.unwrap();
    let request = crate::identity::NodeKey::generate().unwrap().request().unwrap();
    let pem = scene.authority.sign(&request, &name("n2"), &[], now()).unwrap();
    let error = scene.finish(&enrolment, &pem).await.unwrap_err();
    assert!(error.to_string().contains("do not belong together"), "{error}");
    assert!(!is_enrolled(&scene.layout()));
    // It is not used up by that.
    scene.finish(&enrolment, &scene.sign(&enrolment)).await.unwrap();
}

#[tokio::test]
async fn a_node_is_taken_back_as_what_it_was_and_as_nothing_else() {
    let other = Authority::create(&name("c2"), now()).unwrap();
    let other = other.issue(&name("n1"), &[LOCALHOST], now()).unwrap();
    let was = membership("n2", allow(&[&other]));
    let elsewhere = Membership { cluster_uuid: uuid::Uuid::new_v4(), ..was.clone() };
    let renamed = Membership { node: name("n3"), ..was.clone() };
    for (was, taken) in [(was, true), (elsewhere, false), (renamed, false)] {
        let told = format!("{was:?}");
        let scene = Scene::of(Some(was)).await;
        let enrolment = scene.begin(scene.invitation()).await.unwrap();
        match scene.finish(&enrolment, &scene.sign(&enrolment)).await {
            Ok(_) => assert!(taken, "{told}"),
            Err(error) => {
                assert!(!taken && error.to_string().contains("waits to be taken back"), "{error}");
                assert!(!is_enrolled(&scene.layout()));
            }
        }
    }
}

#[tokio::test]
async fn a_node_that_waits_answers_nothing_else() {
    let scene = Scene::new().await;
    let target = crate::testing::target(scene.server.address(), None);
    let error = scene.client().call(&target, Version {}, crate::testing::meta(1)).await;
    assert!(matches!(error, Err(RpcError::Refused { .. })), "{error:?}");
}

#[tokio::test]
async fn where_the_answer_is_lost_the_node_is_asked_for_its_version() {
    let scene = Scene::new().await;
    let enrolment = scene.begin(scene.invitation()).await.unwrap();
    let pem = scene.sign(&enrolment);
    scene.finish(&enrolment, &pem).await.unwrap();
    let Scene { dir, authority, master, desk, server, tasks } = scene;
    let address = server.address();
    server.stop().await;
    let (identity, member) = NodeIdentity::load(&Layout::new(dir.path())).unwrap();
    // The node serves under its new identity by now.
    let agent = Arc::new(crate::testing::MemoryAgent::default());
    let allowed = crate::tls::AllowedCallers::new(member.allow.clone());
    let fence = crate::fence::Fence::new(crate::testing::NoDisk, member.epoch.into());
    let tls = crate::tls::server_config(&identity, allowed.clone()).unwrap();
    let service = crate::service::AgentService::new(agent, fence, allowed);
    let listener = TcpListener::bind(address).await.unwrap();
    let _agent = Server::start(listener, tls, service, crate::server::Limits::default()).unwrap();
    let client = Client::new(Arc::clone(&master), tasks);
    let finished = enrolment.finish(&pem, authority.certificate(), &member, &client).await;
    assert_eq!(finished.unwrap(), identity.fingerprint());
    drop(desk);
}

/// The token of a machine, by the secret of its power cycle.
fn machine_token(secret: &str) -> MachineToken {
    MachineToken::of(&RamdiskToken::new(secret.to_owned())).0
}

async fn machine(
    token: Option<&MachineToken>,
) -> (tempfile::TempDir, Arc<Desk>, Server<Arc<Desk>>) {
    let dir = tempfile::tempdir().unwrap();
    let desk = Desk::new(Layout::new(dir.path()), "m1".to_owned(), "0.1".to_owned(), now());
    let desk = desk.unwrap();
    let desk = Arc::new(match token {
        Some(token) => desk.by_token(token),
        None => desk,
    });
    let server = desk.serve(TcpListener::bind((LOCALHOST, 0)).await.unwrap()).unwrap();
    (dir, desk, server)
}

async fn asked(token: &MachineToken, server: &Server<Arc<Desk>>) -> Result<Enrolment, EnrolError> {
    let invitation = Invitation::of_machine(token, name("m1"), server.address()).await?;
    invitation.begin(&name("n1"), &Tasks::new()).await
}

#[tokio::test]
async fn a_machine_and_the_master_know_each_other_by_one_token() {
    let (ours, other) = (machine_token("ours"), machine_token("other"));
    let (_dir, desk, server) = machine(Some(&ours)).await;
    let enrolment = asked(&ours, &server).await.unwrap();
    enrolment.knows(&ours).unwrap();
    assert!(matches!(enrolment.knows(&other), Err(EnrolError::OtherToken)));

    // A master with another token gets no answer, nor one with the secret of another certificate.
    let (_second_dir, second, _second_server) = machine(Some(&ours)).await;
    assert_ne!(second.secret(), desk.secret());
    let refused = asked(&other, &server).await;
    assert!(matches!(
        refused,
        Err(EnrolError::Call(RpcError::Failed { kind: FailureKind::Secret, .. }))
    ));
    let moved = Invitation {
        secret: second.secret().clone(),
        ..Invitation::of_machine(&ours, name("m1"), server.address()).await.unwrap()
    };
    assert!(moved.begin(&name("n1"), &Tasks::new()).await.is_err());

    // A server that takes any secret, and knows no token, shows no proof.
    let (_plain_dir, plain, plain_server) = machine(None).await;
    let stranger = Invitation {
        secret: plain.secret().clone(),
        ..Invitation::of_machine(&ours, name("m1"), plain_server.address()).await.unwrap()
    };
    let stranger = stranger.begin(&name("n1"), &Tasks::new()).await.unwrap();
    assert!(matches!(stranger.knows(&ours), Err(EnrolError::OtherToken)));
}
