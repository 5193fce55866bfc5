//! The address of the metrics, as a command line says it.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::net::Listening;

/// An address and port, or nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Not served.
    Nowhere,
    /// By HTTP at this address.
    At(SocketAddr),
}

impl Endpoint {
    /// The default of a program. A fixed port can be had once on a machine, so only the installed
    /// program takes it; others serve where they are told to.
    pub fn of_installed(is_installed: bool, address: impl Into<SocketAddr>) -> Self {
        if is_installed { Self::At(address.into()) } else { Self::Nowhere }
    }

    /// The address, if there is one.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Nowhere => None,
            Self::At(address) => Some(address),
        }
    }

    /// The same as a place of metrics.
    pub fn listening(self) -> Option<Listening> {
        let of =
            |address| Listening { address, purpose: "the page of metrics", option: "--metrics" };
        self.address().map(of)
    }
}

/// Neither an address with its port nor the word for nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("give an address and port, as 127.0.0.1:9100 or [::1]:9100, or `none`")]
pub struct EndpointError;

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        match text {
            "none" => Ok(Self::Nowhere),
            address => address.parse().map(Self::At).map_err(|_not_one| EndpointError),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("none"),
            Self::At(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_addresses() {
        for text in ["none", "127.0.0.1:1815", "[::1]:1815"] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), text);
        }
        for text in ["", "None", "127.0.0.1", "1815", "localhost:1815"] {
            assert_eq!(text.parse::<Endpoint>(), Err(EndpointError), "{text}");
        }
    }
}
