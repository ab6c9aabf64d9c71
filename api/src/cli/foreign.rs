//! Which log a command reads: a URL, a folder of static tiles, or the data directory of a running service.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;

use super::{Fail, REFUSED, UNKNOWN, UNUSABLE};
use crate::{
    client::Token,
    data_dir::DataDir,
    foreign::{Foreign, ForeignError},
};

/// A log that anybody may serve.
#[derive(Debug, Args)]
pub struct LogArg {
    /// The log: the URL that its tiles lie under, a folder of static tiles, or a data directory whose service runs
    #[arg(value_name = "URL|DIR")]
    pub log: String,
    #[command(flatten)]
    pub reading: ReadingArgs,
}

/// How a log is read.
#[derive(Debug, Args)]
pub struct ReadingArgs {
    /// A file that holds the token to show, where the log is not public [default: owner.token, for a data directory]
    #[arg(long, value_name = "FILE")]
    log_token: Option<PathBuf>,
    /// The account, where a data directory has several
    #[arg(long, value_name = "NAME")]
    log_account: Option<String>,
}

impl LogArg {
    /// Opens it. Connects to nothing yet.
    pub fn open(&self) -> anyhow::Result<Foreign> {
        self.reading.open(&self.log)
    }
}

impl ReadingArgs {
    /// Whether a token was given, which one log alone may see.
    pub fn names_a_token(&self) -> bool {
        self.log_token.is_some()
    }

    /// Opens the log at an address.
    pub fn open(&self, log: &str) -> anyhow::Result<Foreign> {
        let token = match &self.log_token {
            Some(path) => Some(token(path)?),
            None => None,
        };
        let dir = DataDir::new(log);
        if !dir.config().is_file() && !dir.root().join("accounts").is_dir() {
            return Foreign::open(log, token.as_ref()).map_err(explain);
        }
        let Some(running) = dir.running() else {
            bail!(
                "{log} is a data directory, and no service runs on it: begin one with `countersign serve --dir {log}`; what it serves is \
                 what is audited"
            );
        };
        let account = match &self.log_account {
            Some(account) => account.clone(),
            None => match dir.account_names()?.as_slice() {
                [one] => one.clone(),
                names => bail!(
                    "{log} has {} accounts: name one with --log-account",
                    names.len()
                ),
            },
        };
        let token = match token {
            None if dir.owner_token().exists() => Some(self::token(&dir.owner_token())?),
            token => token,
        };
        let url = format!("{}/log/{account}", running.url.trim_end_matches('/'));
        Foreign::open(&url, token.as_ref()).map_err(explain)
    }
}

fn token(path: &std::path::Path) -> anyhow::Result<Token> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    Token::parse(&text).with_context(|| format!("{}", path.display()))
}

/// An error of reading a log, with its exit code.
pub fn explain(error: ForeignError) -> anyhow::Error {
    let code = match &error {
        ForeignError::Address { .. } | ForeignError::Setup(_) => UNUSABLE,
        // Where a checkpoint is not, there may be no log at all.
        ForeignError::Missing { .. }
        | ForeignError::Denied { .. }
        | ForeignError::Unreachable { .. } => UNKNOWN,
        ForeignError::Server { .. }
        | ForeignError::Malformed { .. }
        | ForeignError::Tiles { .. } => REFUSED,
    };
    let message = error.to_string();
    Fail { code, message }.into()
}
