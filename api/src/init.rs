//! Making a data directory: the only place where keys and tokens come to be.

mod another;

use std::{io, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use countersign_log::{SystemClocks, store::rocks::Shared};
use countersign_verifier::key::PublicKey;

use crate::{
    account::{Account, New, OpenError, generate},
    data_dir::{DataDir, LockError, is_account_name, sync_dir, write_public, write_secret},
    files::move_into_place,
    local_witnesses::{self, LocalError},
};

pub use another::{Another, Made, add};

/// What `config.toml` begins as: the settings that are changed first, as comments.
const CONFIG: &str = "# Every key has a default; an unknown key is an error. docs/reference/configuration.md lists them.\n\
# listen = \"127.0.0.1:8780\"\n# public_url = \"https://log.example.com\"\n";

/// What to make.
pub struct Plan {
    /// The account's local name.
    pub name: String,
    /// Its log's origin.
    pub origin: String,
    /// The owner's public key, where the private one stays elsewhere; `None`: a key is made and kept here.
    pub owner: Option<PublicKey>,
    /// Whether anybody may read the account.
    pub public: bool,
    /// Whether witnesses are made beside it, for `up` to run.
    pub witnesses: bool,
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// There is something already.
    #[error("{0}: not empty; a new directory is only made where nothing is")]
    NotEmpty(String),
    /// There is an account of this name, or a folder in its place.
    #[error("account `{0}` is there already")]
    Taken(String),
    /// A file cannot be made.
    #[error("{what}: {source}")]
    File {
        /// Which.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The name or the origin cannot be one.
    #[error("{0}")]
    Name(String),
    /// Another process has the directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The account cannot be made.
    #[error(transparent)]
    Account(#[from] OpenError),
    /// Its witnesses cannot be made.
    #[error(transparent)]
    Witnesses(#[from] LocalError),
}

/// The development account: public, its origin `localhost/dev`, its owner's key at hand.
#[must_use]
pub fn development(witnesses: bool) -> Plan {
    Plan {
        name: "dev".into(),
        origin: "localhost/dev".into(),
        owner: None,
        public: true,
        witnesses,
    }
}

/// Makes a data directory with one account: beside its place first, and moved there whole, so that an interrupted attempt leaves
/// nothing that a later one would stumble over.
///
/// # Errors
/// See [`InitError`]; never over anything that is there.
pub fn create(dir: &DataDir, plan: &Plan) -> Result<(), InitError> {
    check_names(&plan.name, &plan.origin)?;
    if !is_free(dir.root()) {
        return Err(InitError::NotEmpty(dir.root().display().to_string()));
    }
    let parent = match dir.root().parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(parent).map_err(file(parent))?;
    let stage = tempfile_beside(parent).map_err(file(parent))?;
    let made = fill(&DataDir::new(&stage), plan).and_then(|()| {
        // A directory that is there already gives its place only while it is empty: two attempts at once cannot both succeed.
        let _ = std::fs::remove_file(dir.root().join("lock"));
        move_into_place(&stage, dir.root()).map_err(file(dir.root()))
    });
    if made.is_err() {
        // What is left of it holds keys that nothing uses; not being able to remove it changes nothing else.
        let _ = std::fs::remove_dir_all(&stage);
    }
    made
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> InitError {
    let what = path.display().to_string();
    move |source| InitError::File { what, source }
}

fn tempfile_beside(parent: &Path) -> io::Result<std::path::PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let stage = parent.join(format!(
        ".countersign-new-{:016x}",
        u64::from_be_bytes(random)
    ));
    std::fs::create_dir(&stage)?;
    std::fs::set_permissions(&stage, std::fs::Permissions::from_mode(0o700))?;
    Ok(stage)
}

fn fill(dir: &DataDir, plan: &Plan) -> Result<(), InitError> {
    let owner = match &plan.owner {
        Some(owner) => owner.clone(),
        None => {
            let key = generate().map_err(file(&dir.owner_key()))?;
            write_secret(&dir.owner_key(), key.to_pem().as_bytes())
                .map_err(file(&dir.owner_key()))?;
            key.public()
        }
    };
    write_public(&dir.config(), CONFIG.as_bytes()).map_err(file(&dir.config()))?;
    let token = token().map_err(file(&dir.owner_token()))? + "\n";
    write_secret(&dir.owner_token(), token.as_bytes()).map_err(file(&dir.owner_token()))?;
    let witnesses = if plan.witnesses {
        local_witnesses::create(dir)?
    } else {
        Vec::new()
    };
    let new = New {
        name: plan.name.clone(),
        origin: plan.origin.clone(),
        owner,
        public: plan.public,
        witnesses,
    };
    // Small: one commit is made.
    let shared = Shared::new(8 << 20, 8 << 20);
    let vkey = Account::create(dir, &new, &shared, Arc::new(SystemClocks))?;
    local_witnesses::admit(dir, &vkey)?;
    for made in [dir.root().join("accounts"), dir.root().to_owned()] {
        sync_dir(&made).map_err(file(&made))?;
    }
    Ok(())
}

/// Whether a directory is absent, or holds nothing but a lock file that an attempt before this one left.
#[must_use]
pub fn is_free(root: &Path) -> bool {
    match root.read_dir() {
        Ok(entries) => entries.flatten().all(|entry| entry.file_name() == "lock"),
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    }
}

/// A fresh token: `cst_` and 32 random bytes.
///
/// # Errors
/// If the system gives no randomness.
pub fn token() -> io::Result<String> {
    let mut bytes = zeroize::Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).map_err(io::Error::other)?;
    let standard = countersign_verifier::base64::encode(&*bytes);
    Ok(format!(
        "cst_{}",
        standard
            .trim_end_matches('=')
            .replace('+', "-")
            .replace('/', "_")
    ))
}

/// Whether an account can have this name, and its log this origin.
pub(crate) fn check_names(name: &str, origin: &str) -> Result<(), InitError> {
    if !is_account_name(name) {
        return Err(InitError::Name(
            "an account's name is 1 to 63 of a-z 0-9 -".into(),
        ));
    }
    // c2sp.org/tlog-cosignature: an origin of more than 255 bytes cannot be cosigned.
    // And it is read by people: nothing in it may be hidden, or look like something else.
    let bad = |c: char| !c.is_ascii_graphic() || c == '+';
    if origin.is_empty() || origin.len() > 255 || origin.contains(bad) || origin.contains("://") {
        return Err(InitError::Name(
            "an origin is 1 to 255 bytes of visible ASCII such as log.example.com/name: no scheme, no space, no `+`"
                .into(),
        ));
    }
    Ok(())
}
