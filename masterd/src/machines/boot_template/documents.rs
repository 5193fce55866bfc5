//! Core: what the machines of a rack can fetch to configure themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::boot_template::{
    BootDocument, BootTemplate, BootTemplateKey, DocumentKind, ENROL_TOKEN, RACK_BYTES_MAX,
    TemplateId, TemplateKind,
};
use model::error::ErrorCode;
use model::machine::Machine;
use model::{Exception, Serial};
use serde_json::json;

use super::Prepared;
use crate::config::Config;
use crate::machines::network_template::files::files;

/// Versions of a template that machines can fetch: a machine that got its boot script before the newest one
/// was uploaded asks for the one before.
const VERSIONS_SERVED: usize = 2;

/// The documents of the machines of a rack, by serial number. A template that gives nothing for a machine
/// is left out: the upload, and whatever changes the machine, are refused for that. The newest versions
/// come first, as far as a rack's document has room.
pub(crate) fn of_rack<'a>(
    config: &Config,
    machines: impl Iterator<Item = &'a Arc<Machine>> + Clone,
) -> BTreeMap<Serial, Vec<BootDocument>> {
    let mut documents: BTreeMap<Serial, Vec<BootDocument>> = BTreeMap::new();
    if config.boot_templates.is_empty() {
        return documents;
    }
    let mut templates: BTreeMap<BootTemplateKey, Option<Prepared>> = BTreeMap::new();
    let mut room = RACK_BYTES_MAX;
    for back in 0..VERSIONS_SERVED {
        for machine in machines.clone() {
            for kind in [TemplateKind::Ignition, TemplateKind::CloudInit] {
                let Some(template) = served(config, kind, &machine.role, back) else { continue };
                let prepared = templates
                    .entry(template.key())
                    .or_insert_with(|| Prepared::new(kind, &template.text).ok());
                let rendered = prepared.as_ref().and_then(|p| p.render_kept(config, machine).ok());
                let Some(text) = rendered else { continue };
                let all = all(config, machine, &template.id, kind, text);
                let bytes: usize = all.iter().map(|document| written(&document.text)).sum();
                let Some(rest) = room.checked_sub(bytes) else { continue };
                room = rest;
                documents.entry(machine.serial.clone()).or_default().extend(all);
            }
        }
    }
    documents
}

/// The version that is `back` before the newest one. Of cloud-init only the newest one: its URLs have none.
fn served(
    config: &Config,
    kind: TemplateKind,
    role: &str,
    back: usize,
) -> Option<Arc<BootTemplate>> {
    if kind == TemplateKind::CloudInit && back > 0 {
        return None;
    }
    config.boot_templates_of(kind, &role.parse().ok()?).nth_back(back).cloned()
}

/// A template's document of a machine, with those that go with it.
fn all(
    config: &Config,
    machine: &Machine,
    id: &TemplateId,
    kind: TemplateKind,
    text: String,
) -> Vec<BootDocument> {
    let document = |kind, text: String| BootDocument { kind, id: id.clone(), text: text.into() };
    match kind {
        TemplateKind::Ignition => vec![document(DocumentKind::Ignition, text)],
        TemplateKind::CloudInit => {
            let mut all = vec![
                document(DocumentKind::UserData, text),
                document(DocumentKind::MetaData, meta_data(machine)),
            ];
            // Cloud-init goes on without one.
            if let Ok(text) = network_config(config, machine) {
                all.push(document(DocumentKind::NetworkConfig, text));
            }
            all
        }
    }
}

/// Bytes of a text within a rack's document.
pub(crate) fn written(text: &str) -> usize {
    let written = |byte| match byte {
        b'"' | b'\\' | b'\n' | b'\t' | b'\r' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(written).sum()
}

/// A machine that is registered or deployed anew is another instance: cloud-init configures it once more.
fn meta_data(machine: &Machine) -> String {
    let name = machine.serial.host_name();
    let deployment = machine.deployed_by.map_or_else(String::new, |job| format!("-{job}"));
    let instance = format!("{name}-{}{deployment}", machine.register_date.seconds());
    json!({ "instance-id": instance, "local-hostname": name }).to_string() + "\n"
}

fn network_config(config: &Config, machine: &Machine) -> Result<String, Exception> {
    let files = files(config, machine.serial.as_str(), None, hostnet::Format::Netplan)?;
    Ok(files.into_iter().map(|file| file.content).collect())
}

/// Whether a machine is told a token for a node by the newest version of a template of its role.
pub(crate) fn enrols(config: &Config, serial: &Serial) -> bool {
    [DocumentKind::Ignition, DocumentKind::UserData].into_iter().any(|kind| {
        let document = document(config, serial.as_str(), kind, None);
        document.is_ok_and(|document| document.text.contains(ENROL_TOKEN))
    })
}

/// A document of a machine, by the newest version of its template or another one.
///
/// # Errors
/// There is none.
pub(crate) fn document(
    config: &Config,
    serial: &str,
    kind: DocumentKind,
    id: Option<&TemplateId>,
) -> Result<BootDocument, Exception> {
    let machine = config.machine(serial)?;
    let (noun, role) = (kind.template().as_str(), &machine.role);
    let unknown = |text: String| Exception::prereq(text, ErrorCode::UnknownEntity);
    let templates = role.parse().map(|role| config.boot_templates_of(kind.template(), &role));
    let mut templates = templates.into_iter().flatten();
    let template = match id {
        Some(id) => templates.find(|template| template.id == *id),
        None => templates.last(),
    };
    let template = template.ok_or_else(|| {
        let of = id.map_or_else(String::new, |id| format!(" {id}"));
        unknown(format!(
            "role `{role}` of machine '{serial}' has no {noun} template{of}; \
             `gnt {noun}-template upload {role} VERSION FILE` gives it one"
        ))
    })?;
    let refuse = |why: String| {
        let text = format!("{noun} template {} for machine '{serial}': {why}", template.key());
        Exception::prereq(text, ErrorCode::WrongState)
    };
    let text = match kind {
        DocumentKind::MetaData => meta_data(machine),
        DocumentKind::NetworkConfig => network_config(config, machine)?,
        DocumentKind::Ignition | DocumentKind::UserData => {
            let prepared = Prepared::new(template.kind, &template.text);
            let rendered = prepared.and_then(|prepared| prepared.render(config, machine));
            rendered.map_err(|error| refuse(error.to_string()))?.text
        }
    };
    Ok(BootDocument { kind, id: template.id.clone(), text: text.into() })
}
