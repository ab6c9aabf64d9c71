//! The three witnesses that `up` keeps beside its log: their directories, their addresses, the policy that asks for them.
//!
//! They are witnesses like any other, with keys and a memory of their own, in processes of their own ([`children`]). What they
//! protect from is a log that loses or forks its history by a fault of disks, copies and restores. They run on the log's machine, so
//! an operator who means to deceive is stopped by witnesses of other people alone.

mod admit;
pub mod children;

use std::{
    fmt::Write as _,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

use countersign_witness::{
    dir::Dir,
    keys::{Keys, KeysError},
    store::{RocksStore, StoreError},
};

use crate::{
    account::Parts,
    data_dir::{DataDir, sync_dir, write_public},
    files,
};

pub use admit::{admit, admit_running, lines};
pub use children::Children;

/// How many `up` makes: one may be lost, and a quorum is left.
const WITNESSES: usize = 3;
/// How many of them make the quorum.
const QUORUM: usize = 2;
/// Where ports are picked from: below those that the system gives to connections (32768 to 60999), so that between two starts
/// nobody takes them by chance.
const PORTS: std::ops::Range<u16> = 20_000..32_768;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalWitness {
    /// Its number, from 1.
    pub number: usize,
    /// Its directory.
    pub dir: PathBuf,
    /// Where it listens.
    pub address: SocketAddr,
}

impl LocalWitness {
    /// Where it is asked.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A log that is served beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its verifier key.
    pub vkey: String,
    /// Where it answers `consistency` and `node`, the part before them.
    pub url: String,
}

/// A witness as a policy names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyLine {
    /// Its name in the policy.
    pub name: String,
    /// Its verifier key.
    pub vkey: String,
    /// Where it is asked.
    pub url: String,
}

/// Why there are no witnesses.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// A file cannot be read or made, or a process not be started.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what it must be.
    #[error("{}: {why}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Somebody else listens where a witness must.
    #[error(
        "{address} is taken: witness {number} listens there, as {} and the policy say. Stop who has it now (`ss -ltnp` names it), or \
         another copy of this directory that is being served",
        path.display()
    )]
    Taken {
        /// The address.
        address: SocketAddr,
        /// Whose it is.
        number: usize,
        /// The file that says so.
        path: PathBuf,
    },
    /// A witness's keys cannot be made.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// A witness's store cannot be made.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn folder(dir: &DataDir) -> PathBuf {
    dir.root().join("witnesses")
}

/// `witnesses/listen.json`: where each listens, in order; chosen once, because policies name these addresses.
fn listen_file(dir: &DataDir) -> PathBuf {
    folder(dir).join("listen.json")
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> LocalError {
    let path = path.to_owned();
    move |source| LocalError::File { path, source }
}

/// The witnesses of a directory; none where it was made without.
///
/// # Errors
/// [`LocalError::File`], [`LocalError::Wrong`]: there is a folder for them, and it does not say where they listen.
pub fn find(dir: &DataDir) -> Result<Vec<LocalWitness>, LocalError> {
    if !folder(dir).is_dir() {
        return Ok(Vec::new());
    }
    let path = listen_file(dir);
    let text = files::read_small(&path).map_err(file(&path))?;
    let addresses: Vec<SocketAddr> =
        serde_json::from_str(&text).map_err(|why| LocalError::Wrong {
            path,
            why: format!("a list of addresses, one a witness: {why}"),
        })?;
    let local = |(at, address): (usize, SocketAddr)| LocalWitness {
        number: at + 1,
        dir: folder(dir).join((at + 1).to_string()),
        address,
    };
    Ok(addresses.into_iter().enumerate().map(local).collect())
}

/// Makes the witnesses of a new directory: keys, empty memories, addresses. They know no log yet.
///
/// # Errors
/// [`LocalError`]; nothing is ever written over.
pub fn create(dir: &DataDir) -> Result<Vec<PolicyLine>, LocalError> {
    let addresses = pick().map_err(file(&folder(dir)))?;
    let mut lines = Vec::with_capacity(WITNESSES);
    for (at, address) in addresses.iter().enumerate() {
        let name = format!("witness-{}", at + 1);
        let place = Dir::new(folder(dir).join((at + 1).to_string()));
        place.create().map_err(file(place.root()))?;
        let keys = Keys::create(&place, &format!("localhost/{name}"), false)?;
        RocksStore::create(&place.db(), &place.commits())?;
        sync_dir(place.root()).map_err(file(place.root()))?;
        lines.push(PolicyLine {
            name,
            vkey: keys.vkeys()[0].to_string(),
            url: format!("http://{address}"),
        });
    }
    let path = listen_file(dir);
    // OK because addresses have a JSON form.
    let text = serde_json::to_string(&addresses).expect("local_witnesses::create") + "\n";
    write_public(&path, text.as_bytes()).map_err(file(&path))?;
    Ok(lines)
}

/// The public logs of a directory that is served at `url`: what the others hold, nobody is told without a token.
///
/// # Errors
/// [`LocalError::File`]: the accounts cannot be listed.
pub fn served(dir: &DataDir, url: &str) -> Result<Vec<Served>, LocalError> {
    let names = dir.account_names().map_err(file(dir.root()))?;
    let served = |name: String| {
        if dir.account(&name).succeeded().exists() {
            return None;
        }
        // What is wrong with an account's files is said when it is opened.
        let parts = Parts::read(dir, &name).ok().filter(|parts| parts.public)?;
        let url = format!("{url}/log/{name}");
        let vkey = parts.vkey;
        Some(Served { vkey, url })
    };
    Ok(names.into_iter().filter_map(served).collect())
}

/// The policy of a log with these witnesses (c2sp.org/tlog-policy): two of three, so that one can be lost.
#[must_use]
pub fn policy(log_vkey: &str, witnesses: &[PolicyLine]) -> String {
    let mut text = format!(
        "# Who must have signed a checkpoint for a proof to count (c2sp.org/tlog-policy).\nlog {log_vkey}\n\n"
    );
    // OK, here and below, because writing to a String cannot fail.
    for PolicyLine { name, vkey, url } in witnesses {
        let _ = writeln!(text, "witness {name} {vkey} {url}");
    }
    let names: Vec<&str> = witnesses.iter().map(|w| w.name.as_str()).collect();
    let _ = write!(
        text,
        "\n# Any {QUORUM} of them: one can be lost.\ngroup local {QUORUM} {}\nquorum local\n",
        names.join(" ")
    );
    text
}

/// Ports of loopback that nobody listens on.
fn pick() -> io::Result<Vec<SocketAddr>> {
    let mut held: Vec<(TcpListener, SocketAddr)> = Vec::new();
    // Of some 12,000 nearly all are free; the bound is for a machine where none is.
    for _ in 0..1_000 {
        let mut random = [0; 2];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let port = PORTS.start + u16::from_be_bytes(random) % (PORTS.end - PORTS.start);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match TcpListener::bind(address) {
            Ok(listener) => held.push((listener, address)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
        if held.len() == WITNESSES {
            return Ok(held.into_iter().map(|(_, address)| address).collect());
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("no free ports for witnesses in {PORTS:?}"),
    ))
}

#[cfg(test)]
mod tests {
    use countersign_verifier::policy::Policy;

    use super::*;

    #[test]
    fn witnesses_are_made_once_and_asked_for_by_two_of_three() {
        let home = tempfile::tempdir().unwrap();
        let dir = DataDir::new(home.path());
        assert_eq!(find(&dir).unwrap(), []);
        let lines = create(&dir).unwrap();
        let found = find(&dir).unwrap();
        assert_eq!(found.len(), WITNESSES);
        for (line, local) in lines.iter().zip(&found) {
            assert_eq!(line.url, format!("http://{}", local.address));
            assert!(PORTS.contains(&local.address.port()));
        }
        let log = "localhost/dev+2be930d5+AZ5RuIr6OqHOJQDl1ZLZdzUAovi61fSjFqaf0BdVlDBM";
        admit(&dir, log).unwrap();
        let policy = Policy::parse(policy(log, &lines)).unwrap();
        assert_eq!(policy.witnesses().len(), WITNESSES);
        for (cosigned, met) in [
            ([true, true, false], true),
            ([false, true, true], true),
            ([true, false, false], false),
        ] {
            assert_eq!(policy.quorum_met(&cosigned), met);
        }
        assert!(matches!(create(&dir), Err(LocalError::File { .. })));
        std::fs::write(listen_file(&dir), "{}").unwrap();
        assert!(matches!(find(&dir), Err(LocalError::Wrong { .. })));
    }
}
