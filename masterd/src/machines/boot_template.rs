//! Core: what a template of what machines boot with becomes for one machine: an Ignition configuration, or
//! user data of cloud-init (docs/netboot.md).
//!
//! In reading order: [`engine`] runs Go's templates within limits, [`functions`] are those that a template
//! may call, and [`facts`] are its facts about a machine. Then [`tree`] renders a document text by text;
//! [`ignition`] knows what Ignition takes. Last, [`documents`] gives what the machines of a rack can
//! fetch; [`units`] and [`fields`] are its opcodes and its list.

mod documents;
mod engine;
mod facts;
mod functions;
mod ignition;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gotmpl::Value;
use model::boot_template::{ENROL_TOKEN, MY_URL, RENDERED_BYTES_MAX, TemplateKind};
use model::machine::Machine;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::config::Config;
use crate::machines::network_template::TemplateError;
pub(crate) use documents::{document, enrols, of_rack, written};
use engine::{Meter, Program, Wrong};
use ignition::Taken;
use tree::{Tree, WrongAt};

/// How user data begins that cloud-init reads as YAML.
const CLOUD_CONFIG: &str = "#cloud-config";
/// How a script begins.
const SCRIPT: &str = "#!";

/// The place where values are inserted, which decides how they are escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Into a text that was read from its document before: no value can leave it.
    Value,
    /// Into a string of JSON.
    Json,
    /// Into YAML.
    Yaml,
    /// Into a script.
    Script,
}

/// The parts of a template beside its text.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Values by key, for the function `Metadata`.
    metadata: Arc<BTreeMap<String, Value>>,
}

/// A template as sabakan's clients send it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sabakan {
    version: String,
    template: Json,
    #[serde(default)]
    meta: Option<serde_json::Map<String, Json>>,
}

/// A template that was read.
#[derive(Debug)]
pub(crate) struct Prepared {
    form: Form,
    meter: Arc<Meter>,
    /// The text as it was uploaded.
    text: Arc<str>,
    /// The labels of machines that it names.
    labels: BTreeSet<String>,
}

#[derive(Debug)]
enum Form {
    /// A configuration whose texts are templates.
    Tree(Tree),
    /// A template of a whole configuration.
    Json(Program),
    /// User data in YAML.
    Yaml(Program),
    /// User data that is a script.
    Script(Program),
}

/// The result of a template's actions.
enum Made {
    Configuration(Json),
    UserData(String),
}

/// The result of a template for a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// The version of Ignition's specification that it declares; empty where it is none of Ignition.
    pub(crate) spec: &'static str,
    /// The warnings that Ignition would give.
    pub(crate) warnings: Vec<String>,
}

impl Prepared {
    /// Reads a template.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn new(kind: TemplateKind, text: &str) -> Result<Self, TemplateError> {
        let meter = Arc::new(Meter::default());
        let mut labels = BTreeSet::new();
        let form = match kind {
            TemplateKind::Ignition => ignition_of(text, &meter, &mut labels)?,
            TemplateKind::CloudInit => {
                let is_yaml =
                    text.lines().next().is_some_and(|line| line.trim_end() == CLOUD_CONFIG);
                let place = if is_yaml { Place::Yaml } else { Place::Script };
                if !is_yaml && !text.starts_with(SCRIPT) {
                    let why = format!("user data begins with {CLOUD_CONFIG} or {SCRIPT}");
                    return Err(TemplateError { line: 1, why });
                }
                let words = Words::default();
                let program = Program::new(text, place, (&words, &meter), &mut labels);
                let program = program.map_err(of_text)?;
                if is_yaml { Form::Yaml(program) } else { Form::Script(program) }
            }
        };
        Ok(Self { form, meter, text: Arc::from(text), labels })
    }

    /// Renders it for a machine.
    ///
    /// # Errors
    /// It gives nothing for this one.
    pub(crate) fn render(
        &self,
        config: &Config,
        machine: &Machine,
    ) -> Result<Rendered, TemplateError> {
        self.rendered(&facts::of_machine(config, machine))
    }

    /// Renders it for a machine, whatever Ignition says of the result. A version that was taken before
    /// stays in use when more is known of what Ignition refuses.
    ///
    /// # Errors
    /// It gives nothing for this one.
    pub(crate) fn render_kept(
        &self,
        config: &Config,
        machine: &Machine,
    ) -> Result<String, TemplateError> {
        match self.made(&facts::of_machine(config, machine))? {
            Made::Configuration(document) => {
                text_of(&document).map_err(|why| TemplateError { line: 1, why })
            }
            Made::UserData(text) => Ok(text),
        }
    }

    /// Renders it for a sample machine, which has all labels that the template names.
    ///
    /// # Errors
    /// It gives nothing.
    pub(crate) fn sample(&self, config: &Config, role: &str) -> Result<Rendered, TemplateError> {
        let machine = facts::sample(config, role, &self.labels);
        let sample = self.rendered(&machine)?;
        // Each machine reaches an agent by another URL, which its agent fills in.
        self.meter.probe(true);
        let probed = self.made(&machine);
        self.meter.probe(false);
        let probed = probed.map(|made| match made {
            Made::Configuration(document) => document.to_string(),
            Made::UserData(text) => text,
        });
        if probed.is_ok_and(|probed| probed == Meter::probed(&sample.text)) {
            return Ok(sample);
        }
        let why = format!(
            "it computes with the URL of the agent or the token of a node, which are known when a machine \
             asks; insert them as they are, and write no `{MY_URL}` or `{ENROL_TOKEN}`"
        );
        Err(TemplateError { line: 1, why })
    }

    fn rendered(&self, machine: &Value) -> Result<Rendered, TemplateError> {
        match self.made(machine)? {
            Made::Configuration(document) => {
                configuration(&document).map_err(|why| TemplateError { line: 1, why })
            }
            Made::UserData(text) => Ok(Rendered { text, spec: "", warnings: Vec::new() }),
        }
    }

    fn made(&self, machine: &Value) -> Result<Made, TemplateError> {
        self.meter.reset();
        let run = |program: &Program| program.run(machine, RENDERED_BYTES_MAX).map_err(of_text);
        match &self.form {
            Form::Tree(tree) => {
                let document = tree.render(machine).map_err(|wrong| self.told(&wrong))?;
                Ok(Made::Configuration(document))
            }
            Form::Json(program) => {
                let text = run(program)?;
                let mut document =
                    serde_json::from_str(&text).map_err(|error| quoted(&error, &text))?;
                tree::pack(&mut document);
                Ok(Made::Configuration(document))
            }
            Form::Yaml(program) => {
                let text = run(program)?;
                let read = serde_saphyr::from_str::<serde_json::Map<String, Json>>(&text);
                read.map_err(|error| {
                    let why = error.without_snippet().to_string();
                    let why = why.lines().next().unwrap_or_default();
                    let why = format!("what it becomes is no YAML: {why}");
                    TemplateError { line: 1, why }
                })?;
                Ok(Made::UserData(text))
            }
            Form::Script(program) => Ok(Made::UserData(run(program)?)),
        }
    }

    /// An error in one of the texts of a document, at its line in the whole.
    fn told(&self, wrong: &WrongAt) -> TemplateError {
        told(&self.text, wrong)
    }
}

/// Reads a template of Ignition: sabakan's form, a configuration, or a text that becomes one.
fn ignition_of(
    text: &str,
    meter: &Arc<Meter>,
    labels: &mut BTreeSet<String>,
) -> Result<Form, TemplateError> {
    let whole = |why: String| TemplateError { line: 1, why };
    let document = match serde_json::from_str::<Json>(text) {
        Ok(document) => document,
        Err(_no_json) if let Some(what) = ignition::what_it_is(text) => {
            return Err(whole(what.to_owned()));
        }
        Err(error) if !text.contains("{{") => {
            return Err(TemplateError { line: error.line(), why: error.to_string() });
        }
        Err(_not_before_it_is_rendered) => {
            let program = Program::new(text, Place::Json, (&Words::default(), meter), labels);
            return program.map(Form::Json).map_err(of_text);
        }
    };
    let is_sabakan = document.get("template").is_some() && document.get("ignition").is_none();
    let (document, words) =
        if is_sabakan { sabakan(document).map_err(whole)? } else { (document, Words::default()) };
    // The version is what decides on all else, and is told first.
    if let Some(version) = document.pointer("/ignition/version").and_then(Json::as_str)
        && !version.contains("{{")
    {
        ignition::in_full(version).map_err(whole)?;
    }
    let tree = Tree::new(&document, "", (&words, meter), labels);
    tree.map(Form::Tree).map_err(|wrong| told(text, &wrong))
}

/// The configuration in sabakan's form, and what is beside it.
fn sabakan(document: Json) -> Result<(Json, Words), String> {
    let Sabakan { version, mut template, meta } =
        serde_json::from_value(document).map_err(|error| error.to_string())?;
    let version = ignition::in_full(&version)?;
    let Some(sections) = template.as_object_mut() else {
        return Err("`template` is no JSON object".to_owned());
    };
    let ignition = sections.entry("ignition").or_insert_with(|| Json::Object(Default::default()));
    let Some(ignition) = ignition.as_object_mut() else {
        return Err("`template.ignition` is no JSON object".to_owned());
    };
    ignition.insert("version".to_owned(), Json::from(version));
    let values = meta.iter().flatten().map(|(key, json)| (key.clone(), facts::value(json)));
    Ok((template, Words { metadata: Arc::new(values.collect()) }))
}

/// A configuration as it is sent.
fn configuration(document: &Json) -> Result<Rendered, String> {
    let Taken { spec, warnings } = ignition::check(document)?;
    Ok(Rendered { text: text_of(document)?, spec, warnings })
}

fn text_of(document: &Json) -> Result<String, String> {
    let text = document.to_string();
    match text.len() > RENDERED_BYTES_MAX {
        true => Err(format!("it gives more than {RENDERED_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

fn of_text(wrong: Wrong) -> TemplateError {
    let Wrong { line, why } = wrong;
    TemplateError { line, why }
}

fn told(whole: &str, at: &WrongAt) -> TemplateError {
    let WrongAt { path, text, wrong } = at;
    let literal = Json::from(text.as_str()).to_string();
    let before = whole.find(&literal).and_then(|place| whole.get(..place));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    let Wrong { line: within, why } = wrong;
    TemplateError { line, why: format!("{path}, its line {within}: {why}") }
}

/// The error for a rendered text that is no JSON, with the line that is wrong.
fn quoted(error: &serde_json::Error, text: &str) -> TemplateError {
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let line: String = line.trim().chars().take(120).collect();
    let why = format!("what it becomes is no JSON: {error}: the rendered line is `{line}`");
    TemplateError { line: error.line(), why }
}

pub(crate) mod fields;
#[cfg(test)]
mod tests;
pub(crate) mod units;
