//! Every bound of this crate, with the arithmetic behind it. Nothing is read past its bound.

/// Largest tree size accepted: 2^62. A consistency proof to it has at most 62 + 1 hashes, which is
/// what the witness protocol's 63 lines can carry; our own log and witness refuse more.
pub const TREE_SIZE_MAX: u64 = 1 << 62;

/// Longest inclusion proof, in hashes: a 64-bit index has 64 levels above it. Not a parameter of the
/// verification, which demands the exact length, but what a reader may stop at.
pub const INCLUSION_HASHES_MAX: usize = 64;

/// Longest consistency proof, in hashes: ceil(log2 2^62) + 1 (c2sp.org/tlog-witness: 63 lines).
pub const CONSISTENCY_HASHES_MAX: usize = 63;

/// Largest entry of a log, in bytes: the length before it in a bundle is 16 bits.
pub const ENTRY_BYTES_MAX: usize = 65_535;

/// Largest entry bundle, in bytes: 256 entries of 2 + 65,535.
pub const BUNDLE_BYTES_MAX: usize = 256 * (2 + ENTRY_BYTES_MAX);

/// Largest hash tile, in bytes: 256 hashes of 32.
pub const TILE_BYTES_MAX: usize = 256 * 32;

/// Longest verifier key, in bytes: an ML-DSA-44 key has 4 * 1,313 / 3 = 1,752 characters, which leaves
/// more than 2,300 for the name.
pub const VKEY_BYTES_MAX: usize = 4_096;

/// Largest note, in bytes: 16 post-quantum signatures of about 5,000 bytes are 16 * 6,700 = 107,200
/// characters (c2sp.org/signed-note asks for 16), and the text has what is left.
pub const NOTE_BYTES_MAX: usize = 128 * 1024;

/// Most signature lines of a note. The specification asks for 16; each costs a decoding, and only those of
/// trusted keys a verification.
pub const NOTE_SIGNATURES_MAX: usize = 100;

/// Largest add-checkpoint request, in bytes: `old` and a number, 25; 63 lines of 45, 2,835; an empty line;
/// and a checkpoint, which with 16 post-quantum signatures has about 52,000.
pub const ADD_CHECKPOINT_BYTES_MAX: usize = 128 * 1024;

/// Largest extra data of a proof file, in bytes: as an entry.
pub const EXTRA_BYTES_MAX: usize = ENTRY_BYTES_MAX;

/// Largest proof file, in bytes: the header, 23; extra data, 6 + 87,380 + 1; index, 6 + 20 + 1; 64 lines
/// of 45; an empty line; and the note.
pub const TLOG_PROOF_BYTES_MAX: usize =
    23 + 7 + EXTRA_BYTES_MAX.div_ceil(3) * 4 + 27 + INCLUSION_HASHES_MAX * 45 + 1 + NOTE_BYTES_MAX;

/// Most logs, witnesses or groups of a policy, each. The specification asks for 32.
pub const POLICY_LINES_MAX: usize = 256;

/// Largest policy, in bytes: 3 * 256 lines of about 1,365.
pub const POLICY_BYTES_MAX: usize = 1024 * 1024;

/// Deepest nesting of JSON that is read, in brackets open at once: recursion is bounded by it.
pub const JSON_DEPTH_MAX: usize = 32;

/// Largest signed payload, in bytes. In a leaf it takes 4 bytes for 3, 53,336; with 16 signatures of at
/// most 232 bytes, an effect of 4,096, a payload type of 512 and 500 bytes of frame that is 62,156,
/// below the 65,535 of an entry.
pub const PAYLOAD_BYTES_MAX: usize = 40_000;

/// Longest payload type, in bytes. A media type has at most 127 + 1 + 127 and its parameters.
pub const PAYLOAD_TYPE_BYTES_MAX: usize = 512;

/// Most signatures of one envelope; each costs up to half a millisecond to check.
pub const SIGNATURES_MAX: usize = 16;

/// Longest signature that is looked at, in bytes: ML-DSA-87 has 4,627. What is stored is at most 104,
/// an ECDSA P-384 signature in DER.
pub const SIGNATURE_BYTES_MAX: usize = 8192;

/// Most earlier leaves that one operation names.
pub const PREV_MAX: usize = 8;

/// Most leaves of one multi-proof. The fold compares each known node with each sibling, so 1,000 leaves
/// cost up to 10^6 comparisons a level (about 5 ms in all) and 10,000 a quarter of a second.
pub const MULTI_LEAVES_MAX: usize = 1_000;

/// Largest evidence of a fork, in bytes: two notes, of which JSON may spell each byte with six, are
/// 1,572,864; 2 * 64 hashes of 47 are 6,016; the rest is for members that are passed over.
pub const FORK_BYTES_MAX: usize = 2 << 20;

/// Largest list of logs, in bytes: 100,000 logs of 671.
pub const LOG_LIST_BYTES_MAX: usize = 64 << 20;

/// Most logs of one list.
pub const LOG_LIST_LOGS_MAX: usize = 100_000;

/// How far ahead of the reader's clock a cosignature may be dated, in seconds: clocks differ.
pub const FUTURE_S_MAX: u64 = 30;

/// How much later than its earliest quorum cosignature a leaf may claim to be, in seconds: log time may
/// run ten minutes ahead of the wall clock, and a witness's clock a minute behind it.
pub const AT_AHEAD_S_MAX: u64 = 660;

/// Checkpoints that a verifier remembers as judged; each is up to 128 KiB.
pub const CACHED_HEADS_MAX: usize = 64;

/// Chains of enrolments that it remembers for each of them; a usual one is 3 KiB.
pub const CACHED_CHAINS_MAX: usize = 1024;

/// Largest file that the command line reads whole, in bytes: a set of 1,000 leaves of 65,535 bytes is 88
/// million in base64, and as much again is left for what shows their signers.
pub const FILE_BYTES_MAX: u64 = 192 << 20;
