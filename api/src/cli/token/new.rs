//! `countersign token new`: a token, and the seat that it is for.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use countersign_verifier::{hash::Hash, key::PrivateKey, leaf::Class};
use serde_json::{Value, json};

use crate::{
    cli::{
        enrol::find,
        out,
        out::Out,
        place::{KeyArg, Place, Service},
        tool::{self, WaitArgs},
    },
    client::ToolAnswer,
    data_dir::write_secret,
    init,
    state::token::token_hash,
};

/// Make a token for an identity, and its seat where there is none of that name; signed by the owner
///
/// Prints the token, once: only its hash is kept. What a client asks with it is signed by the service with the seat's key, and
/// says so (`seat_key`): the service could forge it. The token of an identity that has a key of its own only reads.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The seat's name: 1 to 64 of A-Z a-z 0-9 . _ - @
    name: String,
    /// What a new seat may be; more than once for several [default: agent]
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// The token ends by itself after so many seconds [default: when it is revoked]
    #[arg(long, value_name = "N")]
    ttl_s: Option<u64>,
    /// Write the token into a new file that only you may read, and print nothing of it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the answer as JSON, the token in it
    #[arg(long, conflicts_with = "out")]
    json: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    place: Place,
}

pub(super) async fn run(args: &NewArgs) -> anyhow::Result<ExitCode> {
    let caller = args.key.read(&args.place.site.dir)?;
    let service = args.key.service(&args.place).await?;
    let seat = (args.name.as_str(), args.roles.as_slice());
    let identity = seat_of(&service, &caller, seat, args.wait).await?;
    let token = init::token().context("no randomness")?;
    let hash = token_hash(&service.origin().await?, &token);
    // Before it is made good: a token that nobody could write down would be lost, one that is not good yet harms nobody.
    if let Some(path) = &args.out {
        write_secret(path, format!("{token}\n").as_bytes()).map_err(|e| unwritten(path, e))?;
    }
    let token_new = (identity.as_str(), hash, args.ttl_s);
    let answer = make(&service, &caller, token_new, args.wait).await?;
    if let Some(path) = &args.out {
        out::note(format_args!(
            "the token of {} is in {}",
            args.name,
            path.display()
        ));
        return tool::show(&answer, false);
    }
    if args.json {
        let shown =
            json!({"token": token, "identity": identity, "entry": answer.entry.map(|e| e.index)});
        Out::stdout().line(shown.to_string())?;
    } else {
        out::note(format_args!(
            "the token of {} ({identity}); it is shown this once",
            args.name
        ));
        Out::stdout().line(&token)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a token could not be written down, and what helps: nothing was made.
fn unwritten(path: &Path, error: io::Error) -> anyhow::Error {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => anyhow!(
            "{shown} is there already, perhaps with a token that is still good; it is never written over. Name another file with --out, or end that token \
             with `countersign token revoke --file {shown}` and remove it. No token was made"
        ),
        _ => anyhow!(error).context(shown.to_string()),
    }
}

/// Makes what has this hash good for an identity, for so many seconds or until it is revoked.
pub(super) async fn make(
    service: &Service,
    caller: &PrivateKey,
    (identity, hash, ttl_s): (&str, Hash, Option<u64>),
    wait: WaitArgs,
) -> anyhow::Result<ToolAnswer> {
    let mut arguments = json!({"identity": identity, "token_sha256": hash.to_hex()});
    if let Some(ttl) = ttl_s {
        arguments["ttl_s"] = ttl.into();
    }
    tool::write(service, caller, ("token_new", arguments), None, wait).await
}

/// The identity of this name; a seat, enrolled now, where there is none. Roles are those of a new one.
pub(super) async fn seat_of(
    service: &Service,
    caller: &PrivateKey,
    (name, roles): (&str, &[String]),
    wait: WaitArgs,
) -> anyhow::Result<String> {
    let there = find(service, Some(caller), |row| {
        row.name.eq_ignore_ascii_case(name)
    });
    match there.await? {
        Some(row) if !roles.is_empty() => bail!(
            "{} is enrolled already ({}); --role is for a new seat",
            row.name,
            row.identity
        ),
        Some(row) => return Ok(row.identity),
        None => {}
    }
    let seat = tool::read(service, Some(caller), "seat_get", json!({"name": name})).await?;
    let member = |name: &str| seat.result.get(name).cloned().unwrap_or(Value::Null);
    let mut arguments = json!({
        "name": name,
        "public_key": member("public_key"),
        "possession": member("possession"),
        "class": Class::SeatKey.name(),
    });
    if !roles.is_empty() {
        arguments["roles"] = roles.into();
    }
    let call = ("identity_enroll", arguments);
    let answer = tool::write(service, caller, call, None, wait).await?;
    let identity = answer.result.get("identity").and_then(Value::as_str);
    let identity = identity.context("the answer to identity_enroll names no identity")?;
    Ok(identity.to_owned())
}
