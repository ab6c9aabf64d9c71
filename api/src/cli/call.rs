//! `countersign call`: any tool.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::Value;

use super::{
    block_on, out,
    out::Out,
    place::{KeyArg, Place},
    tool::{self, WaitArgs},
};
use crate::client::new_nonce;

/// Call any tool, signed with a local key
///
/// Prints the answer as the service gave it, in one line of JSON.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// The tool's name, such as identity_list
    tool: String,
    /// Its arguments, one JSON object
    #[arg(long, value_name = "ARGS", default_value = "{}", value_parser = arguments)]
    json: Value,
    /// The idempotency key, 16 to 64 characters: the same call under the same one is answered, never repeated [default: a fresh one]
    #[arg(long, value_parser = nonce)]
    nonce: Option<String>,
    /// Send the arguments as they are with the token, and sign nothing: what writes is signed by the service for the token's seat
    #[arg(long)]
    unsigned: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used, or what the service says.
pub fn run(args: &CallArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let answer = if args.unsigned {
            let service = args.key.service(&args.place).await?;
            if !service.client.has_token() {
                bail!(
                    "--unsigned needs a token: --token-file, COUNTERSIGN_TOKEN, or owner.token in the data directory"
                );
            }
            let mut call = args.json.clone();
            // The same in every attempt, so that it is done once.
            call["idempotency_key"] = match &args.nonce {
                Some(nonce) => nonce.as_str().into(),
                None => new_nonce()?.into(),
            };
            if let Some(wait) = args.wait.wait {
                call["wait"] = wait.name().into();
            }
            if let Some(ms) = args.wait.deadline_ms {
                call["deadline_ms"] = ms.into();
            }
            tool::read(&service, None, &args.tool, call).await?
        } else {
            let key = args.key.read(&args.place.site.dir)?;
            let service = args.key.service(&args.place).await?;
            let call = (args.tool.as_str(), args.json.clone());
            tool::write(&service, &key, call, args.nonce.as_deref(), args.wait).await?
        };
        if answer.entry.as_ref().is_some_and(|entry| entry.folded) {
            out::note(
                "note: answered with an earlier refusal of the same kind; this call has no leaf of its own",
            );
        }
        Out::stdout()
            .line(&answer.text)
            .context("standard output")?;
        Ok(if answer.reached {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(super::UNKNOWN)
        })
    })
}

/// Reads arguments by the strict rules of what is signed.
fn arguments(text: &str) -> Result<Value, String> {
    match countersign_verifier::json::parse(text.as_bytes()) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("arguments are one JSON object".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn nonce(text: &str) -> Result<String, String> {
    match (16..=64).contains(&text.chars().count()) && !text.contains(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err("16 to 64 characters".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_what_is_signed() {
        assert!(arguments(r#"{"a":[1,{"b":"c"}]}"#).is_ok());
        for (bad, word) in [
            ("[1]", "object"),
            (r#"{"a":1,"a":2}"#, "twice"),
            (r#"{"a":1.5}"#, "integer"),
            ("{", "ends"),
        ] {
            let error = arguments(bad).unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
        assert!(
            nonce("0123456789abcdef").is_ok()
                && nonce("short").is_err()
                && nonce(&"x".repeat(65)).is_err()
        );
    }
}
