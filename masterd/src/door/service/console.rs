//! Consoles of instances: what is typed goes to the agent, and what is said comes back. There is no other way
//! and no token: who may ask is decided as for every request.

use luxi::method::{ConsolePiece, GantryConsole};
use model::Exception;
use model::error::ErrorCode;
use rpc::Call;
use rpc::calls::{CONSOLE_WAIT_MS_MAX, ConsoleRead, ConsoleWrite};
use stdx::daemon::chain;

use super::LuxiService;

impl LuxiService {
    pub(super) async fn console(&self, call: GantryConsole) -> Result<ConsolePiece, Exception> {
        let GantryConsole { instance, input, from, timeout } = call;
        let config = self.sources.published.snapshot().config;
        let instance = config.instance(&instance)?;
        if instance.hypervisor != "kvm" {
            let text = format!("Console not available for {} hypervisor", instance.hypervisor);
            return Err(Exception::prereq(text, ErrorCode::WrongState));
        }
        let (uuid, node) = (instance.uuid, &instance.primary_node);
        if let Some(input) = input {
            self.ask_node(node, ConsoleWrite { uuid, input: input.0.expose().to_owned() }).await?;
        }
        // A number of seconds that is none is no wait.
        let wait = std::time::Duration::try_from_secs_f64(timeout).unwrap_or_default();
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(CONSOLE_WAIT_MS_MAX);
        let wait_ms = wait_ms.min(CONSOLE_WAIT_MS_MAX);
        let said = self.ask_node(node, ConsoleRead { uuid, from, wait_ms }).await?;
        Ok(ConsolePiece { offset: said.offset, data: said.data })
    }

    async fn ask_node<C: Call>(
        &self,
        node: &model::NodeName,
        call: C,
    ) -> Result<C::Reply, Exception> {
        let config = self.sources.published.snapshot().config;
        let node = config.node(node.as_str())?;
        let answer = self.sources.agents.call(node, call, None).await;
        answer.map_err(|error| Exception::exec(chain(&error)))
    }
}
