//! Core: where the screen of a guest is reached by VNC, as its parameter `vnc_bind_address` says.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::InstanceName;

/// VNC counts its displays from this port on.
const BASE_PORT: u16 = 5_900;

/// The place that the parameter names, before it is one instance's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScreenBind {
    Address(IpAddr),
    /// A directory, in which each socket has the name of its instance, as in Ganeti.
    Directory(PathBuf),
}

/// The place at which viewers of one instance are awaited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Screen {
    Address(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
}

/// A parameter that names no such place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScreenError {
    /// Ganeti 3.1 also takes names of interfaces, whose addresses the master does not know.
    #[error("`{0}` is neither an IP address nor the absolute path of a directory")]
    Bind(String),
    /// The instance was made without a port, or with one below VNC's displays.
    #[error("the instance has no port of its own from {BASE_PORT} on, which an address takes")]
    Port,
}

impl ScreenBind {
    /// The place that a value of the parameter names; none where it is empty.
    ///
    /// # Errors
    /// It names none.
    pub fn of(value: &str) -> Result<Option<Self>, ScreenError> {
        Ok(match value {
            "" => None,
            path if Path::new(path).is_absolute() => Some(Self::Directory(path.into())),
            address => {
                let address = address.parse();
                let wrong = |_error| ScreenError::Bind(value.to_owned());
                Some(Self::Address(address.map_err(wrong)?))
            }
        })
    }
}

impl Screen {
    /// The place of an instance with this parameter and port; none where it has no screen.
    ///
    /// # Errors
    /// There is no such place.
    pub fn of(
        bind: &str,
        name: &InstanceName,
        port: Option<u16>,
    ) -> Result<Option<Self>, ScreenError> {
        Ok(match ScreenBind::of(bind)? {
            None => None,
            Some(ScreenBind::Directory(path)) => {
                Some(Self::Socket(path.join(format!("{name}.vnc"))))
            }
            Some(ScreenBind::Address(address)) => {
                let port = port.filter(|port| *port > BASE_PORT).ok_or(ScreenError::Port)?;
                Some(Self::Address(SocketAddr::new(address, port)))
            }
        })
    }

    /// The number of the display that a port is for VNC's viewers.
    pub const fn display(port: u16) -> u16 {
        port.saturating_sub(BASE_PORT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_at_an_address_with_a_port_or_in_a_directory() {
        let name: InstanceName = "web1.example".parse().unwrap();
        let of = |bind| Screen::of(bind, &name, Some(11_000));
        assert_eq!(of(""), Ok(None));
        assert_eq!(of("::1"), Ok(Some(Screen::Address("[::1]:11000".parse().unwrap()))));
        assert_eq!(of("/run/vnc"), Ok(Some(Screen::Socket("/run/vnc/web1.example.vnc".into()))));
        assert_eq!(of("eth0"), Err(ScreenError::Bind("eth0".to_owned())));
        assert_eq!(of("run/vnc"), Err(ScreenError::Bind("run/vnc".to_owned())));
        for port in [None, Some(5_900)] {
            assert_eq!(Screen::of("127.0.0.1", &name, port), Err(ScreenError::Port));
        }
        assert_eq!(Screen::display(11_000), 5_100);
    }
}
