//! Opcodes on tokens of the front door. A job carries the SHA-256 of a token, never the token.

use jobs::locks::Level;
use model::error::ErrorCode;
use model::opcode::{TokenAdd, TokenRemove};
use model::token::{DAYS_MAX, RESERVED, SECONDS_PER_DAY, TOKENS_MAX, Token, TokenState};
use model::{Exception, Timestamp, Word};

use crate::config::{Config, ConfigChange};
use crate::units::{Context, Failure, LogicalUnit, Wanted, wrong};

impl LogicalUnit for TokenAdd {
    type Plan = ();

    /// None: whether there is one already is decided in its transaction, which excludes others.
    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        added(self, &context.config(), context.now())?;
        Ok(())
    }

    /// It says nothing: the output of `gnt token add` is the token alone.
    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        context.transact(move |config| Ok((added(&self, config, now)?, ()))).await
    }
}

/// The changes that add a token and forget those that ended long ago. The same again is the same success.
fn added(op: &TokenAdd, config: &Config, now: Timestamp) -> Result<Vec<ConfigChange>, Exception> {
    let TokenAdd { token_name: name, sha256, role, expires } = op;
    if RESERVED.contains(&name.as_str()) {
        return Err(wrong(format!("the log calls others `{name}`; choose another name")));
    }
    let end = expires.of(now);
    if let Some(end) = end.filter(|end| *end <= now) {
        return Err(wrong(format!("token {name} would have ended already, at {end}")));
    }
    let last = now.plus_seconds(i64::from(DAYS_MAX) * SECONDS_PER_DAY);
    if let Some(end) = end.filter(|end| *end > last) {
        return Err(wrong(format!(
            "token {name} would end at {end}, in more than {DAYS_MAX} days; `never` has no end"
        )));
    }
    let (name, sha256, role) = (name.clone(), *sha256, *role);
    let made = |ctime| Token {
        name: name.clone(),
        sha256,
        role,
        expires: expires.of(ctime),
        revoked: None,
        ctime,
    };
    let token = made(now);
    match config.tokens.get(&token.name) {
        Some(known) if made(known.ctime) == **known => {
            return Ok(Vec::new());
        }
        Some(known) if known.grant().state(now) == TokenState::Active => {
            let text = format!("Token '{}' exists; remove it, or choose another name", token.name);
            return Err(Exception::prereq(text, ErrorCode::AlreadyExists));
        }
        Some(_) | None => {}
    }
    if let Some(same) = config.tokens.by.sha256.of(sha256).next() {
        return Err(wrong(format!("token '{}' is the same; make a new one", same.name)));
    }
    let forgotten: Vec<Word> = config
        .tokens
        .values()
        .filter(|known| known.is_forgotten(now) && known.name != token.name)
        .map(|known| known.name.clone())
        .collect();
    let others = config.tokens.keys().filter(|name| **name != token.name).count();
    if others - forgotten.len() >= TOKENS_MAX {
        return Err(wrong(format!(
            "there are {TOKENS_MAX} tokens, which is the limit; one that ended counts for 30 days"
        )));
    }
    let forgotten = forgotten.into_iter().map(ConfigChange::TokenRemoved);
    Ok(forgotten.chain([ConfigChange::Token(token)]).collect())
}

impl LogicalUnit for TokenRemove {
    type Plan = ();

    fn locks(&self, _level: Level, _config: &Config) -> Result<Wanted, Exception> {
        Ok(Vec::new())
    }

    async fn check(&self, context: &mut Context) -> Result<(), Failure> {
        ended(self, &context.config(), context.now())?;
        Ok(())
    }

    async fn exec(self, (): (), context: &mut Context) -> Result<(), Failure> {
        let now = context.now();
        context.transact(move |config| Ok((ended(&self, config, now)?, ()))).await
    }
}

/// The token stays in the list as revoked, so that the log names it when somebody still uses it.
fn ended(
    op: &TokenRemove,
    config: &Config,
    now: Timestamp,
) -> Result<Vec<ConfigChange>, Exception> {
    let known = config.tokens.get(&op.token_name).filter(|token| !token.is_forgotten(now));
    let known = known.ok_or_else(|| {
        let text = format!("Token '{}' not known", op.token_name);
        Exception::prereq(text, ErrorCode::UnknownEntity)
    })?;
    if known.revoked.is_some() {
        return Ok(Vec::new());
    }
    Ok(vec![ConfigChange::Token(Token { revoked: Some(now), ..known.as_ref().clone() })])
}

pub mod fields;
#[cfg(test)]
mod tests;
