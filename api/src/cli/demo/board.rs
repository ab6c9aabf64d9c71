//! The board of the demonstration: 118 items of work, the same in every run but for what their ids begin with.

use countersign_verifier::{hash::sha256, json::canonical, leaf::Millis};
use serde_json::{Value, json};

use crate::state::board::file::FORMAT;

/// How many items it has.
pub const ITEMS: usize = 118;

/// 2026-11-02T09:00:00Z, when the first item was written down.
const BEGUN_MS: u64 = 1_793_610_000_000;

const STRANDS: [&str; 10] = [
    "checkout",
    "search",
    "billing",
    "accounts",
    "notifications",
    "catalogue",
    "reports",
    "mobile",
    "imports",
    "support",
];

/// One task of a strand: what it is, which tasks of the strand come before it, its tag, and whether somebody must review it.
struct Task(&'static str, &'static [usize], &'static str, bool);

const TASKS: [Task; 11] = [
    Task(
        "Write down what {} promises to its callers",
        &[],
        "docs",
        false,
    ),
    Task("Draw the threat model of {}", &[], "security", true),
    Task("Measure {} at ten times its load", &[0], "speed", false),
    Task("Design the new tables of {}", &[0], "storage", true),
    Task(
        "Write {} to the old and the new tables",
        &[3],
        "storage",
        false,
    ),
    Task(
        "Fill the new tables of {} and compare every row",
        &[4],
        "storage",
        false,
    ),
    Task("Rewrite the slowest query of {}", &[2, 3], "speed", false),
    Task(
        "Mend what the threat model of {} found",
        &[1],
        "security",
        true,
    ),
    Task(
        "Alerts of {}: late, wrong and silent",
        &[2],
        "operations",
        false,
    ),
    Task(
        "Runbook of {}: the first fifteen minutes",
        &[8],
        "docs",
        false,
    ),
    Task(
        "Take the old tables of {} away",
        &[5, 7, 9],
        "storage",
        true,
    ),
];

const RELEASE: [(&str, &str); 8] = [
    ("Freeze the interfaces of the release", "release"),
    ("Rehearse going back, with a stopwatch", "operations"),
    ("Have the licences of all dependencies read", "legal"),
    ("Translate the release notes", "docs"),
    ("Tell the ten largest customers what changes", "support"),
    ("Sign the build twice, on two machines", "security"),
    ("Release to one customer in a hundred", "release"),
    ("Release to everybody", "release"),
];

/// The file. Every id begins with `tag`, and every item has it as a tag.
pub fn file(tag: &str) -> String {
    let mut items = Vec::with_capacity(ITEMS);
    for strand in STRANDS {
        let first = items.len();
        for Task(title, after, kind, review) in &TASKS {
            let before = after.iter().map(|at| id(tag, first + at)).collect();
            let title = title.replace("{}", strand);
            items.push(item(
                tag,
                items.len(),
                (title, strand, kind),
                before,
                *review,
            ));
        }
    }
    for (at, (title, kind)) in RELEASE.iter().enumerate() {
        // The first waits for one strand after another to be done, each of the others for the one before it.
        let before = match at {
            0 => (1..=STRANDS.len())
                .map(|n| id(tag, n * TASKS.len() - 1))
                .collect(),
            _ => vec![id(tag, items.len() - 1)],
        };
        let title = (*title).to_owned();
        items.push(item(
            tag,
            items.len(),
            (title, "release", kind),
            before,
            at >= 6,
        ));
    }
    let mut text = canonical(&json!({"format": FORMAT, "count": items.len()}));
    for item in &items {
        text.push('\n');
        text += &canonical(item);
    }
    text.push('\n');
    let digest = sha256(text.as_bytes()).to_hex();
    text + &canonical(&json!({"sha256": digest})) + "\n"
}

/// The id of an item, by its number from 0.
fn id(tag: &str, number: usize) -> String {
    format!("{tag}-{:03}", number + 1)
}

fn item(
    tag: &str,
    number: usize,
    (title, strand, kind): (String, &str, &str),
    before: Vec<String>,
    review: bool,
) -> Value {
    let at = Millis(BEGUN_MS + number as u64 * 60_000).to_string();
    // The first two are the most urgent of all, so that both agents want them.
    let priority = match number {
        0 | 1 => 0,
        _ => 1 + number % 4,
    };
    json!({
        "id": id(tag, number),
        "title": title,
        "description": "",
        "status": "pending",
        "priority": priority,
        "tags": [tag, kind],
        "workstream": strand,
        "depends_on": before,
        "acceptance_criteria": ["somebody else has tried it"],
        "review_required": review,
        "links": [],
        "comments": [],
        "version": 1,
        "created_at": at,
        "updated_at": at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::board::file;

    #[test]
    fn the_board_is_the_same_every_time_and_can_be_begun() {
        let text = super::file("demo-7");
        assert_eq!(text, super::file("demo-7"));
        let read = file::read(&text).unwrap();
        assert_eq!(read.items.len(), ITEMS);
        let begins = read
            .items
            .iter()
            .filter(|(_, item)| item["depends_on"].as_array().unwrap().is_empty());
        assert_eq!(begins.count(), 20);
        let titles: std::collections::BTreeSet<_> = read
            .items
            .iter()
            .map(|(_, item)| item["title"].to_string())
            .collect();
        assert_eq!(titles.len(), ITEMS, "no title twice");
        let at = read.items[0].1["created_at"].as_str().unwrap();
        assert_eq!(at, "2026-11-02T09:00:00.000Z");
    }
}
