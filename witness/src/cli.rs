//! The commands of a witness: one a file, arguments in and an exit code out. Standard output is for results.
//!
//! Exit codes: 0 done, 1 something was refused or does not work now, 2 wrong usage or configuration, 4 the directory is in use,
//! 5 a key is missing or what is stored must not be signed on.

mod add_log;
mod init;
mod list;
mod list_source;
mod reach;
mod serve;

use std::{
    fmt,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Subcommand};

use crate::dir::{DEFAULT_DIR, Dir};
use crate::http::admin::SocketError;
use crate::keys::KeysError;
use crate::serve::ServeError;
use crate::store::StoreError;
use crate::witness::OpenError;

/// What a witness's operator does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a new witness and print its verifier key
    Init(init::InitArgs),
    /// Serve a witness until SIGTERM or SIGINT
    Serve(serve::ServeArgs),
    /// Add logs to those that are cosigned; while the witness runs too
    ///
    /// There is no way to remove one: a log that came back could be cosigned on another branch.
    AddLog(add_log::AddLogArgs),
    /// Show the logs with their sizes, and how long ago each was cosigned
    List(list::ListArgs),
}

/// Where the witness is.
#[derive(Debug, Args)]
struct At {
    /// The witness's directory
    #[arg(long, env = "COUNTERSIGN_WITNESS_DIR", default_value = DEFAULT_DIR)]
    dir: PathBuf,
}

impl At {
    fn dir(&self) -> Dir {
        Dir::new(&self.dir)
    }
}

/// An error with the exit code that it ends the process with.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Fail {
    code: u8,
    message: String,
}

/// Something was refused, or does not work now.
const REFUSED: u8 = 1;
/// Wrong usage or configuration.
const USAGE: u8 = 2;
/// Another process has the directory.
const IN_USE: u8 = 4;
/// A key is missing, or nothing may be signed.
const UNSIGNED: u8 = 5;

impl Fail {
    fn new(code: u8, message: impl std::fmt::Display) -> Fail {
        let message = message.to_string();
        Fail { code, message }
    }
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Fail {
        let code = match error {
            StoreError::InUse(_) => IN_USE,
            StoreError::Damaged(_) | StoreError::TooNew { .. } => UNSIGNED,
            StoreError::Conflict { .. } | StoreError::Unavailable(_) => REFUSED,
        };
        Fail::new(code, error)
    }
}

impl From<KeysError> for Fail {
    fn from(error: KeysError) -> Fail {
        let code = match error {
            KeysError::File { .. } | KeysError::Form { .. } => UNSIGNED,
            KeysError::Name => USAGE,
        };
        Fail::new(code, error)
    }
}

impl From<OpenError> for Fail {
    fn from(error: OpenError) -> Fail {
        match error {
            OpenError::Keys(error) => error.into(),
            OpenError::Store(error) => error.into(),
            OpenError::Forks(_) | OpenError::Thread(_) => Fail::new(REFUSED, error),
        }
    }
}

impl From<ServeError> for Fail {
    fn from(error: ServeError) -> Fail {
        match error {
            ServeError::Open(error) => error.into(),
            ServeError::Listen { .. } | ServeError::Gossip(_) => Fail::new(USAGE, error),
            ServeError::Writer | ServeError::Door | ServeError::Signals(_) => {
                Fail::new(REFUSED, error)
            }
        }
    }
}

impl From<SocketError> for Fail {
    fn from(error: SocketError) -> Fail {
        Fail::new(REFUSED, error)
    }
}

impl From<std::io::Error> for Fail {
    fn from(error: std::io::Error) -> Fail {
        Fail::new(REFUSED, error)
    }
}

/// Runs a command and says what went wrong.
#[must_use]
pub fn run(command: &Command) -> ExitCode {
    let done = match command {
        Command::Init(args) => init::run(args),
        Command::Serve(args) => serve::run(args),
        Command::AddLog(args) => add_log::run(args),
        Command::List(args) => list::run(args),
    };
    match done {
        Ok(code) => code,
        Err(fail) => {
            note(format_args!("countersign witness: {fail}"));
            ExitCode::from(fail.code)
        }
    }
}

/// Writes a remark to standard error.
fn note(remark: impl fmt::Display) {
    // Nobody is left to tell.
    let _ = writeln!(io::stderr(), "{remark}");
}

/// Writes results; a reader that has gone is no failure.
fn print(text: &str) -> Result<(), Fail> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
