//! What is asked of leases: the arguments of their tools.

use schemars::JsonSchema;
use serde::Deserialize;

/// Arguments of `ars_lease_acquire`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acquire {
    /// What: `item:<id>`, `role:<name>`, `run:<id>` or `path:<repository>:<glob>` (`?`, `*`, `**`; at most 8 of `?` and `*`), at most
    /// 256 bytes. Overlapping globs of one repository conflict.
    pub resource: String,
    /// `exclusive` (default), or `shared` with others who share it.
    pub mode: Option<String>,
    /// Ends by itself after so many seconds without renewal: 10 to 86,400, 900 if absent, unless `settings_get` says otherwise.
    pub ttl_s: Option<u64>,
    /// Wait in line for so long where it is taken, in milliseconds: at most 50,000; 0 if absent.
    pub wait_ms: Option<u64>,
    /// Why, at most 1,000 bytes; stays in the log for ever.
    pub reason: Option<String>,
}

/// Arguments of `ars_lease_renew`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// Which: `l_` and a number.
    pub lease_id: String,
    /// The fence that came with it.
    pub fence: u64,
    /// Lasts so many seconds from now: 10 to 86,400, unless `settings_get` says otherwise; as long as before if absent.
    pub ttl_s: Option<u64>,
}

/// Arguments of `ars_lease_release`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// Which: `l_` and a number.
    pub lease_id: String,
    /// The fence that came with it.
    pub fence: u64,
}
