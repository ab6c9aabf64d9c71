//! Versions of an account's state that lists page through: a cursor names one, so that a list has no gap and no repeat while
//! others write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use countersign_log::store::Head;
use countersign_verifier::{base64, hash::Hash};

use crate::{
    error::{Code, Problem},
    seat::Seats,
    state::State,
};

/// Versions that one account keeps at most; each holds on to what has changed since.
const KEPT_MAX: usize = 64;
/// How long one is kept after it was last asked for, in milliseconds.
const KEPT_MS: u64 = 600_000;
/// Bytes of a cursor's tag: nobody guesses 128 bits.
const TAG_BYTES: usize = 16;
/// Bytes of a size before it.
const SIZE_BYTES: usize = 8;

struct Kept {
    head: Head,
    state: Arc<State>,
    used_ms: u64,
}

/// The versions that open cursors of one account name; lost at a stop, as are the cursors.
#[derive(Default)]
pub struct Versions {
    kept: Mutex<Vec<Kept>>,
    /// Whoever compares the state with one that is made anew from all leaves.
    replaying: Mutex<()>,
}

/// Where a list goes on: in which version, and behind what.
pub struct Place {
    /// The head of that version.
    pub head: Head,
    /// The state at its size.
    pub state: Arc<State>,
    /// What the page before ended with.
    pub after: String,
}

impl Versions {
    /// The turn of whoever makes the state anew from all leaves; `None` while another does.
    pub fn replaying(&self) -> Option<MutexGuard<'_, ()>> {
        match self.replaying.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A cursor behind `after` of the list `of` in this version, which is kept from now on.
    pub fn keep(
        &self,
        seats: &Seats,
        (head, state): (Head, &State),
        (of, after): (&Hash, &str),
        now_ms: u64,
    ) -> String {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|version| now_ms.saturating_sub(version.used_ms) < KEPT_MS);
        match kept.iter_mut().find(|version| version.head == head) {
            Some(version) => version.used_ms = version.used_ms.max(now_ms),
            None => {
                if kept.len() >= KEPT_MAX {
                    let oldest = (0..kept.len()).min_by_key(|at| kept[*at].used_ms);
                    // OK because there is one where there are that many.
                    kept.swap_remove(oldest.expect("Versions::keep"));
                }
                kept.push(Kept {
                    head,
                    state: Arc::new(state.clone()),
                    used_ms: now_ms,
                });
            }
        }
        let mut cursor = head.size.to_be_bytes().to_vec();
        cursor.extend_from_slice(&tag(seats, head.size, of, after));
        cursor.extend_from_slice(after.as_bytes());
        base64::encode(&cursor)
    }

    /// Where a cursor of the list `of` goes on.
    ///
    /// # Errors
    /// `Malformed` for one that this account never gave for this list; `CursorExpired` once its version is kept no more.
    pub fn open(
        &self,
        seats: &Seats,
        cursor: &str,
        of: &Hash,
        now_ms: u64,
    ) -> Result<Place, Problem> {
        let malformed = || {
            let why =
                "cursor: not one of this list; `next` of the page before, with the same filters";
            Problem::new(Code::Malformed, why).with("pointer", "/cursor")
        };
        let bytes = base64::decode(cursor).map_err(|_| malformed())?;
        let (size, rest) = bytes.split_at_checked(SIZE_BYTES).ok_or_else(malformed)?;
        let (given, after) = rest.split_at_checked(TAG_BYTES).ok_or_else(malformed)?;
        let size = size
            .iter()
            .fold(0, |size, byte| size << 8 | u64::from(*byte));
        let after = std::str::from_utf8(after).map_err(|_| malformed())?;
        // Every byte is looked at, so that the time taken tells nobody how many were right.
        let differs = tag(seats, size, of, after)
            .iter()
            .zip(given)
            .fold(0, |differs, (ours, theirs)| differs | (ours ^ theirs));
        if differs != 0 {
            return Err(malformed());
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|version| now_ms.saturating_sub(version.used_ms) < KEPT_MS);
        let found = kept.iter_mut().find(|version| version.head.size == size);
        let version = found.ok_or_else(|| {
            let why =
                "the state that this cursor pages through is no longer kept: begin the list anew";
            Problem::new(Code::CursorExpired, why)
        })?;
        version.used_ms = version.used_ms.max(now_ms);
        Ok(Place {
            head: version.head,
            state: version.state.clone(),
            after: after.into(),
        })
    }
}

/// What only this account could have put into a cursor: it binds what the cursor says to the list that it is of.
fn tag(seats: &Seats, size: u64, of: &Hash, after: &str) -> [u8; TAG_BYTES] {
    let mut text = size.to_be_bytes().to_vec();
    text.extend_from_slice(&of.0);
    text.extend_from_slice(after.as_bytes());
    let whole = seats.cursor_tag(&text);
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&whole.0[..TAG_BYTES]);
    tag
}

#[cfg(test)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    fn seats(n: u8) -> Seats {
        Seats::new(Zeroizing::new([n; 32]), "localhost/dev".into())
    }

    fn head(size: u64) -> Head {
        Head {
            size,
            root: Hash([7; 32]),
        }
    }

    #[test]
    fn a_cursor_goes_on_in_the_version_that_it_names() {
        let (versions, seats, of) = (Versions::default(), seats(1), Hash([1; 32]));
        let mut state = State {
            size: 5,
            ..State::default()
        };
        let cursor = versions.keep(&seats, (head(5), &state), (&of, "x"), 1_000);
        state.size = 6;
        let place = versions.open(&seats, &cursor, &of, 2_000).ok().unwrap();
        assert_eq!((place.state.size, place.after.as_str()), (5, "x"));
    }

    #[test]
    fn a_cursor_of_another_account_or_list_shows_nothing() {
        let (versions, of) = (Versions::default(), Hash([1; 32]));
        let state = State::default();
        let cursor = versions.keep(&seats(1), (head(5), &state), (&of, "x"), 0);
        let code = |seats: &Seats, cursor: &str, of: &Hash, now| {
            versions.open(seats, cursor, of, now).err().map(|p| p.code)
        };
        assert_eq!(code(&seats(1), &cursor, &of, 0), None);
        for (seats, cursor, of, what) in [
            (seats(2), cursor.as_str(), of, "another account"),
            (seats(1), &cursor, Hash([2; 32]), "another list"),
            (seats(1), "x", of, "no base64"),
            (seats(1), "AAAA", of, "too short"),
            (seats(1), &cursor.replace('A', "B"), of, "other bytes"),
        ] {
            assert_eq!(
                code(&seats, cursor, &of, 0),
                Some(Code::Malformed),
                "{what}"
            );
        }
    }

    #[test]
    fn versions_are_kept_for_ten_minutes_and_64_at_a_time() {
        let (versions, seats, of) = (Versions::default(), seats(1), Hash([1; 32]));
        let state = State::default();
        let expired = |cursor: &str, now| {
            let opened = versions.open(&seats, cursor, &of, now);
            opened.err().map(|p| p.code) == Some(Code::CursorExpired)
        };
        let first = versions.keep(&seats, (head(1), &state), (&of, "x"), 0);
        assert!(!expired(&first, 599_999));
        // Asked for: ten minutes more.
        assert!(!expired(&first, 1_199_998));
        assert!(expired(&first, 1_799_998));
        let cursors: Vec<String> = (0..=64)
            .map(|n| versions.keep(&seats, (head(n), &state), (&of, "x"), n))
            .collect();
        assert!(expired(&cursors[0], 100));
        assert!(cursors[1..].iter().all(|cursor| !expired(cursor, 100)));
    }
}
