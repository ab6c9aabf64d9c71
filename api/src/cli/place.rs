//! Which service, which account, which key: from arguments, the environment, or the data directory.

mod service;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::{ArgMatches, Args, parser::ValueSource};
use countersign_verifier::key::PrivateKey;

pub use self::service::Service;
use self::service::explain;
use super::keys;
use crate::{
    client::{Client, Token, is_loopback_url},
    data_dir::{DEFAULT_DIR, DataDir},
    files,
};

/// The data directory.
#[derive(Debug, Default, Args)]
pub struct DirArg {
    /// The data directory, from which everything that is not given here is taken [default: ./countersign-data]
    #[arg(
        long,
        value_name = "DIR",
        env = "COUNTERSIGN_DIR",
        hide_env_values = true,
        help_heading = "Where"
    )]
    pub dir: Option<PathBuf>,
}

/// The signing key of the caller, and what it signs for.
#[derive(Debug, Default, Args)]
pub struct KeyArg {
    /// Your own signing key, PKCS#8 PEM or OpenSSH Ed25519 [default: owner.key in the data directory]
    #[arg(
        long,
        value_name = "FILE",
        env = "COUNTERSIGN_KEY",
        hide_env_values = true,
        help_heading = "Where"
    )]
    pub key: Option<PathBuf>,

    /// The origin of the account's log, for which operations are signed [default: log.vkey in the data directory, else what the
    /// service says]
    #[arg(long, value_name = "ORIGIN", help_heading = "Where")]
    origin: Option<String>,
}

/// A service.
#[derive(Debug, Default, Args)]
pub struct Site {
    #[command(flatten)]
    pub dir: DirArg,

    /// The service [default: the one that runs on the data directory]
    #[arg(
        long,
        value_name = "URL",
        env = "COUNTERSIGN_URL",
        hide_env_values = true,
        help_heading = "Where"
    )]
    pub url: Option<String>,

    /// A file that holds the token to show, before COUNTERSIGN_TOKEN [default: owner.token in the data directory]
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    token_file: Option<PathBuf>,

    // Hidden, and refused as an argument: only the environment may set it.
    #[arg(long, env = "COUNTERSIGN_TOKEN", hide = true, hide_env_values = true)]
    token: Option<String>,
}

/// A service and an account of it.
#[derive(Debug, Default, Args)]
pub struct Place {
    #[command(flatten)]
    pub site: Site,

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

/// Whether a token was given as an argument.
pub fn token_is_an_argument(matches: &ArgMatches) -> bool {
    let here = matches.try_contains_id("token").is_ok()
        && matches.value_source("token") == Some(ValueSource::CommandLine);
    here || matches
        .subcommand()
        .is_some_and(|(_, matches)| token_is_an_argument(matches))
}

impl DirArg {
    /// The directory; it need not exist.
    pub fn open(&self) -> DataDir {
        DataDir::new(self.dir.as_deref().unwrap_or(Path::new(DEFAULT_DIR)))
    }
}

impl KeyArg {
    /// This key, for the account that the service names.
    pub fn of(key: Option<PathBuf>) -> KeyArg {
        KeyArg { key, origin: None }
    }

    /// The caller's key.
    pub fn read(&self, dir: &DirArg) -> anyhow::Result<PrivateKey> {
        match &self.key {
            Some(path) => keys::private(path),
            None => owner_key(dir),
        }
    }

    /// The service that operations signed with the key go to.
    pub async fn service(&self, place: &Place) -> anyhow::Result<Service> {
        let mut service = place.service().await?;
        service.origin.clone_from(&self.origin);
        Ok(service)
    }

    /// The service to read from, and the key that says which account is meant, where a token may be good for several: none where a
    /// token was named, which is then what is shown.
    pub async fn reach(&self, place: &Place) -> anyhow::Result<(Service, Option<PrivateKey>)> {
        let found = match (&self.key, place.site.names_a_token()) {
            (None, true) => None,
            _ => self.find(&place.site.dir)?,
        };
        Ok((self.service(place).await?, found))
    }

    /// The caller's key, if one was named or lies in the data directory.
    pub fn find(&self, dir: &DirArg) -> anyhow::Result<Option<PrivateKey>> {
        match &self.key {
            None if !dir.open().owner_key().exists() => Ok(None),
            _ => self.read(dir).map(Some),
        }
    }
}

/// The owner's key in the data directory.
pub fn owner_key(dir: &DirArg) -> anyhow::Result<PrivateKey> {
    let path = dir.open().owner_key();
    if !path.exists() {
        bail!(
            "no signing key: none given by --key or COUNTERSIGN_KEY, and {} does not exist. `countersign up` makes a \
             development account with one, `countersign key new FILE` a key alone",
            path.display()
        );
    }
    keys::of_dir(&path)
}

impl Site {
    /// A client of no account.
    pub fn client(&self) -> anyhow::Result<Client> {
        let dir = self.dir.open();
        let (url, is_of_dir) = self.find_url(&dir)?;
        Ok(Client::new(
            &url,
            "",
            self.find_token(&dir, &url, is_of_dir)?,
        )?)
    }

    /// Whether a token was given, not found.
    pub fn names_a_token(&self) -> bool {
        self.token_file.is_some() || self.token.is_some()
    }

    /// The URL, and whether it is that of the directory's own service.
    fn find_url(&self, dir: &DataDir) -> anyhow::Result<(String, bool)> {
        match (&self.url, dir.running()) {
            (Some(url), running) => {
                let same = running.is_some_and(|running| {
                    running.url.trim_end_matches('/') == url.trim_end_matches('/')
                });
                Ok((url.clone(), same))
            }
            (None, Some(running)) => Ok((running.url, true)),
            (None, None) => bail!(
                "no service found: none given by --url or COUNTERSIGN_URL, and none runs on {} (no {}). Start one with `countersign \
                 up`, name its data directory with --dir, or say where it is with --url",
                dir.root().display(),
                dir.serve_json().display()
            ),
        }
    }

    /// The directory's token goes to the directory's service only, or to an URL of this machine: a directory may be named by the
    /// environment, once and for all, and is then no word about this URL.
    fn find_token(
        &self,
        dir: &DataDir,
        url: &str,
        is_of_dir: bool,
    ) -> anyhow::Result<Option<Token>> {
        if let Some(path) = &self.token_file {
            return token(path, fs::read_to_string(path)).map(Some);
        }
        if let Some(token) = &self.token {
            return Token::parse(token).map(Some).context("COUNTERSIGN_TOKEN");
        }
        let path = dir.owner_token();
        let is_trusted = is_of_dir || is_loopback_url(url);
        if is_trusted && path.exists() {
            token(&path, files::read_small(&path)).map(Some)
        } else {
            Ok(None)
        }
    }
}

impl Place {
    /// Finds service, account and token.
    pub async fn service(&self) -> anyhow::Result<Service> {
        let dir = self.site.dir.open();
        let (url, is_of_dir) = self.site.find_url(&dir)?;
        let token = self.site.find_token(&dir, &url, is_of_dir)?;
        let account = match &self.account {
            Some(account) => account.clone(),
            None if is_of_dir => {
                let names = dir
                    .account_names()
                    .with_context(|| format!("{}", dir.root().display()))?;
                only(dir.open_names(&names), &dir.root().display().to_string())?
            }
            None => {
                let health = Client::new(&url, "", token.clone())?
                    .health()
                    .await
                    .map_err(|error| explain(error, None))?;
                only(
                    health
                        .accounts
                        .into_iter()
                        .map(|account| account.name)
                        .collect(),
                    &url,
                )?
            }
        };
        let client = Client::new(&url, &account, token)?;
        Ok(Service {
            client: match self.account {
                Some(_) => client.saying_account(),
                None => client,
            },
            dir,
            is_of_dir,
            origin: None,
        })
    }
}

/// The one account there is.
fn only(mut names: Vec<String>, whose: &str) -> anyhow::Result<String> {
    match (names.pop(), names.as_slice()) {
        (Some(one), []) => Ok(one),
        (None, _) => bail!("{whose} shows no account: name one with --account"),
        (Some(last), others) => bail!(
            "{whose} has several accounts, {} and {last}: name one with --account",
            others.join(", ")
        ),
    }
}

fn token(path: &Path, read: io::Result<String>) -> anyhow::Result<Token> {
    let text = read.with_context(|| format!("{}", path.display()))?;
    Token::parse(&text).with_context(|| format!("{}", path.display()))
}

#[cfg(test)]
mod tests;
