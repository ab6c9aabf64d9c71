//! The table of everything that can be said no with: code, HTTP status, whether a repeat can help, and what it means.

macro_rules! codes {
    ($($variant:ident $name:literal $status:literal $retryable:literal $title:literal)*) => {
        /// A stable name for why something was refused. Clients branch on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each variant's meaning is its title in the table below")]
        pub enum Code { $($variant),* }

        /// Every code, in the order of the reference.
        pub const CODES: &[Code] = &[$(Code::$variant),*];

        impl Code {
            /// As it stands in answers and leaves.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name),* }
            }

            /// The HTTP status.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Code::$variant => $status),* }
            }

            /// Whether the same request, under a new nonce where it has one, may succeed later without anybody changing it.
            #[must_use]
            pub const fn retryable(self) -> bool {
                match self { $(Code::$variant => $retryable),* }
            }

            /// Whether it says that a request cannot be read: that is no request which a gate denied, and no leaf.
            #[must_use]
            pub const fn is_unread(self) -> bool {
                matches!(
                    self,
                    Code::Malformed | Code::ToolUnknown | Code::TtlOutOfRange | Code::ResourceMalformed
                )
            }

            /// What it means, in a few words.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Code::$variant => $title),* }
            }

            /// The code of this name, as a leaf records it.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Code> {
                CODES.iter().copied().find(|code| code.name() == name)
            }
        }
    };
}

codes! {
    Malformed           "MALFORMED"            400 false "The request cannot be read"
    UnknownArgument     "UNKNOWN_ARGUMENT"     400 false "The tool takes no argument of this name"
    TtlOutOfRange       "TTL_OUT_OF_RANGE"     400 false "The time asked for is shorter or longer than can be had"
    ResourceMalformed   "RESOURCE_MALFORMED"   400 false "The resource cannot be read"
    SignerUnknown       "SIGNER_UNKNOWN"       401 false "No signature by an enrolled key"
    KeyRequired         "KEY_REQUIRED"         401 false "This needs a signed operation or a token"
    TokenInvalid        "TOKEN_INVALID"        401 false "The token is none of this account's"
    SignerNotAllowed    "SIGNER_UNKNOWN"       403 false "No signature by an enrolled key, though the token is good"
    KeyRevoked          "KEY_REVOKED"          403 false "The identity that signed is revoked"
    PossessionUnproved  "POSSESSION_UNPROVED"  403 false "The key that signed has never proved that it is at hand"
    AttributionTooLow   "ATTRIBUTION_TOO_LOW"  403 false "This needs a signature by a key that the service does not hold"
    NotAllowed          "NOT_ALLOWED"          403 false "The identity may not do this"
    ReviewRequired      "REVIEW_REQUIRED"      403 false "The item must be accepted by somebody who may review"
    AccountMismatch     "ACCOUNT_MISMATCH"     403 false "The operation and the request name different accounts"
    SubjectUnknown      "SUBJECT_UNKNOWN"      403 false "The token is good, and no identity here is bound to its subject"
    ScopeMissing        "SCOPE_MISSING"        403 false "The token is good, and not for this scope"
    NotYours            "NOT_YOURS"            403 false "It belongs to another identity"
    NotHolder           "NOT_HOLDER"           403 false "The lease is held by another identity, or in another session"
    RoleUnknown         "ROLE_UNKNOWN"         404 false "Nobody in this account has this role"
    OriginForeign       "ORIGIN_FOREIGN"       403 false "Pages of this origin may not ask"
    NotFound            "NOT_FOUND"            404 false "There is no such thing"
    NotInTree           "NOT_IN_TREE"          404 true  "The leaf is not in the published tree yet"
    ToolUnknown         "TOOL_UNKNOWN"         404 false "There is no tool of this name"
    MethodNotAllowed    "METHOD_NOT_ALLOWED"   405 false "This address takes another method"
    NotAcceptable       "NOT_ACCEPTABLE"       406 false "No form of answer that is given here is accepted"
    Timeout             "TIMEOUT"              408 true  "The request did not arrive in time"
    NameTaken           "NAME_TAKEN"           409 false "Another identity has this name"
    KeyEnrolled         "KEY_ENROLLED"         409 false "The key belongs to an identity already"
    HeadTracked         "HEAD_TRACKED"         409 false "The log is tracked already"
    TokenKnown          "TOKEN_KNOWN"          409 false "A token of this hash was made before"
    TokenRevoked        "TOKEN_REVOKED"        409 false "The token is revoked"
    IdTaken             "ID_TAKEN"             409 false "Another item has an id that looks like this one"
    AmbiguousId         "AMBIGUOUS_ID"         409 false "More than one item may be meant"
    LimitReached        "LIMIT_REACHED"        409 false "The account has as many of these as it can have"
    IdentityRevoked     "IDENTITY_REVOKED"     409 false "The identity is revoked"
    SessionRequired     "SESSION_REQUIRED"     409 false "The call must name one of the caller's live sessions"
    SeatTaken           "SEAT_TAKEN"           409 true  "The role is taken"
    LeaseConflict       "LEASE_CONFLICT"       409 true  "Somebody else holds the resource"
    LeaseRequired       "LEASE_REQUIRED"       409 true  "Somebody else holds what this would change"
    StaleFence          "STALE_FENCE"          409 false "The fence is not that of the present lease"
    SessionExpired      "SESSION_EXPIRED"      410 false "The session has ended"
    LeaseExpired        "LEASE_EXPIRED"        410 false "The lease has ended"
    BlobErased          "BLOB_ERASED"          410 false "The body was erased"
    LogClosed           "LOG_CLOSED"           410 false "The log is closed: nothing more is ever written to it"
    CursorExpired       "CURSOR_EXPIRED"       410 false "The state that the cursor pages through is no longer kept"
    VersionMismatch     "VERSION_MISMATCH"     412 false "It is at another version than was asked for"
    TooLarge            "TOO_LARGE"            413 false "Larger than the limit"
    MediaType           "MEDIA_TYPE"           415 false "The body is of a type that is not taken here"
    Range               "RANGE"                416 false "Beyond what is published"
    SignatureInvalid    "SIGNATURE_INVALID"    422 false "A signature by an enrolled key does not verify"
    ThresholdNotMet     "THRESHOLD_NOT_MET"    422 false "Fewer signatures by distinct enrolled keys than the policy asks for"
    TypeNotAllowed      "TYPE_NOT_ALLOWED"     422 false "The payload type is not taken as a receipt"
    PossessionInvalid   "POSSESSION_INVALID"   422 false "The proof of possession is not by this key, or for another log, identity or class"
    BindingInvalid      "BINDING_INVALID"      422 false "The binding is not by this identity, or for another log, key, role or time"
    PossessionRequired  "POSSESSION_REQUIRED"  422 false "This key must prove that it is at hand"
    ClassNotAllowed     "CLASS_NOT_ALLOWED"    403 false "This class is not to be had here"
    KeyTypeNotTaken     "KEY_TYPE_NOT_TAKEN"   422 false "Keys of this type sign no heads that are judged here"
    CheckpointInvalid   "CHECKPOINT_INVALID"   422 false "Not a head that the tracked log has signed"
    ProofInvalid        "PROOF_INVALID"        422 false "The consistency proof does not hold; nothing follows from that"
    ClockSkew           "CLOCK_SKEW"           422 true  "The operation was not signed within ten minutes of log time"
    IdempotencyMismatch "IDEMPOTENCY_MISMATCH" 422 false "The nonce has been used for another request"
    PrevUnknown         "PREV_UNKNOWN"         422 false "A previous operation named is not one of this key's"
    ObservedMismatch    "OBSERVED_MISMATCH"    422 false "The head observed is not this log's at that size"
    DependencyCycle     "DEPENDENCY_CYCLE"     422 false "The item would wait for itself"
    DependencyTooDeep   "DEPENDENCY_TOO_DEEP"  422 false "Too many items depend on one another"
    ParseError          "PARSE_ERROR"          422 false "The file cannot be read"
    DigestMismatch      "DIGEST_MISMATCH"      422 false "The digest is not that of the content"
    DuplicateId         "DUPLICATE_ID"         422 false "Two items have one id"
    QuotaReached        "QUOTA_REACHED"        429 false "As much is kept as the quota lets be kept"
    RateLimited         "RATE_LIMITED"         429 true  "More requests than the quota"
    Internal            "INTERNAL"             500 true  "A fault of the service"
    Busy                "BUSY"                 503 true  "The service cannot take it just now"
    ReadOnly            "READ_ONLY"            503 true  "The log is not writing just now"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_finds_its_code() {
        for code in CODES {
            // One name stands for two statuses: who shows a token is not unknown, and still has no key.
            let found = Code::from_name(code.name()).unwrap();
            let twice = *code == Code::SignerNotAllowed;
            assert_eq!(found, if twice { Code::SignerUnknown } else { *code });
        }
    }
}
