//! The address that moves with the master, on this machine's interface. Nothing is remembered but
//! what the kernel holds, so neither a crash of the agent nor a restart changes anything.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use rpc::calls::{AddressChanged, MasterAddressDown, MasterAddressHere, MasterAddressUp};
use stdx::Tasks;
use stdx::net::announce::announcements;
use stdx::net::{Addresses, Interface, LinkSocket, interfaces};
use tokio::sync::watch;
use tokio::time::Instant;

mod plan;

pub use plan::Refused;
use plan::{Step, Wanted};

/// How often the link is told of an address that was taken: frames get lost, and a switch may need
/// a moment before it passes any on. As often as other programs of this kind do.
const ANNOUNCEMENTS: u32 = 5;
/// Pause between two of them.
const ANNOUNCEMENT_PAUSE: Duration = Duration::from_secs(1);

/// How long an address stays that no master looks after: one that leads asks every two seconds, and
/// one that is restarted is back before. Without one nobody answers there, and the next one may have it
/// elsewhere by now.
const UNASKED_MAX: Duration = Duration::from_mins(1);

/// An address that was neither taken nor given up.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// Something stands in the way.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The interfaces are not known.
    #[error("cannot list this node's interfaces and addresses")]
    List(#[source] io::Error),
    /// The agent may not.
    #[error("noded may not change addresses here: it needs CAP_NET_ADMIN to {what} {address}")]
    NotPermitted {
        /// The action, as a verb.
        what: &'static str,
        address: IpAddr,
    },
    /// The kernel refused.
    #[error("cannot {what} the address {address}/{prefix} on the interface numbered {index}")]
    Kernel {
        /// The action, as a verb.
        what: &'static str,
        address: IpAddr,
        prefix: u8,
        /// The interface.
        index: u32,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

impl AddressError {
    /// The command that ends it, where `node` is this one.
    pub fn remedy(&self, node: &str) -> Option<String> {
        match self {
            Self::Refused(refused) => Some(refused.remedy(node)),
            Self::NotPermitted { .. } => Some(format!(
                "`systemctl restart gantry-noded` on {node}: the packaged unit has the capability"
            )),
            Self::List(_) | Self::Kernel { .. } => None,
        }
    }
}

/// The master's address on this machine.
#[derive(Debug)]
pub struct MasterAddress {
    /// One change at a time.
    turn: Mutex<()>,
    /// Counts changes: announcements of an older one end.
    changes: watch::Sender<u64>,
    /// When a master last looked after the address here, and which that was.
    asked: watch::Sender<Option<(Instant, MasterAddressDown)>>,
    tasks: Tasks,
}

impl Default for MasterAddress {
    fn default() -> Self {
        Self {
            turn: Mutex::default(),
            changes: watch::channel(0).0,
            asked: watch::channel(None).0,
            tasks: Tasks::new(),
        }
    }
}

impl MasterAddress {
    /// Takes the address, or keeps it, and tells the link in any case: once before this returns,
    /// and some times more afterwards.
    ///
    /// # Errors
    /// It cannot be taken here. A failure to tell the link is in the log.
    pub async fn up(&self, call: &MasterAddressUp) -> Result<AddressChanged, AddressError> {
        let MasterAddressUp { address, prefix, netdev } = call;
        self.is_asked_for(*address, *prefix, netdev);
        let (changed, interface) = stdx::aside(|| {
            let wanted = Wanted { address: *address, prefix: *prefix, netdev };
            let _turn = self.turn.lock();
            let all = interfaces().map_err(AddressError::List)?;
            let mut kernel = Addresses::open().map_err(AddressError::List)?;
            let held = kernel.list().map_err(AddressError::List)?;
            let steps = wanted.up(&all, &held)?;
            let changed = carry_out(&mut kernel, steps)?;
            Ok::<_, AddressError>((changed, wanted.interface(&all)?.clone()))
        })?;
        if changed {
            tracing::info!(%address, prefix, netdev, "the master's address is taken");
        }
        self.announce(*address, interface).await;
        Ok(AddressChanged { changed })
    }

    /// Whether the address is where it should be, and nowhere else. Not where its interface is gone
    /// or off.
    ///
    /// # Errors
    /// The addresses of the machine are not known.
    pub fn is_here(&self, call: &MasterAddressHere) -> Result<bool, AddressError> {
        let MasterAddressHere { address, prefix, netdev } = call;
        self.is_asked_for(*address, *prefix, netdev);
        let wanted = Wanted { address: *address, prefix: *prefix, netdev };
        let _turn = self.turn.lock();
        let all = interfaces().map_err(AddressError::List)?;
        let mut kernel = Addresses::open().map_err(AddressError::List)?;
        let held = kernel.list().map_err(AddressError::List)?;
        Ok(wanted.up(&all, &held).is_ok_and(|steps| steps.is_empty()))
    }

    fn is_asked_for(&self, address: IpAddr, prefix: u8, netdev: &str) {
        let held = MasterAddressDown { address, prefix, netdev: netdev.to_owned() };
        self.asked.send_replace(Some((Instant::now(), held)));
    }

    /// Gives the address up, if it is here.
    ///
    /// # Errors
    /// It is here, and cannot be removed.
    pub fn down(&self, call: &MasterAddressDown) -> Result<AddressChanged, AddressError> {
        let MasterAddressDown { address, prefix, netdev } = call;
        self.asked.send_replace(None);
        let wanted = Wanted { address: *address, prefix: *prefix, netdev };
        let _turn = self.turn.lock();
        self.changes.send_modify(|changes| *changes += 1);
        let all = interfaces().map_err(AddressError::List)?;
        let mut kernel = Addresses::open().map_err(AddressError::List)?;
        let held = kernel.list().map_err(AddressError::List)?;
        let changed = carry_out(&mut kernel, wanted.down(&all, &held))?;
        if changed {
            tracing::info!(%address, netdev, "the master's address is given up");
        }
        Ok(AddressChanged { changed })
    }

    /// Gives the address up once no master has looked after it for a minute; never ends. The address of
    /// an agent that has ended since is not known here, and stays.
    pub async fn give_up_unasked(&self) {
        let mut asked = self.asked.subscribe();
        loop {
            let Some((at, held)) = asked.borrow_and_update().clone() else {
                // The sender is there as long as this is.
                asked.changed().await.unwrap_or(());
                continue;
            };
            tokio::select! {
                biased;
                _ = asked.changed() => continue,
                () = tokio::time::sleep_until(at + UNASKED_MAX) => {}
            }
            match stdx::aside(|| self.down(&held)) {
                Ok(AddressChanged { changed }) => {
                    if changed {
                        let seconds = UNASKED_MAX.as_secs();
                        tracing::warn!(seconds, "no master had asked for it");
                    }
                }
                Err(error) => {
                    let why = stdx::daemon::chain(&error);
                    tracing::warn!(why, "the master's address stays; tried again");
                    self.asked.send_replace(Some((Instant::now(), held)));
                }
            }
        }
    }

    /// Ends the announcements; the address stays as it is.
    pub async fn end(&self) {
        self.changes.send_modify(|changes| *changes += 1);
        self.tasks.join().await;
    }

    /// Tells the link that the address is here now.
    async fn announce(&self, address: IpAddr, interface: Interface) {
        let Some(mac) = interface.mac else { return };
        self.changes.send_modify(|changes| *changes += 1);
        let mut changes = self.changes.subscribe();
        if let Err(error) = tell(address, &interface, mac).await {
            let netdev = &interface.name;
            tracing::warn!(
                %address, netdev, %error,
                "the link was not told of the master's address: others may go to the old place \
                 for some minutes; noded needs CAP_NET_RAW"
            );
            return;
        }
        self.tasks.spawn("announcements", async move {
            for _again in 1..ANNOUNCEMENTS {
                tokio::select! {
                    _ = changes.changed() => return,
                    () = tokio::time::sleep(ANNOUNCEMENT_PAUSE) => {}
                }
                if let Err(error) = tell(address, &interface, mac).await {
                    tracing::debug!(%address, %error, "the link was not told again");
                }
            }
        });
    }
}

async fn tell(address: IpAddr, interface: &Interface, mac: [u8; 6]) -> io::Result<()> {
    let socket = LinkSocket::open()?;
    for frame in announcements(address, mac) {
        socket.send_as(interface.index, frame.to, frame.ethertype, &frame.payload).await?;
    }
    Ok(())
}

/// Carries the steps out; whether there were any. An address that is there or gone already is as it
/// should be.
fn carry_out(kernel: &mut Addresses, steps: Vec<Step>) -> Result<bool, AddressError> {
    let changed = !steps.is_empty();
    for step in steps {
        let (what, one, done) = match &step {
            Step::Add(one) => ("take", one, kernel.add(one)),
            Step::Remove(one) => ("give up", one, kernel.remove(one)),
        };
        let (address, prefix, index) = (one.address, one.prefix_len, one.index);
        match (done, &step) {
            (Ok(()), _) => {}
            (Err(error), Step::Add(_)) if error.kind() == io::ErrorKind::AlreadyExists => {}
            (Err(error), Step::Remove(_)) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
            (Err(error), _) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(AddressError::NotPermitted { what, address });
            }
            (Err(error), _) => {
                return Err(AddressError::Kernel { what, address, prefix, index, error });
            }
        }
    }
    Ok(changed)
}
