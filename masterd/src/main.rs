//! `masterd`: the master daemon.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use masterd::process::options::{
    Action, Command, ExportArguments, ImportArguments, InitArguments, SecretsWanted, Serve,
};
use masterd::process::{self as daemon, Executors, Options};
use masterd::store::bootstrap::{self, Init};
use masterd::store::export::{self, passphrase};
use masterd::store::import::{self, Import};
use masterd::store::upgrade::{self, Report};
use model::layout::{Layout, MASTER_METRICS_PORT, MASTER_USER, PEER_PORT};
use model::{Code, Coded, NodeName, Timestamp};
use rpc::identity::IdentityError;
use stdx::Clock;
use stdx::daemon::{Log, chain};
use stdx::metrics::Endpoint;
use stdx::pages::Daemon;

/// A job is some eighty small allocations on several threads; this allocator spends a quarter less
/// of the daemon's own processor time on them than the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// This program, in what it says of itself.
const ME: &str = "masterd";
/// Exit status of a configuration that cannot be used (Ganeti's).
const EXIT_CONFIGURATION: u8 = 2;
/// Exit status where there is no cluster (Ganeti's).
const EXIT_NO_CLUSTER: u8 = 5;
/// Exit status of a daemon that is not the master (Ganeti's).
const EXIT_NOT_MASTER: u8 = 11;
/// A program that runs this one for its operator, as `gnt cluster` does for its `init`, sets this
/// variable. It is the name of this program in usage and errors.
const CALLED_AS: &str = "GANTRY_CALLED_AS";

/// The command line; ends the program where it cannot be read.
fn read() -> Command {
    let mut definition = Command::command();
    if let Some(name) = called_as() {
        definition = definition.bin_name(name);
    }
    let matches = definition.get_matches();
    Command::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The name that the operator called, if it is another one than this program's.
fn called_as() -> Option<String> {
    std::env::var(CALLED_AS).ok().filter(|name| !name.is_empty())
}

fn main() -> ExitCode {
    let definition = Command::command();
    let files = Layout::paths_of(MASTER_USER).collect();
    let pages = Daemon { definition, unit: "gantry-masterd.service", files };
    if let Some(written) = pages.write_if_asked() {
        return written;
    }
    let command = read();
    let layout = Layout::new(&command.root);
    let segment_bytes = command.journal_segment.map(|mib| u64::from(mib) << 20);
    match command.action {
        Some(Action::Init(arguments)) => init(&layout, arguments, segment_bytes),
        Some(Action::Export(arguments)) => export(&layout, &arguments),
        Some(Action::Import(arguments)) => import(&layout, arguments, segment_bytes),
        Some(Action::CheckUpgrade) => check_upgrade(&layout),
        None => serve(layout, &command.serve, segment_bytes),
    }
}

/// Findings go to standard output, obstacles to standard error.
fn check_upgrade(layout: &Layout) -> ExitCode {
    let who = called_as().map_or_else(|| ME.to_owned(), |name| format!("{name} check-upgrade"));
    let found = match upgrade::look::look(layout) {
        Ok(found) => found,
        Err(error) => return failed(&who, &error, 1),
    };
    let software = env!("CARGO_PKG_VERSION");
    let formats = (queue_format::store::FORMAT_OLDEST, queue_format::store::FORMAT);
    say(&Report { found: &found, software, formats }.to_string());
    match upgrade::blocked(&found) {
        None => ExitCode::SUCCESS,
        Some(why) => failed(&who, &why, 1),
    }
}

fn init(layout: &Layout, arguments: InitArguments, segment_bytes: Option<u64>) -> ExitCode {
    let who = called_as().map_or_else(|| ME.to_owned(), |name| format!("{name} init"));
    let node = match arguments.node_name.map_or_else(host_name, Ok) {
        Ok(node) => node,
        Err(why) => return fail(&who, &why, EXIT_CONFIGURATION),
    };
    let wanted = Init {
        cluster: arguments.name,
        node,
        primary_ip: arguments.primary_ip,
        rpc_port: arguments.rpc_port,
        peer_port: arguments.peer_port,
        rack: arguments.rack,
        master_ip: arguments.master_ip,
        master_netdev: arguments.master_netdev,
        master_netmask: arguments.master_netmask,
        candidate_pool_size: arguments.candidate_pool_size,
        segment_bytes,
    };
    let now = Timestamp::from_micros(Clock::system().now_micros());
    match bootstrap::init(layout, &wanted, now) {
        Ok(()) => {
            let alone = match wanted.primary_ip.is_loopback() {
                true => {
                    "\nNo other node can be a candidate: this one has an address that only it reaches. \
                         Begin with --primary-ip for a cluster of several nodes."
                }
                false => "",
            };
            say(&format!(
                "Cluster {} begun; its first node and master is {} ({}:{}).\n\
                 Now start `masterd` and `noded` on this machine, then see `gnt cluster info`.{alone}",
                wanted.cluster, wanted.node, wanted.primary_ip, wanted.rpc_port
            ));
            ExitCode::SUCCESS
        }
        Err(error) => failed(&who, &error, EXIT_CONFIGURATION),
    }
}

fn export(layout: &Layout, arguments: &ExportArguments) -> ExitCode {
    let who = called_as().map_or_else(|| ME.to_owned(), |name| format!("{name} export"));
    let passphrase = match arguments.secrets {
        SecretsWanted::Purge => Ok(None),
        SecretsWanted::Seal => match passphrase::read(arguments.passphrase_file.as_deref()) {
            Ok(Some(passphrase)) => Ok(Some(passphrase)),
            Ok(None) => Err("give the passphrase by --passphrase-file".to_owned()),
            Err(error) => Err(format!("cannot read the passphrase: {error}")),
        },
    };
    let passphrase = match passphrase {
        Ok(passphrase) => passphrase,
        Err(why) => return fail(&who, &why, EXIT_CONFIGURATION),
    };
    let now = Timestamp::from_micros(Clock::system().now_micros());
    match export::at_rest::export(layout, &arguments.file, passphrase.as_ref(), now) {
        Ok(position) => {
            let file = arguments.file.display();
            say(&format!("The store of this machine at position {position} is in {file}."));
            ExitCode::SUCCESS
        }
        Err(error) => failed(&who, &error, 1),
    }
}

fn import(layout: &Layout, arguments: ImportArguments, segment_bytes: Option<u64>) -> ExitCode {
    let who = called_as().map_or_else(|| ME.to_owned(), |name| format!("{name} import"));
    let node = match arguments.node_name.map_or_else(host_name, Ok) {
        Ok(node) => node,
        Err(why) => return fail(&who, &why, EXIT_CONFIGURATION),
    };
    let wanted = Import { file: arguments.file, node, segment_bytes };
    let file = arguments.passphrase_file;
    let ask = || passphrase::read(file.as_deref());
    let now = Timestamp::from_micros(Clock::system().now_micros());
    match import::import(layout, &wanted, ask, now) {
        Ok(imported) => {
            say(&imported.told());
            ExitCode::SUCCESS
        }
        Err(error) => failed(&who, &error, EXIT_CONFIGURATION),
    }
}

fn host_name() -> Result<NodeName, String> {
    let name = nix::unistd::gethostname().map_err(|error| format!("no host name: {error}"))?;
    let name = name.to_string_lossy();
    name.parse()
        .map_err(|error| format!("the host name cannot be used ({error}); give --node-name"))
}

fn serve(layout: Layout, serve: &Serve, segment_bytes: Option<u64>) -> ExitCode {
    match rpc::identity::load_membership(&layout) {
        Err(IdentityError::NotEnrolled { path }) => {
            let why = format!(
                "this machine belongs to no cluster (there is no `{}`); `noded enroll` makes it a \
                 node of one, also where it was one and lost its disk; `gnt cluster init NAME` begins \
                 a new one here",
                path.display()
            );
            return fail(ME, &Code::NotEnrolled.told(&why), EXIT_NO_CLUSTER);
        }
        Err(error) => return failed(ME, &error, EXIT_CONFIGURATION),
        Ok(_) => {}
    }
    let log = Log {
        file: (!serve.log_stderr).then(|| layout.master_log()),
        format: serve.log_format,
        // The engine tells of each heartbeat that finds nobody; who follows is told of otherwise.
        filter: format!("openraft=error,{}", serve.log_filter),
    };
    if let Err(error) = log.install() {
        return fail(ME, &chain(&error), EXIT_CONFIGURATION);
    }
    let usual = |ip: IpAddr, port| Endpoint::of_installed(layout.is_installed(), (ip, port));
    let usual_metrics = usual(Ipv4Addr::LOCALHOST.into(), MASTER_METRICS_PORT);
    let metrics = serve.metrics.unwrap_or(usual_metrics);
    let peers = serve.peers.unwrap_or(usual(Ipv6Addr::UNSPECIFIED.into(), PEER_PORT));
    let executors = match Executors::start() {
        Ok(executors) => executors,
        Err(error) => return fail(ME, &format!("cannot start the runtimes: {error}"), 1),
    };
    let options = Options {
        executors,
        layout,
        durability: serve.durability,
        segment_bytes,
        ganeti_socket: serve.ganeti_socket.clone(),
        ganeti_ssconf: serve.ganeti_ssconf.clone(),
        metrics,
        peers,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(ME, &format!("cannot start the runtime: {error}"), 1),
    };
    match runtime.block_on(daemon::run(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let why = chain(&error);
            // The log may be that of another masterd, which goes on.
            let code = error.code().map(Code::word);
            tracing::error!(pid = std::process::id(), code, why, "this masterd cannot go on");
            let not_master = matches!(
                error,
                daemon::DaemonError::NotMaster { .. } | daemon::DaemonError::OlderCopy { .. }
            );
            failed(ME, &error, if not_master { EXIT_NOT_MASTER } else { EXIT_CONFIGURATION })
        }
    }
}

#[expect(clippy::print_stdout, reason = "the answer to the operator's command")]
fn say(text: &str) {
    println!("{text}");
}

/// Ends by an error, with the code of what an operator must act on.
fn failed(who: &str, error: &(impl Coded + std::error::Error), status: u8) -> ExitCode {
    let why = chain(error);
    fail(who, &error.code().map_or(why.clone(), |code| code.told(&why)), status)
}

#[expect(clippy::print_stderr, reason = "the operator or the journal must see why it ended")]
fn fail(who: &str, why: &str, status: u8) -> ExitCode {
    eprintln!("{who}: {}", stdx::text::lines(why));
    ExitCode::from(status)
}
