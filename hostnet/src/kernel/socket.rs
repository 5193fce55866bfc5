//! Questions to the kernel, and its answers.

use futures_util::StreamExt as _;
use rtnetlink::Handle;
use rtnetlink::packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use stdx::Tasks;

/// How often a list is read again that changed while it was read.
const READS_MAX: usize = 5;

/// Why the kernel did not do it.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// There is no way to ask it.
    #[error("cannot open a socket of rtnetlink")]
    Socket(#[source] std::io::Error),
    #[error("the kernel refuses")]
    Refused(#[source] std::io::Error),
    /// It did not answer.
    #[error("the connection to the kernel ended")]
    Ended,
    /// Its lists never stood still.
    #[error("the network changed {READS_MAX} times while it was read")]
    Restless,
}

impl KernelError {
    pub(super) fn is(&self, number: i32) -> bool {
        matches!(self, Self::Refused(error) if error.raw_os_error() == Some(number))
    }
}

/// A connection to rtnetlink. It ends when this value does.
#[derive(Debug)]
pub(super) struct Socket(Handle);

impl Socket {
    pub(super) fn open(tasks: &Tasks) -> Result<Self, KernelError> {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(KernelError::Socket)?;
        tasks.spawn("rtnetlink", connection);
        Ok(Self(handle))
    }

    pub(super) async fn list(
        &self,
        message: RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>, KernelError> {
        for _ in 0..READS_MAX {
            let asked = self.ask(message.clone(), NLM_F_REQUEST | NLM_F_DUMP).await?;
            if let (answers, true) = asked {
                return Ok(answers);
            }
        }
        Err(KernelError::Restless)
    }

    /// The answers, and whether they are of one moment.
    pub(super) async fn ask(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(Vec<RouteNetlinkMessage>, bool), KernelError> {
        /// `NLM_F_DUMP_INTR`: the list changed while it was read.
        const INTERRUPTED: u16 = 0x10;
        let mut message = NetlinkMessage::from(message);
        message.header.flags = flags;
        let answers = self.0.clone().request(message).map_err(|_e| KernelError::Ended)?;
        let mut answers = std::pin::pin!(answers);
        let (mut taken, mut is_whole) = (Vec::new(), true);
        while let Some(answer) = answers.next().await {
            is_whole &= answer.header.flags & INTERRUPTED == 0;
            match answer.payload {
                NetlinkPayload::Error(error) => match error.code {
                    Some(code) => {
                        let error = std::io::Error::from_raw_os_error(code.get().saturating_neg());
                        return Err(KernelError::Refused(error));
                    }
                    None => return Ok((taken, is_whole)),
                },
                NetlinkPayload::InnerMessage(answer) => taken.push(answer),
                NetlinkPayload::Done(_) => return Ok((taken, is_whole)),
                _ => {}
            }
        }
        // An acknowledgement is the end of the answers.
        Ok((taken, is_whole))
    }
}
