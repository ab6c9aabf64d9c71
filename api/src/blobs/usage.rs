//! How much is kept, and by whom: in memory, counted from what is there.

use std::collections::BTreeMap;

use countersign_verifier::key::IdentityId;

use crate::{
    config,
    error::{Code, Problem},
};

#[derive(Clone, Copy, Default)]
struct Used {
    bytes: u64,
    count: u64,
    /// On their way in.
    coming: usize,
}

impl Used {
    fn add(&mut self, (bytes, count): (u64, u64)) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.count = self.count.saturating_add(count);
    }

    fn give_back(&mut self, (bytes, count): (u64, u64)) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.count = self.count.saturating_sub(count);
    }
}

/// What an account keeps, and of that what each identity does.
#[derive(Default)]
pub(super) struct Usage {
    all: Used,
    of: BTreeMap<IdentityId, Used>,
}

impl Usage {
    /// One more comes in.
    pub(super) fn enter(&mut self, by: IdentityId, limits: &config::Blobs) -> Result<(), Problem> {
        let used = self.of.entry(by).or_default();
        if used.coming >= limits.identity_uploads {
            let most = limits.identity_uploads;
            let why = format!(
                "{most} bodies of this identity are on their way in; see `blob_identity_uploads_max` in /health"
            );
            let refused = Problem::new(Code::RateLimited, why).retry_after(1_000);
            return Err(refused
                .with("limit", "blob_identity_uploads_max")
                .with("max", most));
        }
        used.coming += 1;
        Ok(())
    }

    /// One of them has come in, or never will.
    pub(super) fn leave(&mut self, by: IdentityId) {
        if let Some(used) = self.of.get_mut(&by) {
            used.coming = used.coming.saturating_sub(1);
            if used.coming == 0 && used.count == 0 {
                self.of.remove(&by);
            }
        }
    }

    /// Takes so many bytes and bodies, if they are to be had.
    pub(super) fn take(
        &mut self,
        by: IdentityId,
        (bytes, count): (u64, u64),
        limits: &config::Blobs,
    ) -> Result<(), Problem> {
        let own = self.of.entry(by).or_default();
        for (name, used, more, most) in [
            (
                "blob_identity_bytes_max",
                own.bytes,
                bytes,
                limits.identity_bytes,
            ),
            (
                "blob_identity_count_max",
                own.count,
                count,
                limits.identity_count,
            ),
            (
                "blob_account_bytes_max",
                self.all.bytes,
                bytes,
                limits.account_bytes,
            ),
            (
                "blob_account_count_max",
                self.all.count,
                count,
                limits.account_count,
            ),
        ] {
            if more > 0 && used.saturating_add(more) > most {
                let why =
                    format!("with this body it would be more than {most} (`{name}` in /health)");
                let refused = Problem::new(Code::QuotaReached, why);
                return Err(refused
                    .with("limit", name)
                    .with("max", most)
                    .with("used", used));
            }
        }
        own.add((bytes, count));
        self.all.add((bytes, count));
        Ok(())
    }

    /// The same without a question: it is here.
    pub(super) fn add(&mut self, by: IdentityId, more: (u64, u64)) {
        self.of.entry(by).or_default().add(more);
        self.all.add(more);
    }

    pub(super) fn give_back(&mut self, by: IdentityId, less: (u64, u64)) {
        if let Some(used) = self.of.get_mut(&by) {
            used.give_back(less);
            if used.coming == 0 && used.count == 0 {
                self.of.remove(&by);
            }
        }
        self.all.give_back(less);
    }

    /// Bytes and bodies in all.
    #[cfg(test)]
    pub(super) fn total(&self) -> (u64, u64) {
        (self.all.bytes, self.all.count)
    }
}
