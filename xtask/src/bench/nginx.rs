//! Debian's nginx, which serves the files of a directory.

use std::io;
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;

use crate::guest::GuestError;
use crate::needs;

/// As for static files: sent by the kernel, one worker for each processor, no log of requests.
const CONFIG: &str = "user root; daemon off; worker_processes auto; pid ROOT/nginx.pid;
error_log ROOT/nginx.log;
events { worker_connections 1024; }
http {
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000;
  client_body_temp_path ROOT/nginx.1; proxy_temp_path ROOT/nginx.2; fastcgi_temp_path ROOT/nginx.3;
  uwsgi_temp_path ROOT/nginx.4; scgi_temp_path ROOT/nginx.5;
  server { listen ADDRESS; root ROOT; }
}
";
/// The file that it has while it serves.
pub(super) const PID: &str = "nginx.pid";
/// Mode of its configuration.
const MODE: u32 = 0o644;

/// The command that serves the files below `root` at an address.
pub(super) fn command(root: &Path, address: SocketAddrV4) -> Result<Command, GuestError> {
    let text = CONFIG.replace("ROOT", &root.display().to_string());
    let (path, text) = (root.join("nginx.conf"), text.replace("ADDRESS", &address.to_string()));
    stdx::atomic::write(&path, text.as_bytes(), MODE).map_err(|error| GuestError::File {
        path: path.display().to_string(),
        error: io::Error::other(error),
    })?;
    let mut nginx = Command::new(needs::provide("nginx").map_err(GuestError::Impossible)?);
    nginx.arg("-c").arg(path).arg("-p").arg(root);
    Ok(nginx)
}
