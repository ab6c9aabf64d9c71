//! `countersign receipt-policy`: what the account takes as a receipt.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};

use super::{block_on, tool::SignedArgs};

/// Say what the account takes as a receipt; signed by the owner, and in the place of what was said before
#[derive(Debug, Args)]
pub struct ReceiptPolicyArgs {
    /// How many distinct enrolled keys must have signed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=16))]
    threshold: u64,
    /// A payload type that is taken; without any, all are
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Another number of keys for one payload type
    #[arg(long, value_name = "TYPE=N", value_parser = threshold_for)]
    threshold_for: Vec<(String, u64)>,
    #[command(flatten)]
    signed: SignedArgs,
}

/// Runs it.
///
/// # Errors
/// A file that cannot be used, or what the service says.
pub fn run(args: &ReceiptPolicyArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let to = args.signed.open().await?;
        let asked = arguments(args);
        args.signed.write(&to, "receipt_policy", asked).await
    })
}

fn arguments(args: &ReceiptPolicyArgs) -> Value {
    let mut arguments = json!({"threshold": args.threshold});
    if !args.types.is_empty() {
        arguments["types"] = args.types.clone().into();
    }
    if !args.threshold_for.is_empty() {
        let members: Map<String, Value> = args
            .threshold_for
            .iter()
            .map(|(name, n)| (name.clone(), (*n).into()))
            .collect();
        arguments["thresholds"] = members.into();
    }
    arguments
}

/// `TYPE=N`, at the last `=`: a media type's parameters may have one.
fn threshold_for(text: &str) -> Result<(String, u64), String> {
    let (name, number) = text
        .rsplit_once('=')
        .ok_or("TYPE=N, such as application/vnd.in-toto+json=2")?;
    match number.parse() {
        Ok(number @ 1..=16) if !name.is_empty() => Ok((name.to_owned(), number)),
        _ => Err("a payload type, = and a number of 1 to 16".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_stands_behind_the_last_sign() {
        assert_eq!(threshold_for("a/b; q=1=2"), Ok(("a/b; q=1".into(), 2)));
        for bad in ["a/b", "a/b=", "a/b=0", "a/b=17", "=2", "a/b=x"] {
            assert!(threshold_for(bad).is_err(), "{bad}");
        }
    }
}
