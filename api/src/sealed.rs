//! A file of JSON that holds the SHA-256 of itself, so that what a disk or an editor did to it is found. It keeps nobody out: whoever
//! can write it can also make a new sum.

use std::{io, path::Path};

use countersign_verifier::hash::sha256;
use serde::{Serialize, de::DeserializeOwned};

use crate::files;

/// The form of such a file.
pub trait Sealed: Serialize + DeserializeOwned {
    /// What its member `format` must say.
    const FORMAT: &'static str;
    /// What it is called, with its article.
    const WHAT: &'static str;
    /// The largest that is read.
    const BYTES_MAX: u64;

    /// Its member `format`.
    fn format(&self) -> &str;

    /// Its member `sha256`: of the file with this member empty.
    fn seal(&mut self) -> &mut String;
}

/// Why such a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SealedError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Larger than any.
    #[error("not {0}: larger than {1} bytes")]
    TooLarge(&'static str, u64),
    /// Not of its form.
    #[error("not {0}: {1}")]
    Form(&'static str, serde_json::Error),
    /// Of another format than this release writes.
    #[error("of format {found:?}, and this release knows {known}")]
    Format {
        /// What it says.
        found: String,
        /// What is known.
        known: &'static str,
    },
    /// The sum in it is another file's.
    #[error("its content and its SHA-256 do not agree: it was changed or damaged")]
    Sum,
}

/// Reads one; `None` where there is none.
///
/// # Errors
/// [`SealedError`].
pub fn load<T: Sealed>(path: &Path) -> Result<Option<T>, SealedError> {
    let bytes = match files::read_plain(path, T::BYTES_MAX) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::FileTooLarge => {
            return Err(SealedError::TooLarge(T::WHAT, T::BYTES_MAX));
        }
        read => read?,
    };
    let mut form: T = serde_json::from_slice(&bytes).map_err(|e| SealedError::Form(T::WHAT, e))?;
    if form.format() != T::FORMAT {
        return Err(SealedError::Format {
            found: form.format().to_owned(),
            known: T::FORMAT,
        });
    }
    let stated = std::mem::take(form.seal());
    if sum(&form) != stated {
        return Err(SealedError::Sum);
    }
    Ok(Some(form))
}

/// Seals it and puts it in the place of the one before, whole or not at all and durable on return.
///
/// # Errors
/// `FileTooLarge` where it could not be read again; what the system says.
pub fn save<T: Sealed>(path: &Path, mut form: T) -> io::Result<()> {
    form.seal().clear();
    *form.seal() = sum(&form);
    let text = text(&form);
    // What could not be read again must not take the place of what can.
    if text.len() as u64 > T::BYTES_MAX {
        let (bytes, max) = (text.len(), T::BYTES_MAX);
        let why = format!(
            "{bytes} bytes are more than {max}, the most that is read: it is left as it was"
        );
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    files::replace(path, text.as_bytes(), files::PUBLIC)
}

fn sum<T: Sealed>(empty: &T) -> String {
    sha256(text(empty).as_bytes()).to_hex()
}

fn text<T: Sealed>(form: &T) -> String {
    // OK because the forms are structs of strings, numbers and maps of strings: no key of theirs is anything else.
    serde_json::to_string(form).expect("sealed::text") + "\n"
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Form {
        format: String,
        sha256: String,
        what: String,
    }

    impl Sealed for Form {
        const FORMAT: &'static str = "form/1";
        const WHAT: &'static str = "a form";
        const BYTES_MAX: u64 = 200;

        fn format(&self) -> &str {
            &self.format
        }

        fn seal(&mut self) -> &mut String {
            &mut self.sha256
        }
    }

    fn form(what: &str) -> Form {
        Form {
            format: Form::FORMAT.into(),
            sha256: String::new(),
            what: what.into(),
        }
    }

    #[test]
    fn what_is_written_can_be_read_again_and_a_change_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert!(load::<Form>(&path).unwrap().is_none());
        for n in 0..200 {
            let what = "x".repeat(n);
            match save(&path, form(&what)) {
                Ok(()) => assert_eq!(load::<Form>(&path).unwrap().unwrap().what, what),
                // The one before stays, and can be read.
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
                    let kept = load::<Form>(&path).unwrap().unwrap();
                    assert!(n > 50 && kept.what.len() < n, "{n}");
                }
            }
        }
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("xx", "xy", 1)).unwrap();
        assert!(matches!(load::<Form>(&path), Err(SealedError::Sum)));
    }
}
