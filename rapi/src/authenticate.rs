//! Who asks: Basic authentication (RFC 7617) against the users' file. A good password is remembered, hashed,
//! so that only the first request of a session pays for its check; a wrong one is answered late.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::Uuid;
use model::access::{Principal, Role};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use stdx::Throttle;
use stdx::admission::network;
use stdx::metrics::Counter;
use tokio::sync::Semaphore;

use crate::refusal::Refusal;
use crate::users::{User, UsersFile};

/// After how long a wrong password is answered.
pub const WRONG_TIME: Duration = Duration::from_secs(1);
/// Passwords of one address that are looked at at the same time, wrong ones until they are answered: so many
/// guesses a second. Others wait for their turn, over however many connections they come.
const GUESSES_MAX: usize = 4;
/// Addresses that are remembered for that; those without a guess under way are forgotten beyond it.
const GATES_MAX: usize = 4_096;
/// Slow checks at the same time: guesses must leave a processor to everything else.
const CHECKS_MAX: usize = 1;
/// Passwords that are remembered.
const SESSIONS_MAX: usize = 1_024;
/// For how long: a browser's session between two coffees.
const SESSION_TIME: Duration = Duration::from_secs(600);
/// Longest header that is read: names and passwords of 2 KiB.
const HEADER_BYTES_MAX: usize = 4_096;

/// Tells who asks.
#[derive(Debug)]
pub struct Authenticator {
    users: UsersFile,
    /// What nobody in particular may do.
    anonymous: Option<Role>,
    /// What processes of this machine may do that give no password.
    local: Option<Role>,
    /// Makes digests of passwords worthless elsewhere.
    salt: [Uuid; 2],
    sessions: Mutex<HashMap<[u8; 32], Session>>,
    checks: Arc<Semaphore>,
    gates: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
    wrong: Throttle,
    /// Passwords that were wrong.
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
    #[must_use]
    pub fn new(users: UsersFile, anonymous: Option<Role>, local: Option<Role>) -> Self {
        Self {
            users,
            anonymous,
            local,
            salt: [Uuid::new_v4(), Uuid::new_v4()],
            sessions: Mutex::default(),
            checks: Arc::new(Semaphore::new(CHECKS_MAX)),
            gates: Mutex::default(),
            wrong: Throttle::new(),
            failures: Counter::default(),
            wrong_time: WRONG_TIME,
        }
    }

    /// The same with another time for wrong passwords, for tests.
    #[must_use]
    pub fn with_wrong_time(self, wrong_time: Duration) -> Self {
        Self { wrong_time, ..self }
    }

    /// Who sends this header from this address.
    ///
    /// # Errors
    /// The header is none of Basic authentication, or name and password do not belong together; that is told
    /// late.
    pub async fn who(
        &self,
        header: Option<&HeaderValue>,
        peer: IpAddr,
    ) -> Result<Principal, Refusal> {
        let Some(header) = header else {
            let local = self.local.filter(|_role| peer.to_canonical().is_loopback());
            return Ok(local.map_or(Principal::Anonymous(self.anonymous), Principal::Local));
        };
        let (name, password) = credentials(header).ok_or_else(|| {
            Refusal::bad("the header Authorization is none of Basic authentication (RFC 7617)")
        })?;
        let known =
            |user: Arc<User>| Principal::User { name: Arc::clone(&user.name), role: user.role };
        let user = self.users.current().get(&name);
        let digest = self.digest(&name, &password);
        if let Some(user) = user.as_ref().filter(|user| self.is_remembered(&digest, user)) {
            return Ok(known(Arc::clone(user)));
        }
        let gate = self.gate(peer);
        let _turn = gate.acquire().await;
        let begun = Instant::now();
        if let Some(user) = user
            && self.check(&user, &password).await
        {
            self.remember(digest, &user);
            return Ok(known(user));
        }
        self.failures.add();
        if let Some(withheld) = self.wrong.pass() {
            let name = stdx::text::line(&name);
            tracing::warn!(%peer, %name, withheld, "a password is wrong, or its user unknown");
        }
        tokio::time::sleep_until((begun + self.wrong_time).into()).await;
        Err(unauthorized("name or password is wrong"))
    }

    /// The user whose name a header gives, if there is such a user.
    #[must_use]
    pub fn claimed(&self, header: &HeaderValue) -> Option<Arc<str>> {
        let (name, _password) = credentials(header)?;
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

    async fn check(&self, user: &Arc<User>, password: &str) -> bool {
        if !user.password.is_slow() {
            return user.password.is(&user.name, password);
        }
        let Ok(turn) = Arc::clone(&self.checks).acquire_owned().await else { return false };
        let (user, password) = (Arc::clone(user), password.to_owned());
        let checked = stdx::apart(move || {
            let is = user.password.is(&user.name, &password);
            drop(turn);
            is
        });
        checked.await.unwrap_or(false)
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

/// What somebody is told who has to log in.
#[must_use]
pub fn unauthorized(explain: &str) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, explain)
}

fn credentials(header: &HeaderValue) -> Option<(String, String)> {
    let text = header.to_str().ok().filter(|text| text.len() <= HEADER_BYTES_MAX)?;
    let (scheme, encoded) = text.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn header(text: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(text))).unwrap()
    }

    fn authenticator(users: &str) -> (Authenticator, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        stdx::atomic::write(&path, users.as_bytes(), 0o600).unwrap();
        let made = Authenticator::new(UsersFile::new(path), None, None);
        (made.with_wrong_time(Duration::ZERO), dir)
    }

    #[tokio::test]
    async fn users_are_known_by_their_passwords() {
        let (door, _dir) = authenticator("alice se:cret write\nbob $5$saltstring$x\n");
        let alice = door.who(Some(&header("alice:se:cret")), ELSEWHERE).await.unwrap();
        assert_eq!(alice, Principal::User { name: "alice".into(), role: Role::Operator });
        for wrong in ["alice:secret", "alice:", "bob:x", "eve:x", ":"] {
            let told = door.who(Some(&header(wrong)), ELSEWHERE).await.unwrap_err();
            assert_eq!(told.code, 401, "{wrong}");
        }
        assert_eq!(door.failures.get(), 5);
        for none in ["Bearer abc", "Basic", "Basic !!", "Basic YWxpY2U="] {
            let told = door.who(Some(&HeaderValue::from_static(none)), ELSEWHERE).await;
            assert_eq!(told.unwrap_err().code, 400, "{none}");
        }
        let nobody = door.who(None, LOOPBACK).await.unwrap();
        assert_eq!(nobody, Principal::Anonymous(None));
    }

    #[tokio::test]
    async fn a_good_password_is_remembered_until_the_file_changes() {
        let (door, dir) = authenticator("");
        let bcrypt = bcrypt::hash("hunter2", 4).unwrap();
        let path = dir.path().join("users");
        stdx::atomic::write(&path, format!("bob {bcrypt} write\n").as_bytes(), 0o600).unwrap();
        assert!(door.who(Some(&header("bob:hunter2")), ELSEWHERE).await.is_ok());
        assert_eq!(door.sessions.lock().len(), 1);
        assert!(door.who(Some(&header("bob:hunter3")), ELSEWHERE).await.is_err());
        let other = bcrypt::hash("hunter3", 4).unwrap();
        stdx::atomic::write(&path, format!("bob {other} write\n").as_bytes(), 0o600).unwrap();
        assert!(door.who(Some(&header("bob:hunter2")), ELSEWHERE).await.is_err());
        assert!(door.who(Some(&header("bob:hunter3")), ELSEWHERE).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_few_guesses_a_second_and_others_do_not_wait_for_it() {
        let (door, _dir) = authenticator("alice secret\n");
        let door = Arc::new(door.with_wrong_time(WRONG_TIME));
        let begun = tokio::time::Instant::now();
        let guesses: Vec<_> = (0..3 * GUESSES_MAX).map(|n| header(&format!("alice:{n}"))).collect();
        let guess = |n: usize| {
            let (door, header) = (Arc::clone(&door), guesses[n].clone());
            async move { door.who(Some(&header), ELSEWHERE).await }
        };
        let mut running = tokio::task::JoinSet::new();
        for n in 0..guesses.len() {
            running.spawn(guess(n));
        }
        tokio::task::yield_now().await;
        assert!(door.who(Some(&header("alice:secret")), LOOPBACK).await.is_ok());
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
        assert_eq!(door.who(None, LOOPBACK).await.unwrap(), Principal::Local(Role::Operator));
        assert_eq!(door.who(None, ELSEWHERE).await.unwrap(), Principal::Anonymous(None));
        let mapped = "::ffff:127.0.0.1".parse().unwrap();
        assert_eq!(door.who(None, mapped).await.unwrap(), Principal::Local(Role::Operator));
    }
}
