//! Core: an opcode as it enters and as it is stored.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::common::{Common, Dependency, ReasonEntry, UNCHANGED_MAX, Unchanged};
use super::{OpCode, Reach};
use crate::json::{self, Malformed};
use crate::range::OutOfRange;

/// Most parameters that one opcode may carry: three times the longest list that is known.
const PARAMETERS_MAX: usize = 128;
/// Room for the parameters of most opcodes.
const PARAMETERS_USUAL: usize = 16;

/// A checked opcode with its common parameters; on the wire one flat object.
#[derive(Debug, Clone, PartialEq)]
pub struct OpInput {
    /// The verb and its own parameters.
    pub op: OpCode,
    /// The parameters that every opcode has.
    pub common: Common,
}

/// An opcode that does not read.
#[derive(Debug, thiserror::Error)]
#[error("opcode {id} is malformed: {why}")]
pub struct OpInputError {
    id: String,
    why: Malformed,
}

impl OpInput {
    /// An opcode with nothing but its own parameters.
    pub fn new(op: OpCode) -> Self {
        Self { op, common: Common::default() }
    }

    /// Refuses an opcode with a number that cannot be meant.
    ///
    /// # Errors
    /// The first number outside its range.
    pub fn check_ranges(&self) -> Result<(), OutOfRange> {
        self.common.check_ranges()?;
        self.op.check_ranges()
    }

    /// Reads an opcode that a client sent.
    ///
    /// # Errors
    /// An unknown verb, an unknown or missing parameter, or one of the wrong type.
    pub fn parse(text: &str) -> Result<Self, OpInputError> {
        // Remembering the place takes time, which only what is wrong is worth.
        serde_json::from_str(text)
            .or_else(|_error| json::read(text).map_err(|why| OpInputError { id: op_id(text), why }))
    }
}

/// The verb of a malformed opcode, as far as it can be told.
fn op_id(text: &str) -> String {
    #[derive(Deserialize)]
    struct Tag {
        #[serde(rename = "OP_ID")]
        id: String,
    }
    serde_json::from_str::<Tag>(text).map_or_else(|_| "without OP_ID".to_owned(), |tag| tag.id)
}

impl Serialize for OpInput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'a> {
            #[serde(flatten)]
            op: &'a OpCode,
            #[serde(flatten)]
            common: &'a Common,
        }
        Flat { op: &self.op, common: &self.common }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OpInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OpInputVisitor)
    }
}

/// Sorts the fields of the flat object. Common ones are read; the verb's own are kept as text until the
/// verb is known. Each verb can then refuse fields that it does not have.
struct OpInputVisitor;

impl<'de> Visitor<'de> for OpInputVisitor {
    type Value = OpInput;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an opcode: an object with OP_ID")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OpInput, A::Error> {
        let mut id: Option<Name<'de>> = None;
        let mut common = Common::default();
        let mut own: Vec<(Name<'de>, &'de RawValue)> = Vec::with_capacity(PARAMETERS_USUAL);
        while let Some(Name(key)) = map.next_key()? {
            match &*key {
                "OP_ID" => id = Some(map.next_value()?),
                "dry_run" => common.dry_run = map.next_value::<Option<bool>>()?.unwrap_or(false),
                "debug_level" => {
                    common.debug_level = map.next_value::<Option<i64>>()?.unwrap_or(0);
                }
                "priority" => common.priority = map.next_value::<Option<i32>>()?.unwrap_or(0),
                "depends" => common.depends = map.next_value::<Option<Vec<Dependency>>>()?,
                "comment" => common.comment = map.next_value()?,
                "reason" => {
                    let reason = map.next_value::<Option<Vec<ReasonEntry>>>()?;
                    common.reason = reason.unwrap_or_default();
                }
                "unchanged" => {
                    let unchanged = map.next_value::<Option<Vec<Unchanged>>>()?;
                    common.unchanged = unchanged.unwrap_or_default();
                    if common.unchanged.len() > UNCHANGED_MAX {
                        return Err(A::Error::custom("too many documents in `unchanged`"));
                    }
                }
                _ if own.len() == PARAMETERS_MAX => {
                    return Err(A::Error::custom("too many parameters"));
                }
                _ => {
                    let value: &RawValue = map.next_value()?;
                    if depth(value.get()) > PARAMETER_DEPTH_MAX {
                        return Err(A::Error::custom(format!(
                            "parameter `{key}` nests deeper than {PARAMETER_DEPTH_MAX}"
                        )));
                    }
                    own.push((Name(key), value));
                }
            }
        }
        let id = id.ok_or_else(|| A::Error::missing_field("OP_ID"))?;
        let op = OpCode::parse(&id.0, parameters(&own)).or_else(|_error| {
            let read = |reader: Traced<'_, '_, _>| OpCode::parse(&id.0, reader);
            json::traced(parameters(&own), read).map_err(A::Error::custom)
        })?;
        Ok(OpInput { op, common })
    }
}

type Traced<'a, 'b, D> = serde_path_to_error::Deserializer<'a, 'b, D>;

fn parameters<'a, 'de>(
    own: &'a [(Name<'de>, &'de RawValue)],
) -> MapDeserializer<'a, impl Iterator<Item = (&'a str, Parameter<'de>)>, serde_json::Error> {
    MapDeserializer::new(own.iter().map(|(Name(key), text)| (&**key, Parameter(text))))
}

/// Text of a client, copied only where it is written with escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Deepest nesting of a parameter: what is stored is wrapped in a job, and that in an answer, and
/// readers of JSON end at 128.
const PARAMETER_DEPTH_MAX: usize = 32;

/// How deep JSON nests.
fn depth(json: &str) -> usize {
    if !json.starts_with(['[', '{']) {
        return 0;
    }
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

struct Parameter<'de>(&'de RawValue);

impl<'de> serde::de::IntoDeserializer<'de, serde_json::Error> for Parameter<'de> {
    type Deserializer = &'de RawValue;
    fn into_deserializer(self) -> &'de RawValue {
        self.0
    }
}

/// An opcode as a job keeps it: one that this version cannot read stays as it was written, so that
/// an old archive never breaks a new master.
#[derive(Debug, Clone)]
pub enum Input {
    /// This version knows it.
    Known(Box<OpInput>),
    /// This version does not; such a job can be shown and archived, never run.
    Unknown(Box<RawValue>),
}

impl Input {
    /// How the job list names it.
    pub fn summary(&self) -> String {
        match self {
            Self::Known(input) => input.op.summary(),
            Self::Unknown(_) => "INVALID_OP".to_owned(),
        }
    }

    /// Its priority at submission.
    pub fn priority(&self) -> i32 {
        self.known().map_or(0, |input| input.common.priority)
    }

    /// The jobs that must end first.
    pub fn depends(&self) -> &[Dependency] {
        self.known().and_then(|input| input.common.depends.as_deref()).unwrap_or_default()
    }

    /// The requesters and their reasons, oldest first.
    pub fn reason(&self) -> &[ReasonEntry] {
        self.known().map(|input| input.common.reason.as_slice()).unwrap_or_default()
    }

    /// The opcode, if this version knows it.
    pub fn known(&self) -> Option<&OpInput> {
        match self {
            Self::Known(input) => Some(input),
            Self::Unknown(_) => None,
        }
    }

    /// How far it reaches; what cannot run reaches nowhere.
    pub fn reach(&self) -> Reach {
        self.known().map_or(Reach::Master, |input| input.op.reach())
    }
}

impl Serialize for Input {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(input) => input.serialize(serializer),
            Self::Unknown(raw) => raw.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(match OpInput::parse(raw.get()) {
            Ok(input) => Self::Known(Box::new(input)),
            Err(_) => Self::Unknown(raw.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_has_an_end() {
        assert_eq!(depth(r#"{"a": [1, "[[[\"[", {}], "b": []}"#), 3);
        let nested = |n: usize| {
            let ndparams = format!("{}1{}", r#"{"a":"#.repeat(n), "}".repeat(n));
            let text = format!(
                r#"{{"OP_ID": "OP_NODE_SET_PARAMS", "node_name": "n1", "ndparams": {ndparams}}}"#
            );
            OpInput::parse(&text).map_err(|error| format!("{error}"))
        };
        assert!(nested(32).is_ok());
        assert!(nested(33).unwrap_err().contains("`ndparams` nests deeper than 32"));
    }

    #[test]
    fn reads_what_the_python_client_sends() {
        let text = r#"{"OP_ID": "OP_TEST_DELAY", "duration": 10, "on_master": true, "on_nodes": [],
            "on_node_uuids": null, "repeat": 0, "interruptible": false, "no_locks": true,
            "dry_run": null, "debug_level": 0, "priority": -10, "depends": [[-1, ["success"]]],
            "comment": null, "reason": [["gnt:client:gnt-debug", "delay", 1700000000000000001]]}"#;
        let input = OpInput::parse(text).unwrap();
        assert_eq!(input.op.summary(), "TEST_DELAY(10.0)");
        assert_eq!(input.common.priority, -10);
        let again = OpInput::parse(&serde_json::to_string(&input).unwrap()).unwrap();
        assert_eq!(again, input);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for (text, told) in [
            (
                r#"{"OP_ID":"OP_TEST_DELAY","duration":1,"durations":2}"#,
                "unknown field `durations`",
            ),
            (r#"{"OP_ID":"OP_TEST_DELAY"}"#, "missing field `duration`"),
            (
                r#"{"OP_ID":"OP_TEST_DELAY","duration":"1"}"#,
                "OP_TEST_DELAY is malformed: duration: expected a number, found a text",
            ),
            (
                r#"{"OP_ID":"OP_TEST_DELAY","duration":1,"reason":[["a","b",1],["a"]]}"#,
                "reason[1]: expected a list of 3 values, found 1 values",
            ),
            (
                r#"{"OP_ID":"OP_TEST_DELAY","duration":1,"depends":[[5,"success"]]}"#,
                "depends[0][1]: expected a list, found a text",
            ),
            (
                r#"{"OP_ID":"OP_TEST_DELAY","duration":1,"depends":[[1,["nope"]]]}"#,
                "depends[0][1][0]: expected `success`, `error` or `canceled`",
            ),
            (
                r#"{"OP_ID":"OP_MACHINE_ADD","machines":[{"serial":"a","rack":-1,"role":"b"}]}"#,
                "machines[0].rack: expected a whole number from 0 to 4294967295, found -1",
            ),
            (r#"{"OP_ID":"OP_NONSENSE"}"#, "unknown opcode `OP_NONSENSE`"),
            (r#"{"duration":1}"#, "missing field `OP_ID`"),
            (r#"{"OP_ID":"OP_TEST_DELAY","duration":1,"depends":[[0,[]]]}"#, "job 0"),
            (r#"[]"#, "an opcode"),
        ] {
            let error = OpInput::parse(text).unwrap_err();
            let shown = error.to_string();
            assert!(shown.contains(told), "{text}: {shown}");
        }
    }
}
