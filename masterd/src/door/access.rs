//! Core: whether a client may have a request answered. The front door decides by the same rules
//! ([`model::access`]); the access comes from the methods' table and the opcodes'.

use luxi::method::Access;
use luxi::{Caller, Request};
use model::access::{Principal, Verb, may};
use model::audit::Interface;
use model::error::ErrorCode;
use model::layout::{ADMIN_GROUP, Layout, OPERATOR_GROUP};
use model::role::Role;
use model::{Code, Exception, OpInput};

use crate::door::service::changed_by;

/// A request that is not answered.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The answer for the client.
    pub(crate) exception: Exception,
    /// The opcode or method.
    pub(crate) action: &'static str,
    /// The object of the request.
    pub(crate) object: String,
}

/// Decides on a request of `caller`, which is known as `user`.
pub(crate) fn decide(request: &Request, caller: &Caller, user: &str) -> Result<(), Refused> {
    if caller.interface == Interface::Query && request.access() != Access::Read {
        return Err(not_here(request));
    }
    let principal = match caller.interface {
        Interface::Rest => match caller.role {
            Some(role) => Principal::User { name: user.into(), role },
            None => Principal::Anonymous(None),
        },
        Interface::Luxi | Interface::Query | Interface::Cluster => {
            Principal::Unix { name: user.into(), role: caller.role }
        }
    };
    let refused = |verb: Verb<'_>, action, object: String| {
        let about = if object.is_empty() { "the cluster" } else { &object };
        let denied = may(&principal, verb, about);
        denied.map_err(|denied| Refused { exception: (&denied).into(), action, object })
    };
    match request.access().role() {
        Some(role) => refused(Verb::Call(request.name(), role), request.name(), object(request)),
        None => {
            let mut opcodes = opcodes(request).peekable();
            if opcodes.peek().is_none() {
                let verb = Verb::Call(request.name(), Role::Operator);
                return refused(verb, request.name(), String::new());
            }
            let each = |op: &OpInput| refused(Verb::Submit(&op.op), op.op.id(), op.op.summary());
            opcodes.try_for_each(each)
        }
    }
}

/// The object of a request, for messages.
fn object(request: &Request) -> String {
    changed_by(request).unwrap_or_default()
}

/// The opcodes that a request submits.
fn opcodes(request: &Request) -> Box<dyn Iterator<Item = &OpInput> + '_> {
    if let Request::SubmitJob(call) = request {
        return Box::new(call.ops.iter());
    }
    if let Request::SubmitJobToDrainedQueue(call) = request {
        return Box::new(call.ops.iter());
    }
    if let Request::SubmitManyJobs(call) = request {
        return Box::new(call.jobs.iter().flatten());
    }
    Box::new(std::iter::empty())
}

/// The refusal of what is no query where only those are answered.
fn not_here(request: &Request) -> Refused {
    let action = opcodes(request).next().map_or(request.name(), |op| op.op.id());
    let text = format!(
        "{action} is refused on the socket for queries, which answers only what changes nothing; use \
         `{}`, which needs the role operator (group `{}`) or administrator (group `{}`)",
        Layout::default().luxi_socket().display(),
        OPERATOR_GROUP,
        ADMIN_GROUP
    );
    let exception = Exception::prereq(text, ErrorCode::WrongInput).coded(Code::PermissionDenied);
    Refused { exception, action, object: object(request) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, args: &str) -> Request {
        let message = format!(r#"{{"method": "{method}", "args": {args}}}"#);
        Request::parse(message.as_bytes()).unwrap()
    }

    fn told(request: &Request, role: Option<Role>, interface: Interface) -> Option<String> {
        let caller = Caller { uid: 7, role, interface, ..Caller::root() };
        let refused = decide(request, &caller, "bob").err()?;
        assert_eq!(refused.exception.code(), Some(Code::PermissionDenied));
        Some(refused.exception.to_string())
    }

    #[test]
    fn the_role_decides_by_method_and_by_opcode() {
        let delay = r#"{"OP_ID": "OP_TEST_DELAY", "duration": 1}"#;
        let remove = r#"{"OP_ID": "OP_NODE_REMOVE", "node_name": "n2"}"#;
        for (method, args, least) in [
            ("QueryClusterInfo", "[]".to_owned(), Role::Read),
            ("GantryLog", "[{}, 10]".to_owned(), Role::Read),
            ("WaitForJobChange", r#"[1, ["id"], null, null, 1]"#.to_owned(), Role::Read),
            ("CancelJob", "[1]".to_owned(), Role::Operator),
            ("SubmitJob", "[[]]".to_owned(), Role::Operator),
            ("SubmitJob", format!("[[{delay}]]"), Role::Operator),
            ("SubmitJob", format!("[[{remove}]]"), Role::Administrator),
            ("SubmitJobToDrainedQueue", format!("[[{remove}, {delay}]]"), Role::Administrator),
            ("SubmitManyJobs", format!("[[[{remove}], [{delay}]]]"), Role::Administrator),
            ("SetDrainFlag", "[true]".to_owned(), Role::Administrator),
            ("GantryExport", "[null]".to_owned(), Role::Administrator),
        ] {
            let request = request(method, &args);
            assert!(told(&request, None, Interface::Luxi).is_some(), "{method}");
            for role in Role::ALL.into_iter().filter(|role| *role != Role::Tenant) {
                let refusal = told(&request, Some(role), Interface::Luxi);
                assert_eq!(refusal.is_none(), role >= least, "{method} {args} {role}");
                let Some(text) = refusal else { continue };
                assert!(text.contains(&format!("needs the role {least}")), "{text}");
                let group = least.group().unwrap();
                assert!(text.contains(&format!("--groups {group} bob")), "{text}");
            }
            let on_queries = told(&request, Some(Role::Administrator), Interface::Query);
            assert_eq!(on_queries.is_none(), least == Role::Read, "{method}");
        }
    }

    #[test]
    fn a_user_of_the_front_door_hears_nothing_of_groups() {
        let text = told(&request("SetDrainFlag", "[true]"), Some(Role::Read), Interface::Rest);
        assert!(!text.unwrap().contains("usermod"));
    }
}
