//! The tlog-policies of an account: the one in force, those before it by tree size, and how another one takes over.
//!
//! `policy` is the present one. Once there has been another before it, `policy.d/<from_size>.policy` holds them all, the present
//! one included, and a proof is judged by the one that its size falls under.

mod judge;
mod live;

use std::{
    io,
    path::{Path, PathBuf},
};

use countersign_log::{Store, StoreError};
use countersign_verifier::policy::{Eras, ErasError, Policy};

pub use judge::{Judged, judge};
pub use live::{LiveError, change};

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
    /// For judging.
    pub judges: Eras,
    /// A change that was decided, and is not in all files yet.
    next: Option<Next>,
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
    /// Reads those of the account whose log has this key. A change that was interrupted counts as done.
    ///
    /// # Errors
    /// [`QuorumError`].
    pub fn read(files: &AccountDir, vkey: &str) -> Result<Policies, QuorumError> {
        let path = files.policy();
        let there = read(&path)?;
        let mut eras = rows(&files.policies())?;
        let next = Next::read(files)?;
        match (&next, eras.last()) {
            (None, Some((_, newest))) if *newest != there => {
                let folder = files.policies();
                return Err(QuorumError::Changed { path, folder });
            }
            (_, None) => eras.push((0, there)),
            _ => {}
        }
        if let Some(next) = &next {
            eras.retain(|(from, _)| *from < next.from);
            eras.push((next.from, next.text.clone()));
        }
        let text = eras.last().map_or(String::new(), |(_, text)| text.clone());
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
            judges,
            next,
        })
    }

    /// Finishes a change that was interrupted.
    ///
    /// # Errors
    /// [`QuorumError::File`].
    pub fn settle(&self, files: &AccountDir) -> Result<(), QuorumError> {
        match &self.next {
            Some(next) => self.follow(files, next, &STEPS[1..]),
            None => Ok(()),
        }
    }

    /// Lets another policy of this log hold from tree size `from` on: the first size that no head was published at. The caller
    /// holds the directory and no log of the account is open, so nothing is published meanwhile.
    ///
    /// Interrupted at any point, either the old one is in force or the new one; [`Policies::settle`] does what is left.
    ///
    /// # Errors
    /// [`QuorumError`].
    pub fn begin(&self, files: &AccountDir, text: &str, from: u64) -> Result<(), QuorumError> {
        self.settle(files)?;
        let newest = self.eras.last().map_or(0, |(from, _)| *from);
        if newest > from {
            return Err(QuorumError::Later {
                folder: files.policies(),
                later: newest,
                from,
            });
        }
        let text = text.into();
        self.follow(files, &Next { from, text }, &STEPS)
    }

    fn follow(&self, files: &AccountDir, next: &Next, steps: &[Step]) -> Result<(), QuorumError> {
        for step in steps {
            match step {
                Step::Decide => next.keep(files)?,
                Step::Folder if next.from > 0 => self.begin_folder(files)?,
                Step::Era if files.policies().is_dir() => {
                    replace(files, &era(files, next.from), &next.text)?;
                }
                Step::Present => replace(files, &files.policy(), &next.text)?,
                Step::Folder | Step::Era => {}
                Step::Done => Next::forget(files)?,
            }
        }
        Ok(())
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
        // OK because there is at least one: where there is no folder, the present one.
        write_public(&first, self.eras[0].1.as_bytes()).map_err(file(&first))?;
        std::fs::rename(&stage, &folder).map_err(file(&folder))?;
        sync_dir(files.root()).map_err(file(files.root()))
    }
}

/// A change of policy that is decided: `policy.next`, its size in the first line. It is there before any other file changes, and
/// until all of them have: whatever a kill leaves, this file says what is meant.
#[derive(Debug)]
struct Next {
    from: u64,
    text: String,
}

/// What a change does, in this order; each step may be done again.
#[derive(Clone, Copy, Debug)]
enum Step {
    Decide,
    Folder,
    Era,
    Present,
    Done,
}

const STEPS: [Step; 5] = [
    Step::Decide,
    Step::Folder,
    Step::Era,
    Step::Present,
    Step::Done,
];

impl Next {
    fn path(files: &AccountDir) -> PathBuf {
        files.root().join("policy.next")
    }

    fn read(files: &AccountDir) -> Result<Option<Next>, QuorumError> {
        let path = Next::path(files);
        let text = match crate::files::read_small(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(file(&path)(e)),
        };
        let parts = text.split_once('\n');
        let parts = parts.and_then(|(from, text)| Some((from.parse().ok()?, text.to_owned())));
        let Some((from, text)) = parts else {
            let why = "its first line is no tree size".into();
            return Err(QuorumError::Policy { path, why });
        };
        Ok(Some(Next { from, text }))
    }

    fn keep(&self, files: &AccountDir) -> Result<(), QuorumError> {
        let text = format!("{}\n{}", self.from, self.text);
        replace(files, &Next::path(files), &text)
    }

    fn forget(files: &AccountDir) -> Result<(), QuorumError> {
        let path = Next::path(files);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(file(&path)(e)),
            _ => {}
        }
        sync_dir(files.root()).map_err(file(files.root()))
    }
}

/// The first size that no head of the log was published at.
///
/// # Errors
/// What the store says.
pub fn next_size(store: &dyn Store) -> Result<u64, StoreError> {
    let marked = store.tidemark()?.map(|head| head.size);
    let published = store.published()?.map(|kept| kept.head.size);
    Ok(marked.max(published).map_or(0, |size| size + 1))
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
    let stage = files.root().join("policy.new");
    crate::files::replace_by(&stage, path, text.as_bytes(), crate::files::PUBLIC)
        .map_err(file(path))
}

fn read(path: &Path) -> Result<String, QuorumError> {
    crate::files::read_small(path).map_err(file(path))
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
    fn a_change_killed_at_any_step_is_one_policy_or_the_other() {
        let vkey = vkey();
        let texts: Vec<String> = (0..4)
            .map(|n| format!("# {n}\n{}", policy_without_witnesses(&vkey)))
            .collect();
        // Of a log without a head, a first era, a further one, and one in the place of another of the same size.
        for (before, from) in [
            (&[][..], 0),
            (&[][..], 5),
            (&[5][..], 9),
            (&[5][..], 5),
            (&[5, 9][..], 9),
        ] {
            for killed in 0..=STEPS.len() {
                let dir = tempfile::tempdir().unwrap();
                let files = files(dir.path(), &texts[0]);
                let read = || Policies::read(&files, &vkey).unwrap();
                for (at, size) in before.iter().enumerate() {
                    read().begin(&files, &texts[at + 1], *size).unwrap();
                }
                let (old, new) = (read(), &texts[3]);
                let next = Next {
                    from,
                    text: new.clone(),
                };
                old.follow(&files, &next, &STEPS[..killed]).unwrap();
                // What a kill within a step leaves.
                std::fs::write(files.root().join("policy.new"), "half").unwrap();
                std::fs::create_dir(files.root().join("policy.d.new")).unwrap();
                let what = format!("{before:?} {from} killed after {killed}");
                let now = read();
                let meant = if killed == 0 { &old.text } else { new };
                assert_eq!(now.text, *meant, "{what}");
                let mut eras = old.eras.clone();
                if killed > 0 {
                    eras.retain(|(size, _)| *size < from);
                    eras.push((from, new.clone()));
                }
                assert_eq!(now.eras, eras, "{what}");
                now.settle(&files).unwrap();
                let settled = read();
                assert!(settled.next.is_none(), "{what}");
                assert_eq!((settled.text, settled.eras), (now.text, eras), "{what}");
                let there = std::fs::read_to_string(files.policy()).unwrap();
                assert_eq!(there, *meant, "{what}");
                // And another change goes on from there.
                read().begin(&files, &texts[0], 20).unwrap();
                assert_eq!(read().text, texts[0], "{what}");
            }
        }
    }

    #[test]
    fn a_policy_written_over_by_hand_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let vkey = vkey();
        let old = policy_without_witnesses(&vkey);
        let files = files(dir.path(), &old);
        let new = format!("# new\n{old}");
        let policies = Policies::read(&files, &vkey).unwrap();
        policies.begin(&files, &new, 5).unwrap();
        for text in [format!("# by hand\n{old}"), old] {
            std::fs::write(files.policy(), text).unwrap();
            let changed = Policies::read(&files, &vkey);
            assert!(matches!(changed, Err(QuorumError::Changed { .. })));
        }
    }

    #[test]
    fn a_policy_without_the_logs_own_key_is_none_of_its() {
        assert!(of_log(&policy_without_witnesses(&vkey()), &vkey()).is_ok());
        let other = of_log(&policy_without_witnesses(&vkey()), VKEY);
        assert!(other.unwrap_err().contains(VKEY));
    }
}
