//! The bounds that every client meets, whatever the configuration; each with its arithmetic.

/// One envelope as JSON: 40,000 bytes of payload are 53,336 characters of base64, 16 signatures with their keyids of 8 KiB each
/// 180,000 more; the rest is for members that we do not know.
pub const BODY_BYTES_MAX: usize = 256 << 10;
/// A call that takes a file in one of its arguments: as much as an NDJSON body.
pub const CONTENT_BYTES_MAX: usize = NDJSON_BYTES_MAX;
/// One body beside a log.
pub const BLOB_BYTES_MAX: u64 = 16 << 20;
/// Envelopes in one NDJSON body.
pub const NDJSON_LINES_MAX: usize = 1_000;
/// Bytes of one NDJSON body.
pub const NDJSON_BYTES_MAX: usize = 16 << 20;
/// The longest wait that a client can ask for, in milliseconds.
pub const DEADLINE_MS_MAX: u64 = 50_000;
/// How long an answer waits for the state asked for, unless the client says otherwise, in milliseconds.
pub const DEADLINE_MS: u64 = 2_000;
