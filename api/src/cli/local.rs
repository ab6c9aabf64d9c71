//! An account on this machine, for commands that work on its files.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use countersign_verifier::vkey::VerifierKey;

use super::{Fail, place::DirArg};
use crate::{
    data_dir::{AccountDir, DataDir, Held, LockError},
    files,
};

/// An account of a data directory.
#[derive(Debug, Args)]
pub struct LocalArg {
    #[command(flatten)]
    dir: DirArg,
    /// The account [default: the only one]
    #[arg(
        long,
        value_name = "NAME",
        env = "COUNTERSIGN_ACCOUNT",
        hide_env_values = true,
        help_heading = "Where"
    )]
    account: Option<String>,
}

/// Where its files lie.
pub struct Local {
    /// The data directory.
    pub dir: DataDir,
    /// The account's name.
    pub name: String,
    /// Its files.
    pub files: AccountDir,
    /// Its log's verifier key, as the files say.
    pub vkey: String,
}

/// The checkpoints in these files, as they are.
pub fn heads(files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let read =
        |path: &PathBuf| fs::read_to_string(path).with_context(|| format!("{}", path.display()));
    files.iter().map(read).collect()
}

/// What a process answers whose directory another one holds.
pub const IN_USE: u8 = 4;

impl LocalArg {
    /// Finds it.
    pub fn open(&self) -> anyhow::Result<Local> {
        self.open_or(|_| None)
    }

    /// The same; where no account is named, `otherwise` may name one.
    pub fn open_or(
        &self,
        otherwise: impl FnOnce(&DataDir) -> Option<String>,
    ) -> anyhow::Result<Local> {
        let dir = self.dir.open();
        let whose = dir.root().display();
        let all = dir.account_names().with_context(|| format!("{whose}"))?;
        let names = dir.open_names(&all);
        let account = self.account.clone().or_else(|| otherwise(&dir));
        let name = match (account, names.as_slice()) {
            (Some(name), _) if all.contains(&name) => name,
            (Some(name), _) => bail!("{whose} has no account `{name}`"),
            (None, [one]) => one.clone(),
            (None, []) => {
                bail!("{whose}: no account lies here; name the data directory with --dir")
            }
            (None, _) => bail!(
                "{whose} has several accounts, {}: name one with --account",
                names.join(", ")
            ),
        };
        let files = dir.account(&name);
        let path = files.log_vkey();
        let vkey = files::read_small(&path);
        let vkey = vkey.with_context(|| format!("{}", path.display()))?;
        let vkey =
            VerifierKey::parse(vkey.trim()).with_context(|| format!("{}", path.display()))?;
        Ok(Local {
            dir,
            name,
            files,
            vkey: vkey.to_string(),
        })
    }
}

impl Local {
    /// Takes the directory: no service runs on it as long as the answer lives.
    pub fn hold(&self) -> anyhow::Result<Held> {
        self.hold_or_none()?.ok_or_else(|| self.in_use())
    }

    /// The same; none where another process has it.
    pub fn hold_or_none(&self) -> anyhow::Result<Option<Held>> {
        match self.dir.lock() {
            Ok(held) => Ok(Some(held)),
            Err(LockError::InUse { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is said where another process has it.
    pub fn in_use(&self) -> anyhow::Error {
        let holder = match self.dir.lock() {
            Err(error) => error.to_string(),
            Ok(_) => "another process had the directory just now".into(),
        };
        let message = format!("{holder}: stop the service, run this, and start it again");
        Fail {
            code: IN_USE,
            message,
        }
        .into()
    }
}
