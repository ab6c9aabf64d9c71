//! The command line: one command a file, all of them arguments in and an exit code out.
//!
//! Standard output is for results and standard error for everything else. Exit codes of what talks to a service: 0 done, 1 the
//! service said no, 2 wrong usage or a file that cannot be used, 3 it cannot be told whether it was done.

mod account;
mod audit;
mod backup;
mod bar;
mod bench;
mod blob;
mod board;
mod call;
mod check;
mod close;
mod completions;
mod config;
mod demo;
mod enrol;
mod evidence;
mod export;
mod foreign;
mod fork;
mod head;
mod identity;
mod init;
mod key;
mod keys;
mod local;
mod man;
mod out;
mod pin;
mod place;
mod policy;
mod possession;
mod quorum;
mod receipt_policy;
mod recover;
mod reference;
mod restore;
mod save;
mod serve;
mod shim;
mod sign;
mod status;
mod submit;
mod succeed;
mod token;
mod tool;
mod up;
mod verify;
mod watch;
mod witness;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::client::ClientError;

/// A transparency log for what agents do, its service, and the tools around it
///
/// Begin with `countersign up`. Every write is a leaf of a Merkle log, signed by who asked; whoever holds its evidence and a
/// policy can check it offline, for years, without trusting the service.
#[derive(Debug, Parser)]
#[command(
    name = "countersign",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::UpArgs),
    Demo(demo::DemoArgs),
    Init(init::InitArgs),
    Serve(serve::ServeArgs),
    Status(status::StatusArgs),
    Check(check::CheckArgs),
    Config(config::ConfigArgs),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Account(account::AccountArgs),
    Key(key::KeyArgs),
    Identity(identity::IdentityArgs),
    Token(token::TokenArgs),
    Policy(policy::PolicyArgs),
    ReceiptPolicy(receipt_policy::ReceiptPolicyArgs),
    Sign(sign::SignArgs),
    Submit(submit::SubmitArgs),
    Evidence(evidence::EvidenceArgs),
    Verify(verify::Verify),
    Quorum(quorum::QuorumArgs),
    Recover(recover::RecoverArgs),
    Close(close::CloseArgs),
    Succeed(succeed::SucceedArgs),
    Witness(witness::WitnessArgs),
    Audit(audit::AuditArgs),
    Export(export::ExportArgs),
    Watch(watch::WatchArgs),
    Fork(fork::Fork),
    Head(head::HeadArgs),
    Pin(pin::PinArgs),
    Board(board::BoardArgs),
    Blob(blob::BlobArgs),
    Call(call::CallArgs),
    Shim(shim::ShimArgs),
    Bench(bench::BenchArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    #[command(hide = true)]
    Reference(reference::ReferenceArgs),
}

/// An error with the exit code that it ends the process with; any other error that no service caused ends it with 2.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Fail {
    code: u8,
    message: String,
}

/// Wrong usage, or a file that cannot be used.
const UNUSABLE: u8 = 2;
/// The service said no.
const REFUSED: u8 = 1;
/// Whether it was done cannot be told.
const UNKNOWN: u8 = 3;

/// Reads the arguments of this process, runs the command, and says what went wrong.
#[must_use]
pub fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    if place::token_is_an_argument(&matches) {
        out::note(
            "countersign: a token is no argument, where every process can read it: use --token-file or COUNTERSIGN_TOKEN",
        );
        return ExitCode::from(UNUSABLE);
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            let help = error
                .downcast_ref::<ClientError>()
                .and_then(ClientError::help);
            match help {
                Some(help) => out::note(format_args!("countersign: {error:#}; {help}")),
                None => out::note(format_args!("countersign: {error:#}")),
            }
            ExitCode::from(exit_code(&error))
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(args) => up::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Account(args) => account::run(&args),
        Command::Key(args) => key::run(&args),
        Command::Identity(args) => identity::run(&args),
        Command::Token(args) => token::run(&args),
        Command::Policy(args) => policy::run(&args),
        Command::ReceiptPolicy(args) => receipt_policy::run(&args),
        Command::Sign(args) => sign::run(&args),
        Command::Submit(args) => submit::run(&args),
        Command::Evidence(args) => evidence::run(&args),
        Command::Verify(args) => Ok(verify::run(&args)),
        Command::Quorum(args) => quorum::run(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Close(args) => close::run(&args),
        Command::Succeed(args) => succeed::run(&args),
        Command::Witness(args) => Ok(witness::run(&args)),
        Command::Audit(args) => audit::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Fork(args) => Ok(fork::run(&args)),
        Command::Head(args) => head::run(&args),
        Command::Pin(args) => pin::run(&args),
        Command::Board(args) => board::run(&args),
        Command::Blob(args) => blob::run(&args),
        Command::Call(args) => call::run(&args),
        Command::Shim(args) => shim::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Reference(args) => reference::run(&args),
    }
}

/// What an error ends the process with.
fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(fail) = error.downcast_ref::<Fail>() {
        return fail.code;
    }
    error
        .downcast_ref::<ClientError>()
        .map_or(UNUSABLE, client_exit_code)
}

/// What a failed call ends the process with.
fn client_exit_code(error: &ClientError) -> u8 {
    match error {
        ClientError::Url { .. } | ClientError::Setup(_) => UNUSABLE,
        ClientError::Refused(problem)
            if problem.is_transient() || problem.is_not_yet() || problem.status >= 500 =>
        {
            UNKNOWN
        }
        ClientError::Refused(_) => REFUSED,
        _ => UNKNOWN,
    }
}

/// Runs the asynchronous part of a command. What a command leaves running (a read of standard input that will never end) is
/// not waited for.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answer = runtime.block_on(work);
    runtime.shutdown_background();
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Problem;

    #[test]
    fn the_arguments_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn exit_codes_say_whose_fault_it_is() {
        let problem = |status, after: Option<u64>| {
            ClientError::from(Problem {
                status,
                code: "X".into(),
                message: "m".into(),
                retryable: false,
                retry_after: after.map(std::time::Duration::from_millis),
                detail: serde_json::Map::new(),
                entry: None,
                members: serde_json::Map::new(),
            })
        };
        let url = || "http://127.0.0.1".to_owned();
        for (error, code) in [
            (problem(422, None), REFUSED),
            (problem(413, None), REFUSED),
            (problem(404, None), REFUSED),
            (problem(404, Some(1000)), UNKNOWN),
            (problem(503, None), UNKNOWN),
            (problem(500, None), UNKNOWN),
            (
                ClientError::Unreachable {
                    url: url(),
                    why: url(),
                },
                UNKNOWN,
            ),
            (
                ClientError::Broken {
                    url: url(),
                    why: url(),
                },
                UNKNOWN,
            ),
            (
                ClientError::Answer {
                    url: url(),
                    what: url(),
                },
                UNKNOWN,
            ),
            (
                ClientError::Url {
                    url: url(),
                    why: url(),
                },
                UNUSABLE,
            ),
        ] {
            let error = anyhow::Error::from(error).context("more");
            assert_eq!(exit_code(&error), code, "{error:#}");
        }
        assert_eq!(exit_code(&anyhow::anyhow!("no such file")), UNUSABLE);
        let fail = Fail {
            code: UNKNOWN,
            message: "x".into(),
        };
        assert_eq!(exit_code(&anyhow::Error::from(fail)), UNKNOWN);
    }
}
