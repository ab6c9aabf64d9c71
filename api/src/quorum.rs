//! The tlog-policies of an account: the one in force, those before it by tree size, and how another one takes over.
//!
//! `policy` is the present one. Once there has been another before it, `policy.d/<from_size>.policy` holds them all, the present
//! one included, and a proof is judged by the one that its size falls under.

use std::{
    io,
    path::{Path, PathBuf},
};

use countersign_verifier::policy::{Eras, ErasError, Policy};

use crate::data_dir::{AccountDir, sync_dir, write_public};

/// The policies of an account.
#[derive(Debug)]
pub struct Policies {
    /// The text of the present one.
    pub text: String,
    /// The present one.
    pub present: Policy,
    /// By the tree size from which on each holds, with its text.
    pub eras: Vec<(u64, String)>,
    /// Whether the file `policy` is still the one before: a change of policy was interrupted.
    pub unsettled: bool,
    /// For judging.
    pub judges: Eras,
}

/// Why a policy is not in force, or does not come into force.
#[derive(Debug, thiserror::Error)]
pub enum QuorumError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no policy, or not one of this log.
    #[error("{}: {why}", path.display())]
    Policy {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Somebody wrote over the present policy: what was published under the one before would be judged by another.
    #[error(
        "{}: it is not the policy that {} says is in force. A change is made with `countersign quorum set`, so that earlier heads stay \
         judged by theirs: put it elsewhere, copy the newest file of the folder here, and set it",
        path.display(), folder.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// The folder of policies.
        folder: PathBuf,
    },
    /// A policy for a later size is there.
    #[error("{}: a policy for sizes from {later} on is there already, and this one would begin at {from}", folder.display())]
    Later {
        /// The folder of policies.
        folder: PathBuf,
        /// The size that it begins at.
        later: u64,
        /// The size that this one would begin at.
        from: u64,
    },
}

/// A policy of this log: nothing of it would verify under one that does not list its key.
///
/// # Errors
/// In words.
pub fn of_log(text: &str, vkey: &str) -> Result<Policy, String> {
    let policy = Policy::parse(text).map_err(|e| e.to_string())?;
    if policy.logs().iter().any(|log| log.key.to_string() == vkey) {
        return Ok(policy);
    }
    Err(format!(
        "no line `log {vkey}`: nothing of this log would verify under it"
    ))
}

impl Policies {
    /// Reads those of the account whose log has this key.
    ///
    /// # Errors
    /// [`QuorumError`].
    pub fn read(files: &AccountDir, vkey: &str) -> Result<Policies, QuorumError> {
        let path = files.policy();
        let mut text = read(&path)?;
        let mut eras = rows(&files.policies())?;
        let mut unsettled = false;
        match eras.as_slice() {
            [] => eras.push((0, text.clone())),
            [.., (_, newest)] if *newest == text => {}
            [.., (_, before), (_, newest)] if *before == text => {
                unsettled = true;
                text.clone_from(newest);
            }
            _ => {
                let folder = files.policies();
                return Err(QuorumError::Changed { path, folder });
            }
        }
        let wrong = |why: String| QuorumError::Policy {
            path: path.clone(),
            why,
        };
        let present = of_log(&text, vkey).map_err(wrong)?;
        let mut parsed = Vec::with_capacity(eras.len());
        for (from, text) in &eras {
            let path = era(files, *from);
            let policy = Policy::parse(text).map_err(|e| QuorumError::Policy {
                path,
                why: e.to_string(),
            })?;
            parsed.push((*from, policy));
        }
        let judges = Eras::new(parsed).map_err(|e: ErasError| wrong(e.to_string()))?;
        Ok(Policies {
            text,
            present,
            eras,
            unsettled,
            judges,
        })
    }

    /// Finishes a change that was interrupted.
    ///
    /// # Errors
    /// [`QuorumError::File`].
    pub fn settle(&self, files: &AccountDir) -> Result<(), QuorumError> {
        if self.unsettled {
            replace(files, &files.policy(), &self.text)?;
        }
        Ok(())
    }

    /// Lets another policy of this log hold from tree size `from` on: the first size that no head was published at. The caller
    /// holds the directory, so nothing is published meanwhile.
    ///
    /// Interrupted at any point, either the old one is in force or the new one; [`Policies::settle`] does what is left.
    ///
    /// # Errors
    /// [`QuorumError`].
    pub fn begin(&self, files: &AccountDir, text: &str, from: u64) -> Result<(), QuorumError> {
        self.settle(files)?;
        let folder = files.policies();
        let newest = self.eras.last().map_or(0, |(from, _)| *from);
        if newest > from {
            let later = newest;
            return Err(QuorumError::Later {
                folder,
                later,
                from,
            });
        }
        if from > 0 {
            self.begin_folder(files)?;
            replace(files, &era(files, from), text)?;
        }
        replace(files, &files.policy(), text)
    }

    /// The folder of policies with the present one in it, made whole elsewhere and moved to its place.
    fn begin_folder(&self, files: &AccountDir) -> Result<(), QuorumError> {
        let (folder, stage) = (files.policies(), files.root().join("policy.d.new"));
        if !rows(&folder)?.is_empty() {
            return Ok(());
        }
        for left in [&folder, &stage] {
            match std::fs::remove_dir_all(left) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(file(left)(e)),
                _ => {}
            }
        }
        std::fs::create_dir(&stage).map_err(file(&stage))?;
        let first = stage.join("0.policy");
        write_public(&first, self.text.as_bytes()).map_err(file(&first))?;
        std::fs::rename(&stage, &folder).map_err(file(&folder))?;
        sync_dir(files.root()).map_err(file(files.root()))
    }
}

fn era(files: &AccountDir, from: u64) -> PathBuf {
    files.policies().join(format!("{from}.policy"))
}

/// The policies of a folder by the size that each holds from, in order; none where there is no folder.
fn rows(folder: &Path) -> Result<Vec<(u64, String)>, QuorumError> {
    let entries = match folder.read_dir() {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(file(folder)(e)),
    };
    let mut rows = Vec::new();
    for entry in entries {
        let path = entry.map_err(file(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let from = name
            .and_then(|name| name.strip_suffix(".policy"))
            .and_then(|size| size.parse::<u64>().ok().filter(|n| n.to_string() == size));
        let Some(from) = from else {
            let why = "a policy's name is <from_size>.policy".into();
            return Err(QuorumError::Policy { path, why });
        };
        rows.push((from, read(&path)?));
    }
    rows.sort_by_key(|(from, _)| *from);
    Ok(rows)
}

/// Puts a file in the place of another, whole: beside it first, durable on return.
fn replace(files: &AccountDir, path: &Path, text: &str) -> Result<(), QuorumError> {
    // Beside the folder of policies, in which every file is one.
    let new = files.root().join("policy.new");
    match std::fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(file(&new)(e)),
        _ => {}
    }
    write_public(&new, text.as_bytes()).map_err(file(&new))?;
    std::fs::rename(&new, path).map_err(file(path))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    sync_dir(folder).map_err(file(folder))
}

fn read(path: &Path) -> Result<String, QuorumError> {
    std::fs::read_to_string(path).map_err(file(path))
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> QuorumError {
    let path = path.to_owned();
    move |source| QuorumError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{account::policy_without_witnesses, data_dir::DataDir};

    const VKEY: &str = "log.example/a+c8a7bb4a+AYqI49eqo2lXUN18N7Yld9TCgsJ4kxu4mZZqcKM0m7Gw";

    fn files(dir: &Path, text: &str) -> AccountDir {
        let files = DataDir::new(dir).account("a");
        std::fs::create_dir_all(files.root()).unwrap();
        std::fs::write(files.policy(), text).unwrap();
        files
    }

    /// A key that is none is enough for what is tried here: the policy must only parse.
    fn vkey() -> String {
        let signer = countersign_verifier::vkey::NoteSigner::new(
            "log.example/a",
            ed25519_dalek::SigningKey::from_bytes(&[9; 32]),
        );
        signer.unwrap().vkey().to_string()
    }

    #[test]
    fn a_change_makes_an_era_and_each_size_keeps_its_policy() {
        let dir = tempfile::tempdir().unwrap();
        let vkey = vkey();
        let texts: Vec<String> = (0..4)
            .map(|n| format!("# {n}\n{}", policy_without_witnesses(&vkey)))
            .collect();
        let files = files(dir.path(), &texts[0]);
        let froms = |policies: &Policies| -> Vec<u64> {
            policies.eras.iter().map(|(from, _)| *from).collect()
        };
        let read = || Policies::read(&files, &vkey).unwrap();
        assert_eq!(froms(&read()), [0]);
        read().begin(&files, &texts[1], 0).unwrap();
        assert_eq!((froms(&read()), read().text), (vec![0], texts[1].clone()));
        assert!(
            !files.policies().exists(),
            "nothing was published under the first"
        );
        read().begin(&files, &texts[2], 7).unwrap();
        read().begin(&files, &texts[3], 7).unwrap();
        let now = read();
        assert_eq!(
            (froms(&now), now.text.as_str()),
            (vec![0, 7], texts[3].as_str())
        );
        assert_eq!(now.eras[0].1, texts[1]);
        let earlier = now.begin(&files, &texts[0], 3);
        assert!(matches!(
            earlier,
            Err(QuorumError::Later {
                later: 7,
                from: 3,
                ..
            })
        ));
    }

    #[test]
    fn an_interrupted_change_is_one_or_the_other_and_a_file_written_over_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let vkey = vkey();
        let (old, new) = (
            policy_without_witnesses(&vkey),
            format!("# new\n{}", policy_without_witnesses(&vkey)),
        );
        let files = files(dir.path(), &old);
        // Stopped while the folder was being made.
        std::fs::create_dir(files.root().join("policy.d.new")).unwrap();
        std::fs::create_dir(files.policies()).unwrap();
        std::fs::write(files.root().join("policy.new"), "half").unwrap();
        let policies = Policies::read(&files, &vkey).unwrap();
        assert_eq!(policies.text, old);
        policies.begin(&files, &new, 5).unwrap();
        // Stopped before the present file was replaced.
        std::fs::write(files.policy(), &old).unwrap();
        let policies = Policies::read(&files, &vkey).unwrap();
        assert!(policies.unsettled && policies.text == new);
        policies.settle(&files).unwrap();
        assert_eq!(std::fs::read_to_string(files.policy()).unwrap(), new);
        std::fs::write(files.policy(), format!("# by hand\n{old}")).unwrap();
        let changed = Policies::read(&files, &vkey);
        assert!(matches!(changed, Err(QuorumError::Changed { .. })));
    }

    #[test]
    fn a_policy_without_the_logs_own_key_is_none_of_its() {
        assert!(of_log(&policy_without_witnesses(&vkey()), &vkey()).is_ok());
        let other = of_log(&policy_without_witnesses(&vkey()), VKEY);
        assert!(other.unwrap_err().contains(VKEY));
    }
}
