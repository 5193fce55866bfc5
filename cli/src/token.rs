//! `gnt token`.

use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use luxi::method::What;
use model::access::Role;
use model::opcode::{TokenAdd, TokenEnd, TokenRemove};
use model::token::{RANDOM_BYTES, TokenText};
use model::{OpCode, Timestamp, Word};
use stdx::Clock;

use crate::error::CliError;
use crate::list::{ListArguments, ListFieldsArguments, Named};
use crate::output::print;
use crate::session::{Session, confirm};
use crate::span;
use crate::submit::JobArguments;

/// The fields that `list` shows by default.
const USUAL: [&str; 5] = ["name", "role", "state", "ctime", "expires"];

/// The verbs of `gnt token`.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token and print it: it is shown this once, and the cluster keeps its SHA-256 alone.
    Add {
        /// Its name, which the front door takes for that of a user.
        name: Word,
        /// Its rights; `write` and `admin`, the words of Ganeti's users file, are taken too.
        #[arg(long, value_name = "ROLE", value_parser = roles().try_map(|word| word.parse::<Role>()))]
        role: Role,
        /// When it ends: after a span (12h, 30d, 6mo, 1y), at the beginning of a day (2027-01-31, in
        /// UTC), or never [default: 90d]
        #[arg(long, value_name = "TIME", value_parser = end)]
        expires: Option<End>,
        #[command(flatten)]
        job: JobArguments,
    },
    /// List tokens; those that ended stay for 30 days.
    List {
        /// Only these.
        names: Vec<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Describe the fields that `list` can show.
    ListFields(ListFieldsArguments),
    /// End a token: within 10 s it lets nobody in.
    #[command(visible_alias = "revoke")]
    Remove {
        /// Its name.
        name: Word,
        /// Do not ask.
        #[arg(short = 'f', long, visible_alias = "force")]
        yes: bool,
        #[command(flatten)]
        job: JobArguments,
    },
}

/// When a token is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Never,
    After { seconds: i64 },
    At(Timestamp),
}

impl End {
    fn from(self, now: Timestamp) -> TokenEnd {
        match self {
            Self::Never => TokenEnd::NEVER,
            Self::After { seconds } => TokenEnd::At(now.plus_seconds(seconds)),
            Self::At(end) => TokenEnd::At(end),
        }
    }
}

fn roles() -> PossibleValuesParser {
    let [tenant, read, operator, administrator] =
        Role::ALL.map(|role| PossibleValue::new(role.as_str()));
    let [operator, administrator] = [operator.alias("write"), administrator.alias("admin")];
    PossibleValuesParser::new([tenant, read, operator, administrator])
}

fn end(text: &str) -> Result<End, String> {
    let wrong = || "write a span as 12h, 30d or 1y, a day as 2027-01-31, or never".to_owned();
    match text {
        "never" => Ok(End::Never),
        day if day.contains('-') => Timestamp::of_date(day).map(End::At).map_err(|_no| wrong()),
        // A number alone would be seconds, and whoever writes one means days.
        span if span.ends_with(|last: char| last.is_ascii_alphabetic()) => {
            let seconds = span::seconds_or_longer(span).map_err(|_no| wrong())?;
            Ok(End::After { seconds })
        }
        _ => Err(wrong()),
    }
}

/// Carries out one verb.
pub(crate) fn run(verb: Token, session: &Session) -> Result<(), CliError> {
    match verb {
        Token::Add { name, role, expires, job } => add(name, role, expires, &job, session),
        Token::List { names, list } => {
            let chosen = list.chosen(&names, Named::By("name"))?;
            list.print(What::Token, list.fields(&USUAL), &chosen, session)
        }
        Token::ListFields(arguments) => arguments.print(What::Token, session),
        Token::Remove { name: token_name, yes, job } => {
            confirm(&format!("End token {token_name}?"), yes || job.dry_run)?;
            job.run(OpCode::TokenRemove(TokenRemove { token_name }), session).map(drop)
        }
    }
}

/// Prints the token when its job has ended well, or was submitted: one that was refused is worth nothing.
fn add(
    token_name: Word,
    role: Role,
    expires: Option<End>,
    job: &JobArguments,
    session: &Session,
) -> Result<(), CliError> {
    let mut random = [0; RANDOM_BYTES];
    let failed = |error| CliError::Failed(format!("the system gives no random bytes: {error}"));
    getrandom::fill(&mut random).map_err(failed)?;
    let token = TokenText::of_random(random);
    let now = Timestamp::from_micros(Clock::system().now_micros());
    let expires = expires.map_or(TokenEnd::Usual, |end| end.from(now));
    let op = TokenAdd { token_name, sha256: token.digest(), role, expires };
    let _nothing = job.run(OpCode::TokenAdd(op), session)?;
    if job.dry_run { Ok(()) } else { print(token.expose()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_spans_days_or_never() {
        let now = Timestamp::from_micros(5_000_000);
        for (text, seconds) in [
            ("never", None),
            ("30d", Some(5 + 30 * 86_400)),
            ("12h", Some(5 + 12 * 3_600)),
            ("6mo", Some(5 + 180 * 86_400)),
            ("1y", Some(5 + 365 * 86_400)),
            ("2026-11-20", Some(1_795_132_800)),
        ] {
            let told = end(text).unwrap().from(now).of(now).map(Timestamp::seconds);
            assert_eq!(told, seconds, "{text}");
        }
        for wrong in ["", "30", "soon", "2026-13-01", "-1d", "d", "Never"] {
            assert!(end(wrong).is_err(), "{wrong}");
        }
    }
}
