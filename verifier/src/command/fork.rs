//! `countersign fork`: evidence that a log has signed two histories, shown and judged. Files in, verdicts out.

mod render;

use std::boxed::Box;
use std::format;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::string::{String, ToString as _};
use std::vec::Vec;

use super::{CANNOT_TELL, DOES_NOT_HOLD, HOLDS, UNUSABLE, inputs, is_stdin};
use crate::checkpoint::Checkpoint;
use crate::cosign;
use crate::fork::{Fork, ForkError, Proven};
use crate::note::Note;
use crate::policy::Eras;
use crate::vkey::VerifierKey;
use crate::words::printable;

/// What `fork` takes.
#[derive(Debug, clap::Args)]
pub struct ForkArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print what a file claims; nothing is verified by that
    Show(ShowArgs),
    /// Judge evidence against the keys of the logs in your policy, offline
    ///
    /// It holds when the log signed two trees of one size with different roots, or two trees that differ in
    /// leaves which both have. No log that keeps its promise can do so.
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArgs),
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Evidence of a fork, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// Evidence of forks, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The tlog-policy that names the logs you know: a file, or a folder of <from_size>.policy files, of
    /// which every log and witness counts here. The quorum is not asked for: what the log signed, it signed
    #[arg(long, value_name = "FILE|FOLDER")]
    policy: PathBuf,

    /// Print one line of JSON for each FILE
    #[arg(long)]
    json: bool,
}

const VERIFY_HELP: &str = "\
Exit codes:
  0  all hold: those logs have forked
  1  one does not hold, or is malformed
  2  wrong usage, or a file or policy that cannot be read
  3  of one it cannot be told: a newer format, or a log that your policy does not name
Of several the first in the order 2, 1, 3, 0 counts.";

/// Shows or judges, and writes to `out`; what cannot be read is told on standard error. Returns the exit code.
pub fn run(args: &ForkArgs, out: &mut dyn Write) -> u8 {
    let done = match &args.action {
        Action::Show(args) => show(&args.file, out),
        Action::Verify(args) => verify(args, out),
    };
    done.unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "countersign: {error}"); // nobody is left to tell
        UNUSABLE
    })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    if is_stdin(path) {
        inputs::bounded(io::stdin().lock(), path)
    } else {
        inputs::file(path)
    }
}

fn told(error: &io::Error) -> String {
    format!("standard output: {error}")
}

fn show(path: &Path, out: &mut dyn Write) -> Result<u8, String> {
    let (code, text) = match Fork::parse(&read(path)?) {
        Ok(fork) => (HOLDS, claim(&fork)),
        Err(error) => (
            code_of(&error),
            format!("  {}\n", printable(&error.to_string())),
        ),
    };
    let name = printable(&path.to_string_lossy());
    out.write_all((name + "\n" + &text).as_bytes())
        .map_err(|error| told(&error))?;
    Ok(code)
}

/// What a file claims, in lines.
fn claim(fork: &Fork) -> String {
    let mut lines = String::new();
    for (name, text) in ["first", "second"].iter().zip(&fork.checkpoints) {
        let said = match Note::parse(text.as_bytes()) {
            Ok(note) => said(&note),
            Err(error) => error.to_string(),
        };
        lines += &format!("  {name:<10} {}\n", printable(&said));
    }
    if let Some(node) = &fork.node {
        let [one, other] = &node.hashes;
        lines += &format!(
            "  {:<10} node {} of level {}: {one} and {other}\n",
            "differs", node.index, node.level
        );
    }
    lines += &format!("  {:<10} {}\n", "meaning", meaning(fork));
    lines + "not verified: `fork verify` does that\n"
}

/// What the two would mean, were they signed as they say.
fn meaning(fork: &Fork) -> String {
    let head = |text: &String| {
        let note = Note::parse(text.as_bytes()).ok()?;
        Checkpoint::parse(note.text).ok()
    };
    let [Some(one), Some(other)] = fork.checkpoints.each_ref().map(head) else {
        return "none: one of them is no checkpoint".into();
    };
    let claim = match &fork.node {
        None if one.size != other.size => {
            return "none: two sizes, and no node that differs".into();
        }
        None if one.root == other.root => return "none: they are the same head".into(),
        None => format!("two trees of {} leaves with different roots", one.size),
        Some(node) => {
            let start = u128::from(node.index) << node.level;
            let end = start + (1 << node.level) - 1;
            format!(
                "leaves {start} to {end} are not the same in the trees of {} and of {} leaves",
                one.size, other.size
            )
        }
    };
    format!(
        "if it holds, the log has FORKED: {claim}; {}",
        render::MEANING
    )
}

fn said(note: &Note<'_>) -> String {
    let head = match Checkpoint::parse(note.text) {
        Ok(head) => format!(
            "{}, {} leaves, root {}",
            head.origin,
            head.size,
            head.root.to_base64()
        ),
        Err(error) => error.to_string(),
    };
    let lines = note.signatures.iter();
    let lines: Vec<String> = lines.map(|s| format!("{}+{}", s.name, s.id)).collect();
    format!("{head}; lines of {}", lines.join(", "))
}

fn code_of(error: &ForkError) -> u8 {
    match error {
        ForkError::Newer { .. } => CANNOT_TELL,
        ForkError::TooLarge { .. } | ForkError::Form(_) => DOES_NOT_HOLD,
    }
}

fn verify(args: &VerifyArgs, out: &mut dyn Write) -> Result<u8, String> {
    if args.files.iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err("standard input (-) can be read once".into());
    }
    let eras = inputs::policy(&args.policy)?;
    let mut codes = Vec::new();
    for path in &args.files {
        let name = path.to_string_lossy();
        let judged = read(path).map(|file| judge(&file, &eras));
        if let Err(error) = &judged {
            let _ = writeln!(io::stderr(), "countersign: {error}"); // as above
        }
        codes.push(judged.as_ref().map_or(UNUSABLE, Judged::code));
        let text = match (&judged, args.json) {
            (Ok(judged), true) => judged.to_json(&name),
            (Ok(judged), false) => judged.to_lines(&name),
            (Err(error), true) => render::error_json(&name, error),
            (Err(_), false) => String::new(),
        };
        out.write_all(text.as_bytes())
            .map_err(|error| told(&error))?;
    }
    let order = [UNUSABLE, DOES_NOT_HOLD, CANNOT_TELL];
    let worst = order.into_iter().find(|code| codes.contains(code));
    Ok(worst.unwrap_or(HOLDS))
}

/// A file judged.
enum Judged {
    Holds(Box<Shown>),
    Fails(String),
    Unknown(String),
}

struct Shown {
    proven: Proven,
    /// Of each head the witnesses of the policy that cosigned it, with the time.
    cosigners: [Vec<Cosigner>; 2],
}

#[derive(PartialEq)]
struct Cosigner {
    name: String,
    time: u64,
}

fn judge(file: &[u8], eras: &Eras) -> Judged {
    let fork = match Fork::parse(file) {
        Ok(fork) => fork,
        Err(error) if code_of(&error) == CANNOT_TELL => return Judged::Unknown(error.to_string()),
        Err(error) => return Judged::Fails(error.to_string()),
    };
    let origin = fork.origin();
    let mut keys: Vec<&VerifierKey> = Vec::new();
    let logs = eras.iter().flat_map(|(_, policy)| policy.logs());
    for key in logs.map(|log| &log.key).filter(|key| key.name == origin) {
        if !keys.contains(&key) {
            keys.push(key); // a log of several eras is one log
        }
    }
    if keys.is_empty() {
        return Judged::Unknown(format!("log {origin:?} is not in the policy"));
    }
    match fork.verify(origin, keys) {
        Err(error) => Judged::Fails(error.to_string()),
        Ok(proven) => Judged::Holds(Box::new(Shown {
            proven,
            cosigners: [0, 1].map(|i| cosigners(&fork.checkpoints[i], eras)),
        })),
    }
}

/// Witnesses of any era whose line verifies. One that does not is passed over: anybody can add it, and it
/// takes nothing from what the log signed.
fn cosigners(checkpoint: &str, eras: &Eras) -> Vec<Cosigner> {
    let mut found = Vec::new();
    let Ok(note) = Note::parse(checkpoint.as_bytes()) else {
        return found;
    };
    for witness in eras.iter().flat_map(|(_, policy)| policy.witnesses()) {
        let key = &witness.key;
        let line = note
            .signatures
            .iter()
            .find(|line| line.name == key.name && line.id == key.id)
            .filter(|line| key.verify(note.text, &line.signature).is_ok());
        let Some(time) = line.and_then(|line| cosign::time(&line.signature)) else {
            continue;
        };
        let name = witness.name.to_string();
        let cosigner = Cosigner { name, time };
        if !found.contains(&cosigner) {
            found.push(cosigner);
        }
    }
    found
}

impl Judged {
    fn code(&self) -> u8 {
        match self {
            Self::Holds(_) => HOLDS,
            Self::Fails(_) => DOES_NOT_HOLD,
            Self::Unknown(_) => CANNOT_TELL,
        }
    }
}
