//! What is remembered of a log: the newest head that was cosigned, as the note that shows it.

use countersign_verifier::checkpoint::Checkpoint;
use countersign_verifier::note::{self, Note};

use crate::decide::Head;

/// First byte of a stored record.
const FORM: u8 = 1;

/// The newest cosigned head of a log, with the lines that were verified and our own. Nothing else that was submitted is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was cosigned, POSIX seconds; never less than that of an earlier record of this log.
    pub time: u64,
    /// The head.
    pub checkpoint: Checkpoint,
    /// Signature lines: the log's, then our own, each ending in LF.
    pub lines: String,
}

/// A stored record that cannot be read: the store is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored record is not one of ours")]
pub struct BadRecord;

impl Record {
    /// Size and root.
    #[must_use]
    pub fn head(&self) -> Head {
        Head {
            size: self.checkpoint.size,
            root: self.checkpoint.root,
        }
    }

    /// The signed note, as it is shown to whoever asks for it.
    #[must_use]
    pub fn note(&self) -> String {
        note::join(&self.checkpoint.to_text(), [self.lines.as_str()])
    }

    /// The lines of signer `name`, each ending in LF.
    #[must_use]
    pub fn lines_of(&self, name: &str) -> String {
        let own = |line: &&str| {
            line.strip_prefix("\u{2014} ")
                .and_then(|rest| rest.strip_prefix(name))
                .is_some_and(|rest| rest.starts_with(' '))
        };
        self.lines.split_inclusive('\n').filter(own).collect()
    }

    /// As it is stored: a byte of form, the time (8 bytes, big-endian), the note.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        bytes.extend(self.time.to_be_bytes());
        bytes.extend(self.note().as_bytes());
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`BadRecord`].
    pub fn decode(bytes: &[u8]) -> Result<Record, BadRecord> {
        let (form, rest) = bytes.split_first().ok_or(BadRecord)?;
        let (time, note) = rest.split_first_chunk::<8>().ok_or(BadRecord)?;
        if *form != FORM {
            return Err(BadRecord);
        }
        let parsed = Note::parse(note).map_err(|_| BadRecord)?;
        let checkpoint = Checkpoint::parse(parsed.text).map_err(|_| BadRecord)?;
        checkpoint.check_size().map_err(|_| BadRecord)?;
        Ok(Record {
            time: u64::from_be_bytes(*time),
            lines: parsed.signatures.iter().map(ToString::to_string).collect(),
            checkpoint,
        })
    }
}

#[cfg(test)]
mod tests {
    use countersign_verifier::hash::Hash;

    use super::*;

    fn record() -> Record {
        Record {
            time: 1_764_000_000,
            checkpoint: Checkpoint {
                origin: "example.com/log".into(),
                size: 7,
                root: Hash([3; 32]),
                extensions: vec!["more".into()],
            },
            lines: "\u{2014} example.com/log AAAAAAE=\n\u{2014} w AAAAAAI=\n\u{2014} w2 AAAAAAM=\n"
                .into(),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let record = record();
        assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
        assert_eq!(record.lines_of("w"), "\u{2014} w AAAAAAI=\n");
        assert_eq!(record.lines_of("nobody"), "");
    }

    #[test]
    fn anything_else_is_damage() {
        let bytes = record().encode();
        let whole_lines = |end: usize| end > 100 && bytes[end - 1] == b'\n';
        for end in (0..bytes.len()).filter(|&end| !whole_lines(end)) {
            assert_eq!(Record::decode(&bytes[..end]), Err(BadRecord), "{end}");
        }
        let mut other = bytes;
        other[0] = 2;
        assert_eq!(Record::decode(&other), Err(BadRecord));
    }
}
