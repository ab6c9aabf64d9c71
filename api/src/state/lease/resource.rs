//! What can be leased, and when two of them are in each other's way.

use super::glob::{Glob, Steps, TooMuch};
use crate::state::{board::names::nfc, session::is_hidden};

/// A resource is spelled in at most this many bytes.
pub const RESOURCE_BYTES_MAX: usize = 256;

/// A glob has at most so many of `*` and `?` to be read.
const WILDCARDS_MAX: usize = 16;
/// And so many to be held from now on: globs are compared with one another while everybody else waits, and wildcards are what that
/// takes long for. Those with more are held in older logs only.
const WILDCARDS_HELD_MAX: usize = 8;

/// Something that can be leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// As it is spelled.
    pub text: String,
    /// What it is indexed by: the whole of it, or of paths their repository.
    pub index: String,
    /// Where it is looked for: the whole of it; of paths the folder that all of them are in, as far as it is spelled out.
    pub place: String,
    /// The paths of the repository.
    glob: Option<Glob>,
}

impl Resource {
    /// Reads a resource: `item:<id>`, `role:<name>`, `run:<id>` or `path:<repository>:<glob>`.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn parse(text: &str) -> Result<Resource, String> {
        if text.len() > RESOURCE_BYTES_MAX {
            return Err(format!("resource: at most {RESOURCE_BYTES_MAX} bytes"));
        }
        if text.chars().any(is_hidden) || text.trim() != text {
            return Err(
                "resource: no controls, no changes of direction, no space at its ends".into(),
            );
        }
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        if rest.is_empty() || !["item", "role", "run", "path"].contains(&kind) {
            let form = "resource: item:<id>, role:<name>, run:<id> or path:<repository>:<glob>";
            return Err(form.into());
        }
        if kind != "path" {
            // An item has one id, however it is spelled.
            let index = nfc(text);
            return Ok(Resource {
                text: text.into(),
                place: index.clone(),
                index,
                glob: None,
            });
        }
        // A path has one spelling too, as an item's id has.
        let rest = nfc(rest);
        let (repository, glob) = rest.split_once(':').unwrap_or((&rest, ""));
        if repository.is_empty() || glob.is_empty() {
            return Err("resource: path:<repository>:<glob>, such as path:site:src/**".into());
        }
        let good = |segment: &str| !segment.is_empty() && segment != "." && segment != "..";
        if !glob.split('/').all(good) || glob.contains('\\') {
            return Err("resource: a glob is segments with / between them, none of them empty, `.` or `..`, without \\".into());
        }
        if glob.matches(['*', '?']).count() > WILDCARDS_MAX {
            return Err(format!(
                "resource: a glob has at most {WILDCARDS_MAX} of * and ?"
            ));
        }
        let spelled = glob.find(['*', '?']).map_or(glob, |at| &glob[..at]);
        let folder = spelled.rfind('/').map_or("", |at| &spelled[..=at]);
        Ok(Resource {
            text: text.into(),
            index: format!("path:{repository}"),
            place: format!("path:{repository}:{folder}"),
            glob: Some(Glob::new(glob)),
        })
    }

    /// The places of whatever could have something in common with it and lies no deeper than it: its own, and the folders above.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        // Of a path the first after the repository, which has no colon in it; then one a folder.
        let text = if self.is_folder() { &*self.place } else { "" };
        let above = text.match_indices(['/', ':']).map(|(at, _)| at + 1);
        let (root, own) = (self.index.len() + 1, self.place.len());
        above
            .filter(move |end| (root..own).contains(end))
            .map(|end| &self.place[..end])
            .chain([&*self.place])
    }

    /// Whether whatever lies deeper than its own place is to be looked at too.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.glob.is_some()
    }

    /// Whether it may be held by a new lease.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub fn may_be_held(&self) -> Result<(), String> {
        let wildcards = self
            .glob
            .as_ref()
            .map_or(0, |_| self.text.matches(['*', '?']).count());
        if wildcards > WILDCARDS_HELD_MAX {
            return Err(format!(
                "resource: a glob that is held has at most {WILDCARDS_HELD_MAX} of * and ?"
            ));
        }
        Ok(())
    }

    /// Whether they have something in common.
    ///
    /// # Errors
    /// [`TooMuch`] where saying so takes more steps than are left.
    pub fn overlaps(&self, other: &Resource, left: &mut Steps) -> Result<bool, TooMuch> {
        match (&self.glob, &other.glob) {
            _ if self.index != other.index => Ok(false),
            (Some(own), Some(others)) if self.text != other.text => own.overlaps(others, left),
            _ => Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_resource_is_refused() {
        for good in [
            "item:A-1",
            "item:a:b",
            "role:reviewer",
            "run:r_1",
            "path:site:**",
            "path:example/site:src/*.rs",
        ] {
            assert!(Resource::parse(good).is_ok(), "{good}");
        }
        let long = format!("item:{}", "x".repeat(252));
        for bad in [
            "",
            "item",
            "item:",
            "file:a",
            "path:site",
            "path::a",
            "path:site:",
            "path:site:/a",
            "path:site:a//b",
            "path:site:a/",
            "path:site:../b",
            "path:site:./b",
            "path:site:a\\b",
            "path:site:*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*",
            "item:a\u{202e}b",
            "item:a\0",
            " item:a",
            "item:a ",
            &long,
        ] {
            assert!(Resource::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_may_be_held_has_few_wildcards() {
        for (text, may) in [
            ("path:site:**/a/**/b*/?.rs", true),
            ("path:site:**/a/**/b*/????.rs", false),
            ("item:*********", true),
        ] {
            assert_eq!(
                Resource::parse(text).unwrap().may_be_held().is_ok(),
                may,
                "{text}"
            );
        }
    }

    #[test]
    fn repositories_and_kinds_are_apart() {
        let overlaps = |a: &str, b: &str| {
            let parse = |text| Resource::parse(text).unwrap();
            parse(a).overlaps(&parse(b), &mut Steps::new(100)).unwrap()
        };
        assert!(overlaps("path:a:src/**", "path:a:src/x"));
        assert!(!overlaps("path:a:src/**", "path:b:src/x"));
        assert!(overlaps("item:1", "item:1"));
        assert!(overlaps("path:site:caf\u{e9}", "path:site:cafe\u{301}"));
        assert!(overlaps("path:caf\u{e9}:src/**", "path:cafe\u{301}:src/x"));
        assert!(!overlaps("item:1", "item:2"));
        assert!(!overlaps("item:1", "run:1"));
        assert!(!overlaps("item:path:a", "path:a:b"));
    }
}
