//! Defaults, the file over them, variables over that: which value is in force, where it comes from, and what is wrong with any of
//! them.

use std::{collections::BTreeMap, fmt};

use toml::{Table, Value, de::DeTable};

use super::{Config, Fault, NOT_CONFIGURATION, Tls, over::lay_over};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody said otherwise.
    Default,
    /// The file, in this line, from 1.
    File {
        /// Its path, as it was given.
        path: String,
        /// The line.
        line: usize,
    },
    /// This variable of the environment.
    Variable(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File { path, line } => write!(f, "{path}:{line}"),
            Source::Variable(name) => f.write_str(name),
        }
    }
}

/// A setting in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// With its table: `limits.requests`.
    pub key: String,
    /// Absent: there is none, and none is needed.
    pub value: Option<Value>,
    /// Where it comes from.
    pub source: Source,
}

/// A configuration, and where each part of it comes from.
#[derive(Clone, Debug)]
pub struct Layers {
    /// What is in force.
    pub config: Config,
    file: String,
    sources: BTreeMap<String, Source>,
}

/// Reads the text of a file and the variables that are ours.
///
/// # Errors
/// Every fault there is: each key is judged by itself, so that one does not hide another.
pub(super) fn read(
    file: &str,
    text: &str,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Layers, Vec<Fault>> {
    let (table, lines) = parse(file, text)?;
    let mut taken = Taken::default();
    for (key, value) in leaves(table) {
        let source = Source::File {
            path: file.into(),
            line: lines.get(&key).copied().unwrap_or(1),
        };
        taken.take(&key, source, |table| {
            put(table, &key, value.clone());
            Ok(())
        });
    }
    let mut variables: Vec<(String, String)> = variables.collect();
    variables.sort();
    for (name, value) in variables {
        let Some(key) = name.strip_prefix("COUNTERSIGN_") else {
            continue;
        };
        if NOT_CONFIGURATION.contains(&key) {
            continue;
        }
        let path = key.to_ascii_lowercase();
        let key = path.replace("__", ".");
        let source = Source::Variable(name);
        taken.take(&key, source, |table| lay_over(table, &path, &value));
    }
    taken.settle(file)
}

/// What was good of what was said so far, and what was not.
#[derive(Default)]
struct Taken {
    table: Table,
    sources: BTreeMap<String, Source>,
    faults: Vec<Fault>,
}

impl Taken {
    /// Takes a value in, if everything else being as it is by default it is good.
    fn take(&mut self, key: &str, source: Source, put: impl Fn(&mut Table) -> Result<(), String>) {
        let mut alone = complete();
        let judged = put(&mut alone)
            .and_then(|()| alone.try_into::<Config>().map_err(|e| e.message().into()));
        match judged.and_then(|_| put(&mut self.table)) {
            Ok(()) => drop(self.sources.insert(key.into(), source)),
            Err(why) => self.faults.push(Fault {
                place: source.to_string(),
                key: key.into(),
                why: why.trim().into(),
            }),
        }
    }

    fn settle(self, file: &str) -> Result<Layers, Vec<Fault>> {
        let (mut faults, sources) = (self.faults, self.sources);
        let config = match self.table.try_into::<Config>() {
            Ok(config) => config,
            Err(error) => {
                // Each key is good alone: one is missing beside another, and only of TLS are any needed.
                let half = sources.iter().find(|(key, _)| key.starts_with("tls"));
                faults.push(Fault {
                    place: half.map_or_else(|| file.into(), |(_, source)| source.to_string()),
                    key: "tls".into(),
                    why: error.message().trim().into(),
                });
                return Err(faults);
            }
        };
        let layers = Layers {
            config,
            file: file.into(),
            sources,
        };
        let wrong = layers.config.faults().into_iter();
        faults.extend(wrong.map(|(key, why)| layers.fault(key, why)));
        match faults.is_empty() {
            true => Ok(layers),
            false => Err(faults),
        }
    }
}

impl Layers {
    /// A fault of this key, with where it stands.
    #[must_use]
    pub fn fault(&self, key: &str, why: String) -> Fault {
        let of_table = |(name, _): &(&String, &Source)| name.split('.').next() == Some(key);
        let source = self.sources.get(key);
        let source = source.or_else(|| self.sources.iter().find(of_table).map(|(_, s)| s));
        Fault {
            place: source.map_or_else(|| self.file.clone(), Source::to_string),
            key: key.into(),
            why,
        }
    }

    /// Every setting there is, those of no table first.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let values: BTreeMap<String, Value> = leaves(table_of(&self.config)).collect();
        let mut keys: Vec<String> = leaves(every_key()).map(|(key, _)| key).collect();
        keys.sort_by_key(|key| (key.contains('.'), key.clone()));
        keys.into_iter()
            .map(|key| Setting {
                value: values.get(&key).cloned(),
                source: self.sources.get(&key).cloned().unwrap_or(Source::Default),
                key,
            })
            .collect()
    }
}

impl Config {
    /// The keys that say something else in `other`.
    #[must_use]
    pub fn differs(&self, other: &Config) -> Vec<String> {
        let of = |config| leaves(table_of(config)).collect::<BTreeMap<String, Value>>();
        let (ours, theirs) = (of(self), of(other));
        let keys: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        let keys = keys.into_iter();
        keys.filter(|key| ours.get(*key) != theirs.get(*key))
            .cloned()
            .collect()
    }
}

/// The text as values, and the line of each key.
fn parse(file: &str, text: &str) -> Result<(Table, BTreeMap<String, usize>), Vec<Fault>> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let fault = |error: toml::de::Error| {
        vec![Fault {
            place: format!("{file}:{}", line(error.span().map_or(0, |span| span.start))),
            key: String::new(),
            why: error.message().trim().into(),
        }]
    };
    let table: Table = text.parse().map_err(fault)?;
    let spans = DeTable::parse(text).map_err(fault)?;
    let mut lines = BTreeMap::new();
    for (key, value) in spans.get_ref().iter() {
        let name = key.get_ref().to_string();
        if let Some(inner) = value.get_ref().as_table() {
            for (below, _) in inner.iter() {
                lines.insert(
                    format!("{name}.{}", below.get_ref()),
                    line(below.span().start),
                );
            }
        }
        lines.insert(name, line(key.span().start));
    }
    Ok((table, lines))
}

/// Each key with its value: of a table its keys, of an empty one itself.
fn leaves(table: Table) -> impl Iterator<Item = (String, Value)> {
    table.into_iter().flat_map(|(name, value)| match value {
        Value::Table(inner) if !inner.is_empty() => inner
            .into_iter()
            .map(|(key, value)| (format!("{name}.{key}"), value))
            .collect::<Vec<_>>(),
        value => vec![(name, value)],
    })
}

/// Puts a value at a key of [`leaves`].
fn put(table: &mut Table, key: &str, value: Value) {
    let Some((name, below)) = key.split_once('.') else {
        table.insert(key.into(), value);
        return;
    };
    let entry = table
        .entry(name)
        .or_insert_with(|| Value::Table(Table::new()));
    // A table's name that was given another kind of value is not taken in, so that there is always a table.
    if let Some(inner) = entry.as_table_mut() {
        inner.insert(below.into(), value);
    }
}

/// # Panics
/// Never: the configuration's own form has no key that is not a string.
fn table_of(config: &Config) -> Table {
    Table::try_from(config).expect("layers: a configuration")
}

/// The defaults, and TLS, which has none: so that each key can be judged alone.
fn complete() -> Table {
    table_of(&Config {
        tls: Some(no_tls()),
        ..Config::default()
    })
}

fn no_tls() -> Tls {
    let (cert, key) = ("cert".into(), "key".into());
    Tls { cert, key }
}

/// A configuration that has every key there is.
fn every_key() -> Table {
    let mut config = Config::default();
    let some = Some("https://example.com".to_owned());
    (config.public_url, config.mcp.authorization_server) = (some.clone(), some);
    config.metrics.listen = Some(config.listen);
    config.tls = Some(no_tls());
    table_of(&config)
}

#[cfg(test)]
mod tests;
