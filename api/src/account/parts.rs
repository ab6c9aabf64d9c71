//! What an account's files say, before its store is opened.

use countersign_verifier::{
    base64,
    key::{PrivateKey, PublicKey},
    predecessor::Predecessor,
    vkey::{NoteSigner, VerifierKey},
};

use super::{About, OpenError, private_key, read, signer};
use crate::{
    data_dir::{AccountDir, DataDir},
    files,
    ledger::Ledger,
    quorum::Policies,
    seat::Seats,
    state::{
        Opened,
        opened::{self, Before},
    },
};

/// An account's files, read and held against each other.
pub struct Parts {
    /// Where they lie.
    pub files: AccountDir,
    /// Whether anybody may read the account.
    pub public: bool,
    /// The log's verifier key.
    pub vkey: String,
    /// What leaf 0 says, or will say.
    pub opened: Opened,
    /// Its tlog-policies.
    pub policies: Policies,
    pub(super) signer: NoteSigner,
}

impl Parts {
    /// Reads them. A change of policy that was interrupted is finished.
    ///
    /// # Errors
    /// See [`OpenError`]; a missing key is never made up for.
    pub fn read(dir: &DataDir, name: &str) -> Result<Parts, OpenError> {
        let parts = Parts::look(dir, name)?;
        parts.policies.settle(&parts.files)?;
        Ok(parts)
    }

    /// The same, and nothing is written.
    ///
    /// # Errors
    /// As [`Parts::read`].
    pub fn look(dir: &DataDir, name: &str) -> Result<Parts, OpenError> {
        let files = dir.account(name);
        let (about, owner, predecessor) = about(&files)?;
        let log_key = private_key(files.log_key())?;
        let service = private_key(files.service_key())?.public();
        let signer = signer(&about.origin, &log_key, &files)?;
        let vkey = signer.vkey().to_string();
        let stated = read(files.log_vkey())?;
        if stated.trim() != vkey {
            return Err(OpenError::Key {
                path: files.log_key(),
                why: format!(
                    "this is not the key of {}: log.vkey says {}",
                    about.origin,
                    stated.trim()
                ),
            });
        }
        let policies = Policies::read(&files, &vkey)?;
        Ok(Parts {
            public: about.public,
            opened: Opened {
                origin: about.origin,
                log_vkey: vkey.clone(),
                owner,
                service,
                rules: opened::RULES,
                epoch: about.epoch,
                predecessor,
            },
            files,
            vkey,
            policies,
            signer,
        })
    }

    /// What the files say where the keys lie elsewhere: the service's key is the one that leaf 0 names, which is told here.
    ///
    /// # Errors
    /// As [`Parts::read`].
    pub fn without_keys(
        dir: &DataDir,
        name: &str,
        service: Option<&PublicKey>,
    ) -> Result<(Opened, Policies), OpenError> {
        let files = dir.account(name);
        let (about, owner, predecessor) = about(&files)?;
        let wrong = |why: String| OpenError::Wrong {
            path: files.log_vkey(),
            why,
        };
        let vkey = read(files.log_vkey())?;
        let vkey = VerifierKey::parse(vkey.trim()).map_err(|e| wrong(e.to_string()))?;
        if vkey.name != about.origin {
            let origin = &about.origin;
            return Err(wrong(format!(
                "it is of log {:?}, and account.json says {origin:?}",
                vkey.name
            )));
        }
        let vkey = vkey.to_string();
        let policies = Policies::read(&files, &vkey)?;
        let opened = Opened {
            origin: about.origin,
            log_vkey: vkey,
            // Where there is no leaf 0 yet, nobody compares it.
            service: service.unwrap_or(&owner).clone(),
            owner,
            rules: opened::RULES,
            epoch: about.epoch,
            predecessor,
        };
        Ok((opened, policies))
    }

    /// The key of the service identity: another copy at each call, because it is wiped when dropped.
    ///
    /// # Errors
    /// As [`Parts::read`].
    pub fn service(&self) -> Result<PrivateKey, OpenError> {
        private_key(self.files.service_key())
    }

    /// The keys of its seats.
    ///
    /// # Errors
    /// As [`Parts::read`].
    pub fn seats(&self) -> Result<Seats, OpenError> {
        let path = self.files.seat_secret();
        let wrong = |why: String| OpenError::Key {
            path: path.clone(),
            why,
        };
        let text = files::read_small(&path).map_err(|e| {
            wrong(format!(
                "{e}; of it the keys of seats are made, and never another one in its place"
            ))
        })?;
        let text = zeroize::Zeroizing::new(text);
        let bytes = base64::decode(text.trim()).map(zeroize::Zeroizing::new);
        let bytes = bytes.map_err(|e| wrong(e.to_string()))?;
        let secret = <[u8; 32]>::try_from(bytes.as_slice());
        let secret = secret.map_err(|_| wrong("not 32 bytes in base64".into()))?;
        let origin = self.opened.origin.clone();
        Ok(Seats::new(zeroize::Zeroizing::new(secret), origin))
    }

    /// A judge of this account.
    ///
    /// # Errors
    /// As [`Parts::read`].
    pub fn ledger(&self) -> Result<Ledger, OpenError> {
        Ok(Ledger::new(self.opened.clone(), self.service()?))
    }
}

/// What `account.json` says.
fn about(files: &AccountDir) -> Result<(About, PublicKey, Option<Predecessor>), OpenError> {
    let path = files.about();
    let wrong = |why: String| OpenError::Wrong {
        path: path.clone(),
        why,
    };
    let about: About =
        serde_json::from_str(&read(path.clone())?).map_err(|e| wrong(e.to_string()))?;
    let owner = opened::spki(&about.owner).map_err(wrong)?;
    let predecessor = about.predecessor.as_ref().map(Before::read).transpose();
    let predecessor = predecessor.map_err(wrong)?;
    Ok((about, owner, predecessor))
}
