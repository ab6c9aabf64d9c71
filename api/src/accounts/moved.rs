//! Folders that are moved away, or exchanged, while their account is open.

use super::Accounts;

impl Accounts {
    /// Ends the process at once where the folder of an open account is not the one that was opened. A database writes some of its files
    /// by path: an orderly end would write them into what lies there now, another account or a copy that was put back, and ruin both.
    pub(super) fn end_if_moved(&self) {
        let Some(account) = self.values().find(|account| !account.is_in_place()) else {
            return;
        };
        tracing::error!(
            account = %account.name,
            folder = %account.dir.root().display(),
            "this folder was moved or exchanged while it was served: the service ends at once, so that nothing is written to what lies \
             there now. What was answered is in the folder that was moved"
        );
        std::process::exit(1);
    }
}
