//! Shell: what something speaks at a port whose protocol is not the one that was told. No probe sends a
//! password.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use model::bmc::{BmcTrust, BmcUrl};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::trust;

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 4;
/// `HTTP/1.1 200`
const STATUS_BYTES: usize = 12;

/// Connects to the first address that answers.
pub(crate) async fn dial(url: &BmcUrl) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    let addresses = tokio::net::lookup_host((url.host.as_str(), url.port)).await?;
    for address in addresses.take(ADDRESSES_MAX) {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether HTTP without TLS is answered there.
pub(crate) async fn speaks_http(url: &BmcUrl, limit: Duration) -> bool {
    let asked = async {
        let mut stream = dial(url).await?;
        let host = url.url_host();
        let request =
            format!("GET /redfish/v1/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut status = [0; STATUS_BYTES];
        stream.read_exact(&mut status).await?;
        Ok::<_, io::Error>(status)
    };
    // A server with TLS may answer plain requests as bad ones.
    let is_good =
        |status: [u8; STATUS_BYTES]| status.starts_with(b"HTTP/1.") && &status[9..] != b"400";
    timeout(limit, asked).await.is_ok_and(|status| status.is_ok_and(is_good))
}

/// Whether TLS is spoken there.
pub(crate) async fn speaks_tls(url: &BmcUrl, limit: Duration) -> bool {
    let shaken = async {
        let config = trust::config(BmcTrust::Any).map_err(io::Error::other)?;
        let name = ServerName::try_from(url.host.clone()).map_err(io::Error::other)?;
        let stream = dial(url).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    };
    timeout(limit, shaken).await.is_ok_and(|shaken| shaken.is_ok())
}
