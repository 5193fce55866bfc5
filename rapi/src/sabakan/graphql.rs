//! sabakan's GraphQL: a machine, a search, and the state of a machine.
//!
//! The schema is sabakan's. `types` has its objects, made of what the REST interface shows.

mod types;

use std::sync::LazyLock;

use async_graphql::parser::types::{BaseType, OperationType, Type};
use async_graphql::{
    Context, EmptySubscription, Error, ErrorExtensions as _, ID, Name, Object, Request, Schema,
    Value as ConstValue,
};
use axum::http::StatusCode;
use axum::response::Response;
use luxi::method::GantryIpam;
use luxi::query::Filter;
use luxi::query::filter::{Comparison, Operand};
use model::sabakan::{retire_date, today};
use serde_json::{Value, json};

use super::inventory::{found, one};
use super::machines::parameters;
use crate::refusal::Refusal;
use crate::route_request::{Answer, RouteRequest, json as answer};
use types::{Machine, MachineParams, MachineState, MachineStatus};

/// Depth of a query: the usual question for the schema has thirteen levels, one for a machine six.
const DEPTH_MAX: usize = 16;
/// Nesting of the text itself, which is read before its depth is known.
const NESTING_MAX: usize = 32;
/// Fields of a query, of which [`ROOT_COST`] is the price of a question to the master.
const COMPLEXITY_MAX: usize = 500;
/// So that one request asks the master ten times at most.
const ROOT_COST: usize = 50;

type Schemas = Schema<Query, Mutation, EmptySubscription>;

static SCHEMA: LazyLock<Schemas> = LazyLock::new(|| {
    Schema::build(Query, Mutation, EmptySubscription)
        .limit_depth(DEPTH_MAX)
        .limit_recursive_depth(NESTING_MAX)
        .limit_complexity(COMPLEXITY_MAX)
        .finish()
});

pub(super) async fn serve(asked: RouteRequest) -> Answer {
    // A browser sends JSON to another site only when that one lets it.
    let body = asked.json()?;
    let wrong = |error| Refusal::bad(format!("the body is no GraphQL request: {error}"));
    let request: Request = serde_json::from_value(body).map_err(wrong)?;
    Ok(carry_out(request, asked).await)
}

/// Answers a query that stands in the target. A request by a link must not change anything.
pub(super) async fn serve_query(asked: RouteRequest) -> Answer {
    let query =
        asked.value("query").ok_or_else(|| Refusal::bad("the parameter query is missing"))?;
    let mut request = Request::new(query);
    if let Some(variables) = asked.value("variables") {
        let wrong = |error| Refusal::bad(format!("the parameter variables is no JSON: {error}"));
        request = request.variables(serde_json::from_str(variables).map_err(wrong)?);
    }
    if let Some(name) = asked.value("operationName") {
        request = request.operation_name(name);
    }
    if !only_reads(&mut request) {
        let text = "GET carries out queries alone; a mutation is sent by POST";
        return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, text));
    }
    Ok(carry_out(request, asked).await)
}

/// Whether a request has no operation but queries. A request that does not parse is reported when it is
/// carried out.
fn only_reads(request: &mut Request) -> bool {
    let Ok(document) = request.parsed_query() else { return true };
    let mut operations = document.operations.iter();
    operations.all(|(_name, operation)| operation.node.ty == OperationType::Query)
}

async fn carry_out(mut request: Request, asked: RouteRequest) -> Response {
    spell_states(&mut request);
    answer(SCHEMA.execute(request.data(asked)).await)
}

/// Spells states in variables as the schema does. sabakan's client writes the small letters of the REST
/// interface there, which sabakan takes.
fn spell_states(request: &mut Request) {
    // A request that does not parse is reported when it is carried out.
    let Ok(document) = request.parsed_query() else { return };
    let operations = document.operations.iter();
    let declared = operations.flat_map(|(_name, operation)| &operation.node.variable_definitions);
    let named = declared.map(|variable| {
        (variable.node.name.node.clone(), named_type(&variable.node.var_type.node).clone())
    });
    for (name, kind) in named.collect::<Vec<_>>() {
        let Some(value) = request.variables.get_mut(&name) else { continue };
        match (kind.as_str(), value) {
            ("MachineState", value) => spell(value),
            ("MachineParams", ConstValue::Object(fields)) => {
                fields.get_mut("states").map(spell);
            }
            _ => {}
        }
    }
}

fn named_type(of: &Type) -> &Name {
    match &of.base {
        BaseType::Named(name) => name,
        BaseType::List(inner) => named_type(inner),
    }
}

fn spell(value: &mut ConstValue) {
    match value {
        ConstValue::String(state) => state.make_ascii_uppercase(),
        ConstValue::List(states) => states.iter_mut().for_each(spell),
        _ => {}
    }
}

/// What is read.
#[derive(Debug)]
pub struct Query;

#[Object]
impl Query {
    /// A machine.
    #[graphql(complexity = "ROOT_COST + child_complexity")]
    async fn machine(&self, context: &Context<'_>, serial: ID) -> Result<Machine, Error> {
        let asked = context.data::<RouteRequest>()?;
        let machine = one(asked, &serial).await.map_err(|refusal| error(&serial, &refusal))?;
        let shown = all(asked, &[machine]).await.map_err(|refusal| error(&serial, &refusal))?;
        read(shown.into_iter().next().unwrap_or_default())
    }

    /// Machines that have everything of the one and nothing of the other.
    #[graphql(complexity = "ROOT_COST + child_complexity")]
    async fn search_machines(
        &self,
        context: &Context<'_>,
        having: Option<MachineParams>,
        not_having: Option<MachineParams>,
    ) -> Result<Vec<Machine>, Error> {
        let asked = context.data::<RouteRequest>()?;
        let (having, not_having) = (having.unwrap_or_default(), not_having.unwrap_or_default());
        let told = |refusal: Refusal| error("", &refusal);
        let conditions = [having.filters(true), not_having.filters(false)].concat();
        let filter = (!conditions.is_empty()).then_some(Filter::And(conditions));
        let mut machines = found(asked, filter).await.map_err(told)?;
        let now = asked.now();
        machines.retain(|machine| {
            let days = (retire_date(machine).seconds() - now.seconds()) / 86_400;
            let is_far = |least: i32| days >= i64::from(least);
            having.min_days_before_retire.is_none_or(is_far)
                && !not_having.min_days_before_retire.is_some_and(is_far)
        });
        let shown = all(asked, &machines).await.map_err(told)?;
        shown.into_iter().map(read).collect()
    }
}

/// What is changed.
#[derive(Debug)]
pub struct Mutation;

#[Object]
impl Mutation {
    /// Sets the state of a machine.
    #[graphql(complexity = "ROOT_COST + child_complexity")]
    async fn set_machine_state(
        &self,
        context: &Context<'_>,
        serial: ID,
        state: MachineState,
    ) -> Result<MachineStatus, Error> {
        let asked = context.data::<RouteRequest>()?;
        let told = |refusal: Refusal| error(&serial, &refusal);
        let op = parameters(&json!({"serial": *serial, "state": state}));
        let set = asked.run("OP_MACHINE_SET_STATE", op).await.map_err(told)?;
        let machine = serde_json::from_value(set)?;
        Ok(serde_json::from_value(today(&machine, None, asked.now())["status"].take())?)
    }
}

/// Machines as the REST interface shows them.
async fn all(
    asked: &RouteRequest,
    machines: &[model::machine::Machine],
) -> Result<Vec<Value>, Refusal> {
    let rules = asked.front.rules.of(asked.ask(GantryIpam {})).await?;
    let now = asked.now();
    Ok(machines.iter().map(|machine| today(machine, rules.as_deref(), now)).collect())
}

fn read(shown: Value) -> Result<Machine, Error> {
    Ok(serde_json::from_value(shown)?)
}

/// An error with sabakan's types, and the status that the REST interface answers with.
fn error(serial: &str, refusal: &Refusal) -> Error {
    let kind = match refusal.code {
        400 => "ENCRYPTION_KEY_EXISTS",
        403 => "FORBIDDEN",
        404 => "MACHINE_NOT_FOUND",
        409 => "INVALID_STATE_TRANSITION",
        _ => "INTERNAL_SERVER_ERROR",
    };
    Error::new(refusal.explain.clone()).extend_with(|_error, extensions| {
        extensions.set("serial", serial);
        extensions.set("type", kind);
        extensions.set("status", refusal.code);
    })
}

impl MachineParams {
    /// As conditions of the master: that all of it holds, or that nothing of it does.
    fn filters(&self, wanted: bool) -> Vec<Filter> {
        let mut filters = Vec::new();
        for label in self.labels.iter().flatten() {
            let text = format!("{}={}", label.name, label.value);
            filters.push(Filter::Contains("labels".to_owned(), Operand::from(text.as_str())));
        }
        let mut any = |field: &str, values: Vec<Operand>| {
            let one = |value| Filter::Compare(Comparison::Equal, field.to_owned(), value);
            if !values.is_empty() {
                filters.push(Filter::Or(values.into_iter().map(one).collect()));
            }
        };
        // A rack below none is nowhere.
        let racks =
            self.racks.iter().flatten().map(|rack| u64::try_from(*rack).unwrap_or(u64::MAX));
        any("rack", racks.map(Operand::from).collect());
        let texts = |texts: &[String]| texts.iter().map(|text| text.as_str().into()).collect();
        any("role", texts(self.roles.as_deref().unwrap_or_default()));
        let states = self.states.iter().flatten().map(|state| state.as_str().into());
        any("status", states.collect());
        if wanted {
            return filters;
        }
        filters.into_iter().map(|filter| Filter::Not(Box::new(filter))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_sabakans() {
        insta::assert_snapshot!(SCHEMA.sdl());
    }

    #[tokio::test]
    async fn what_is_too_deep_or_too_much_is_not_carried_out() {
        let told = async |query: &str| {
            let response = SCHEMA.execute(query).await;
            response.errors.first().map(|error| error.message.clone()).unwrap_or_default()
        };
        let many: String = (0..11)
            .map(|at| format!("a{at}: machine(serial: \"x\") {{ status {{ state }} }} "))
            .collect();
        assert!(told(&format!("{{ {many} }}")).await.contains("too complex"));
        let nested = |levels| format!("{}{}", "{ a ".repeat(levels), "}".repeat(levels));
        assert!(told(&nested(NESTING_MAX + 8)).await.contains("recursion"));
        // The parser has a limit of its own before that.
        assert!(told(&nested(5_000)).await.contains("stack limit"));
        assert_eq!(told("{ __schema { types { name fields { name } } } }").await, "");
        assert!(
            told("mutation { setMachineState(serial: \"x\", state: BROKEN) { state } }")
                .await
                .contains("BROKEN")
        );
    }

    #[test]
    fn what_a_link_asks_for_reads_alone() {
        let reads = |query: &str| only_reads(&mut Request::new(query));
        assert!(reads("{ __typename }") && reads("query a { __typename }") && reads("{"));
        let set = "mutation a { setMachineState(serial: \"x\", state: HEALTHY) { state } }";
        assert!(!reads(set) && !reads(&format!("query b {{ __typename }} {set}")));
    }

    #[test]
    fn states_in_variables_have_small_letters_too() {
        let spelt = |query: &str, variables: Value| {
            let request = json!({"query": query, "variables": variables});
            let mut request: Request = serde_json::from_value(request).unwrap();
            spell_states(&mut request);
            json!(request.variables)
        };
        let search =
            "query s($having: MachineParams, $role: String) { searchMachines { spec { serial } } }";
        let given = json!({"having": {"states": ["retired"], "roles": ["cs"]}, "role": "healthy"});
        let wanted = json!({"having": {"states": ["RETIRED"], "roles": ["cs"]}, "role": "healthy"});
        assert_eq!(spelt(search, given), wanted);
        let set =
            "mutation s($to: MachineState!, $all: [MachineState!]) { setMachineState { state } }";
        let given = json!({"to": "healthy", "all": ["updating", "RETIRED"]});
        assert_eq!(spelt(set, given), json!({"to": "HEALTHY", "all": ["UPDATING", "RETIRED"]}));
        assert_eq!(spelt(search, json!({"having": null})), json!({"having": null}));
        assert_eq!(spelt("{", json!({"to": "healthy"})), json!({"to": "healthy"}));
    }

    #[test]
    fn parameters_are_filters_of_the_master() {
        let params = MachineParams {
            racks: Some(vec![1, 2]),
            states: Some(vec![MachineState::Healthy]),
            ..MachineParams::default()
        };
        let text = |wanted| serde_json::to_string(&params.filters(wanted)).unwrap();
        let (racks, state) =
            (r#"["|",["==","rack",1],["==","rack",2]]"#, r#"["|",["==","status","healthy"]]"#);
        assert_eq!(text(true), format!("[{racks},{state}]"));
        assert_eq!(text(false), format!(r#"[["!",{racks}],["!",{state}]]"#));
    }
}
