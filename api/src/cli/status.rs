//! `countersign status`: what runs, and what lies on disk.

use std::{fs, path::Path, process::ExitCode};

use clap::Args;
use countersign_verifier::vkey::VerifierKey;
use serde_json::{Value, json};

use super::{UNKNOWN, block_on, out::Out, place::Site};
use crate::{
    client::{ClientError, admin_status},
    data_dir::DataDir,
    files,
};

/// Say what runs, and what lies on disk
///
/// With --url, what the service there says of itself. Else the service that runs on the data directory is asked through its
/// admin socket; where none runs nothing is opened, and what the directory holds is shown, with exit code 3.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    site: Site,
}

/// Runs it.
///
/// # Errors
/// A service that does not answer, or a directory that cannot be read.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let (status, code) = if args.site.url.is_some() {
            (args.site.client()?.health_text().await?, ExitCode::SUCCESS)
        } else {
            of_dir(&args.site).await?
        };
        let mut out = Out::stdout();
        if args.json {
            out.line(status)?;
        } else {
            out.bytes(text(&status).as_bytes())?;
        }
        Ok(code)
    })
}

/// What the service on the directory says, through its admin socket or else as it says to everybody; without one, what lies there.
async fn of_dir(site: &Site) -> anyhow::Result<(Value, ExitCode)> {
    let dir = site.dir.open();
    match admin_status(&dir.admin_socket()).await {
        Ok(status) => return Ok((status, ExitCode::SUCCESS)),
        // Nobody listens: whoever made the socket is gone, there never was one, or its path is too long for one.
        Err(ClientError::Unreachable { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    if dir.running().is_some()
        && let Ok(health) = site.client()?.health_text().await
    {
        return Ok((health, ExitCode::SUCCESS));
    }
    Ok((on_disk(&dir)?, ExitCode::from(UNKNOWN)))
}

/// What lies in the directory, without opening anything that a service would hold.
fn on_disk(dir: &DataDir) -> anyhow::Result<Value> {
    let mut accounts = Vec::new();
    for name in dir.account_names()? {
        let account = dir.account(&name);
        let vkey = files::read_small(&account.log_vkey()).unwrap_or_default();
        let vkey = vkey.trim();
        accounts.push(json!({
            "name": name,
            "origin": VerifierKey::parse(vkey).map_or_else(|_| "unreadable log.vkey".to_owned(), |key| key.name),
            "vkey": vkey,
            "policy": account.policy(),
            "log_key": present(&account.log_key()),
            "service_key": present(&account.service_key()),
            "db_bytes": bytes_under(&account.db()),
        }));
    }
    let why = match (dir.root().is_dir(), accounts.is_empty()) {
        (false, _) => {
            "there is no such directory; `countersign up` makes a development account in it"
        }
        (true, true) => {
            "no account lies here; `countersign up` makes a development account, `countersign init` any other"
        }
        (true, false) => {
            "no service runs on this directory; `countersign up` or `countersign serve` starts one"
        }
    };
    Ok(json!({
        "running": false,
        "why": why,
        "dir": dir.root(),
        "config": present(&dir.config()),
        "owner_key": present(&dir.owner_key()),
        "owner_token": present(&dir.owner_token()),
        "accounts": accounts,
    }))
}

fn present(path: &Path) -> &'static str {
    if path.exists() { "present" } else { "absent" }
}

/// The bytes of all files under a folder; what cannot be read counts nothing.
fn bytes_under(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_under(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// A value as lines for people: `name: value`, members of members indented, empty ones left out.
fn text(value: &Value) -> String {
    let mut out = String::new();
    push(&mut out, value, 0);
    out
}

fn push(out: &mut String, value: &Value, depth: usize) {
    let Value::Object(members) = value else {
        out.push_str(&format!("{:depth$}{}\n", "", word(value)));
        return;
    };
    // What a person looks for first comes first.
    let is_nested = |value: &Value| {
        matches!(value, Value::Object(_))
            || matches!(value, Value::Array(items) if items.iter().any(Value::is_object))
    };
    let (nested, plain): (Vec<_>, Vec<_>) = members.iter().partition(|(_, value)| is_nested(value));
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    for (name, value) in plain.into_iter().filter(|(_, value)| !is_empty(value)) {
        out.push_str(&format!("{:depth$}{name}: {}\n", "", word(value)));
    }
    for (name, value) in nested {
        match value {
            Value::Array(items) => {
                for item in items {
                    let title = item
                        .get("name")
                        .map_or(String::new(), |name| format!(" {}", word(name)));
                    out.push_str(&format!("{:depth$}{}{title}:\n", "", singular(name)));
                    let mut item = item.clone();
                    if let Some(members) = item.as_object_mut() {
                        members.remove("name");
                    }
                    push(out, &item, depth + 2);
                }
            }
            value => {
                out.push_str(&format!("{:depth$}{name}:\n", ""));
                push(out, value, depth + 2);
            }
        }
    }
}

/// The name of one of a list: `accounts` are each an `account`.
fn singular(name: &str) -> &str {
    match name.strip_suffix("sses") {
        Some(stem) => &name[..stem.len() + 2],
        None => name.strip_suffix('s').unwrap_or(name),
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.chars().filter(|c| !c.is_control()).collect(),
        Value::Array(items) => items.iter().map(word).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_shown_without_a_service() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::new(root.path().join("none"));
        assert!(
            on_disk(&dir).unwrap()["why"]
                .as_str()
                .unwrap()
                .contains("no such directory")
        );
        let account = root.path().join("accounts/dev");
        fs::create_dir_all(account.join("db/sub")).unwrap();
        fs::write(account.join("log.vkey"), "x\n").unwrap();
        fs::write(account.join("db/sub/1"), [0; 10]).unwrap();
        let status = on_disk(&DataDir::new(root.path())).unwrap();
        assert_eq!(status["accounts"][0]["db_bytes"], 10);
        assert_eq!(status["accounts"][0]["origin"], "unreadable log.vkey");
        assert_eq!(status["owner_key"], "absent");
        assert!(!root.path().join("lock").exists());
    }

    #[test]
    fn a_status_is_lines() {
        let status = json!({"pid": 1, "read_only": null, "config": {"listen": "x"}, "accounts": [{"name": "dev", "size": 2, "witnesses": [{"name": "w", "size": 1}]}]});
        assert_eq!(
            text(&status),
            "pid: 1\nconfig:\n  listen: x\naccount dev:\n  size: 2\n  witness w:\n    size: 1\n"
        );
    }
}
