//! The pages of docs/reference that say what stands in this crate's tables. Compiled for tests only: the pages are golden files.
//!
//! `COUNTERSIGN_BLESS=1 cargo test -p countersign-api reference` writes them anew.

use std::fmt::Write as _;

use crate::{
    config::Config,
    doors::openapi,
    error::CODES,
    ledger::DECISION_BYTES_MAX,
    tools::{Handler, TOOLS, Tool},
};
use countersign_verifier::limits;

const MADE: &str = "Made from the sources by `cargo test`; do not edit. After a wanted change: \
`COUNTERSIGN_BLESS=1 cargo test -p countersign-api reference`.\n";

/// docs/reference/errors.md.
fn errors() -> String {
    let mut out = format!(
        "# Errors\n\n{MADE}\n\
         Every refusal of HTTP but those of tiles, checkpoint and consistency (plain text) is `application/problem+json` (RFC 9457):\n\n\
         ```json\n\
         {{\"type\":\"about:blank\",\"title\":\"Larger than the limit\",\"status\":413,\"code\":\"TOO_LARGE\",\n \
         \"message\":\"…a sentence for people…\",\"retryable\":false,\"retry_after_ms\":1000,\"detail\":{{\"limit\":40000,\"bytes\":41000}}}}\n\
         ```\n\n\
         Branch on `code`; never compare `message`. `retryable`: the same request, under a new nonce where it has one, may succeed later \
         without anybody changing it; of `READ_ONLY` and `INTERNAL` it is false where only the operator can end what is in the way (a log that will not write again as it is, a \
         writer that ended in a fault), and no time stands beside it. `retry_after_ms` and `detail` may be absent or empty; with `retry_after_ms` comes `Retry-After` in \
         seconds. A refusal that is a leaf has `entry`, the place of that leaf. Answers with 5xx never say what is wrong inside; the \
         trace does.\n\n\
         | code | status | retryable | meaning |\n|---|---|---|---|\n"
    );
    for code in CODES {
        let retryable = if code.retryable() { "yes" } else { "no" };
        let (name, status, title) = (code.name(), code.status(), code.title());
        // OK, here and below, because writing to a String does not fail.
        let _ = writeln!(out, "| `{name}` | {status} | {retryable} | {title} |");
    }
    out
}

/// docs/reference/tools.md.
fn tools() -> String {
    let mut out = format!(
        "# Tools\n\n{MADE}\n\
         `POST /v1/<tool>`, `application/json`. A tool that writes takes a signed operation, a tool that reads takes one too, or a token \
         with its arguments as they are:\n\n\
         ```json\n\
         {{\"signed\":{{…DSSE envelope, payloadType application/vnd.countersign.operation+json…}},\"wait\":\"included\",\"deadline_ms\":2000,\"include\":[\"proof\"]}}\n\
         ```\n\n\
         `countersign call <tool> --json '{{…}}'` signs and sends one. What the payload holds: [leaf.md](leaf.md#operations). An answer is \
         `{{\"result\":…,\"entry\":{{index, leaf_hash, at, by, state, evidence_url, proof?}},\"server_time\":…}}`, of a read \
         `{{\"result\":…,\"as_of\":{{size, root, at, witnessed_size}},\"server_time\":…}}`.\n"
    );
    for tool in TOOLS {
        push_tool(&mut out, tool);
    }
    out
}

fn push_tool(out: &mut String, tool: &Tool) {
    let how = match tool.handler {
        Handler::Write(_) => "Writes: a signed operation, which becomes a leaf.",
        Handler::Read(_) => "Reads: nothing is logged.",
        Handler::Receipt => {
            "Writes: the receipt becomes a leaf by its own signatures, the call none."
        }
        Handler::Either { .. } | Handler::Parts { .. } => "Reads or writes, as its arguments say.",
    };
    let _ = writeln!(out, "\n## {}\n\n{} {how}\n", tool.name, tool.summary);
    out.push_str("| argument | type | needed | meaning |\n|---|---|---|---|\n");
    for argument in tool.table() {
        let needed = if argument.required { "yes" } else { "no" };
        let (name, kind, about) = (&argument.name, &argument.kind, &argument.about);
        let _ = writeln!(out, "| `{name}` | {kind} | {needed} | {about} |");
    }
    let _ = writeln!(out, "\n```json\n{}\n```", tool.example);
}

/// docs/reference/configuration.md.
fn configuration() -> String {
    // OK because the configuration's own form has no key that is not a string.
    let defaults = toml::Table::try_from(Config::default()).expect("reference: defaults");
    let mut out = format!(
        "# Configuration\n\n{MADE}\n\
         `config.toml` in the data directory, under variables of the environment. Every key has a default, an empty file is a \
         configuration, an unknown key is an error (exit 2). Nothing here is read by a decision of a log. `countersign status` shows what \
         is in force.\n\n\
         A variable is `COUNTERSIGN_`, the key in capitals, and `__` between table and key; `--listen` overrides both.\n"
    );
    for (table, about, keys) in documented(include_str!("config.rs")) {
        let values = match table.as_str() {
            "" => Some(&defaults),
            table => defaults.get(table).and_then(toml::Value::as_table),
        };
        let title = if table.is_empty() {
            "Top of the file".into()
        } else {
            format!("[{table}]")
        };
        let _ = writeln!(
            out,
            "\n## {title}\n\n{about}\n\n| key | default | variable | meaning |\n|---|---|---|---|"
        );
        for (key, meaning) in keys {
            let default = match values.and_then(|v| v.get(&key)) {
                Some(value) => format!("`{value}`"),
                None => "absent".into(),
            };
            let path = if table.is_empty() {
                key.clone()
            } else {
                format!("{table}__{key}")
            };
            let variable = path.to_ascii_uppercase();
            let _ = writeln!(
                out,
                "| `{key}` | {default} | `COUNTERSIGN_{variable}` | {meaning} |"
            );
        }
    }
    out
}

/// A table's name, what it is, and its keys with what each is.
type Documented = (String, String, Vec<(String, String)>);

/// The tables of the configuration and their keys, out of the doc comments of the structs that hold them.
fn documented(source: &str) -> Vec<Documented> {
    let mut all: Vec<Documented> = Vec::new();
    let (mut about, mut inside) = (String::new(), false);
    for line in source
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
    {
        let text = line.trim();
        if let Some(comment) = text.strip_prefix("/// ") {
            about = format!("{about} {comment}").trim().into();
        } else if let Some(name) = line
            .strip_prefix("pub struct ")
            .and_then(|l| l.strip_suffix(" {"))
        {
            let table = if name == "Config" {
                String::new()
            } else {
                name.to_ascii_lowercase()
            };
            all.push((table, std::mem::take(&mut about), Vec::new()));
            inside = true;
        } else if inside && let Some((key, kind)) = field(text) {
            let is_table = kind.chars().all(char::is_alphanumeric)
                && source.contains(&format!("pub struct {kind} {{"));
            let meaning = std::mem::take(&mut about);
            if !is_table
                && !kind.contains("Tls")
                && let Some((_, _, keys)) = all.last_mut()
            {
                keys.push((key.into(), meaning));
            }
        } else if line == "}" {
            inside = false;
        } else if !text.starts_with('#') {
            about.clear();
        }
    }
    all
}

/// `pub name: Type,`.
fn field(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("pub ")?
        .strip_suffix(',')?
        .split_once(": ")
}

/// docs/reference/http.md.
fn http() -> String {
    let mut out = format!("# HTTP\n\n{MADE}\n{HTTP}");
    let rows: &[(&str, usize, &str)] = &[
        (
            "payload_bytes_max",
            limits::PAYLOAD_BYTES_MAX,
            "signed payload of an envelope",
        ),
        (
            "signatures_max",
            limits::SIGNATURES_MAX,
            "signatures of an envelope",
        ),
        ("leaf_bytes_max", limits::ENTRY_BYTES_MAX, "a leaf"),
        (
            "decision_bytes_max",
            DECISION_BYTES_MAX,
            "effect or detail in a leaf",
        ),
        (
            "body_bytes_max",
            crate::limits::BODY_BYTES_MAX,
            "body of one envelope or call",
        ),
        (
            "ndjson_lines_max",
            crate::limits::NDJSON_LINES_MAX,
            "envelopes in one body",
        ),
        (
            "ndjson_bytes_max",
            crate::limits::NDJSON_BYTES_MAX,
            "body of many envelopes",
        ),
        (
            "blob_bytes_max",
            // OK because it is 16 MiB.
            usize::try_from(crate::limits::BLOB_BYTES_MAX).expect("reference: a limit"),
            "a body beside the log",
        ),
        (
            "evidence_set_max",
            limits::MULTI_LEAVES_MAX,
            "leaves of one evidence set",
        ),
    ];
    for (name, limit, of) in rows {
        let _ = writeln!(out, "| `{name}` | {limit} | {of} |");
    }
    let _ = writeln!(
        out,
        "| `deadline_ms_max` | {} | `deadline_ms`; {} if absent |",
        crate::limits::DEADLINE_MS_MAX,
        crate::limits::DEADLINE_MS
    );
    out.push_str(
        "| `header_bytes_max`, `connections_max`, `requests_max`, `watchers_max`, `watchers_per_account_max`, `watchers_per_identity_max`, `request_timeout_s`, `blob_…` | \
         [configuration.md](configuration.md) | |\n",
    );
    out
}

const HTTP: &str = include_str!("reference/http.md");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_what_the_sources_say() {
        let folder =
            std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference"));
        for (name, made) in [
            ("errors.md", errors()),
            ("tools.md", tools()),
            ("configuration.md", configuration()),
            ("http.md", http()),
            ("openapi.json", format!("{:#}\n", openapi::document())),
        ] {
            let path = folder.join(name);
            if std::env::var_os("COUNTERSIGN_BLESS").is_some() {
                std::fs::write(&path, &made).unwrap();
            }
            let there = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(there == made, "docs/reference/{name} is old. {MADE}");
        }
    }

    #[test]
    fn every_route_and_every_key_is_on_its_page() {
        for route in include_str!("doors/http/mod.rs")
            .split(".route(\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
        {
            let spelled = route.replace("{*path}", "…").replace(['{', '}'], "");
            let words: Vec<&str> = spelled.split('/').filter(|w| !w.is_empty()).collect();
            let first = words.first().copied().unwrap_or("");
            assert!(
                HTTP.contains(&format!("/{first}")),
                "{route} is not in reference/http.md"
            );
        }
        let page = configuration();
        for key in toml::to_string(&Config::default()).unwrap().lines() {
            if let Some((key, _)) = key.split_once(" = ") {
                assert!(page.contains(&format!("| `{key}` |")), "{key}");
            }
        }
    }
}
