//! The command line of `countersign-verify` and `countersign verify`: files in, verdicts out.
//!
//! It reads the files that it is given and nothing else: no socket, no log's own policy, no key that is
//! not named, and it writes to standard output and standard error only.

pub mod fork;
mod inputs;

use std::format;
use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::string::String;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::vec::Vec;

use crate::policy::Eras;
use crate::proof::HEADER;
use crate::scan::push_string;
use crate::verdict::{Options, Outcome, Verdict, Verifier};

/// What `verify` takes.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Evidence files of one leaf or of a set, or - for standard input
    #[arg(required = true, value_name = "EVIDENCE")]
    pub evidence: Vec<PathBuf>,

    /// The tlog-policy that names the logs and witnesses you trust: a file, or a folder of
    /// <from_size>.policy files, of which the one for the size of the tree counts. Keys in a file `stolen`
    /// of that folder, one vkey a line, count in none
    #[arg(long, value_name = "FILE|FOLDER")]
    pub policy: PathBuf,

    /// Public keys that you trust as signers: SPKI in PEM or DER, OpenSSH Ed25519 lines, or vkeys. A
    /// signer outside them is unknown; without this, the log's own enrolments say who is who
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub keys: Vec<PathBuf>,

    /// The signed payload must equal this file, byte for byte
    #[arg(long, value_name = "FILE")]
    pub payload: Option<PathBuf>,

    /// The SHA-256 of this file must be a subject of the signed in-toto statement
    #[arg(long, value_name = "FILE")]
    pub artifact: Option<PathBuf>,

    /// The signed payload must refer to this body by its commitment, which is made with --salt
    #[arg(long, value_name = "FILE", requires = "salt")]
    pub body: Option<PathBuf>,

    /// The salt of --body, 64 hexadecimal digits
    #[arg(long, value_name = "HEX", requires = "body")]
    pub salt: Option<String>,

    /// Evidence of leaves that erased bodies: of a leaf that refers to one it cannot be told what the body was
    #[arg(long, value_name = "EVIDENCE", num_args = 1..)]
    pub erased: Vec<PathBuf>,

    /// The leaf, byte for byte; EVIDENCE is then a bare .tlog-proof
    #[arg(long, value_name = "FILE")]
    pub leaf: Option<PathBuf>,

    /// Print one line of JSON for each EVIDENCE
    #[arg(long)]
    pub json: bool,
}

/// What `--help` says after the options.
pub const HELP: &str = "\
Checks, each with a line of its own:
  leaf        the bytes are a leaf, in its one spelling
  envelope    each signature verifies over the payload and its type
  signers     whose keys those are: enrolled at which leaf, by whom, down to
              leaf 0; or pinned by you
  payload     an operation is for this log; what --payload and --artifact name
              is what was signed; --body is the body that it refers to, and a
              body that --erased shows to be erased is unknown
  inclusion   the leaf is in the tree of the checkpoint
  checkpoint  a log of your policy signed the checkpoint
  witnesses   your policy's quorum cosigned it, and not before the time that
              the leaf claims; skipped for quorum none

A check passes, fails, is unknown (what it takes is not at hand), or is skipped
(nobody asked). Any fail: does not hold. Else any unknown: cannot tell. Else:
holds. That nothing was revoked later, and that the decision in a leaf follows
the log's rules, no single file can show: `countersign audit --replay` does.

Nothing is fetched, and nothing is written but this output.

Exit codes:
  0  all hold
  1  one does not hold, or is malformed
  2  wrong usage, or a file, key or policy that cannot be read
  3  of one it cannot be told: a newer format, an unknown key or log, an
     erased body
Of several the first in the order 2, 1, 3, 0 counts.

Examples:
  countersign-verify 7.evidence.json --policy policy
  countersign-verify *.evidence.json --policy policy.d --keys ci.pub --json
  countersign-verify 7.evidence.json --policy policy --artifact release.tgz
  countersign-verify 7.evidence.json --policy policy --body scan.pdf --salt 9f…
  countersign-verify 7.evidence.json --policy policy --erased 9.evidence.json
  countersign-verify 7.tlog-proof --leaf 7.leaf --policy policy
  countersign-verify - --policy policy < 7.evidence.json";

/// Exit codes, and of several the one that counts.
const HOLDS: u8 = 0;
const DOES_NOT_HOLD: u8 = 1;
const UNUSABLE: u8 = 2;
const CANNOT_TELL: u8 = 3;

/// Files that are judged before their verdicts are printed: enough to keep all cores busy, and few enough
/// that verdicts come out as the work goes on.
const ROUND: usize = 4096;

/// Judges each EVIDENCE on all cores and writes the verdicts to `out`, in the order given; what is wrong
/// with the arguments goes to standard error. Returns the exit code.
pub fn run(args: &VerifyArgs, out: &mut dyn Write) -> u8 {
    match verify(args, out) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "countersign-verify: {error}"); // nobody is left to tell
            UNUSABLE
        }
    }
}

fn verify(args: &VerifyArgs, out: &mut dyn Write) -> Result<u8, String> {
    if args.leaf.is_some() && args.evidence.len() != 1 {
        return Err("--leaf is the leaf of one EVIDENCE; several were given".into());
    }
    if args.evidence.iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err("standard input (-) can be read once".into());
    }
    let eras = inputs::policy(&args.policy)?;
    let options = inputs::options(args, &eras)?;
    let leaf = args.leaf.as_deref().map(inputs::file).transpose()?;
    let cores = thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(args.evidence.len());
    let verifier = || Verifier::new(Eras::clone(&eras), Options::clone(&options));
    let mut verifiers: Vec<Verifier> = (0..cores).map(|_| verifier()).collect();
    let mut counts = [0usize; 4];
    for round in args.evidence.chunks(ROUND) {
        for (path, answer) in round
            .iter()
            .zip(judge_all(round, leaf.as_deref(), &mut verifiers))
        {
            counts[usize::from(answer.code())] += 1;
            answer
                .print(path, args.json, out)
                .map_err(|error| format!("standard output: {error}"))?;
        }
    }
    if args.evidence.len() > 1 && !args.json {
        let [hold, fail, unusable, unknown] = counts;
        let files = args.evidence.len();
        writeln!(
            out,
            "{files} files: {hold} hold, {fail} do not hold, {unknown} cannot be told, {unusable} cannot be read"
        )
        .map_err(|error| format!("standard output: {error}"))?;
    }
    let order = [UNUSABLE, DOES_NOT_HOLD, CANNOT_TELL];
    Ok(order
        .into_iter()
        .find(|code| counts[usize::from(*code)] > 0)
        .unwrap_or(HOLDS))
}

/// Reads the tlog-policy at `path`: a file, or a folder of `<from_size>.policy` files.
///
/// # Errors
/// A sentence that names the file and what is wrong with it.
pub fn read_policy(path: &Path) -> Result<Eras, String> {
    inputs::policy(path)
}

/// What became of one EVIDENCE.
enum Answer {
    Judged(Verdict),
    Unusable(String),
}

impl Answer {
    fn code(&self) -> u8 {
        match self {
            Self::Unusable(_) => UNUSABLE,
            Self::Judged(verdict) => match verdict.outcome {
                Outcome::Holds => HOLDS,
                Outcome::DoesNotHold => DOES_NOT_HOLD,
                Outcome::CannotTell => CANNOT_TELL,
            },
        }
    }

    fn print(&self, path: &Path, json: bool, out: &mut dyn Write) -> io::Result<()> {
        let name = path.to_string_lossy();
        match self {
            Self::Judged(verdict) if json => writeln!(out, "{}", verdict.to_json(&name)),
            Self::Judged(verdict) => out.write_all(verdict.to_lines(&name).as_bytes()),
            Self::Unusable(error) => {
                writeln!(io::stderr(), "countersign-verify: {error}")?;
                if json {
                    let mut line = b"{\"evidence\":".to_vec();
                    push_string(&mut line, &name);
                    line.extend_from_slice(b",\"error\":");
                    push_string(&mut line, error);
                    line.extend_from_slice(b"}\n");
                    out.write_all(&line)?;
                }
                Ok(())
            }
        }
    }
}

/// One answer a path, in order; each verifier has a thread of its own.
fn judge_all(paths: &[PathBuf], leaf: Option<&[u8]>, verifiers: &mut [Verifier]) -> Vec<Answer> {
    if let ([path], [verifier, ..]) = (paths, &mut *verifiers) {
        return [judge(path, leaf, verifier)].into();
    }
    let next = AtomicUsize::new(0);
    let work = |verifier: &mut Verifier| {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = paths.get(at) else {
                return done;
            };
            done.push((at, judge(path, leaf, verifier)));
        }
    };
    let mut done: Vec<(usize, Answer)> = thread::scope(|scope| {
        let threads: Vec<_> = verifiers
            .iter_mut()
            .map(|v| scope.spawn(|| work(v)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("OK because verdicts do not panic"))
            .collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, answer)| answer).collect()
}

fn judge(path: &Path, leaf: Option<&[u8]>, verifier: &mut Verifier) -> Answer {
    let file = if is_stdin(path) {
        inputs::bounded(io::stdin().lock(), path)
    } else {
        inputs::file(path)
    };
    match (file, leaf) {
        (Err(error), _) => Answer::Unusable(error),
        (Ok(proof), Some(leaf)) => Answer::Judged(verifier.proof(&proof, leaf)),
        (Ok(file), None) if file.starts_with(HEADER.as_bytes()) => {
            let path = path.display();
            Answer::Unusable(format!(
                "{path} is a bare tlog-proof: name the file of its leaf with --leaf"
            ))
        }
        (Ok(file), None) => Answer::Judged(verifier.evidence(&file)),
    }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}
