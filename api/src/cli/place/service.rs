//! A service that was found, and what is said when it does not answer.

use std::path::PathBuf;

use anyhow::Context as _;
use countersign_verifier::vkey::VerifierKey;

use crate::{
    cli::{Fail, UNKNOWN},
    client::{Client, ClientError},
    data_dir::DataDir,
    files,
};

/// A service that a command is to talk to. Nothing has been sent yet, but where the account had to be asked for.
pub struct Service {
    /// With account and token.
    pub client: Client,
    pub(super) dir: DataDir,
    /// The directory's own service, as far as the directory knows.
    pub(super) is_of_dir: bool,
    pub(super) origin: Option<String>,
}

impl Service {
    /// The origin of the account's log: from the data directory if this is its service, else as the service states it.
    pub async fn origin(&self) -> anyhow::Result<String> {
        if let Some(origin) = &self.origin {
            return Ok(origin.clone());
        }
        if self.is_of_dir {
            let path = self.dir.account(self.client.account()).log_vkey();
            if let Ok(vkey) = files::read_small(&path) {
                let vkey = VerifierKey::parse(vkey.trim());
                return Ok(vkey.with_context(|| format!("{}", path.display()))?.name);
            }
        }
        match self.client.origin().await {
            Ok(origin) => Ok(origin),
            Err(error @ ClientError::Refused(_)) => Err(error)
                .context("the service does not say the log's origin; name it with --origin"),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// The policy that verifiers of the account's log are pointed at, where the service is the data directory's own.
    pub fn policy(&self) -> Option<PathBuf> {
        let account = self.dir.account(self.client.account());
        self.is_of_dir.then(|| account.policy_for_verifiers())
    }

    /// What helps when nobody answers.
    pub fn hint(&self) -> Option<String> {
        hint(self.is_of_dir.then_some(&self.dir))
    }

    /// An error of a call, with what helps.
    pub fn explain(&self, error: ClientError) -> anyhow::Error {
        explain(error, self.is_of_dir.then_some(&self.dir))
    }
}

/// What helps when nobody answers where a directory says that its service is.
fn hint(dir: Option<&DataDir>) -> Option<String> {
    let running = dir?.running()?;
    Some(format!(
        "{} says that process {} serves there; if it is gone, `countersign up` starts it again",
        dir?.serve_json().display(),
        running.pid
    ))
}

pub(super) fn explain(error: ClientError, dir: Option<&DataDir>) -> anyhow::Error {
    let ClientError::Unreachable { .. } = &error else {
        return error.into();
    };
    let hint = hint(dir).unwrap_or_else(|| "Is the URL right, and is the service running?".into());
    let message = format!("{error}. {hint}");
    Fail {
        code: UNKNOWN,
        message,
    }
    .into()
}
