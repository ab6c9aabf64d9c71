//! Reading a policy file, line by line.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Group, Log, Member, Name, Policy, Witness};
use crate::decimal;
use crate::limits::{POLICY_BYTES_MAX, POLICY_LINES_MAX};
use crate::vkey::{Algorithm, VerifierKey, VkeyError};

/// Why a text is not a policy: what, and in which line, from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy, line {line}: {what}")]
pub struct PolicySyntax {
    /// The line; for what is missing, the one after the last.
    pub line: usize,
    /// What is wrong there.
    pub what: PolicyFault,
}

/// What is wrong with a line of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    /// The file is longer than [`POLICY_BYTES_MAX`].
    #[error("file is beyond the largest, {POLICY_BYTES_MAX} bytes")]
    TooLarge,
    /// An octet that no policy holds.
    #[error("octet 0x{octet:02x} is not allowed")]
    Octet {
        /// The octet.
        octet: u8,
    },
    /// The last line does not end in a line feed.
    #[error("does not end in a line feed")]
    FinalLine,
    /// A first word other than log, witness, group, quorum.
    #[error("{word:?} is not log, witness, group or quorum")]
    Keyword {
        /// The word.
        word: Name,
    },
    /// Too few or too many words for the line's kind.
    #[error("expected: {usage}")]
    Usage {
        /// The form of such a line.
        usage: &'static str,
    },
    /// A malformed verifier key.
    #[error(transparent)]
    Vkey(#[from] VkeyError),
    /// A key of a type that cannot stand in such a line.
    #[error("a key of type 0x{kind:02x} cannot be that of a {of}")]
    KeyType {
        /// The type byte.
        kind: u8,
        /// `log` or `witness`.
        of: &'static str,
    },
    /// Something other than a URL where one may stand.
    #[error("not a URL; comments stand on lines of their own")]
    Url,
    /// The same public key in two lines.
    #[error("the same public key stands in an earlier line")]
    DuplicateKey,
    /// Two keys that a signature line could not tell apart.
    #[error("the same key name and key ID stand in an earlier line")]
    AmbiguousKey,
    /// The name is taken, or is `none`.
    #[error("name {name} is taken")]
    NameTaken {
        /// The name.
        name: Name,
    },
    /// No earlier line defines the name.
    #[error("{name} not defined in an earlier line")]
    NotDefined {
        /// The name.
        name: Name,
    },
    /// The name is a member of a group already.
    #[error("{name} is a member of a group already")]
    MemberTwice {
        /// The name.
        name: Name,
    },
    /// A threshold that is not all, any, or a number from 1 to that of the members.
    #[error("threshold is not all, any or a number from 1 to {members}")]
    Threshold {
        /// Members of the group.
        members: usize,
    },
    /// More than [`POLICY_LINES_MAX`] lines of one kind.
    #[error("more than {POLICY_LINES_MAX} lines of this kind")]
    TooMany,
    /// A second quorum line.
    #[error("a quorum stands in an earlier line")]
    TwoQuorums,
    /// No quorum line.
    #[error("no quorum line")]
    NoQuorum,
}

const LOG: &str = "log <vkey> [<url>]";
const WITNESS: &str = "witness <name> <vkey> [<url>]";
const GROUP: &str = "group <name> (all|any|<k>) <member>...";
const QUORUM: &str = "quorum <name>|none";

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// [`PolicySyntax`], with the line.
    pub fn parse(file: impl AsRef<[u8]>) -> Result<Self, PolicySyntax> {
        parse(file.as_ref())
    }
}

fn parse(file: &[u8]) -> Result<Policy, PolicySyntax> {
    let at = |line| move |what| PolicySyntax { line, what };
    if file.len() > POLICY_BYTES_MAX {
        return Err(at(1)(PolicyFault::TooLarge));
    }
    let mut draft = Draft::default();
    let mut rest = file;
    let mut line = 1;
    while !rest.is_empty() {
        let end = rest.iter().position(|&b| b == b'\n');
        let (text, after) = rest.split_at(end.unwrap_or(rest.len()));
        check_octets(text).map_err(at(line))?;
        rest = after
            .get(1..)
            .ok_or(PolicyFault::FinalLine)
            .map_err(at(line))?;
        let words = text
            .split(|b| matches!(b, b' ' | b'\t'))
            .filter(|word| !word.is_empty());
        draft.line(&words.collect::<Vec<_>>()).map_err(at(line))?;
        line += 1;
    }
    draft.finish().map_err(at(line))
}

fn check_octets(line: &[u8]) -> Result<(), PolicyFault> {
    match line
        .iter()
        .find(|octet| !matches!(octet, b'\t' | 0x20..=0x7e | 0x80..))
    {
        Some(&octet) => Err(PolicyFault::Octet { octet }),
        None => Ok(()),
    }
}

#[derive(Default)]
struct Draft {
    logs: Vec<Log>,
    witnesses: Vec<Witness>,
    groups: Vec<Group>,
    /// Witnesses and groups that are members of a group.
    taken: Vec<Member>,
    /// `Some(None)` for `quorum none`.
    quorum: Option<Option<Member>>,
}

impl Draft {
    fn line(&mut self, words: &[&[u8]]) -> Result<(), PolicyFault> {
        match words {
            [] => Ok(()),
            [word, ..] if word.starts_with(b"#") => Ok(()),
            [b"log", words @ ..] => self.log(words),
            [b"witness", words @ ..] => self.witness(words),
            [b"group", words @ ..] => self.group(words),
            [b"quorum", words @ ..] => self.quorum(words),
            [word, ..] => Err(PolicyFault::Keyword { word: name(word) }),
        }
    }

    fn log(&mut self, words: &[&[u8]]) -> Result<(), PolicyFault> {
        let (key, url) = match words {
            [key] => (vkey(key)?, None),
            [key, at] => (vkey(key)?, Some(url(at)?)),
            _ => return Err(PolicyFault::Usage { usage: LOG }),
        };
        if !matches!(
            key.algorithm,
            Algorithm::Ed25519(_) | Algorithm::EcdsaP256(_)
        ) {
            return Err(PolicyFault::KeyType {
                kind: key.algorithm.kind(),
                of: "log",
            });
        }
        self.check_key(&key, self.logs.iter().map(|log| &log.key))?;
        room(&self.logs)?;
        self.logs.push(Log { key, url });
        Ok(())
    }

    fn witness(&mut self, words: &[&[u8]]) -> Result<(), PolicyFault> {
        let (name, key, url) = match words {
            [name, key] => (name, vkey(key)?, None),
            [name, key, at] => (name, vkey(key)?, Some(url(at)?)),
            _ => return Err(PolicyFault::Usage { usage: WITNESS }),
        };
        if !matches!(
            key.algorithm,
            Algorithm::CosignatureV1(_) | Algorithm::MlDsa44(_)
        ) {
            return Err(PolicyFault::KeyType {
                kind: key.algorithm.kind(),
                of: "witness",
            });
        }
        let name = self.fresh(name)?;
        self.check_key(&key, self.witnesses.iter().map(|witness| &witness.key))?;
        room(&self.witnesses)?;
        self.witnesses.push(Witness { name, key, url });
        Ok(())
    }

    fn group(&mut self, words: &[&[u8]]) -> Result<(), PolicyFault> {
        let [name, threshold, words @ ..] = words else {
            return Err(PolicyFault::Usage { usage: GROUP });
        };
        if words.is_empty() {
            return Err(PolicyFault::Usage { usage: GROUP });
        }
        let name = self.fresh(name)?;
        let mut members = Vec::with_capacity(words.len());
        for word in words {
            let member = self.find(word)?;
            if self.taken.contains(&member) {
                return Err(PolicyFault::MemberTwice {
                    name: self::name(word),
                });
            }
            self.taken.push(member);
            members.push(member);
        }
        let threshold = match *threshold {
            b"all" => Some(members.len()),
            b"any" => Some(1),
            k => core::str::from_utf8(k)
                .ok()
                .and_then(decimal::parse)
                .and_then(|k| k.try_into().ok()),
        };
        let threshold = threshold.filter(|k| (1..=members.len()).contains(k));
        let threshold = threshold.ok_or(PolicyFault::Threshold {
            members: members.len(),
        })?;
        room(&self.groups)?;
        self.groups.push(Group {
            name,
            threshold,
            members,
        });
        Ok(())
    }

    fn quorum(&mut self, words: &[&[u8]]) -> Result<(), PolicyFault> {
        let [word] = words else {
            return Err(PolicyFault::Usage { usage: QUORUM });
        };
        if self.quorum.is_some() {
            return Err(PolicyFault::TwoQuorums);
        }
        self.quorum = Some(if *word == b"none" {
            None
        } else {
            Some(self.find(word)?)
        });
        Ok(())
    }

    fn finish(self) -> Result<Policy, PolicyFault> {
        let Self {
            logs,
            witnesses,
            groups,
            quorum,
            ..
        } = self;
        Ok(Policy {
            logs,
            witnesses,
            groups,
            quorum: quorum.ok_or(PolicyFault::NoQuorum)?,
        })
    }

    fn find(&self, word: &[u8]) -> Result<Member, PolicyFault> {
        let witness = self
            .witnesses
            .iter()
            .position(|w| w.name.0 == word)
            .map(Member::Witness);
        let group = || {
            self.groups
                .iter()
                .position(|g| g.name.0 == word)
                .map(Member::Group)
        };
        witness
            .or_else(group)
            .ok_or_else(|| PolicyFault::NotDefined { name: name(word) })
    }

    /// A name that no earlier line has defined.
    fn fresh(&self, word: &[u8]) -> Result<Name, PolicyFault> {
        if word == b"none" || self.find(word).is_ok() {
            return Err(PolicyFault::NameTaken { name: name(word) });
        }
        Ok(name(word))
    }

    /// Among its like a key is a duplicate whatever its name; among all it must be told apart in a note.
    fn check_key<'k>(
        &self,
        key: &VerifierKey,
        mut like: impl Iterator<Item = &'k VerifierKey>,
    ) -> Result<(), PolicyFault> {
        let public_key = key.algorithm.public_key();
        if like.any(|other| other.algorithm.public_key() == public_key) {
            return Err(PolicyFault::DuplicateKey);
        }
        let mut all = self
            .logs
            .iter()
            .map(|l| &l.key)
            .chain(self.witnesses.iter().map(|w| &w.key));
        if all.any(|other| other.name == key.name && other.id == key.id) {
            return Err(PolicyFault::AmbiguousKey);
        }
        Ok(())
    }
}

fn room<T>(lines: &[T]) -> Result<(), PolicyFault> {
    if lines.len() < POLICY_LINES_MAX {
        Ok(())
    } else {
        Err(PolicyFault::TooMany)
    }
}

fn name(word: &[u8]) -> Name {
    Name(word.to_vec())
}

fn vkey(word: &[u8]) -> Result<VerifierKey, PolicyFault> {
    let text = core::str::from_utf8(word).map_err(|_| VkeyError::Name)?;
    Ok(VerifierKey::parse(text)?)
}

fn url(word: &[u8]) -> Result<String, PolicyFault> {
    let text = core::str::from_utf8(word)
        .ok()
        .filter(|text| text.contains("://"));
    text.map(String::from).ok_or(PolicyFault::Url)
}
