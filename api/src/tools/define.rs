//! What a tool is: one value, from which its route, its MCP listing, its OpenAPI operation, its reference page and its checks derive.

use std::{collections::BTreeMap, sync::OnceLock};

use countersign_log::{Reader, store::Head};
use countersign_verifier::{key::IdentityId, operation::Operation, policy::Eras};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

use super::{TOOLS, near, page::Pages};
use crate::{
    error::{Code, Problem},
    seat::Seats,
    state::{Identity, State},
};

/// What can be seen while a tool answers: one version of the state, and the log below it.
#[derive(Clone)]
pub struct View<'a> {
    /// The newest committed head.
    pub head: Head,
    /// The state at exactly that size.
    pub state: &'a State,
    /// The log.
    pub reader: &'a Reader<State>,
    /// The keys that the service keeps for seats.
    pub seats: &'a Seats,
    /// Where a list goes on, and how it is gone on with.
    pub pages: Pages<'a>,
    /// The policies by which the log's evidence is judged.
    pub eras: &'a Eras,
    /// Who asks; `None`: whoever holds the owner's token.
    pub caller: Option<&'a Identity>,
    /// The session that the call names.
    pub session: Option<&'a str>,
    /// Where the log is served: the service's URL, and `/log/<account>`.
    pub log_url: &'a str,
    /// Log time, in milliseconds since 1970, as near as it is known outside the writer; for how long something still runs, never
    /// for a decision.
    pub now_ms: u64,
}

/// A write that was applied, as it is answered: what was asked, what its leaf records, and the state since.
pub struct Done<'a> {
    /// The state by now; other writes may have followed.
    pub view: View<'a>,
    /// The leaf.
    pub index: u64,
    /// Its log time, in milliseconds since 1970.
    pub at: u64,
    /// Who asked.
    pub by: IdentityId,
    /// What was asked.
    pub operation: &'a Operation,
    /// What was recorded.
    pub effect: &'a Map<String, Value>,
}

/// Makes the result of a write.
pub type Answer = fn(&Done<'_>) -> Value;
/// Makes the result of a read.
pub type Read = fn(&View<'_>, &Value) -> Result<Value, Problem>;

/// Cuts a call into the arguments of operations.
pub type Cut = fn(&View<'_>, &Value) -> Result<Vec<Value>, Problem>;
/// Makes one result of those of the parts.
pub type Sum = fn(&[Value]) -> Value;

/// What a call of a tool of parts is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One operation.
    Writes,
    /// A read.
    Reads,
    /// To be cut into operations.
    IsCut,
}

/// What running a tool means.
#[derive(Clone, Copy)]
pub enum Handler {
    /// A signed operation, judged in order.
    Write(Answer),
    /// Read from a version of the state; never logged.
    Read(Read),
    /// A signed operation, or a read, or a call that is cut into as many operations as it takes.
    Parts {
        /// Which of them a call with these arguments is.
        kind: fn(&Value) -> Kind,
        /// The answer to one operation.
        write: Answer,
        /// The answer to a read.
        read: Read,
        /// The arguments of the operations, in order; none where there is nothing to do.
        cut: Cut,
        /// The result of all, from those of each.
        sum: Sum,
    },
    /// A receipt, which its own signatures authenticate: it becomes a leaf as it is, and the call is none.
    Receipt,
    /// Arguments, and what can be seen, say which of the two a call is.
    Either {
        /// Whether a call with these arguments writes.
        writes: fn(&View<'_>, &Value) -> bool,
        /// The answer if it does.
        write: Answer,
        /// The answer if not.
        read: Read,
    },
}

/// What a call with given arguments is.
#[derive(Clone, Copy)]
pub enum Runs {
    /// It writes, and is answered so.
    Writes(Answer),
    /// It reads.
    Reads(Read),
    /// It takes a receipt.
    Receipt,
    /// It is cut, each part answered as a write and all of them by the last.
    IsCut {
        /// Cuts it.
        cut: Cut,
        /// The answer to one part.
        write: Answer,
        /// The result of all.
        sum: Sum,
    },
}

/// What a client may assume of a tool, as MCP names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Changes nothing.
    pub read_only: bool,
    /// What it changes cannot be had back.
    pub destructive: bool,
    /// Reaches beyond the account.
    pub open_world: bool,
}

impl Hints {
    /// Of a tool that reads.
    pub const READS: Hints = Hints {
        read_only: true,
        destructive: false,
        open_world: false,
    };
    /// Of a tool that writes, and takes nothing away.
    pub const WRITES: Hints = Hints {
        read_only: false,
        destructive: false,
        open_world: false,
    };
    /// Of a tool that ends something for good.
    pub const ENDS: Hints = Hints {
        read_only: false,
        destructive: true,
        open_world: false,
    };
}

/// One tool.
#[derive(Clone, Copy)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence or two; for models as much as for people.
    pub summary: &'static str,
    /// Its arguments as a closed JSON Schema; see [`schema`].
    pub arguments: fn() -> Value,
    /// Its result as a JSON Schema.
    pub result: fn() -> Value,
    /// Arguments that decode, as an example.
    pub example: &'static str,
    /// What a client may assume.
    pub hints: Hints,
    /// What running it means.
    pub handler: Handler,
}

/// The JSON Schema (2020-12) of a type, without references: clients need resolve nothing.
#[must_use]
pub fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    let mut value = schema.to_value();
    tidy(&mut value);
    if let Some(root) = value.as_object_mut() {
        root.remove("title");
        root.remove("description");
    }
    value
}

/// Drops the `format` of numbers, which is Rust's own and makes some clients complain, and joins the lines of descriptions.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let of_rust = |format: &str| format.starts_with("uint") || format.starts_with("int");
            if members
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(of_rust)
            {
                members.remove("format");
            }
            if let Some(Value::String(text)) = members.get_mut("description") {
                *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            }
            // `true`, any value at all, is a schema that some clients do not know as one.
            let any = |schema: &mut Value| {
                if *schema == Value::Bool(true) {
                    *schema = Value::Object(Map::new());
                }
            };
            members.get_mut("items").into_iter().for_each(any);
            let properties = members.get_mut("properties").and_then(Value::as_object_mut);
            properties
                .into_iter()
                .flat_map(Map::values_mut)
                .for_each(any);
            members.values_mut().for_each(tidy);
        }
        Value::Array(elements) => elements.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// A schema for results that stand in the reference in words.
#[must_use]
pub fn any_object() -> Value {
    serde_json::json!({"type": "object"})
}

/// One argument, as the reference shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// Its JSON type, for people.
    pub kind: String,
    /// Whether it must be given.
    pub required: bool,
    /// What it says; with its bounds and its default.
    pub about: String,
}

/// The tool of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// What to say of a tool that there is not: `; did you mean …?` where one is near, else nothing.
#[must_use]
pub fn tool_hint(name: &str) -> String {
    near::hint(name, TOOLS.iter().map(|tool| tool.name))
}

impl Tool {
    /// What a call with these arguments is, by what can be seen when it comes.
    #[must_use]
    pub fn runs(&self, view: &View<'_>, arguments: &Value) -> Runs {
        match self.handler {
            Handler::Write(answer) => Runs::Writes(answer),
            Handler::Read(read) => Runs::Reads(read),
            Handler::Receipt => Runs::Receipt,
            Handler::Either {
                writes,
                write,
                read,
            } => match writes(view, arguments) {
                true => Runs::Writes(write),
                false => Runs::Reads(read),
            },
            Handler::Parts {
                kind,
                write,
                read,
                cut,
                sum,
            } => match kind(arguments) {
                Kind::Writes => Runs::Writes(write),
                Kind::Reads => Runs::Reads(read),
                Kind::IsCut => Runs::IsCut { cut, write, sum },
            },
        }
    }

    /// Its arguments, in order of name.
    #[must_use]
    pub fn table(&self) -> &'static [Argument] {
        self.described().map_or(&[], |(_, table)| table)
    }

    /// The schema of its arguments, and what it says as a table.
    fn described(&self) -> Option<&'static (Value, Vec<Argument>)> {
        static KNOWN: OnceLock<BTreeMap<&'static str, (Value, Vec<Argument>)>> = OnceLock::new();
        let known = KNOWN.get_or_init(|| {
            let described = |tool: &Tool| {
                let schema = (tool.arguments)();
                let table = table(&schema);
                (tool.name, (schema, table))
            };
            TOOLS.iter().map(described).collect()
        });
        known.get(self.name)
    }

    /// Refuses an argument that the tool does not have, or a member that an argument does not have, by name, with the nearest one
    /// that is known there.
    ///
    /// # Errors
    /// `UnknownArgument`.
    pub fn check_names(&self, arguments: &Value) -> Result<(), Problem> {
        if !arguments.is_object() {
            return Err(Problem::new(Code::Malformed, "arguments are one object"));
        }
        let schema = self.described().map_or(&Value::Null, |(schema, _)| schema);
        let Some(unknown) = near::unknown_member(schema, arguments) else {
            return Ok(());
        };
        let (takes, argument) = match unknown.inside.as_str() {
            "" => (
                format!("{} takes no argument", self.name),
                unknown.name.clone(),
            ),
            inside => {
                let path = format!("{inside}/{}", unknown.name);
                (
                    format!("{} takes no member", &inside[1..]),
                    path[1..].to_owned(),
                )
            }
        };
        let hint = near::hint(&unknown.name, unknown.known.iter().map(String::as_str));
        let why = format!("{takes} {:?}{hint}", unknown.name);
        let problem = Problem::new(Code::UnknownArgument, why);
        Err(problem
            .with("argument", argument)
            .with("known", unknown.known))
    }
}

fn table(schema: &Value) -> Vec<Argument> {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let argument = |(name, about): (&String, &Value)| Argument {
        name: name.clone(),
        kind: kind(about),
        required: required.contains(&name.as_str()),
        about: about["description"].as_str().unwrap_or_default().into(),
    };
    let members = schema["properties"].as_object();
    members.into_iter().flatten().map(argument).collect()
}

/// A schema's type in words.
fn kind(schema: &Value) -> String {
    let words = |name: &str| match name {
        "array" => match kind(&schema["items"]) {
            inner if inner.is_empty() => "array".into(),
            inner => format!("array of {inner}s"),
        },
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => words(name),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str);
            names
                .filter(|n| *n != "null")
                .map(words)
                .collect::<Vec<_>>()
                .join(" or ")
        }
        _ => {
            let several = ["anyOf", "oneOf"]
                .iter()
                .find_map(|m| schema[*m].as_array());
            let mut kinds: Vec<String> = several.into_iter().flatten().map(kind).collect();
            kinds.retain(|kind| kind != "null" && !kind.is_empty());
            kinds.dedup();
            kinds.join(" or ")
        }
    }
}
