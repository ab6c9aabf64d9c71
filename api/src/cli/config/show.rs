//! `countersign config show`: every setting, and where it comes from.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::{
    cli::{block_on, out::Out, out::note, place::DirArg},
    client::admin_status,
    config::{Config, Setting},
};

/// Print every setting, and where it comes from: the default, a line of config.toml, or a variable of this shell
///
/// In the form of config.toml. Where a service runs on the directory, what it has otherwise stands beside it: it takes a change
/// up when it is started again. No setting is a secret; keys and tokens are files, and are never shown.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dir: DirArg,
}

pub(super) fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let dir = args.dir.open();
    let path = dir.config();
    let layers = Config::layers(&path, &super::text(None, &path)?)?;
    let running = block_on(async { Ok(admin_status(&dir.admin_socket()).await.ok()) })?;
    let running = running.map(|status| status["config"].clone());
    let rows: Vec<Row> = layers
        .settings()
        .into_iter()
        .map(|setting| Row::of(setting, running.as_ref()))
        .collect();
    let mut out = Out::stdout();
    if args.json {
        let settings: Vec<Value> = rows.iter().map(Row::to_json).collect();
        out.line(json!({"file": path, "running": running.is_some(), "settings": settings}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for row in &rows {
        out.line(row.to_line())?;
    }
    let others = rows.iter().filter(|row| row.others.is_some()).count();
    if others > 0 {
        note(format_args!(
            "{others} of these are others in the running service: it was started with --listen or other variables, or must be started again"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// A setting, as it is shown.
struct Row {
    setting: Setting,
    value: Value,
    /// What the running service has in its place.
    others: Option<Value>,
}

impl Row {
    fn of(setting: Setting, running: Option<&Value>) -> Row {
        // OK because every value of TOML that is set here has a form in JSON.
        let value = serde_json::to_value(&setting.value).unwrap_or_default();
        let pointer = format!("/{}", setting.key.replace('.', "/"));
        let others = running.map(|config| config.pointer(&pointer).cloned().unwrap_or_default());
        Row {
            others: others.filter(|others| *others != value),
            setting,
            value,
        }
    }

    fn to_json(&self) -> Value {
        let (key, source) = (&self.setting.key, self.setting.source.to_string());
        let mut row = json!({"key": key, "value": self.value, "source": source});
        if let Some(others) = &self.others {
            row["running"] = others.clone();
        }
        row
    }

    fn to_line(&self) -> String {
        let (key, source) = (&self.setting.key, &self.setting.source);
        let others = match &self.others {
            Some(Value::Null) => "; the running service has none".to_owned(),
            Some(others) => format!("; the running service has {others}"),
            None => String::new(),
        };
        match &self.setting.value {
            Some(value) => format!("{key} = {value}  # {source}{others}"),
            None => format!("# {key} is absent: {source}{others}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_running_service_has_otherwise_stands_beside_it() {
        let text = "[limits]\nrequests = 7\n";
        let layers = Config::layers("c.toml".as_ref(), text).unwrap();
        let running = serde_json::to_value(Config::default()).unwrap();
        let rows = layers.settings().into_iter();
        let rows: Vec<Row> = rows.map(|s| Row::of(s, Some(&running))).collect();
        let lines: Vec<String> = rows.iter().map(Row::to_line).collect();
        let others: Vec<&String> = lines.iter().filter(|l| l.contains("running")).collect();
        assert_eq!(
            others,
            ["limits.requests = 7  # c.toml:2; the running service has 2048"]
        );
        assert!(lines.contains(&"# tls.cert is absent: default".to_owned()));
        assert_eq!(Row::of(layers.settings().remove(0), None).others, None);
        // It is what it says: a file in force, once it is saved as one.
        let again = Config::layers("again".as_ref(), &lines.join("\n")).unwrap();
        assert_eq!(again.config, layers.config);
    }
}
