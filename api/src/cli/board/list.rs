//! `countersign board list`: items of work.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ask;
use crate::cli::{
    out::Out,
    place::{KeyArg, Place},
};

/// List items of the board
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only those that stand so: pending, active, awaiting_review, done or dropped
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only those with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only this owner's
    #[arg(long)]
    owner: Option<String>,
    /// Only those of this strand of work
    #[arg(long)]
    workstream: Option<String>,
    /// Only those that can be begun now, the most urgent first
    #[arg(long)]
    ready: bool,
    /// Only those whose id, title or description has this text
    #[arg(long)]
    text: Option<String>,
    /// Print one line of JSON for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Value>,
    next: Option<String>,
}

pub(super) async fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let (service, key) = args.key.reach(&args.place).await?;
    let mut asked = json!({"limit": 200});
    for (name, value) in [
        ("status", &args.status),
        ("tag", &args.tag),
        ("owner", &args.owner),
        ("workstream", &args.workstream),
        ("text", &args.text),
    ] {
        if let Some(value) = value {
            asked[name] = value.as_str().into();
        }
    }
    if args.ready {
        asked["ready"] = true.into();
    }
    let mut out = Out::stdout();
    loop {
        let page: Page = ask(&service, key.as_ref(), "board_list", asked.clone()).await?;
        for item in &page.items {
            if args.json {
                out.line(item)?;
            } else {
                out.line(line(item).context("an item without its members")?)?;
            }
        }
        // A page that ends where it began would go on for ever.
        match page.next {
            Some(next) if asked["cursor"] != next && !out.is_closed() => {
                asked["cursor"] = next.into();
            }
            _ => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// An item in a line; what is not for terminals in its texts is spelled out.
fn line(item: &Value) -> Option<String> {
    let text = |name: &str| item[name].as_str();
    let title = text("title")?.escape_debug();
    let (id, status, priority) = (text("id")?, text("status")?, item["priority"].as_u64()?);
    let mut line = format!("{id}  {status:<15}  {priority}  {title}");
    for (word, name) in [("owner", "owner"), ("in", "workstream")] {
        if let Some(name) = text(name) {
            line += &format!("  {word} {name}");
        }
    }
    let waits: Vec<&str> = item["waits_for"]
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    if !waits.is_empty() {
        line += &format!("  waits for {}", waits.join(" "));
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_a_line() {
        let item = json!({"id": "T-1", "title": "a\u{1b}b", "status": "pending", "priority": 2, "owner": "x", "waits_for": ["T-0"]});
        assert_eq!(
            line(&item).unwrap(),
            "T-1  pending          2  a\\u{1b}b  owner x  waits for T-0"
        );
        assert_eq!(line(&json!({"id": "T-1"})), None);
    }
}
