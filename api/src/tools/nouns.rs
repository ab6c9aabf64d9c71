//! Everything that an account's state holds, a row a thing: what the tools that list would say of it, whatever the moment.
//!
//! For whoever has the state by a way of his own (a replay of the leaves) and wants to hold it against what a service says. Rows
//! are those of the tools; members that depend on when one asks (`expires_in_ms`, `good`) and on who asks are left out.

use countersign_verifier::{
    hash::{Hash, sha256},
    json::canonical,
    leaf::Millis,
};
use serde_json::{Map, Value, json};

use super::{board, head, identity, lease, session, token};
use crate::state::{Opened, State};

/// The form of the file.
pub const FORMAT: &str = "countersign.state/1";

/// The state as a file: a line that says of which log and size it is, then a line a row, `{"noun":…,"row":{…}}`, each RFC 8785
/// JSON; nouns in the order of [`rows`], rows of a noun in the order of the tool that lists them. How many rows.
#[must_use]
pub fn write(state: &State, root: &Hash) -> (String, u64) {
    let head = json!({
        "format": FORMAT,
        "origin": state.origin(),
        "size": state.size,
        "root": root.to_hex(),
        "at": Millis(state.at).to_string(),
    });
    let mut text = canonical(&head);
    text.push('\n');
    let mut count = 0;
    for (noun, row) in rows(state) {
        text.push_str(&canonical(&json!({"noun": noun, "row": row})));
        text.push('\n');
        count += 1;
    }
    (text, count)
}

/// Every row with its noun: `opened`, `closed`, `identity`, `token`, `policy`, `receipt_policy`, `settings`, `head`, `session`,
/// `lease` (the live ones, then those that ended last), `item`, `erased`.
pub fn rows(state: &State) -> impl Iterator<Item = (&'static str, Value)> {
    let at = state.at;
    let identities = state.identities.iter().map(identity::row);
    let tokens = state.tokens.page(None, usize::MAX);
    let tokens = tokens.map(move |(hash, one)| token::row(state, at, hash, one));
    let heads = state.heads.iter().map(head::row);
    let sessions = state.sessions.after(None);
    let sessions = sessions.map(move |one| value(&session::row_at(state, at, one)));
    let leases = state.leases.live_after(None);
    let leases = leases.chain(state.leases.ended_after(None));
    let leases = leases.map(move |one| value(&lease::row(state, at, one)));
    let items = state.board.iter();
    let items = items.map(move |item| value(&board::row(state, item)));
    let erased = state.erased.from(0).map(
        |(index, commitment)| json!({"commitment": commitment.to_hex(), "erased_index": index}),
    );
    named("opened", state.opened.iter().map(opened))
        .chain(named(
            "closed",
            state
                .closed
                .iter()
                .map(|closed| json!({"index": closed.index, "successor": closed.successor})),
        ))
        .chain(named("identity", identities))
        .chain(named("token", tokens))
        .chain(named("policy", std::iter::once(policy(state))))
        .chain(named(
            "receipt_policy",
            std::iter::once(value(&state.receipts)),
        ))
        .chain(named("settings", std::iter::once(value(&state.settings))))
        .chain(named("head", heads))
        .chain(named("session", sessions))
        .chain(named("lease", leases))
        .chain(named("item", items))
        .chain(named("erased", erased))
        .map(|(noun, row)| (noun, timeless(row)))
}

fn named(
    noun: &'static str,
    rows: impl Iterator<Item = Value>,
) -> impl Iterator<Item = (&'static str, Value)> {
    rows.map(move |row| (noun, row))
}

fn value(row: &impl serde::Serialize) -> Value {
    // OK because rows are structs of texts, numbers and such.
    serde_json::to_value(row).expect("nouns::value: a row")
}

/// A row without what depends on the moment, in it and in the rows that it holds.
#[must_use]
pub fn timeless(mut row: Value) -> Value {
    let drop = |row: &mut Map<String, Value>| {
        row.remove("expires_in_ms");
        row.remove("good");
    };
    if let Some(row) = row.as_object_mut() {
        drop(row);
        let leases = row.get_mut("leases").and_then(Value::as_array_mut);
        let inner = leases.into_iter().flatten();
        inner.filter_map(Value::as_object_mut).for_each(drop);
    }
    row
}

fn opened(opened: &Opened) -> Value {
    // OK because it is an event of our own writing.
    serde_json::from_str(&opened.to_event()).expect("nouns::opened: an event")
}

fn policy(state: &State) -> Value {
    let text = state.rules.policy.text();
    json!({"text": text, "sha256": sha256(text.as_bytes()).to_hex(), "set_index": state.rules.set})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_the_moment_is_left_out() {
        let row = json!({"id": 1, "good": true, "leases": [{"fence": 2, "expires_in_ms": 3}], "expires_in_ms": 4});
        assert_eq!(timeless(row), json!({"id": 1, "leases": [{"fence": 2}]}));
    }

    #[test]
    fn a_file_begins_with_what_it_is() {
        let (text, count) = write(&State::default(), &Hash([0; 32]));
        let mut lines = text.lines();
        let head: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(
            (head["format"].as_str(), head["size"].as_u64()),
            (Some(FORMAT), Some(0))
        );
        let nouns: Vec<Value> = lines
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["noun"].take())
            .collect();
        assert_eq!(nouns, ["policy", "receipt_policy", "settings"]);
        assert_eq!(count, 3);
    }
}
