//! The names of instances, as the master's resolver knows them.

use std::net::SocketAddr;
use std::time::Duration;

use dns_lookup::{AddrInfoHints, SockType, getaddrinfo};
use model::error::ErrorCode;
use model::layout::RPC_PORT;
use model::{Exception, InstanceName};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::units::{Failure, wrong};

/// How long the resolver may take: three servers, two tries of five seconds each.
const RESOLVE: Duration = Duration::from_secs(30);
/// How long an address may take to answer (Ganeti's).
const ANSWER: Duration = Duration::from_secs(10);
/// Names that are looked up at the same time: each takes a thread, until the resolver ends.
static LOOKUPS: Semaphore = Semaphore::const_new(8);
/// Linux's and every other system's: have the resolver tell the full name.
const CANONICAL_NAME: i32 = 2;

/// Looks whether the resolver knows a name as it is written, and whether somebody has its address already.
///
/// # Errors
/// It does not, or somebody has; or the address is to be looked at without the name.
pub(super) async fn check(
    name: &InstanceName,
    name_check: bool,
    ip_check: bool,
) -> Result<(), Failure> {
    if !name_check {
        return match ip_check {
            true => Err(wrong("Cannot do IP address check without a name check").into()),
            false => Ok(()),
        };
    }
    let known = resolved(name).await?;
    is_same(name.as_str(), &known.full_name)?;
    if ip_check {
        for mut address in known.addresses {
            address.set_port(RPC_PORT);
            if matches!(timeout(ANSWER, TcpStream::connect(address)).await, Ok(Ok(_))) {
                let text = format!("IP {} of instance {name} already in use", address.ip());
                return Err(Exception::prereq(text, ErrorCode::ResourceNotUnique).into());
            }
        }
    }
    Ok(())
}

struct ResolvedName {
    full_name: String,
    addresses: Vec<SocketAddr>,
}

async fn resolved(name: &InstanceName) -> Result<ResolvedName, Exception> {
    let refuse = |why: String| {
        let text = format!(
            "The given name ({name}) does not resolve: {why}; use --no-name-check if it need not"
        );
        Exception::prereq(text, ErrorCode::ResolverError)
    };
    let wanted = name.to_string();
    let look = move || {
        let hints = AddrInfoHints {
            socktype: SockType::Stream.into(),
            flags: CANONICAL_NAME,
            ..AddrInfoHints::default()
        };
        let found = getaddrinfo(Some(&wanted), None, Some(hints)).map_err(std::io::Error::from)?;
        let mut known = ResolvedName { full_name: wanted.clone(), addresses: Vec::new() };
        for one in found {
            let one = one?;
            known.addresses.push(one.sockaddr);
            known.full_name = one.canonname.unwrap_or(known.full_name);
        }
        Ok::<_, std::io::Error>(known)
    };
    let lookup = async {
        let _turn = LOOKUPS.acquire().await;
        tokio::task::spawn_blocking(look).await
    };
    match timeout(RESOLVE, lookup).await {
        Ok(Ok(known)) => known.map_err(|error| refuse(error.to_string())),
        Ok(Err(ended)) => Err(refuse(ended.to_string())),
        Err(_elapsed) => Err(refuse(format!("no answer within {} s", RESOLVE.as_secs()))),
    }
}

/// Refuses a name that the resolver knows as another one.
fn is_same(name: &str, full_name: &str) -> Result<(), Exception> {
    let full_name = full_name.trim_end_matches('.').to_ascii_lowercase();
    let text = match full_name.strip_prefix(name) {
        Some("") => return Ok(()),
        Some(rest) if rest.starts_with('.') => {
            format!("the full name of {name} is {full_name}; use that")
        }
        _ => format!(
            "Resolved hostname '{full_name}' does not look the same as given hostname '{name}'"
        ),
    };
    Err(wrong(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_one_that_the_resolver_has() {
        assert!(is_same("web1.example", "Web1.example.").is_ok());
        for (full, wanted) in [
            ("web1.example.org", "the full name of web1.example is web1.example.org"),
            ("web1.example2", "does not look the same"),
            ("other.example", "does not look the same"),
        ] {
            let told = is_same("web1.example", full).unwrap_err();
            assert!(told.message().contains(wanted), "{}", told.message());
        }
    }

    #[tokio::test]
    async fn what_does_not_resolve_is_refused() {
        let told = async |name: &str, name_check, ip_check| match check(
            &name.parse().unwrap(),
            name_check,
            ip_check,
        )
        .await
        {
            Ok(()) => String::new(),
            Err(Failure::Exception(error)) => error.message().to_owned(),
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(told("nowhere.invalid", false, false).await, "");
        assert!(told("nowhere.invalid", false, true).await.contains("without a name check"));
        let unknown = told("nowhere.invalid", true, true).await;
        assert!(unknown.contains("The given name (nowhere.invalid) does not resolve"), "{unknown}");
        assert_eq!(told("localhost", true, false).await, "");
    }
}
