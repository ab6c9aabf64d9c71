//! Calling tools: signed, sent again while that can help, and shown.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use countersign_verifier::key::PrivateKey;
use serde_json::Value;

use super::{
    UNKNOWN, out,
    out::Out,
    place::{KeyArg, Place, Service},
};
use crate::client::{By, CallOptions, ClientError, Entry, Retry, ToolAnswer, Wait, new_nonce};

/// Pauses between attempts at a call, in all.
const PATIENCE: Duration = Duration::from_secs(15);

/// How far a write is to have come.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct WaitArgs {
    /// The state to wait for [default: the most that the account's policy can give]
    #[arg(long, value_name = "STATE", value_parser = wait())]
    pub wait: Option<Wait>,
    /// How long the service waits for it, in milliseconds [default: 2000]
    #[arg(long, value_name = "N")]
    pub deadline_ms: Option<u64>,
}

/// Reads a state.
fn wait() -> impl clap::builder::TypedValueParser<Value = Wait> {
    use clap::builder::{PossibleValuesParser, TypedValueParser as _};
    let states = [Wait::Sequenced, Wait::Included, Wait::Witnessed];
    PossibleValuesParser::new(states.map(Wait::name)).map(move |name| {
        // OK because only names of states come this far.
        states
            .into_iter()
            .find(|state| state.name() == name)
            .expect("wait: one of the names")
    })
}

impl WaitArgs {
    /// The deadline as a time.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline_ms.map(Duration::from_millis)
    }

    /// What is asked of an answer.
    pub fn options(self) -> CallOptions {
        CallOptions {
            wait: self.wait,
            deadline: self.deadline(),
        }
    }
}

/// Runs a tool as an operation signed with `key`; the same nonce in every attempt, so that it is run once.
pub async fn write(
    service: &Service,
    key: &PrivateKey,
    (tool, arguments): (&str, Value),
    nonce: Option<&str>,
    wait: WaitArgs,
) -> anyhow::Result<ToolAnswer> {
    let origin = service.origin().await?;
    let nonce = match nonce {
        Some(nonce) => nonce.to_owned(),
        None => new_nonce()?,
    };
    let call = || {
        let by = By {
            key,
            origin: &origin,
            session: None,
        };
        let call = (tool, arguments.clone());
        service.client.run(call, by, &nonce, wait.options())
    };
    again(service, call).await
}

/// Of a command that is one signed write: who signs it, where it goes, how far it is waited for, and how the answer is shown.
#[derive(Debug, Args)]
pub struct SignedArgs {
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    pub key: KeyArg,
    #[command(flatten)]
    pub place: Place,
}

impl SignedArgs {
    /// The signer and the service.
    pub async fn open(&self) -> anyhow::Result<(PrivateKey, Service)> {
        let caller = self.key.read(&self.place.site.dir)?;
        Ok((caller, self.key.service(&self.place).await?))
    }

    /// Signs the call, sends it, and shows what came of it.
    pub async fn write(
        &self,
        (caller, service): &(PrivateKey, Service),
        tool: &str,
        arguments: Value,
    ) -> anyhow::Result<ExitCode> {
        let answer = write(service, caller, (tool, arguments), None, self.wait).await?;
        show(&answer, self.json)
    }
}

/// Runs a tool that reads: signed with `key`, which says which account is meant, else with the token.
pub async fn read(
    service: &Service,
    key: Option<&PrivateKey>,
    tool: &str,
    arguments: Value,
) -> anyhow::Result<ToolAnswer> {
    match key {
        Some(key) => write(service, key, (tool, arguments), None, WaitArgs::default()).await,
        None => again(service, || service.client.call(tool, &arguments)).await,
    }
}

/// Sends it again while that can help.
pub async fn again<T, F: Future<Output = Result<T, ClientError>>>(
    service: &Service,
    call: impl Fn() -> F,
) -> anyhow::Result<T> {
    let mut retry = Retry::new(PATIENCE);
    loop {
        let error = match call().await {
            Ok(answer) => return Ok(answer),
            // Where nobody listens, a person is waiting to hear so.
            Err(error @ ClientError::Unreachable { .. }) => return Err(service.explain(error)),
            Err(error) if !error.is_transient() => return Err(error.into()),
            Err(error) => error,
        };
        match retry.next(error.retry_after()) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return Err(error.into()),
        }
    }
}

/// Prints the answer to a write: as it came, or its result and its leaf in a line. The exit code says whether it is as far as was
/// asked for.
pub fn show(answer: &ToolAnswer, json: bool) -> anyhow::Result<ExitCode> {
    let mut out = Out::stdout();
    if json {
        out.line(&answer.text)?;
    } else {
        out.line(line(&answer.result, answer.entry.as_ref()))?;
    }
    if answer.reached {
        return Ok(ExitCode::SUCCESS);
    }
    out::note(
        "countersign: it is in the log, and not yet as far as was asked for; it will be without doing more",
    );
    Ok(ExitCode::from(UNKNOWN))
}

/// `name=value …` of a result and its entry.
fn line(result: &Value, entry: Option<&Entry>) -> String {
    let mut words: Vec<String> = match result {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| format!("{name}={}", word(value)))
            .collect(),
        other => vec![word(other)],
    };
    if let Some(entry) = entry {
        words.push(format!(
            "index={} leaf_hash={} state={}",
            entry.index,
            entry.leaf_hash,
            entry.state.name()
        ));
    }
    words.join(" ")
}

/// A value as one word of a line.
fn word(value: &Value) -> String {
    match value {
        Value::String(text)
            if !text.is_empty()
                && !text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"') =>
        {
            text.clone()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_result_is_a_line_of_words() {
        let entry = Entry {
            index: 3,
            leaf_hash: "ab".into(),
            state: Wait::Included,
            evidence_url: None,
            folded: false,
        };
        let result = json!({"identity": "id_x", "name": "a b", "n": 2, "empty": ""});
        let shown = line(&result, Some(&entry));
        assert_eq!(
            shown,
            r#"identity=id_x name="a b" n=2 empty="" index=3 leaf_hash=ab state=included"#
        );
        assert_eq!(line(&json!("x"), None), "x");
    }
}
