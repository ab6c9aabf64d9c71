//! Which log a command reads: a URL, a folder of static tiles, or a data directory: what its service serves, or its store where none runs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Args;

use super::{Fail, REFUSED, UNKNOWN, UNUSABLE, local::IN_USE};
use crate::{
    client::Token,
    data_dir::{DataDir, LockError, Running},
    files,
    foreign::{Foreign, ForeignError},
};

/// A log that anybody may serve.
#[derive(Debug, Args)]
pub struct LogArg {
    /// The log: the URL that its tiles lie under, a folder of static tiles, or a data directory
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
    /// With this token, and of a data directory this account.
    pub fn new(log_token: Option<PathBuf>, log_account: Option<String>) -> ReadingArgs {
        ReadingArgs {
            log_token,
            log_account,
        }
    }

    /// Whether a token was given, which one log alone may see.
    pub fn names_a_token(&self) -> bool {
        self.log_token.is_some()
    }

    /// Opens the log at an address.
    pub fn open(&self, log: &str) -> anyhow::Result<Foreign> {
        let Some((dir, names)) = self.accounts(log)? else {
            let token = self.log_token.as_deref().map(named).transpose()?;
            return Foreign::open(log, token.as_ref()).map_err(explain);
        };
        match dir.open_names(&names).as_slice() {
            [one] => self.open_account(&dir, one),
            [] => bail!("{log} is a data directory without an account"),
            names => bail!(
                "{log} has several accounts, {}: name one with --log-account",
                names.join(", ")
            ),
        }
    }

    /// The accounts that are meant, where the address is a data directory.
    pub fn accounts(&self, log: &str) -> anyhow::Result<Option<(DataDir, Vec<String>)>> {
        let dir = DataDir::new(log);
        if !dir.config().is_file() && !dir.root().join("accounts").is_dir() {
            return Ok(None);
        }
        let mut names = dir.account_names().with_context(|| log.to_owned())?;
        if let Some(account) = &self.log_account {
            names.retain(|name| name == account);
            if names.is_empty() {
                bail!("{log} has no account `{account}`");
            }
        }
        Ok(Some((dir, names)))
    }

    /// Opens an account's log: from the service that runs on the directory, or where none does out of the store, read only.
    pub fn open_account(&self, dir: &DataDir, account: &str) -> anyhow::Result<Foreign> {
        let files = dir.account(account);
        if files.succeeded().exists() {
            // Nobody opens the store of a log that has a successor.
            return Foreign::stored(&files, None).map_err(explain);
        }
        let running = match (dir.lock_to_read(), dir.running()) {
            (Ok(held), _) => return Foreign::stored(&files, Some(held)).map_err(explain),
            (Err(LockError::InUse { .. }), Some(running)) => running,
            (Err(error @ LockError::InUse { .. }), None) => {
                let message = format!("{error}, and it serves nothing yet");
                return Err(Fail {
                    code: IN_USE,
                    message,
                }
                .into());
            }
            // A service may run there, whose lock is not for this user to try.
            (Err(LockError::Io { source, .. }), Some(running))
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                running
            }
            (Err(LockError::Io { source, .. }), None)
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                return Foreign::stored(&files, None).map_err(explain);
            }
            (Err(error), _) => return Err(error.into()),
        };
        self.served(dir, account, &running)
    }

    /// Opens a log that is served: of a data directory from its service alone. Its store is not touched, so that no service that is
    /// about to start there finds it in use.
    pub fn open_served(&self, log: &str) -> anyhow::Result<Foreign> {
        let Some((dir, names)) = self.accounts(log)? else {
            return self.open(log);
        };
        let open = dir.open_names(&names);
        let [account] = open.as_slice() else {
            bail!(
                "{log} has the accounts {}: name one with --log-account",
                open.join(", ")
            );
        };
        let Some(running) = dir.running() else {
            let (code, message) = (UNKNOWN, format!("{log}: no service runs there"));
            return Err(Fail { code, message }.into());
        };
        self.served(&dir, account, &running)
    }

    fn served(&self, dir: &DataDir, account: &str, running: &Running) -> anyhow::Result<Foreign> {
        let token = match &self.log_token {
            Some(path) => Some(named(path)?),
            None if dir.owner_token().exists() => {
                let path = dir.owner_token();
                Some(token(&path, files::read_small(&path))?)
            }
            None => None,
        };
        let url = format!("{}/log/{account}", running.url.trim_end_matches('/'));
        Foreign::open(&url, token.as_ref()).map_err(explain)
    }
}

/// The token in a file that was named, which may be a pipe.
fn named(path: &Path) -> anyhow::Result<Token> {
    token(path, fs::read_to_string(path))
}

fn token(path: &Path, read: io::Result<String>) -> anyhow::Result<Token> {
    let text = read.with_context(|| format!("{}", path.display()))?;
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
