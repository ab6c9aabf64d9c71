//! `countersign up`: the development account and three witnesses, made on the first run, served on every one.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Args;

use super::{UNUSABLE, out::note, serve::serve};
use crate::{
    app::App,
    data_dir::{DEFAULT_DIR, DataDir},
    init, local_witnesses,
};

/// Make a development account on the first run, and serve it on loopback with three witnesses
///
/// The witnesses are processes of their own, with keys and directories below DIR/witnesses; they end with this one. What was made
/// with witnesses is served with them ever after, and what was made without, without.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// The directory: absent, empty, or one that `up` made
    #[arg(long, env = "COUNTERSIGN_DIR", default_value = DEFAULT_DIR)]
    pub dir: PathBuf,
    /// Where to listen; port 0 picks one
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// On the first run, make no witnesses: a checkpoint is then published as soon as the log has signed it
    #[arg(long)]
    pub no_witnesses: bool,
    /// Take the wall clock as it is, if it is what keeps the log from writing; a leaf says so
    #[arg(long)]
    pub accept_clock: bool,
}

/// Makes and serves it.
///
/// # Errors
/// Anything that keeps the account from being made.
pub fn run(args: &UpArgs) -> anyhow::Result<ExitCode> {
    let dir = DataDir::new(&args.dir);
    let plan = init::development(!args.no_witnesses);
    if !dir.account(&plan.name).log_vkey().is_file() {
        if let Err(error) = init::create(&dir, &plan) {
            note(format_args!("countersign: {error}"));
            return Ok(ExitCode::from(
                if matches!(error, init::InitError::Lock(_)) {
                    4
                } else {
                    2
                },
            ));
        }
        note(format_args!(
            "made a development account in {}",
            args.dir.display()
        ));
    }
    let witnesses = match local_witnesses::find(&dir) {
        Ok(witnesses) => witnesses,
        Err(error) => {
            note(format_args!("countersign: {error}"));
            return Ok(ExitCode::from(UNUSABLE));
        }
    };
    match (args.no_witnesses, witnesses.len()) {
        (true, 1..) => note(
            "this directory was made with witnesses, and its policy asks for them: it is served with them, in spite of --no-witnesses",
        ),
        (false, 0) => note(
            "no witnesses/ lies in this directory, and none are run: it was made without, or they must be moved back \
             (docs/operate.md#restore)",
        ),
        _ => {}
    }
    serve(&dir, args.listen, (args.accept_clock, witnesses), hints)
}

fn hints(app: &App) {
    let Ok(account) = app.accounts.get("dev") else {
        return;
    };
    if let Some(why) = account.takes_nothing(&account.log.status()) {
        note(format_args!(
            "\nThe log takes no writes: {why}. It is read as ever; `countersign status` says what there is to do."
        ));
        return;
    }
    let policy = account.dir.policy_for_verifiers();
    note("\nTry, in another terminal:");
    note(format_args!(
        "  echo '{{\"hello\":\"world\"}}' > hello.json"
    ));
    note(
        "  countersign sign --type application/vnd.example.receipt+json hello.json | countersign submit - --out evidence",
    );
    note(format_args!(
        "  countersign verify evidence/*.json --policy {}",
        policy.display()
    ));
    note(format_args!(
        "  countersign demo        two agents and a human at work on a board, every leaf of it checked\n\
        or look at {}/ in a browser. Ctrl-C stops it; what was answered is kept.\n",
        app.url()
    ));
}
