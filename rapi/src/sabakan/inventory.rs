//! Machines of the inventory, read from the master's answer without a detour: of ten thousand, the trees of
//! their JSON would take several times the memory.

use luxi::Method;
use luxi::method::{Access, Class, Fields, Query, What};
use luxi::query::Filter;
use luxi::query::filter::Comparison;
use model::machine::Machine;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::refusal::Refusal;
use crate::route_request::RouteRequest;

/// The method `Query` for the documents of machines.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct MachineQuery(Query);

impl Method for MachineQuery {
    const NAME: &'static str = Query::NAME;
    const ARGUMENTS: &'static str = Query::ARGUMENTS;
    const CLASS: Class = Query::CLASS;
    const ACCESS: Access = Query::ACCESS;
    type Reply = Documents;
}

/// Its answer: rows of one cell, `[status, document]`.
#[derive(Debug, Serialize, Deserialize)]
struct Documents {
    data: Vec<[(u8, Box<RawValue>); 1]>,
}

impl Documents {
    /// The machines, of which each is read when it is its turn.
    fn machines(self) -> impl ExactSizeIterator<Item = Result<Machine, Refusal>> {
        self.data.into_iter().map(|[(_normal, document)]| {
            let unread = |error| Refusal::fault(format!("a machine does not read: {error}"));
            serde_json::from_str(document.get()).map_err(unread)
        })
    }
}

/// The machines that fit, each to be read when it is its turn.
pub(super) async fn each(
    asked: &RouteRequest,
    filter: Option<Filter>,
) -> Result<impl ExactSizeIterator<Item = Result<Machine, Refusal>>, Refusal> {
    let fields = Fields::from(["document"]);
    let query = MachineQuery(Query { what: What::Machine, fields, filter });
    Ok(asked.ask(query).await?.machines())
}

pub(super) async fn found(
    asked: &RouteRequest,
    filter: Option<Filter>,
) -> Result<Vec<Machine>, Refusal> {
    each(asked, filter).await?.collect()
}

pub(super) async fn one(asked: &RouteRequest, serial: &str) -> Result<Machine, Refusal> {
    let serial = serial.to_owned();
    let filter = Filter::Compare(Comparison::Equal, "serial".to_owned(), serial.as_str().into());
    let machine = found(asked, Some(filter)).await?.into_iter().next();
    machine.ok_or_else(|| Refusal::not_found(format!("there is no machine `{serial}`")))
}

#[cfg(test)]
mod tests {
    use luxi::query::{Cell, Table};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_machine_is_what_the_cell_of_the_table_holds() {
        let document = json!({"serial": "s1", "product": "", "datacenter": "", "rack": 1,
            "index-in-rack": 4, "role": "worker", "network": {}, "bmc": {"ipv4": [], "ipv6": null},
            "register-date": [1_542_763_425, 0]});
        let rows = vec![vec![Cell::normal(document)]];
        let table: Value = json!(Table { fields: Vec::new(), data: rows });
        let read: Documents = serde_json::from_str(&table.to_string()).unwrap();
        let machines: Vec<Machine> = read.machines().collect::<Result<_, _>>().unwrap();
        assert_eq!((machines[0].serial.as_str(), machines[0].index_in_rack), ("s1", 4));
        let query = Query { what: What::Machine, fields: Fields::from(["document"]), filter: None };
        assert_eq!(json!(MachineQuery(query.clone())), json!(query));
    }
}
