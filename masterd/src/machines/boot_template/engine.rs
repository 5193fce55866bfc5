//! Core: Go's `text/template` with limits: what a template may do, how long, and how much it may give.
//!
//! The parsed template is rewritten before it runs. Each step is counted and tells its line, since errors
//! of the engine have none. Each value that is inserted goes through one function, which refuses what is
//! no text and escapes the rest for its place.

use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gotmpl::parse::{
    ActionNode, BranchNode, CommandNode, DefineNode, Expr, ListNode, Node, Number, Parser,
    PipeNode, Pos,
};
use gotmpl::{MissingKey, Template, TemplateError, Value};

use model::boot_template::{ENROL_TOKEN, MY_URL, MY_URL_HTTPS};

use super::functions::{self, NAMES, OF_CONSTANTS};
use super::{Place, Words};

/// Steps of rendering all of one template for a machine: a few hundred files, each with some hundred
/// actions. It takes tens of milliseconds.
pub(super) const STEPS_MAX: u64 = 100_000;
/// Bytes of a value within a template: more than a line of any file, and no file. One operation on it
/// takes no longer than a thousand steps.
pub(super) const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a value that count as a step.
const STEP_BYTES: usize = 64;

/// The functions that only a rewritten template calls: no template can write their names.
pub(super) const STEP: &str = "step!";
pub(super) const PUT: &str = "put!";
/// As [`PUT`], for what the function `json` has escaped already, and for what the template itself says.
pub(super) const RAW: &str = "raw!";
/// As `index`, where the value is inserted: it must be there.
pub(super) const INDEX: &str = "index!";
/// The function around the values that a loop runs over.
pub(super) const RANGED: &str = "ranged!";
/// Bytes of the name of a label, as sabakan has it.
const LABEL_BYTES_MAX: usize = 63;
/// The mark behind a text while it is parsed.
const BEHIND: &str = "behind";
/// The name of the text outside all definitions; nobody can define it.
const MAIN: &str = "main!";

/// Why a text gives nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    /// The line in the text, from 1.
    pub(super) line: usize,
    /// The fault there.
    pub(super) why: String,
}

/// The words that an agent replaces when it serves a rendered text. Each has a stand-in that is shorter
/// and has other letters: a value that a template computes from a word differs by it.
const WORDS: [(&str, &str); 3] =
    [(MY_URL_HTTPS, "Q_9-w.z"), (MY_URL, "Zx.q"), (ENROL_TOKEN, "W.5-p_k")];

/// Counts the steps of a run, over all texts of a template, and knows what the run is for.
#[derive(Debug, Default)]
pub(super) struct Meter {
    steps: AtomicU64,
    line: AtomicUsize,
    probes: AtomicBool,
    /// The place of the machine's labels in memory, which are a map of texts to Go.
    labels: AtomicUsize,
}

impl Meter {
    /// Begins the run for another machine.
    pub(super) fn reset(&self) {
        self.steps.store(0, Ordering::Relaxed);
    }

    /// Remembers where the labels of a machine are.
    fn begin(&self, machine: &Value) {
        let labels = machine.field("Spec").and_then(|spec| spec.field("Labels"));
        self.line.store(1, Ordering::Relaxed);
        self.labels.store(labels.map_or(0, place_of), Ordering::Relaxed);
    }

    /// Whether a value is the labels of the machine.
    pub(super) fn is_labels(&self, value: &Value) -> bool {
        let place = place_of(value);
        place != 0 && place == self.labels.load(Ordering::Relaxed)
    }

    /// Whether templates get the other ones of [`WORDS`] from now on.
    pub(super) fn probe(&self, probes: bool) {
        self.probes.store(probes, Ordering::Relaxed);
    }

    /// The value that a template gets for one of [`WORDS`].
    pub(super) fn word(&self, word: &str) -> Value {
        let other = WORDS.iter().find(|(known, _)| *known == word).map(|(_, other)| *other);
        let other = other.filter(|_| self.probes.load(Ordering::Relaxed));
        Value::String(other.unwrap_or(word).into())
    }

    /// A text with the other words.
    pub(super) fn probed(text: &str) -> String {
        WORDS.iter().fold(text.to_owned(), |text, (word, other)| text.replace(word, other))
    }

    fn step(&self, line: usize) -> Result<(), TemplateError> {
        self.line.store(line, Ordering::Relaxed);
        self.spend(1)
    }

    fn spend(&self, steps: u64) -> Result<(), TemplateError> {
        let spent = self.steps.fetch_add(steps, Ordering::Relaxed).saturating_add(steps);
        if spent <= STEPS_MAX {
            return Ok(());
        }
        Err(refusal(format!("it takes more than {STEPS_MAX} steps")))
    }

    /// A value that a function made, as long as it is none too large.
    pub(super) fn text(&self, text: String) -> Result<Value, TemplateError> {
        self.room(text.len())?;
        Ok(Value::String(text.into()))
    }

    /// Counts the making of so many bytes.
    pub(super) fn room(&self, bytes: usize) -> Result<(), TemplateError> {
        if bytes > VALUE_BYTES_MAX {
            return Err(refusal(format!("a value has more than {VALUE_BYTES_MAX} bytes")));
        }
        self.spend(u64::try_from(bytes / STEP_BYTES).unwrap_or(u64::MAX))
    }
}

/// The place of a map in memory; 0 for anything else.
fn place_of(value: &Value) -> usize {
    match value {
        Value::Map(map) => Arc::as_ptr(map).addr(),
        _ => 0,
    }
}

/// An error of a function.
pub(super) fn refusal(why: String) -> TemplateError {
    TemplateError::Exec(why)
}

/// A text that was read.
pub(super) struct Program {
    template: Template,
    meter: Arc<Meter>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").finish_non_exhaustive()
    }
}

impl Program {
    /// Reads a text whose values are inserted at `place`. `labels` gets the labels that it names.
    pub(super) fn new(
        text: &str,
        place: Place,
        (words, meter): (&Words, &Arc<Meter>),
        labels: &mut BTreeSet<String>,
    ) -> Result<Self, Wrong> {
        let (main, defines) = parsed(text)?;
        let mut rewriting = Rewriting { names: BTreeSet::new(), place, labels };
        let mut template = Template::new("")
            .missing_key(MissingKey::Error)
            .funcs(functions::all(words, meter, place))
            .add_parse_tree(MAIN, rewriting.list(&main)?);
        for define in &defines {
            if !rewriting.names.insert(define.name.to_string()) {
                let why = format!("template \"{}\" is defined twice", define.name);
                return Err(Wrong { line: define.pos.line, why });
            }
            template = template.add_parse_tree(&define.name, rewriting.list(&define.body)?);
        }
        let step = Arc::clone(meter);
        let template = template.func(STEP, move |arguments| {
            let line = arguments.first().and_then(Value::as_int).unwrap_or(1);
            step.step(usize::try_from(line).unwrap_or(1))?;
            Ok(Value::String("".into()))
        });
        Ok(Self { template, meter: Arc::clone(meter) })
    }

    /// Renders it for one machine, at most `bytes_max`.
    pub(super) fn run(&self, machine: &Value, bytes_max: usize) -> Result<String, Wrong> {
        self.meter.begin(machine);
        let mut output = Bounded { text: String::new(), bytes_max, is_full: false };
        let done = self.template.execute_template_fmt(&mut output, MAIN, machine);
        let line = self.meter.line.load(Ordering::Relaxed);
        if output.is_full {
            return Err(Wrong { line, why: format!("it gives more than {bytes_max} bytes") });
        }
        done.map_err(|error| wrong(&error, line))?;
        Ok(output.text)
    }
}

/// Reads a text. The engine's parser takes the end of the text for that of all blocks, and passes over
/// text behind a surplus end. So the text is read as a block with something behind it.
fn parsed(text: &str) -> Result<(ListNode, Vec<DefineNode>), Wrong> {
    let parse = |text: &str| {
        let parsed = Parser::new(text, "{{", "}}").and_then(Parser::parse);
        parsed.map_err(|error| wrong(&error, 1))
    };
    let _alone = parse(text)?;
    let block = format!("{{{{ if true }}}}{text}{{{{ end }}}}{BEHIND}");
    let (list, defines) = parse(&block)?;
    match list.nodes.as_slice() {
        [Node::If(block), Node::Text(behind)]
            if block.else_body.is_none() && behind.text.as_ref() == BEHIND =>
        {
            Ok((block.body.clone(), defines))
        }
        _ => {
            let why = "there are more or fewer {{ end }} and {{ else }} than blocks".to_owned();
            Err(Wrong { line: text.lines().count().max(1), why })
        }
    }
}

/// An error of the engine, at the line that it names or at the last step.
fn wrong(error: &TemplateError, line: usize) -> Wrong {
    match error {
        TemplateError::Parse { line, message, .. } | TemplateError::Lex { line, message, .. } => {
            Wrong { line: (*line).max(1), why: message.clone() }
        }
        TemplateError::Exec(why) => Wrong { line, why: why.clone() },
        TemplateError::MissingKey { key } => {
            Wrong { line, why: format!("there is no `{key}` here") }
        }
        other => Wrong { line, why: other.to_string() },
    }
}

/// Takes so many bytes.
struct Bounded {
    text: String,
    bytes_max: usize,
    is_full: bool,
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > self.bytes_max {
            self.is_full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

/// Rewrites parsed texts.
struct Rewriting<'a> {
    /// Templates that are defined.
    names: BTreeSet<String>,
    place: Place,
    labels: &'a mut BTreeSet<String>,
}

impl Rewriting<'_> {
    /// A list whose nodes count themselves.
    fn list(&mut self, list: &ListNode) -> Result<ListNode, Wrong> {
        let mut nodes = Vec::with_capacity(list.nodes.len() * 2);
        for node in &list.nodes {
            let (pos, node) = match node {
                Node::Text(_) | Node::Define(_) => {
                    nodes.push(node.clone());
                    continue;
                }
                Node::Break(pos) | Node::Continue(pos) => (*pos, node.clone()),
                Node::List(inner) => (inner.pos, Node::List(self.list(inner)?)),
                Node::Action(action) => (action.pos, Node::Action(self.action(action)?)),
                Node::If(branch) => (branch.pos, Node::If(self.branch(branch)?)),
                Node::With(branch) => (branch.pos, Node::With(self.branch(branch)?)),
                Node::Range(branch) => (branch.pos, Node::Range(self.range(branch)?)),
                Node::Template(call) => {
                    call.pipe.iter().try_for_each(|pipe| self.pipe(pipe))?;
                    (call.pos, node.clone())
                }
            };
            nodes.push(step(pos));
            nodes.push(node);
        }
        Ok(ListNode { pos: list.pos, nodes })
    }

    /// An action that inserts a value does so by one function.
    fn action(&mut self, action: &ActionNode) -> Result<ActionNode, Wrong> {
        self.pipe(&action.pipe)?;
        let mut action = action.clone();
        if action.pipe.decl.is_empty() {
            let put = self.put(&action.pipe);
            let last = action.pipe.commands.last_mut().and_then(|command| command.args.first_mut());
            if let Some(Expr::Identifier(_, name)) = last
                && name == "index"
            {
                *name = INDEX.into();
            }
            action.pipe.commands.push(call(action.pos, put, Vec::new()));
        }
        Ok(action)
    }

    /// The function that inserts a value.
    fn put(&self, pipe: &PipeNode) -> &'static str {
        let last = pipe.commands.last().and_then(|command| command.args.first());
        let is_json = matches!(last, Some(Expr::Identifier(_, name)) if name == "json");
        match self.place {
            Place::Json if is_json => RAW,
            Place::Yaml if is_json || is_constant(pipe) => RAW,
            Place::Script if is_constant(pipe) => RAW,
            Place::Value | Place::Json | Place::Yaml | Place::Script => PUT,
        }
    }

    fn branch(&mut self, branch: &BranchNode) -> Result<BranchNode, Wrong> {
        self.pipe(&branch.pipe)?;
        let else_body = branch.else_body.as_ref().map(|body| self.list(body)).transpose()?;
        Ok(BranchNode { body: self.list(&branch.body)?, else_body, ..branch.clone() })
    }

    /// Each turn of a loop is a step, be its body empty.
    fn range(&mut self, branch: &BranchNode) -> Result<BranchNode, Wrong> {
        let mut branch = self.branch(branch)?;
        branch.pipe.commands.push(call(branch.pos, RANGED, Vec::new()));
        branch.body.nodes.insert(0, step(branch.pos));
        Ok(branch)
    }

    fn pipe(&mut self, pipe: &PipeNode) -> Result<(), Wrong> {
        let mut arguments = pipe.commands.iter().flat_map(|command| &command.args);
        arguments.try_for_each(|argument| self.expression(argument))
    }

    /// Refuses functions that there are not, also where no machine comes by.
    fn expression(&mut self, expression: &Expr) -> Result<(), Wrong> {
        match expression {
            Expr::Identifier(_, name) if NAMES.contains(&name.as_str()) => {}
            Expr::Identifier(pos, name) => {
                let why = format!("there is no function `{name}`, only {}", NAMES.join(", "));
                return Err(Wrong { line: pos.line, why });
            }
            // Behind the word `Labels`, or where `with` has the labels themselves be the dot.
            Expr::Field(_, fields) | Expr::Variable(_, _, fields) => {
                let behind = fields.iter().skip_while(|field| *field != "Labels").nth(1);
                let label = behind.or_else(|| fields.first().filter(|_| fields.len() == 1));
                self.labels.extend(label.map(ToString::to_string));
            }
            // A name for `index` may stand anywhere.
            Expr::String(_, text) => {
                let is_name = !text.is_empty() && text.len() <= LABEL_BYTES_MAX;
                self.labels.extend(is_name.then(|| text.to_string()));
            }
            Expr::Pipe(_, pipe) => self.pipe(pipe)?,
            Expr::Chain(_, inner, fields) => {
                self.expression(inner)?;
                self.labels.extend(fields.first().map(ToString::to_string));
            }
            Expr::Dot(_) | Expr::Number(..) | Expr::Bool(..) | Expr::Nil(_) => {}
        }
        Ok(())
    }
}

/// Whether a pipeline gives what the template itself says: its texts and numbers, and what functions make of
/// them alone.
fn is_constant(pipe: &PipeNode) -> bool {
    let mut arguments = pipe.commands.iter().flat_map(|command| &command.args);
    arguments.all(|argument| match argument {
        Expr::String(..) | Expr::Number(..) | Expr::Bool(..) => true,
        Expr::Identifier(_, name) => OF_CONSTANTS.contains(&name.as_str()),
        Expr::Pipe(_, pipe) => is_constant(pipe),
        Expr::Field(..) | Expr::Variable(..) | Expr::Chain(..) | Expr::Dot(_) | Expr::Nil(_) => {
            false
        }
    })
}

/// A node that counts a step.
fn step(pos: Pos) -> Node {
    let line = Number::Int(i64::try_from(pos.line).unwrap_or(i64::MAX));
    let commands = vec![call(pos, STEP, vec![Expr::Number(pos, line)])];
    let pipe = PipeNode { pos, decl: Vec::new(), commands, is_assign: false };
    Node::Action(ActionNode { pos, pipe })
}

fn call(pos: Pos, name: &str, mut arguments: Vec<Expr>) -> CommandNode {
    arguments.insert(0, Expr::Identifier(pos, name.into()));
    CommandNode { pos, args: arguments }
}

#[cfg(test)]
mod tests;
