//! One more account in a directory that has some: its own log, keys, writer and policy.

use std::{path::Path, sync::Arc};

use countersign_log::{Clocks, store::rocks::Shared};
use countersign_verifier::key::{PrivateKey, PublicKey};

use super::{InitError, check_names, file};
use crate::{
    account::{Account, New, origin_of},
    data_dir::{DataDir, sync_dir},
    files::{move_into_place, read_small},
    local_witnesses::{self, LocalError},
};

/// Characters of a private origin's end: 130 random bits, so that whoever sees origins cannot look for one.
const RANDOM_CHARS: usize = 26;
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Where an account is made before it is moved to its place, whole.
const STAGE: &str = ".account-new";

/// What to make.
pub struct Another {
    /// Its local name.
    pub name: String,
    /// Its log's origin: of a public account as it is, of a private one what stands before its random end; absent: the host of the
    /// account that was made first, with the name where it is public.
    pub origin: Option<String>,
    /// Its owner's public key; absent: that of `owner.key`, which lies in the directory.
    pub owner: Option<PublicKey>,
    /// Whether anybody may read it.
    pub public: bool,
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its log's origin.
    pub origin: String,
    /// Its log's verifier key.
    pub vkey: String,
}

/// Makes an account. The caller holds the directory. Where the directory has witnesses, `admit` lets them know the log of this
/// verifier key first: no account is there that they do not know.
///
/// # Errors
/// See [`InitError`]; never over anything that is there.
pub fn add(
    dir: &DataDir,
    plan: &Another,
    (shared, clocks): (&Shared, Arc<dyn Clocks>),
    admit: impl FnOnce(&str) -> Result<(), LocalError>,
) -> Result<Made, InitError> {
    let place = dir.account(&plan.name);
    let names = dir.account_names().map_err(file(dir.root()))?;
    let origin = origin(dir, &names, plan)?;
    check_names(&plan.name, &origin)?;
    if place.root().exists() {
        return Err(InitError::Taken(plan.name.clone()));
    }
    if let Some(same) = names.iter().find(|name| is_of(dir, name, &origin)) {
        return Err(InitError::Name(format!(
            "account `{same}` has the origin {origin}: one origin is one log"
        )));
    }
    let witnesses = local_witnesses::lines(dir)?;
    let is_witnessed = !witnesses.is_empty();
    let new = New {
        name: plan.name.clone(),
        origin: origin.clone(),
        owner: owner(dir, plan)?,
        public: plan.public,
        witnesses,
    };
    let stage = dir.root().join(STAGE);
    // What an interrupted attempt left: keys that nothing uses.
    if stage.exists() {
        std::fs::remove_dir_all(&stage).map_err(file(&stage))?;
    }
    let staged = DataDir::new(&stage);
    let made = Account::create(&staged, &new, shared, clocks)
        .map_err(InitError::from)
        .and_then(|vkey| {
            if is_witnessed {
                admit(&vkey)?;
            }
            let accounts = dir.root().join("accounts");
            let from = staged.account(&plan.name);
            sync_dir(from.root()).map_err(file(from.root()))?;
            move_into_place(from.root(), place.root()).map_err(file(&accounts))?;
            Ok(Made { origin, vkey })
        });
    // Empty, or with keys that nothing uses; not being able to remove it changes nothing else.
    let _ = std::fs::remove_dir_all(&stage);
    made
}

fn owner(dir: &DataDir, plan: &Another) -> Result<PublicKey, InitError> {
    if let Some(owner) = &plan.owner {
        return Ok(owner.clone());
    }
    let path = dir.owner_key();
    let none = || {
        InitError::Name(format!(
            "{}: no key lies there; name the new account's owner (--owner)",
            path.display()
        ))
    };
    let text = match read_small(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(none()),
        read => zeroize::Zeroizing::new(read.map_err(file(&path))?),
    };
    let key = PrivateKey::parse(&text).map_err(|_| none())?;
    Ok(key.public())
}

fn is_of(dir: &DataDir, name: &str, origin: &str) -> bool {
    origin_of(&dir.account(name)).is_some_and(|of| of == origin)
}

fn origin(dir: &DataDir, names: &[String], plan: &Another) -> Result<String, InitError> {
    let before = match (&plan.origin, plan.public) {
        (Some(origin), true) => return Ok(origin.clone()),
        (Some(origin), false) => origin.trim_end_matches('/').to_owned(),
        (None, public) => {
            let first = names.first().and_then(|name| origin_of(&dir.account(name)));
            let host = first.as_deref().and_then(|origin| origin.split('/').next());
            let host = host.filter(|host| !host.is_empty()).unwrap_or("localhost");
            if public {
                return Ok(format!("{host}/{}", plan.name));
            }
            host.to_owned()
        }
    };
    let end = random().map_err(file(Path::new("randomness")))?;
    Ok(format!("{before}/{end}"))
}

fn random() -> std::io::Result<String> {
    let mut bytes = [0; RANDOM_CHARS];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    // OK because 32 divides 256: each character is as likely as any other.
    let char = |byte: &u8| char::from(BASE32[usize::from(byte % 32)]);
    Ok(bytes.iter().map(char).collect())
}

#[cfg(test)]
mod tests {
    use countersign_log::SystemClocks;

    use super::*;
    use crate::init::{create, development};

    fn plan(name: &str) -> Another {
        Another {
            name: name.into(),
            origin: None,
            owner: None,
            public: false,
        }
    }

    fn made(dir: &DataDir, plan: &Another) -> Result<Made, InitError> {
        let shared = Shared::new(8 << 20, 8 << 20);
        add(dir, plan, (&shared, Arc::new(SystemClocks)), |_| Ok(()))
    }

    #[test]
    fn a_private_origin_cannot_be_guessed_and_a_public_one_is_what_was_said() {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::new(home.path().join("data"));
        create(&dir, &development(false)).unwrap();
        let first = made(&dir, &plan("one")).unwrap();
        let (host, end) = first.origin.split_once('/').unwrap();
        assert_eq!((host, end.len()), ("localhost", RANDOM_CHARS));
        assert!(end.bytes().all(|b| BASE32.contains(&b)), "{end}");
        assert!(!first.origin.contains("one"));
        let below = Another {
            origin: Some("log.example.com/team".into()),
            ..plan("two")
        };
        let second = made(&dir, &below).unwrap();
        assert!(second.origin.starts_with("log.example.com/team/"));
        assert_ne!(second.origin.rsplit('/').next(), Some(end));
        let open = Another {
            public: true,
            ..plan("three")
        };
        assert_eq!(made(&dir, &open).unwrap().origin, "localhost/three");
        assert_eq!(dir.account_names().unwrap(), ["dev", "one", "three", "two"]);
        assert!(!dir.root().join(STAGE).exists());
    }

    #[test]
    fn what_is_there_is_never_made_again() {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::new(home.path().join("data"));
        create(&dir, &development(false)).unwrap();
        assert!(matches!(made(&dir, &plan("dev")), Err(InitError::Taken(_))));
        let same = Another {
            origin: Some("localhost/dev".into()),
            public: true,
            ..plan("other")
        };
        assert!(matches!(made(&dir, &same), Err(InitError::Name(_))));
        assert!(matches!(
            made(&dir, &plan("Other")),
            Err(InitError::Name(_))
        ));
        std::fs::remove_file(dir.owner_key()).unwrap();
        let error = made(&dir, &plan("other")).unwrap_err();
        assert!(error.to_string().contains("--owner"), "{error}");
        assert_eq!(dir.account_names().unwrap(), ["dev"]);
    }
}
