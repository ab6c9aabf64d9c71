//! The tools: each is one value, from which its route, its reference page and its checks derive.

use serde_json::{Map, Value};

use crate::{error::Problem, state::State};

pub mod closed;
pub mod head;
pub mod identity;
mod page;

/// One argument of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Its JSON type, for people.
    pub kind: &'static str,
    /// Whether it must be given.
    pub required: bool,
    /// What it says; with its bounds and its default.
    pub about: &'static str,
}

/// What running a tool means.
#[derive(Clone, Copy)]
pub enum Handler {
    /// A signed operation, judged in order; the answer is made of what was asked and the recorded effect.
    Write(fn(arguments: &Value, effect: &Map<String, Value>) -> Value),
    /// Read from a version of the state; never logged.
    Read(fn(&State, &Value) -> Result<Value, Problem>),
}

/// One tool.
#[derive(Clone, Copy)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Its arguments.
    pub arguments: &'static [Argument],
    /// Arguments that decode, as an example.
    pub example: &'static str,
    /// What running it means.
    pub handler: Handler,
}

/// Every tool that clients may call, in the order of the reference.
pub const TOOLS: &[Tool] = &[
    identity::ENROLL,
    identity::ROTATE,
    identity::REVOKE,
    identity::LIST,
    identity::RECEIPT_POLICY,
    head::TRACK,
    head::SUBMIT,
    head::LIST,
    closed::CLOSE,
];

/// The tool of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

impl Tool {
    /// Refuses an argument that the tool does not have, by name, with the nearest one that it has.
    ///
    /// # Errors
    /// `UnknownArgument`.
    pub fn check_names(&self, arguments: &Value) -> Result<(), Problem> {
        let Some(members) = arguments.as_object() else {
            return Err(Problem::new(
                crate::error::Code::Malformed,
                "arguments are one object",
            ));
        };
        for name in members.keys() {
            if self.arguments.iter().any(|a| a.name == name) {
                continue;
            }
            let known: Vec<&str> = self.arguments.iter().map(|a| a.name).collect();
            let nearest = known
                .iter()
                .min_by_key(|k| distance(k, name))
                .filter(|k| distance(k, name) <= 3);
            let hint = nearest.map_or(String::new(), |k| format!("; did you mean `{k}`?"));
            let shown: String = name.chars().take(64).collect();
            let problem = Problem::new(
                crate::error::Code::UnknownArgument,
                format!("{} takes no argument {shown:?}{hint}", self.name),
            );
            return Err(problem.with("argument", shown).with("known", known));
        }
        Ok(())
    }
}

/// How many letters must change to make one word of the other (Levenshtein), for words that may be long: cut at 64 characters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::verb;

    #[test]
    fn names_are_unique_and_every_example_decodes() {
        for (i, tool) in TOOLS.iter().enumerate() {
            assert!(
                TOOLS[..i].iter().all(|other| other.name != tool.name),
                "{} stands twice",
                tool.name
            );
            let example: Value = serde_json::from_str(tool.example).unwrap();
            tool.check_names(&example).unwrap();
            for argument in tool.arguments.iter().filter(|a| a.required) {
                assert!(
                    example.get(argument.name).is_some(),
                    "{}: {} is missing from the example",
                    tool.name,
                    argument.name
                );
            }
        }
    }

    #[test]
    fn every_writing_tool_has_its_verb() {
        for tool in TOOLS
            .iter()
            .filter(|t| matches!(t.handler, Handler::Write(_)))
        {
            assert!(verb::find(tool.name).is_some(), "{}", tool.name);
        }
    }

    #[test]
    fn an_unknown_argument_is_named_with_the_nearest_known() {
        let problem = identity::ENROLL
            .check_names(&serde_json::json!({"nmae": "x"}))
            .unwrap_err();
        assert!(
            problem.message.contains("did you mean `name`"),
            "{}",
            problem.message
        );
        let problem = identity::ENROLL
            .check_names(&serde_json::json!({"zzzzzzzzzzzz": "x"}))
            .unwrap_err();
        assert!(
            !problem.message.contains("did you mean"),
            "{}",
            problem.message
        );
    }
}
