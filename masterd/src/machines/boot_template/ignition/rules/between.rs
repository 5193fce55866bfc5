//! Core: rules of smaller objects.

use serde_json::Value as Json;

use super::super::schema::{Look, Spec, once};
use super::super::v3::{V3_1, V3_2, V3_6};
use super::super::values;
use super::{has, list, text, truth};

/// An owner is told by one of both.
pub(in super::super) fn id_or_name(owner: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    match has(owner, "id") && !text(owner, "name").is_empty() {
        true => Err("has both `id` and `name`; leave one out".to_owned()),
        false => Ok(()),
    }
}

/// There is something to fetch.
pub(in super::super) fn source(resource: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    match text(resource, "source").is_empty() {
        true => Err("has no `source`".to_owned()),
        false => Ok(()),
    }
}

/// The same, which version 3.0 does not ask for.
pub(in super::super) fn later_source(resource: &Json, look: &mut Look<'_>) -> Result<(), String> {
    if look.spec >= V3_1 { source(resource, look) } else { Ok(()) }
}

/// A digest is of something.
pub(in super::super) fn hash_of_source(
    resource: &Json,
    _look: &mut Look<'_>,
) -> Result<(), String> {
    match has(&resource["verification"], "hash") && !has(resource, "source") {
        true => Err("has a `verification.hash` and no `source`".to_owned()),
        false => Ok(()),
    }
}

/// The same, which version 3.0 does not ask for.
pub(in super::super) fn hash_of_later_source(
    resource: &Json,
    look: &mut Look<'_>,
) -> Result<(), String> {
    if look.spec >= V3_1 { hash_of_source(resource, look) } else { Ok(()) }
}

/// HTTP headers go with HTTP.
pub(in super::super) fn headers(resource: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    let source = text(resource, "source");
    if list(resource, "httpHeaders").is_empty() || values::is_http(source) {
        return Ok(());
    }
    Err("has `httpHeaders`, and a `source` that is not fetched by HTTP".to_owned())
}

/// A request by HTTPS had better not go by a proxy that is asked without TLS.
pub(in super::super) fn plain_proxy(proxy: &Json, look: &mut Look<'_>) -> Result<(), String> {
    if text(proxy, "httpsProxy").to_ascii_lowercase().starts_with("http:") {
        look.warn("has an `httpsProxy` that is asked without TLS");
    }
    Ok(())
}

/// A kernel argument is wanted, or not.
pub(in super::super) fn kernel_arguments(
    arguments: &Json,
    _look: &mut Look<'_>,
) -> Result<(), String> {
    let all = ["shouldExist", "shouldNotExist"].into_iter().flat_map(|key| list(arguments, key));
    once(all.map(|argument| argument.as_str().unwrap_or_default()))
        .map_err(|twice| format!("has {twice:?} both in `shouldExist` and `shouldNotExist`"))
}

/// An own binding of Clevis has no others beside it.
pub(in super::super) fn custom_clevis(luks: &Json, look: &mut Look<'_>) -> Result<(), String> {
    let clevis = &luks["clevis"];
    let is_custom = match look.spec {
        V3_2 => has(clevis, "custom"),
        _ => !text(&clevis["custom"], "pin").is_empty(),
    };
    if is_custom && binds(clevis) {
        return Err("has `clevis.custom` beside `tang`, `tpm2` or `threshold`".to_owned());
    }
    Ok(())
}

/// Whether Clevis binds by its own means.
fn binds(clevis: &Json) -> bool {
    let threshold = clevis["threshold"].as_i64().unwrap_or_default();
    !list(clevis, "tang").is_empty() || truth(clevis, "tpm2") || threshold != 0
}

/// An own binding of Clevis has a pin that there is, and what the pin needs.
pub(in super::super) fn pin_and_config(custom: &Json, look: &mut Look<'_>) -> Result<(), String> {
    let (pin, config) = (text(custom, "pin"), text(custom, "config"));
    let is_asked = look.spec > V3_2 && truth(custom, "needsNetwork");
    if pin.is_empty() && config.is_empty() && !is_asked {
        return Ok(());
    }
    if pin.is_empty() {
        return Err("has no `pin`".to_owned());
    }
    if look.spec < V3_6 && !["tpm2", "tang", "sss"].contains(&pin) {
        return Err(format!("has the pin {pin:?}, and not tpm2, tang or sss"));
    }
    if config.is_empty() { Err("has no `config`".to_owned()) } else { Ok(()) }
}

/// A disk is bound to a card for cryptography, or by other means.
pub(in super::super) fn cex(luks: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    if !truth(&luks["cex"], "enabled") {
        return Ok(());
    }
    let clevis = &luks["clevis"];
    if binds(clevis) || !text(&clevis["custom"], "pin").is_empty() {
        return Err("has both `cex` and `clevis`".to_owned());
    }
    match text(&luks["keyFile"], "source").is_empty() {
        true => Ok(()),
        false => Err("has both `cex` and `keyFile`".to_owned()),
    }
}

/// The settings of `create` for a new account stand within it.
pub(in super::super) fn create_is_alone(user: &Json, _look: &mut Look<'_>) -> Result<(), String> {
    if !has(user, "create") {
        return Ok(());
    }
    let texts = ["gecos", "homeDir", "primaryGroup", "shell"];
    let truths = ["noCreateHome", "noLogInit", "noUserGroup", "system"];
    let text = texts.into_iter().find(|key| !text(user, key).is_empty());
    let truth = truths.into_iter().find(|key| truth(user, key));
    let groups = (!list(user, "groups").is_empty()).then_some("groups");
    let uid = has(user, "uid").then_some("uid");
    match text.or(truth).or(groups).or(uid) {
        Some(key) => Err(format!("has `{key}` beside `create`; it belongs within that")),
        None => Ok(()),
    }
}

/// Whether a version is of the older form.
pub(super) fn is_old(spec: Spec) -> bool {
    spec < Spec(3, 0)
}
