//! What an account was when this process had it before. While it is closed nobody holds its files: what somebody has put in their
//! place is not signed with, and not shown.

use countersign_log::store::{Head, Store};

use super::{OpenError, parts::Parts};

/// What it was.
#[derive(Clone, Debug)]
pub struct Was {
    /// Its log's origin.
    pub origin: String,
    /// Whether anybody might read it.
    pub public: bool,
    /// What it had published when it was closed; `None` before it was first opened.
    pub published: Option<Head>,
}

impl Was {
    /// Whether the files are those of the same account.
    pub(super) fn same_files(&self, parts: &Parts) -> Result<(), OpenError> {
        let shown = |public| if public { "public" } else { "private" };
        let why = if parts.opened.origin != self.origin {
            let (is, was) = (&parts.opened.origin, &self.origin);
            format!("it is of log {is:?}, and this account was {was:?} when the service began")
        } else if parts.public != self.public {
            let (is, was) = (shown(parts.public), shown(self.public));
            format!("the account is {is}, and was {was} when the service began")
        } else {
            return Ok(());
        };
        let path = parts.files.root().to_owned();
        let why = format!("{why}: start the service again if that is meant");
        Err(OpenError::Wrong { path, why })
    }

    /// Whether the store is the one that was closed: nobody writes to it meanwhile.
    pub(super) fn same_head(&self, parts: &Parts, store: &dyn Store) -> Result<(), OpenError> {
        let Some(was) = self.published else {
            return Ok(());
        };
        let is = store.published()?.map_or(Head::EMPTY, |kept| kept.head);
        if is == was {
            return Ok(());
        }
        Err(OpenError::Wrong {
            path: parts.files.db(),
            why: format!(
                "its published head is of size {}, root {}, and was of size {}, root {}, when it was closed: another copy lies in its \
                 place. Put the newest one back",
                is.size, is.root, was.size, was.root
            ),
        })
    }
}
