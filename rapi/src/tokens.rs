//! Tokens: what the master says of them, remembered for so short a time that one that was ended stops soon.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use luxi::method::GantryToken;
use model::Timestamp;
use model::access::Principal;
use model::token::{TOKENS_MAX, TokenDigest, TokenGrant, TokenState, TokenText};
use parking_lot::Mutex;
use stdx::Clock;

use crate::master_pool::MasterPool;
use crate::refusal::Refusal;
use crate::shares::own;

/// How long a good token is remembered. A master that hears no majority tells of tokens for 4 s more, so
/// that an ended one lets nobody in after less than 10 s.
pub const KNOWN_TIME: Duration = Duration::from_secs(5);

/// The grant of a token; none if there is no such token.
pub type Told = Result<Option<TokenGrant>, Refusal>;
/// Asks the master.
type Ask = dyn Fn(TokenDigest) -> Pin<Box<dyn Future<Output = Told> + Send>> + Send + Sync;

/// Why a token lets nobody in. Only the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The token's name, if it has one.
    pub name: Option<String>,
    /// The fault.
    pub why: &'static str,
}

impl Rejected {
    fn unnamed(why: &'static str) -> Self {
        Self { name: None, why }
    }
}

/// Tells tokens from others.
pub struct Tokens {
    ask: Box<Ask>,
    clock: Clock,
    /// Good ones, as many as a cluster has at most, with the moment when the master was asked.
    known: Mutex<HashMap<TokenDigest, (Arc<TokenGrant>, Instant)>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// Those of the master behind `master_pool`.
    pub fn of(link: Arc<MasterPool>) -> Self {
        let ask = move |sha256| -> Pin<Box<dyn Future<Output = Told> + Send>> {
            let link = Arc::clone(&link);
            Box::pin(async move { link.ask(&own(), None, GantryToken { sha256 }).await })
        };
        Self::asking(ask, Clock::system())
    }

    /// The tokens that `ask` knows.
    pub fn asking(
        ask: impl Fn(TokenDigest) -> Pin<Box<dyn Future<Output = Told> + Send>> + Send + Sync + 'static,
        clock: Clock,
    ) -> Self {
        Self { ask: Box::new(ask), clock, known: Mutex::default() }
    }

    /// Whether it was good some time ago, so that it is no guess.
    pub fn was_good(&self, token: &TokenText) -> bool {
        self.known.lock().contains_key(&token.digest())
    }

    /// The principal with this token; with `name` only the user of that name.
    ///
    /// # Errors
    /// The master gives no answer.
    pub async fn who(
        &self,
        token: &TokenText,
        name: Option<&str>,
    ) -> Result<Result<Principal, Rejected>, Refusal> {
        let digest = token.digest();
        let grant = match self.fresh(&digest) {
            Some(grant) => grant,
            None => {
                let asked = Instant::now();
                let Some(grant) = (self.ask)(digest).await?.map(Arc::new) else {
                    self.known.lock().remove(&digest);
                    return Ok(Err(Rejected::unnamed("there is no such token")));
                };
                self.remember(digest, &grant, asked);
                grant
            }
        };
        let rejected = |why| Rejected { name: Some(grant.name.to_string()), why };
        match grant.state(Timestamp::from_micros(self.clock.now_micros())) {
            TokenState::Active => {}
            TokenState::Expired => {
                self.known.lock().remove(&digest);
                return Ok(Err(rejected("the token has expired")));
            }
            TokenState::Revoked => {
                self.known.lock().remove(&digest);
                return Ok(Err(rejected("the token was revoked")));
            }
        }
        if name.is_some_and(|name| name != grant.name.as_str()) {
            return Ok(Err(rejected("the token has another name than the user that was given")));
        }
        Ok(Ok(Principal::User { name: grant.name.as_str().into(), role: grant.role }))
    }

    fn fresh(&self, digest: &TokenDigest) -> Option<Arc<TokenGrant>> {
        let known = self.known.lock();
        let (grant, asked) = known.get(digest)?;
        (asked.elapsed() < KNOWN_TIME).then(|| Arc::clone(grant))
    }

    fn remember(&self, digest: TokenDigest, grant: &Arc<TokenGrant>, asked: Instant) {
        let mut known = self.known.lock();
        if known.len() >= TOKENS_MAX {
            known.retain(|_digest, (_grant, asked)| asked.elapsed() < KNOWN_TIME);
        }
        if known.len() < TOKENS_MAX {
            known.insert(digest, (Arc::clone(grant), asked));
        }
    }
}

#[cfg(test)]
mod tests {
    use model::access::Role;
    use model::token::RANDOM_BYTES;

    use super::*;

    const NOW: i64 = 1_700_000_000_000_000;

    /// Tokens of a master that says this of every one, and how often it was asked.
    fn tokens(told: &Arc<Mutex<Told>>, clock: &Clock) -> (Tokens, Arc<Mutex<u32>>) {
        let (told, asked) = (Arc::clone(told), Arc::<Mutex<u32>>::default());
        let count = Arc::clone(&asked);
        let ask = move |_digest| -> Pin<Box<dyn Future<Output = Told> + Send>> {
            *count.lock() += 1;
            Box::pin(std::future::ready(told.lock().clone()))
        };
        (Tokens::asking(ask, clock.clone()), asked)
    }

    fn grant(expires: Option<i64>) -> TokenGrant {
        let expires = expires.map(Timestamp::from_micros);
        let (name, role) = ("ci".parse().unwrap(), Role::Operator);
        TokenGrant { name, role, expires, revoked: None }
    }

    #[tokio::test]
    async fn a_token_is_asked_for_once_and_ends_by_the_clock() {
        let told = Arc::new(Mutex::new(Ok(Some(grant(Some(NOW + 10))))));
        let clock = Clock::manual(NOW);
        let (tokens, asked) = tokens(&told, &clock);
        let token = TokenText::of_random([1; RANDOM_BYTES]);
        let user = Principal::User { name: "ci".into(), role: Role::Operator };
        assert!(!tokens.was_good(&token));
        for name in [None, Some("ci")] {
            assert_eq!(tokens.who(&token, name).await.unwrap().unwrap(), user);
        }
        let other = tokens.who(&token, Some("cd")).await.unwrap().unwrap_err();
        assert!(other.why.contains("another name"), "{other:?}");
        // It is remembered while the master is away, until its own end.
        *told.lock() = Err(Refusal::bad("away"));
        assert_eq!(tokens.who(&token, None).await.unwrap().unwrap(), user);
        assert_eq!((*asked.lock(), tokens.was_good(&token)), (1, true));
        clock.set(NOW + 10);
        let ended = tokens.who(&token, None).await.unwrap().unwrap_err();
        assert_eq!(ended, Rejected { name: Some("ci".to_owned()), why: "the token has expired" });
        assert!(!tokens.was_good(&token));
        assert!(tokens.who(&token, None).await.is_err(), "the master is asked anew");
    }

    #[tokio::test]
    async fn what_was_ended_is_told_apart_in_the_log() {
        let token = TokenText::of_random([1; RANDOM_BYTES]);
        let revoked = Some(Timestamp::from_micros(NOW - 1));
        for (told, why) in [
            (None, "there is no such token"),
            (Some(grant(Some(NOW))), "the token has expired"),
            (Some(TokenGrant { revoked, ..grant(None) }), "the token was revoked"),
        ] {
            let told = Arc::new(Mutex::new(Ok(told)));
            let (tokens, _asked) = tokens(&told, &Clock::manual(NOW));
            assert_eq!(tokens.who(&token, None).await.unwrap().unwrap_err().why, why);
            assert!(!tokens.was_good(&token));
        }
    }

    #[tokio::test]
    async fn a_token_is_remembered_for_a_short_time() {
        let told = Arc::new(Mutex::new(Ok(Some(grant(None)))));
        let (tokens, _asked) = tokens(&told, &Clock::manual(NOW));
        let token = TokenText::of_random([1; RANDOM_BYTES]);
        assert!(tokens.who(&token, None).await.unwrap().is_ok());
        *told.lock() = Ok(None);
        assert!(tokens.who(&token, None).await.unwrap().is_ok());
        for (_grant, asked) in tokens.known.lock().values_mut() {
            *asked = asked.checked_sub(KNOWN_TIME).unwrap();
        }
        assert!(tokens.who(&token, None).await.unwrap().is_err());
    }
}
