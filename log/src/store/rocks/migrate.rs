//! From one layout of the database to the next.
//!
//! A step first *makes* what the new layout has beside what is there, then raises the format number, and then *clears* what only the
//! old one had. So whatever ends it in between, the database is whole in the layout that its number names, and the release that knows
//! no other one opens it. Both parts go in batches of bounded size, each of which says how far it came; a start goes on from there. If the
//! older release has written meanwhile, the head is another one, and the step begins again.
//!
//! What no step may change: the rows `format` and `migrating`, the head, and checkpoints.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use rocksdb::{DB, WriteBatch, WriteOptions, checkpoint::Checkpoint};

use super::{
    codec::{committed, head, meta},
    open::{damaged, trouble},
};
use crate::store::{Head, StoreError};

/// The layout of the module above.
pub(super) static LAYOUT: Layout = Layout {
    format: 1,
    steps: &[],
};

/// A layout, and the ways to it from older ones.
pub(super) struct Layout {
    /// Its number.
    pub format: u32,
    /// One for each older format that is still migrated.
    pub steps: &'static [Step],
}

/// The way from one format to the next.
pub(super) struct Step {
    /// The format that it begins with; it ends with the one after it.
    pub from: u32,
    /// What changes, in plain words.
    pub what: &'static str,
    /// Makes rows that the older layout does not read. The same leaves always give the same rows.
    pub make: Part,
    /// Removes rows that the newer layout does not read.
    pub clear: Part,
}

/// Puts the next changes into a batch, some thousand rows or some megabytes of them, from a place on: nothing is the beginning. The
/// place to go on from, or `None` at the end.
pub(super) type Part = fn(&DB, &[u8], &mut WriteBatch) -> Result<Option<Vec<u8>>, StoreError>;

impl Layout {
    /// Refuses what is of another layout.
    pub(super) fn is(&self, folder: &Path, db: &DB) -> Result<(), StoreError> {
        match self.knows(folder, db)? {
            found if found < self.format => Err(StoreError::Older {
                found,
                known: self.format,
            }),
            _ => Ok(()),
        }
    }

    /// The format number, of this layout or of one that is migrated to it.
    pub(super) fn knows(&self, folder: &Path, db: &DB) -> Result<u32, StoreError> {
        let bytes = db.get(meta::FORMAT).map_err(|e| trouble(&e))?;
        let found = bytes
            .as_deref()
            .and_then(|b| b.try_into().ok())
            .map(u32::from_be_bytes);
        let known = self.format;
        match found {
            Some(found) if found > known => Err(StoreError::TooNew { found, known }),
            Some(found) if (found..known).all(|from| self.from(from).is_some()) => Ok(found),
            found => Err(damaged(format!(
                "{}: format {found:?} is none of ours",
                folder.display()
            ))),
        }
    }

    fn from(&self, from: u32) -> Option<&Step> {
        self.steps.iter().find(|step| step.from == from)
    }
}

/// How far a step has come.
pub(super) struct Progress {
    from: u32,
    /// Whether the number was raised, and what is left is to clear.
    clearing: bool,
    /// The head that it began with.
    head: Head,
    place: Vec<u8>,
}

impl Progress {
    /// From u32, whether it clears, head, then the place.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.from.to_be_bytes().to_vec();
        bytes.push(u8::from(self.clearing));
        bytes.extend(self.head.size.to_be_bytes());
        bytes.extend(self.head.root.0);
        bytes.extend(&self.place);
        bytes
    }

    pub(super) fn read(db: &DB) -> Result<Option<Progress>, StoreError> {
        let Some(bytes) = db.get(meta::MIGRATING).map_err(|e| trouble(&e))? else {
            return Ok(None);
        };
        let cut = || damaged("how far a change of format came cannot be read");
        let (from, rest) = bytes.split_first_chunk().ok_or_else(cut)?;
        let (clearing, rest) = rest.split_first().ok_or_else(cut)?;
        let (of, place) = rest.split_first_chunk::<40>().ok_or_else(cut)?;
        Ok(Some(Progress {
            from: u32::from_be_bytes(*from),
            clearing: *clearing != 0,
            head: head(of)?,
            place: place.to_vec(),
        }))
    }
}

/// Migrates a database that is open for writing, where that is due, and finishes what an earlier attempt left.
pub(super) fn run(folder: &Path, db: &DB, layout: &Layout) -> Result<(), StoreError> {
    let mut copied = false;
    loop {
        let found = layout.knows(folder, db)?;
        let before = Progress::read(db)?;
        let raised = before.as_ref().filter(|p| p.clearing && p.from < found);
        if let Some(progress) = raised {
            clear(db, layout, progress)?;
            continue;
        }
        let Some(step) = layout.from(found).filter(|_| found < layout.format) else {
            return match before {
                Some(_) => write(db, |batch| batch.delete(meta::MIGRATING)),
                None => Ok(()),
            };
        };
        let head = committed(db)?.0;
        let goes_on = before.filter(|p| !p.clearing && p.from == found && p.head == head);
        let place = match goes_on {
            Some(progress) => {
                say(&format!(
                    "{}: the change from format {found} to {} goes on",
                    folder.display(),
                    found + 1
                ));
                progress.place
            }
            None => {
                begin(folder, db, step, &mut copied)?;
                Vec::new()
            }
        };
        let mut progress = Progress {
            from: found,
            clearing: false,
            head,
            place,
        };
        write(db, |batch| batch.put(meta::MIGRATING, progress.bytes()))?;
        through(db, step.make, &mut progress)?;
        progress.clearing = true;
        progress.place.clear();
        write(db, |batch| {
            batch.put(meta::FORMAT, (found + 1).to_be_bytes());
            batch.put(meta::MIGRATING, progress.bytes());
        })?;
    }
}

/// Says what will be done, once there is a copy to go back to.
fn begin(folder: &Path, db: &DB, step: &Step, copied: &mut bool) -> Result<(), StoreError> {
    let (from, to) = (step.from, step.from + 1);
    let place = folder.display();
    let mut line = format!(
        "{place}: the store has format {from} and is made one of format {to}: {}",
        step.what
    );
    // One before the first step: nobody goes back halfway.
    if !*copied {
        let copy = free(folder, to);
        let checkpoint = Checkpoint::new(db).map_err(|e| trouble(&e))?;
        checkpoint
            .create_checkpoint(&copy)
            .map_err(|e| trouble(&e))?;
        *copied = true;
        line += &format!(
            ". As it was it lies in {}, to be removed by whoever does not want to go back",
            copy.display()
        );
    }
    say(&line);
    Ok(())
}

/// Where no copy lies yet.
fn free(folder: &Path, to: u32) -> PathBuf {
    let first = folder.with_file_name(format!("before-format-{to}"));
    if !first.exists() {
        return first;
    }
    let more = (2_u32..).map(|n| folder.with_file_name(format!("before-format-{to}-{n}")));
    // OK because a folder has no 2^32 of them.
    more.into_iter()
        .find(|path| !path.exists())
        .expect("migrate::free")
}

fn clear(db: &DB, layout: &Layout, before: &Progress) -> Result<(), StoreError> {
    let mut progress = Progress {
        place: before.place.clone(),
        ..*before
    };
    if let Some(step) = layout.from(before.from) {
        through(db, step.clear, &mut progress)?;
    }
    write(db, |batch| batch.delete(meta::MIGRATING))
}

/// A part from its place to its end, a batch after the other.
fn through(db: &DB, part: Part, progress: &mut Progress) -> Result<(), StoreError> {
    loop {
        let mut batch = WriteBatch::default();
        let next = part(db, &progress.place, &mut batch)?;
        let Some(place) = next else {
            return commit(db, batch);
        };
        progress.place = place;
        batch.put(meta::MIGRATING, progress.bytes());
        commit(db, batch)?;
    }
}

fn write(db: &DB, fill: impl FnOnce(&mut WriteBatch)) -> Result<(), StoreError> {
    let mut batch = WriteBatch::default();
    fill(&mut batch);
    commit(db, batch)
}

fn commit(db: &DB, batch: WriteBatch) -> Result<(), StoreError> {
    let mut sync = WriteOptions::default();
    sync.set_sync(true);
    db.write_opt(batch, &sync).map_err(|e| trouble(&e))
}

/// On standard error whatever is traced: it is the one change of a data directory that nobody asked for.
fn say(line: &str) {
    // Nobody is left to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests;
