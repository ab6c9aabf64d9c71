//! The addresses beside the tools. docs/reference/http.md says the same at length.

/// A parameter: its name, what it may be, whether it must be given.
type Parameter = (&'static str, Kind, bool);

/// What a parameter may be.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A name.
    Text,
    /// A whole number, 0 or more.
    Number,
    /// The same, or -1.
    Position,
    /// How long to wait, in milliseconds.
    Deadline,
    /// SHA-256 in hexadecimal.
    Hash,
    /// Indexes, ascending, between commas.
    Indexes,
    /// How far a write has to be.
    Wait,
    /// What the answer holds besides.
    Include,
}

/// One address.
pub(super) struct Address {
    pub method: &'static str,
    pub path: &'static str,
    pub family: &'static str,
    pub summary: &'static str,
    /// Name, what it may be, whether it must be given.
    pub query: &'static [Parameter],
    /// Media types that it takes.
    pub body: &'static [&'static str],
    /// Media types that it answers with.
    pub answer: &'static [&'static str],
    /// Media types that it refuses with besides that of problems: what its clients read is older than these.
    pub refusal: &'static [&'static str],
    /// Whether it asks for no token; what is under `/log/<account>/` does where the account is private.
    pub open: bool,
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const BYTES: &str = "application/octet-stream";
const EVENTS: &str = "text/event-stream";
const NDJSON: &str = "application/x-ndjson";

/// What every write outside the tools takes.
const ASK: &[Parameter] = &[
    ("wait", Kind::Wait, false),
    ("deadline_ms", Kind::Deadline, false),
    ("include", Kind::Include, false),
];

const fn get(
    family: &'static str,
    path: &'static str,
    summary: &'static str,
    query: &'static [Parameter],
    answer: &'static [&'static str],
) -> Address {
    Address {
        method: "get",
        path,
        family,
        summary,
        query,
        body: &[],
        answer,
        refusal: &[],
        open: true,
    }
}

/// Every address, in the order of the reference.
pub(super) const ADDRESSES: &[Address] = &[
    get(
        "service",
        "/",
        "A page with the public logs and their newest checkpoints",
        &[],
        &["text/html"],
    ),
    get(
        "service",
        "/health",
        "How the service is, its limits, and its public logs",
        &[],
        &[JSON],
    ),
    get(
        "service",
        "/health/ready",
        "Whether every account takes writes; 503 where not",
        &[],
        &[JSON],
    ),
    get("service", "/openapi.json", "This document", &[], &[JSON]),
    get(
        "service",
        "/.well-known/oauth-protected-resource",
        "Which authorization server's tokens `POST /mcp` takes (RFC 9728); 404 where none is configured",
        &[],
        &[JSON],
    ),
    get(
        "service",
        "/.well-known/oauth-protected-resource/mcp",
        "The same, where RFC 9728 has it looked for",
        &[],
        &[JSON],
    ),
    Address {
        open: false,
        ..get(
            "service",
            "/metrics",
            "OpenMetrics text; for the owner's token",
            &[],
            &["application/openmetrics-text"],
        )
    },
    Address {
        refusal: &[TEXT],
        ..get(
            "log",
            "/log/{account}/checkpoint",
            "The newest published checkpoint, a signed note",
            &[],
            &[TEXT],
        )
    },
    Address {
        refusal: &[TEXT],
        ..get(
            "log",
            "/log/{account}/tile/{level}/{index}",
            "Hashes of a tile (c2sp.org/tlog-tiles); a width stands behind the index as `.p/W`, and thousands of the index as `x001/`",
            &[],
            &[BYTES],
        )
    },
    Address {
        refusal: &[TEXT],
        ..get(
            "log",
            "/log/{account}/tile/entries/{index}",
            "Leaves, each after its length in two bytes (c2sp.org/tlog-tiles)",
            &[],
            &[BYTES],
        )
    },
    Address {
        refusal: &[TEXT],
        ..get(
            "log",
            "/log/{account}/consistency",
            "The proof that one size is the beginning of another",
            &[("from", Kind::Number, true), ("to", Kind::Number, false)],
            &[TEXT, JSON],
        )
    },
    Address {
        refusal: &[TEXT],
        ..get(
            "log",
            "/log/{account}/node",
            "A node of the tree of a size, and its path to the root",
            &[
                ("size", Kind::Number, true),
                ("level", Kind::Number, true),
                ("index", Kind::Number, true),
            ],
            &[TEXT],
        )
    },
    get(
        "log",
        "/log/{account}/policy",
        "The account's tlog-policy file",
        &[],
        &[TEXT],
    ),
    get(
        "log",
        "/log/{account}/keys",
        "The log's key, and the identities enrolled",
        &[],
        &[JSON],
    ),
    get(
        "log",
        "/log/{account}/evidence/{index}",
        "The evidence of a leaf; as plain text its tlog-proof alone",
        &[],
        &[JSON, TEXT],
    ),
    get(
        "log",
        "/log/{account}/evidence/hash/{leaf_hash}",
        "The same, by leaf hash",
        &[],
        &[JSON, TEXT],
    ),
    get(
        "log",
        "/log/{account}/evidence-set",
        "The evidence of many leaves under one checkpoint",
        &[("indexes", Kind::Indexes, true)],
        &[JSON],
    ),
    get(
        "log",
        "/log/{account}/lookup",
        "Receipts by the SHA-256 of their payload, or of a subject",
        &[
            ("payload_sha256", Kind::Hash, false),
            ("subject_sha256", Kind::Hash, false),
            ("after", Kind::Number, false),
        ],
        &[JSON],
    ),
    get(
        "log",
        "/log/{account}/heads",
        "The logs that the account tracks",
        &[],
        &[JSON],
    ),
    Address {
        method: "post",
        body: &[TEXT],
        ..get(
            "log",
            "/log/{account}/heads",
            "Takes a signed head of a tracked log",
            ASK,
            &[JSON],
        )
    },
    Address {
        method: "post",
        body: &[JSON, "application/vnd.dsse.envelope.v1+json", NDJSON],
        ..get(
            "log",
            "/log/{account}/receipts",
            "Takes signed receipts, one or many",
            ASK,
            &[JSON, NDJSON],
        )
    },
    Address {
        open: false,
        ..get(
            "tools",
            "/v1/events",
            "Leaves as they are published, one event each",
            &[
                ("after", Kind::Position, false),
                ("account", Kind::Text, false),
            ],
            &[EVENTS],
        )
    },
    Address {
        method: "post",
        body: &[BYTES],
        open: false,
        ..get(
            "tools",
            "/v1/blobs",
            "Keeps a body beside the log: any media type; headers Countersign-Salt, Countersign-Commitment, and Countersign-Operation instead of a token",
            &[("account", Kind::Text, false)],
            &[JSON],
        )
    },
    Address {
        open: false,
        ..get(
            "tools",
            "/v1/blobs/{commitment}",
            "A body beside the log, in the media type that it was kept with",
            &[("account", Kind::Text, false)],
            &[BYTES],
        )
    },
    Address {
        method: "post",
        body: &[JSON],
        refusal: &[JSON],
        ..get(
            "tools",
            "/mcp",
            "The tools for clients of the Model Context Protocol: one JSON-RPC message",
            &[("account", Kind::Text, false)],
            &[JSON, EVENTS],
        )
    },
];
