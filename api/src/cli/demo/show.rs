//! What is printed: a line a step.

use countersign_verifier::hash::Hash;
use serde_json::{Map, Value, json};

use crate::{cli::out::Out, client::Entry};

/// Prints the steps, and keeps which leaves they made.
pub struct Show {
    json: bool,
    out: Out,
    /// Index and hash of every leaf that a step named.
    pub leaves: Vec<(u64, Option<Hash>)>,
}

/// One thing that happened.
pub struct Step<'a> {
    /// Who did it: `human`, `planner`, `builder`, or `service`.
    pub who: &'a str,
    /// Its name, for programs.
    pub name: &'a str,
    /// In words.
    pub words: String,
    /// More of it, for programs.
    pub more: Value,
}

impl Show {
    /// Prints to standard output.
    pub fn new(json: bool) -> Show {
        Show {
            json,
            out: Out::stdout(),
            leaves: Vec::new(),
        }
    }

    /// A step that made a leaf.
    pub fn leaf(&mut self, step: Step<'_>, entry: Option<&Entry>) -> anyhow::Result<()> {
        if let Some(entry) = entry {
            let hash = Hash::from_hex(&entry.leaf_hash).ok();
            self.leaves.push((entry.index, hash));
        }
        self.print(step, entry.map(|entry| entry.index))
    }

    /// A step that made the leaf at this index, which the service wrote by itself.
    pub fn leaf_at(&mut self, step: Step<'_>, index: u64) -> anyhow::Result<()> {
        self.leaves.push((index, None));
        self.print(step, Some(index))
    }

    /// A step that only looked.
    pub fn look(&mut self, step: Step<'_>) -> anyhow::Result<()> {
        self.print(step, None)
    }

    /// A line between steps; none among lines of JSON.
    pub fn say(&mut self, words: &str) -> anyhow::Result<()> {
        if !self.json {
            self.out.line(words)?;
        }
        Ok(())
    }

    fn print(&mut self, step: Step<'_>, index: Option<u64>) -> anyhow::Result<()> {
        let Step {
            who,
            name,
            words,
            more,
        } = step;
        if self.json {
            let mut line = Map::new();
            line.insert("step".into(), name.into());
            line.insert("who".into(), who.into());
            line.insert("index".into(), json!(index));
            line.insert("words".into(), words.into());
            if let Value::Object(more) = more {
                line.extend(more);
            }
            self.out.line(Value::Object(line))?;
            return Ok(());
        }
        let leaf = index.map_or(String::new(), |index| format!("leaf {index}"));
        self.out.line(format_args!("{leaf:>9}  {who:<8} {words}"))?;
        Ok(())
    }
}
