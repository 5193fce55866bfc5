//! Machines of the inventory, read from the master's answer without a detour: of ten thousand, the trees of
//! their JSON would take several times the memory.

use luxi::Method;
use luxi::method::{Access, Class, Fields, Query, What};
use luxi::query::Filter;
use luxi::query::filter::Comparison;
use model::machine::Machine;
use serde::{Deserialize, Serialize};

use crate::asked::Asked;
use crate::refusal::Refusal;

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
    data: Vec<[(u8, Machine); 1]>,
}

pub(super) async fn found(asked: &Asked, filter: Option<Filter>) -> Result<Vec<Machine>, Refusal> {
    let fields = Fields::from(["document"]);
    let query = MachineQuery(Query { what: What::Machine, fields, filter });
    let rows = asked.ask(query).await?.data;
    Ok(rows.into_iter().map(|[(_normal, machine)]| machine).collect())
}

pub(super) async fn one(asked: &Asked, serial: &str) -> Result<Machine, Refusal> {
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
        let [(status, machine)] = &read.data[0];
        assert_eq!((*status, machine.serial.as_str(), machine.index_in_rack), (0, "s1", 4));
        let query = Query { what: What::Machine, fields: Fields::from(["document"]), filter: None };
        assert_eq!(json!(MachineQuery(query.clone())), json!(query));
    }
}
