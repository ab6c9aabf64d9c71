//! What settings may not be, though each is of its kind.

use super::Config;

impl Config {
    /// What is wrong with it, by the key.
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        let mut unless = |good: bool, key, why| {
            if !good {
                found.push((key, why));
            }
        };
        let (metrics, limits) = (self.metrics.listen, &self.limits);
        unless(
            metrics.is_none_or(|a| a.ip().is_loopback()),
            "metrics.listen",
            "a loopback address, as it asks for no token; elsewhere use GET /metrics with one",
        );
        unless(
            metrics.is_none_or(|a| a != self.listen || a.port() == 0),
            "metrics.listen",
            "another address than `listen`",
        );
        let url = self.public_url.as_ref();
        unless(
            url.is_none_or(|url| !url.ends_with('/') && url.contains("://")),
            "public_url",
            "such as https://log.example.com, without a slash at the end",
        );
        unless(
            (1..=200).contains(&self.accounts.open_max),
            "accounts.open_max",
            "1 to 200",
        );
        for (most, key) in [
            (self.blobs.uploads, "blobs.uploads"),
            (self.blobs.identity_uploads, "blobs.identity_uploads"),
        ] {
            unless(most > 0, key, "at least one at a time");
        }
        unless(
            limits.body_memory_bytes >= crate::limits::NDJSON_BYTES_MAX,
            "limits.body_memory_bytes",
            "at least the 16 MiB of one NDJSON body",
        );
        unless(limits.connections > 0, "limits.connections", "at least one");
        unless(limits.requests > 0, "limits.requests", "at least one");
        unless(
            limits.header_bytes >= 8_192,
            "limits.header_bytes",
            "at least 8,192",
        );
        let found = found.into_iter().map(|(key, why)| (key, why.to_owned()));
        let mcp = self.mcp.check().err();
        found
            .chain(mcp.map(|(key, why)| (key, why.to_owned())))
            .collect()
    }
}
