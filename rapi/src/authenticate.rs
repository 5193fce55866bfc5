//! Who asks: Basic authentication (RFC 7617) against the users' file, tokens as Bearer (RFC 6750) or as the
//! password of Basic, and certificates. A good password is remembered, hashed, so that only the first
//! request of a session pays for its check; a wrong one is answered late.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::access::{Principal, Role};
use model::token::TokenText;
use model::{Uuid, token};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use stdx::Throttle;
use stdx::admission::network;
use stdx::admission::turns::{TurnHolder, TurnLimits, Turns};
use stdx::metrics::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clients::ClientCertificate;
use crate::refusal::Refusal;
use crate::tokens::{Rejected, Tokens};
use crate::users::{User, UsersFile};

/// After how long a wrong password is answered.
pub const WRONG_TIME: Duration = Duration::from_secs(1);
/// Passwords of one address that are looked at at the same time, wrong ones until they are answered: so many
/// guesses a second. Others wait for their turn, over however many connections they come.
const GUESSES_MAX: usize = 4;
/// Addresses that are remembered for that; those without a guess under way are forgotten beyond it.
const GATES_MAX: usize = 4_096;
/// Slow checks at the same time: guesses must leave a processor to everything else. Addresses take turns, so
/// that one that guesses holds up no other.
const CHECKS_MAX: usize = 1;
/// Passwords that are remembered.
const SESSIONS_MAX: usize = 1_024;
/// For how long: a browser's session between two coffees.
const SESSION_TIME: Duration = Duration::from_secs(600);
/// The answer to a client that proved nothing: it does not tell a wrong password from a wrong token.
const WRONG: &str = "the name, the password or the token is wrong, or its time is over";
/// Longest header that is read: names and passwords of 2 KiB.
const HEADER_BYTES_MAX: usize = 4_096;

/// Tells who asks.
#[derive(Debug)]
pub struct Authenticator {
    users: UsersFile,
    tokens: Tokens,
    /// The role of clients that prove nothing.
    anonymous: Option<Role>,
    /// The role of processes of this machine that give no password.
    local: Option<Role>,
    /// Makes digests of passwords worthless elsewhere.
    salt: [Uuid; 2],
    sessions: Mutex<HashMap<[u8; 32], Session>>,
    checks: Turns<()>,
    gates: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
    wrong: Throttle,
    /// Passwords, tokens and certificates that were wrong.
    pub failures: Counter,
    wrong_time: Duration,
}

#[derive(Debug)]
struct Session {
    user: Arc<User>,
    since: Instant,
}

impl Authenticator {
    /// Knows these users, and lets anonymous and local clients do so much.
    pub fn new(
        users: UsersFile,
        tokens: Tokens,
        anonymous: Option<Role>,
        local: Option<Role>,
    ) -> Self {
        Self {
            users,
            tokens,
            anonymous,
            local,
            salt: [Uuid::new_v4(), Uuid::new_v4()],
            sessions: Mutex::default(),
            checks: Turns::new(TurnLimits::undivided(CHECKS_MAX)),
            gates: Mutex::default(),
            wrong: Throttle::new(),
            failures: Counter::default(),
            wrong_time: WRONG_TIME,
        }
    }

    /// The same with another time for wrong passwords, for tests.
    pub fn with_wrong_time(self, wrong_time: Duration) -> Self {
        Self { wrong_time, ..self }
    }

    /// The principal of a client that shows this from this address. A header counts before a
    /// certificate, which a browser shows unasked.
    ///
    /// # Errors
    /// It proves nothing; the answer comes late, as far as it may be a guess.
    pub async fn who(&self, shown: Shown<'_>, peer: IpAddr) -> Result<Principal, Refusal> {
        match (shown.header, shown.certificate) {
            (Some(header), _) => {
                let none =
                    "the header Authorization is none of Basic (RFC 7617) or Bearer (RFC 6750)";
                match credentials(header).ok_or_else(|| Refusal::bad(none))? {
                    Credentials::Password { name, password } => {
                        self.by_password(&name, &password, peer).await
                    }
                    Credentials::Token { name, token } => {
                        self.by_token(name.as_deref(), token.as_ref(), peer).await
                    }
                }
            }
            (None, Some(certificate)) => self.by_certificate(certificate, peer),
            (None, None) => {
                let local = self.local.filter(|_role| peer.to_canonical().is_loopback());
                Ok(local.map_or(Principal::Anonymous(self.anonymous), Principal::Local))
            }
        }
    }

    async fn by_password(
        &self,
        name: &str,
        password: &str,
        peer: IpAddr,
    ) -> Result<Principal, Refusal> {
        let user = self.users.current().get(name);
        let digest = self.digest(name, password);
        if let Some(user) = user.as_ref().filter(|user| self.is_remembered(&digest, user)) {
            return Ok(known(user));
        }
        let turn = self.turn(peer).await;
        let begun = Instant::now();
        if let Some(user) = user
            && self.check(&user, &digest, password, peer).await
        {
            return Ok(known(&user));
        }
        self.note(peer, name, "a password is wrong, or its user unknown");
        self.late(begun, turn).await;
        Err(unauthorized(WRONG))
    }

    /// The log alone says what is wrong with a token: the client gets the same words.
    async fn by_token(
        &self,
        name: Option<&str>,
        token: Option<&TokenText>,
        peer: IpAddr,
    ) -> Result<Principal, Refusal> {
        let is_guess = !token.is_some_and(|token| self.tokens.was_good(token));
        let turn = if is_guess { self.turn(peer).await } else { None };
        let begun = Instant::now();
        let rejected = match token {
            Some(token) => match self.tokens.who(token, name).await? {
                Ok(principal) => return Ok(principal),
                Err(rejected) => rejected,
            },
            None => Rejected { name: None, why: "it has not the form of a token" },
        };
        let turn = if turn.is_none() { self.turn(peer).await } else { turn };
        let name = rejected.name.as_deref().or(name).unwrap_or("-");
        self.note(peer, name, rejected.why);
        self.late(begun, turn).await;
        Err(unauthorized(WRONG))
    }

    /// Nobody guesses certificates, so that this is not late.
    fn by_certificate(
        &self,
        certificate: &ClientCertificate,
        peer: IpAddr,
    ) -> Result<Principal, Refusal> {
        let name = certificate.name();
        let user = name.as_ref().ok().and_then(|name| self.users.current().get(name));
        if let Some(user) = user {
            return Ok(known(&user));
        }
        match &name {
            Ok(name) => self.note(peer, name, "a certificate names nobody of the users' file"),
            Err(why) => self.note(peer, why, "the certificate of a client is refused"),
        }
        Err(unauthorized("the certificate is none of a user of this cluster"))
    }

    /// Counts and logs what was wrong.
    fn note(&self, peer: IpAddr, name: &str, why: &'static str) {
        self.failures.add();
        if let Some(withheld) = self.wrong.pass() {
            // Somebody may have taken it for the name.
            let name = token::masked(name);
            let name = stdx::text::line(&name);
            tracing::warn!(%peer, %name, why, withheld, "somebody is not let in");
        }
    }

    /// Keeps the turn of an address until a wrong guess may be answered.
    async fn late(&self, begun: Instant, turn: Option<OwnedSemaphorePermit>) {
        tokio::time::sleep_until((begun + self.wrong_time).into()).await;
        drop(turn);
    }

    /// A turn to guess, for which the others of the address wait. The semaphore is never closed.
    async fn turn(&self, peer: IpAddr) -> Option<OwnedSemaphorePermit> {
        self.gate(peer).acquire_owned().await.ok()
    }

    /// The user whose name a header gives, if there is such a user.
    pub fn claimed(&self, header: &HeaderValue) -> Option<Arc<str>> {
        let Credentials::Password { name, .. } = credentials(header)? else { return None };
        Some(Arc::clone(&self.users.current().get(&name)?.name))
    }

    /// Bounds the guesses of one address.
    fn gate(&self, peer: IpAddr) -> Arc<Semaphore> {
        let mut gates = self.gates.lock();
        if gates.len() >= GATES_MAX {
            gates.retain(|_peer, gate| gate.strong_count() > 0);
        }
        let gate = gates.entry(network(peer)).or_default();
        gate.upgrade().unwrap_or_else(|| {
            let fresh = Arc::new(Semaphore::new(GUESSES_MAX));
            *gate = Arc::downgrade(&fresh);
            fresh
        })
    }

    /// Whether a password is good, which is remembered then. Of many connections that a client opens at once,
    /// one pays for the check, and the others find the password remembered.
    async fn check(
        &self,
        user: &Arc<User>,
        digest: &[u8; 32],
        password: &str,
        peer: IpAddr,
    ) -> bool {
        if !user.password.is_slow() {
            let is = user.password.is(&user.name, password);
            if is {
                self.remember(*digest, user);
            }
            return is;
        }
        let holder = TurnHolder { user: (), address: Some(network(peer)) };
        let turn = self.checks.acquire(&holder, 1).await;
        if self.is_remembered(digest, user) {
            return true;
        }
        let (checked, password) = (Arc::clone(user), password.to_owned());
        // The turn ends with the check, also where nobody waits for that any more.
        let check = stdx::apart(move || (checked.password.is(&checked.name, &password), turn));
        let Ok((true, _turn)) = check.await else { return false };
        self.remember(*digest, user);
        true
    }

    fn remember(&self, digest: [u8; 32], user: &Arc<User>) {
        let mut sessions = self.sessions.lock();
        if sessions.len() >= SESSIONS_MAX {
            sessions.retain(|_digest, session| session.since.elapsed() < SESSION_TIME);
        }
        if sessions.len() < SESSIONS_MAX {
            sessions.insert(digest, Session { user: Arc::clone(user), since: Instant::now() });
        }
    }

    /// Whether the password was good a while ago, of the user as the file has it now.
    fn is_remembered(&self, digest: &[u8; 32], user: &Arc<User>) -> bool {
        self.sessions.lock().get(digest).is_some_and(|session| {
            Arc::ptr_eq(&session.user, user) && session.since.elapsed() < SESSION_TIME
        })
    }

    fn digest(&self, name: &str, password: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        for salt in &self.salt {
            hash.update(salt.as_bytes());
        }
        // A name has no colon.
        hash.chain_update(name).chain_update(":").chain_update(password).finalize().into()
    }
}

/// The refusal for a client that has to log in.
pub fn unauthorized(explain: &str) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, explain)
}

/// The proofs of identity that a client shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown<'a> {
    /// The header `Authorization`.
    pub header: Option<&'a HeaderValue>,
    /// The certificate of its connection.
    pub certificate: Option<&'a ClientCertificate>,
}

fn known(user: &User) -> Principal {
    Principal::User { name: Arc::clone(&user.name), role: user.role }
}

/// The credentials in a header. A password that has the form of a token is one.
enum Credentials {
    Password { name: String, password: String },
    Token { name: Option<String>, token: Option<TokenText> },
}

fn credentials(header: &HeaderValue) -> Option<Credentials> {
    let text = header.to_str().ok().filter(|text| text.len() <= HEADER_BYTES_MAX)?;
    let (scheme, rest) = text.trim().split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Credentials::Token { name: None, token: rest.trim().parse().ok() });
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    let name = name.to_owned();
    Some(match password.parse() {
        Ok(token) => Credentials::Token { name: Some(name), token: Some(token) },
        Err(_no_token) => Credentials::Password { name, password: password.to_owned() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn header(text: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(text))).unwrap()
    }

    fn by(header: &HeaderValue) -> Shown<'_> {
        Shown { header: Some(header), certificate: None }
    }

    fn good_token() -> TokenText {
        TokenText::of_random([7; model::token::RANDOM_BYTES])
    }

    fn authenticator(users: &str) -> (Authenticator, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        stdx::atomic::write(&path, users.as_bytes(), 0o600).unwrap();
        let ask = |digest| -> std::pin::Pin<Box<dyn Future<Output = crate::tokens::Told> + Send>> {
            let (name, role) = ("ci".parse().unwrap(), Role::Operator);
            let good = model::token::TokenGrant { name, role, expires: None, revoked: None };
            Box::pin(std::future::ready(Ok((digest == good_token().digest()).then_some(good))))
        };
        let tokens = Tokens::asking(ask, stdx::Clock::manual(0));
        let made = Authenticator::new(UsersFile::new(path), tokens, None, None);
        (made.with_wrong_time(Duration::ZERO), dir)
    }

    #[tokio::test]
    async fn users_are_known_by_their_passwords() {
        let (door, _dir) = authenticator("alice se:cret write\nbob $5$saltstring$x\n");
        let alice = door.who(by(&header("alice:se:cret")), ELSEWHERE).await.unwrap();
        assert_eq!(alice, Principal::User { name: "alice".into(), role: Role::Operator });
        for wrong in ["alice:secret", "alice:", "bob:x", "eve:x", ":"] {
            let told = door.who(by(&header(wrong)), ELSEWHERE).await.unwrap_err();
            assert_eq!(told.code, 401, "{wrong}");
        }
        assert_eq!(door.failures.get(), 5);
        for none in ["Digest abc", "Basic", "Basic !!", "Basic YWxpY2U="] {
            let told = door.who(by(&HeaderValue::from_static(none)), ELSEWHERE).await;
            assert_eq!(told.unwrap_err().code, 400, "{none}");
        }
        let nobody = door.who(Shown::default(), LOOPBACK).await.unwrap();
        assert_eq!(nobody, Principal::Anonymous(None));
    }

    #[tokio::test]
    async fn a_good_password_is_remembered_until_the_file_changes() {
        let (door, dir) = authenticator("");
        let bcrypt = bcrypt::hash("hunter2", 4).unwrap();
        let path = dir.path().join("users");
        stdx::atomic::write(&path, format!("bob {bcrypt} write\n").as_bytes(), 0o600).unwrap();
        assert!(door.who(by(&header("bob:hunter2")), ELSEWHERE).await.is_ok());
        assert_eq!(door.sessions.lock().len(), 1);
        assert!(door.who(by(&header("bob:hunter3")), ELSEWHERE).await.is_err());
        let other = bcrypt::hash("hunter3", 4).unwrap();
        stdx::atomic::write(&path, format!("bob {other} write\n").as_bytes(), 0o600).unwrap();
        assert!(door.who(by(&header("bob:hunter2")), ELSEWHERE).await.is_err());
        assert!(door.who(by(&header("bob:hunter3")), ELSEWHERE).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_few_guesses_a_second_and_others_do_not_wait_for_it() {
        let (door, _dir) = authenticator("alice secret\n");
        let door = Arc::new(door.with_wrong_time(WRONG_TIME));
        let begun = tokio::time::Instant::now();
        let guesses: Vec<_> = (0..3 * GUESSES_MAX).map(|n| header(&format!("alice:{n}"))).collect();
        let guess = |n: usize| {
            let (door, header) = (Arc::clone(&door), guesses[n].clone());
            async move { door.who(by(&header), ELSEWHERE).await }
        };
        let mut running = tokio::task::JoinSet::new();
        for n in 0..guesses.len() {
            running.spawn(guess(n));
        }
        tokio::task::yield_now().await;
        assert!(door.who(by(&header("alice:secret")), LOOPBACK).await.is_ok());
        assert!(begun.elapsed() < WRONG_TIME, "another address is let in at once");
        while let Some(told) = running.join_next().await {
            assert_eq!(told.unwrap().unwrap_err().code, 401);
        }
        assert_eq!(door.failures.get(), 12);
    }

    #[tokio::test]
    async fn only_processes_of_this_machine_are_local() {
        let (door, _dir) = authenticator("");
        let door = Authenticator { local: Some(Role::Operator), ..door };
        assert_eq!(
            door.who(Shown::default(), LOOPBACK).await.unwrap(),
            Principal::Local(Role::Operator)
        );
        assert_eq!(
            door.who(Shown::default(), ELSEWHERE).await.unwrap(),
            Principal::Anonymous(None)
        );
        let mapped = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(
            door.who(Shown::default(), mapped).await.unwrap(),
            Principal::Local(Role::Operator)
        );
    }

    #[tokio::test]
    async fn programs_are_known_by_their_tokens() {
        let (door, _dir) = authenticator("alice secret write\n");
        let ci = Principal::User { name: "ci".into(), role: Role::Operator };
        let (good, wrong) = (good_token(), TokenText::of_random([8; model::token::RANDOM_BYTES]));
        let bearer = |token: &str| HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        for shown in [bearer(good.expose()), header(&format!("ci:{}", good.expose()))] {
            assert_eq!(door.who(by(&shown), ELSEWHERE).await.unwrap(), ci);
        }
        assert_eq!(door.failures.get(), 0);
        let mut told = std::collections::BTreeSet::new();
        for shown in [
            bearer("abc"),
            bearer(wrong.expose()),
            header(&format!("alice:{}", good.expose())),
            header(&format!("ci:{}", wrong.expose())),
        ] {
            let refusal = door.who(by(&shown), ELSEWHERE).await.unwrap_err();
            told.insert((refusal.code, refusal.explain));
        }
        let refusal = door.who(by(&header("alice:x")), ELSEWHERE).await.unwrap_err();
        told.insert((refusal.code, refusal.explain));
        assert_eq!(Vec::from_iter(told), [(401, WRONG.to_owned())], "nothing leaks");
        assert_eq!(door.failures.get(), 5);
    }
}
