//! Core: what somebody with the role tenant may ask for: lists of its tenant's own things, and changes of
//! these.

use luxi::method::{Query, What};
use luxi::query::Filter;
use luxi::query::filter::Comparison;
use luxi::{Caller, Request};
use model::Exception;
use model::asker::Asker;
use model::role::Role;
use model::tenant::{Tenant, refused};

use crate::config::Config;
use crate::config::tenancy::{has_no, may_send, not_for_tenants, owns_document};

/// The field by which lists know whose something is.
pub(crate) const FIELD: &str = "tenant";
/// The lists that a tenant sees its own part of.
const LISTS: [What; 5] =
    [What::Job, What::Machine, What::Port, What::PortConfiguration, What::Tenant];

/// Fields that name others' jobs and machines.
const WITHHELD: [(What, &str); 4] = [
    (What::Job, "waits_for"),
    (What::Job, "depends"),
    (What::Port, "heard"),
    (What::Port, "contradiction"),
];

/// The tenant as which somebody asks; none for everybody with another role.
///
/// # Errors
/// Somebody with the role tenant is a member of none.
pub(crate) fn of_caller<'c>(
    config: &'c Config,
    caller: &Caller,
) -> Result<Option<&'c Tenant>, Exception> {
    if caller.role != Some(Role::Tenant) {
        return Ok(None);
    }
    let user = caller.asker.as_deref().map(|Asker { user, .. }| user.to_string());
    let user = user.unwrap_or_default();
    let tenant = config.tenants.by.member.of(user.clone()).next();
    tenant.map(|tenant| Some(tenant.as_ref())).ok_or_else(|| {
        refused(format!(
            "`{user}` has the role tenant, and is a member of none; an administrator changes that: `gnt tenant \
             modify TENANT --add-member {user}`"
        ))
    })
}

/// Limits a request to what is the tenant's own. Jobs that it names are looked at where they are looked
/// for.
///
/// # Errors
/// It is about something else.
pub(crate) fn limit(
    request: &mut Request,
    tenant: &Tenant,
    config: &Config,
) -> Result<(), Exception> {
    match request {
        Request::Query(call) => narrow(call, tenant),
        Request::QueryFields(call) if LISTS.contains(&call.what) => Ok(()),
        Request::QueryJobs(call) => not_withheld(What::Job, call.fields.iter()),
        Request::WaitForJobChange(call) => not_withheld(What::Job, call.fields.iter()),
        Request::CancelJob(_) => Ok(()),
        Request::GantryDigest(call) => match owns_document(config, tenant, &call.document) {
            true => Ok(()),
            false => Err(has_no(tenant, &call.document)),
        },
        Request::SubmitJob(call) => call.ops.iter().try_for_each(|op| may_send(config, tenant, op)),
        Request::SubmitManyJobs(call) => {
            call.jobs.iter().flatten().try_for_each(|op| may_send(config, tenant, op))
        }
        other => Err(not_for_tenants(other.name())),
    }
}

/// Refuses fields that name what belongs to others.
fn not_withheld<T: AsRef<str>>(
    what: What,
    fields: impl IntoIterator<Item = T>,
) -> Result<(), Exception> {
    for field in fields {
        let is_it = |(kind, name): &&(What, &str)| *kind == what && *name == field.as_ref();
        if let Some((_, name)) = WITHHELD.iter().find(is_it) {
            return Err(not_for_tenants(&format!("the field {name}")));
        }
    }
    Ok(())
}

/// Limits a list to the tenant's rows: no condition of its own sees others.
fn narrow(call: &mut Query, tenant: &Tenant) -> Result<(), Exception> {
    if !LISTS.contains(&call.what) {
        return Err(not_for_tenants(call.what.as_str()));
    }
    let of_filter = call.filter.iter().flat_map(Filter::fields);
    let fields = call.fields.iter().map(String::as_str).chain(of_filter);
    not_withheld(call.what, fields)?;
    let own = Filter::Compare(Comparison::Equal, FIELD.to_owned(), tenant.name.as_str().into());
    call.filter = Some(match call.filter.take() {
        Some(filter) => Filter::And(vec![own, filter]),
        None => own,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_tenants;

    #[test]
    fn lists_and_documents_of_others_are_not_seen() {
        let config = with_tenants();
        let tenant = config.tenant("acme").unwrap();
        let limited = |method: &str, args: &str| {
            let message = format!(r#"{{"method": "{method}", "args": {args}}}"#);
            let mut request = Request::parse(message.as_bytes()).unwrap();
            limit(&mut request, tenant, &config).map(|()| request)
        };
        let list = limited("Query", r#"["port", ["name"], ["?", "name"]]"#).unwrap();
        let Request::Query(call) = list else { panic!("it is a list") };
        let filter = serde_json::to_value(call.filter).unwrap();
        assert_eq!(filter, serde_json::json!(["&", ["==", "tenant", "acme"], ["?", "name"]]));
        for (method, args, is_own) in [
            ("Query", r#"["switch", ["name"], null]"#, false),
            ("Query", r#"["node", ["name"], null]"#, false),
            ("QueryFields", r#"["port", null]"#, true),
            ("QueryFields", r#"["switch", null]"#, false),
            ("GantryDigest", r#"["switch-ports/tor/p1"]"#, true),
            ("GantryDigest", r#"["switch-ports/tor/p2"]"#, false),
            ("GantryDigest", r#"["port-configurations/acme.lab"]"#, true),
            ("GantryDigest", r#"["port-configurations/other.lab"]"#, false),
            ("GantryDigest", r#"["nodes/n1.example"]"#, false),
            ("QueryNodes", r#"[[], ["name"], false]"#, false),
            ("GantryIpam", "[]", false),
            ("QueryClusterInfo", "[]", false),
        ] {
            assert_eq!(limited(method, args).is_ok(), is_own, "{method} {args}");
        }
    }

    #[test]
    fn somebody_acts_for_the_tenant_that_has_it_as_a_member() {
        let config = with_tenants();
        let caller = |role, user: &str| Caller {
            role: Some(role),
            asker: Some(Asker { user: user.into(), ..Asker::cluster() }.into()),
            ..Caller::root()
        };
        let of = |role, user| {
            of_caller(&config, &caller(role, user)).map(|t| t.map(|t| t.name.to_string()))
        };
        assert_eq!(of(Role::Tenant, "alice"), Ok(Some("acme".to_owned())));
        assert_eq!(of(Role::Tenant, "bob"), Ok(Some("other".to_owned())));
        assert_eq!(of(Role::Operator, "alice"), Ok(None));
        assert!(of(Role::Tenant, "carol").unwrap_err().to_string().contains("--add-member carol"));
    }
}
