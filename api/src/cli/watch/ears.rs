//! Who hears of what a monitor finds: whoever reads standard output, and a webhook.

use countersign_verifier::checkpoint::Checkpoint;
use serde_json::{Value, json};

use crate::{
    cli::out::{self, Out},
    monitor::{Alert, Ear, Undelivered, Webhook},
};

/// Standard output, and a webhook where there is one.
pub(super) struct Ears {
    out: Out,
    json: bool,
    webhook: Option<Webhook>,
    /// How often one alert is posted in vain before it is left for the next time; `None`: for ever.
    attempts: Option<u32>,
}

impl Ears {
    pub(super) fn new(json: bool, webhook: Option<Webhook>, attempts: Option<u32>) -> Ears {
        Ears {
            out: Out::stdout(),
            json,
            webhook,
            attempts,
        }
    }

    /// Prints one of the two.
    pub(super) fn print(&mut self, line: &str, json: &Value) -> Result<(), Undelivered> {
        let printed = if self.json {
            self.out.line(json)
        } else {
            self.out.line(line)
        };
        printed.map_err(|error| Undelivered::Output(error.to_string()))?;
        if self.out.is_closed() {
            return Err(Undelivered::Output("nobody reads it any more".into()));
        }
        Ok(())
    }

    /// Posts an alert, where there is a webhook.
    pub(super) fn post(&self, alert: &Alert, attempts: Option<u32>) -> Result<(), Undelivered> {
        let Some(webhook) = &self.webhook else {
            return Ok(());
        };
        let body = alert.json.to_string();
        webhook.deliver((&alert.id, body.as_bytes()), attempts, &mut |what| {
            out::note(format_args!("countersign: {what}"));
        })
    }

    /// Says why a step was not made to its end; people are told on standard error.
    pub(super) fn trouble(&mut self, what: &str, code: u8, done: u64) -> Result<(), Undelivered> {
        if !self.json {
            return Ok(());
        }
        let row = json!({"event": "trouble", "what": what, "exit_code": code, "complete": done});
        self.print("", &row)
    }
}

impl Ear for Ears {
    fn alert(&mut self, alert: &Alert) -> Result<(), Undelivered> {
        self.print(&alert.line, &alert.json)?;
        self.post(alert, self.attempts)
    }

    fn complete(&mut self, done: u64, head: &Checkpoint) -> Result<(), Undelivered> {
        let (origin, size) = (&head.origin, head.size);
        let line = if done == size {
            format!("{origin}: complete up to size {done}, root {}", head.root)
        } else {
            format!("{origin}: complete up to size {done} of {size}")
        };
        let row = json!({
            "event": "complete",
            "origin": origin,
            "complete": done,
            "size": size,
            "root": head.root.to_base64(),
        });
        self.print(&line, &row)
    }
}
