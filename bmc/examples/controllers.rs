//! Many machines in one process, each with its management controller. A machine whose power goes on
//! boots from the agent of its rack. `cargo xtask bench lifecycle` starts this program.
#![expect(clippy::print_stdout, reason = "whoever starts it reads the addresses")]
#![expect(clippy::print_stderr, reason = "it has no log")]

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bmc::simulated::{Hook, Simulated};
use model::bmc::PowerState;
use tokio::runtime::Runtime;

/// How long an agent may take for an answer.
const SOON: Duration = Duration::from_secs(120);

/// `controllers SERVER SERIAL…`: prints the URL of each machine's controller in that order, then a line for each
/// boot, until its input ends.
fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let server = words.next().unwrap_or_default();
    let Ok(runtime) = Runtime::new() else { return ExitCode::FAILURE };
    let mut controllers = Vec::new();
    for serial in words {
        match runtime.block_on(Simulated::start(&serial, false, Some(hook(&server, &serial)))) {
            Ok(controller) => {
                println!("{}", controller.url);
                controllers.push(controller);
            }
            Err(error) => {
                eprintln!("no controller for {serial}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let ended = io::copy(&mut io::stdin(), &mut io::sink());
    drop(controllers);
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn hook(server: &str, serial: &str) -> Hook {
    let (server, serial) = (server.to_owned(), serial.to_owned());
    Arc::new(move |power| {
        let (server, serial) = (server.clone(), serial.clone());
        if power == PowerState::On {
            std::thread::spawn(move || match boots(&server, &serial) {
                Ok(()) => println!("booted {serial}"),
                Err(error) => eprintln!("{serial} does not boot: {error}"),
            });
        }
    })
}

/// Does the work of a booting machine: fetches its script and its kernel, and says that it runs.
fn boots(server: &str, serial: &str) -> io::Result<()> {
    let script = asked(server, "GET", &format!("/api/v1/boot/ipxe/{serial}"))?;
    let own = format!("http://{server}");
    let missing = || io::Error::other(format!("its script is {script}"));
    let mut words = script.split_whitespace();
    let kernel = words.find_map(|word| word.strip_prefix(&own).filter(|p| p.contains("/kernel/")));
    let up = words.find_map(|word| word.strip_prefix("gantry.up=")?.strip_prefix(&own));
    asked(server, "GET", kernel.ok_or_else(missing)?)?;
    asked(server, "POST", up.ok_or_else(missing)?).map(drop)
}

/// One request on a connection of its own.
fn asked(server: &str, method: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(SOON))?;
    let rest = format!("Host: {server}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(format!("{method} {path} HTTP/1.1\r\n{rest}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let is_well = answer.starts_with("HTTP/1.1 20");
    let told = || io::Error::other(answer.lines().next().unwrap_or_default().to_owned());
    if is_well { Ok(answer) } else { Err(told()) }
}
