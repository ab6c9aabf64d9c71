//! What marks an account whose log another one goes on from.

use std::io;

use serde::{Deserialize, Serialize};

use super::Plan;
use crate::{data_dir::AccountDir, files};

/// Two names: no mark is nearly as large.
const MARK_BYTES_MAX: u64 = 64 << 10;

/// The successor that a mark names.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Its origin.
    pub origin: String,
    /// Its account.
    pub account: String,
}

/// A mark that does not say which successor it means.
pub(super) struct Unread {
    /// What is wrong with it.
    pub why: String,
    /// Whether it ends too early: releases that wrote a mark in its place left such a one where they were ended at it, before they made
    /// anything.
    pub cut: bool,
}

impl Mark {
    pub(super) fn of(plan: &Plan) -> Mark {
        Mark {
            origin: plan.origin.clone(),
            account: plan.name.clone(),
        }
    }

    /// What stands in an account; `None` where it has no mark.
    pub(super) fn read(old: &AccountDir) -> Result<Option<Mark>, Unread> {
        let unread = |error: &dyn std::fmt::Display, cut| Unread {
            why: format!("it says that another log goes on, and not which ({error})"),
            cut,
        };
        let bytes = match files::read_plain(&old.succeeded(), MARK_BYTES_MAX) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|e| unread(&e, false))?,
        };
        let mark = serde_json::from_slice::<Mark>(&bytes);
        mark.map(Some).map_err(|e| unread(&e, e.is_eof()))
    }

    /// Puts it in an account, in the place of one that may be there: there is no moment without.
    pub(super) fn write(&self, old: &AccountDir) -> io::Result<()> {
        let text = self.text() + "\n";
        files::replace(&old.succeeded(), text.as_bytes(), files::PUBLIC)
    }

    /// As the file holds it.
    pub(super) fn text(&self) -> String {
        // OK because a struct of strings has no key that is not a string.
        serde_json::to_string(self).expect("Mark::text")
    }
}
