//! `gnt machine info`.

use luxi::method::What;

use super::timeline;
use crate::all_fields;
use crate::details::{self, Detail};
use crate::error::CliError;
use crate::list::as_json;
use crate::output::{say_json, say_lines};
use crate::selection::Selection;
use crate::session::Session;

/// Shows all there is to know about machines.
pub(super) fn info(serials: &[String], json: bool, session: &Session) -> Result<(), CliError> {
    let chosen = Selection::named("serial", serials);
    // The document repeats what the other fields show.
    let table = all_fields::ask(What::Machine, &chosen, &["document"], session)?;
    if json {
        say_json(&as_json(&table))?;
    } else if !table.data.is_empty() {
        let machines = all_fields::entries(What::Machine, &table, session, |field, cell| {
            match (field, cell.value()?) {
                ("stages" | "last_boot", stages) => Some(timeline::detail(stages, session.times())),
                ("hardware" | "hardware_changes", parts) => Some(Detail::from(parts)),
                _ => None,
            }
        });
        say_lines(&details::lines(machines))?;
    }
    chosen.all_in(What::Machine, &table)
}
