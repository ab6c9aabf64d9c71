//! What is asked of sessions: the arguments of their tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const NAME_BYTES_MAX: usize = 128;
const NOTE_BYTES_MAX: usize = 1_000;
const EVIDENCE_MAX: usize = 32;
/// What a session can come to.
const OUTCOMES: [&str; 5] = [
    "delivered",
    "delivered_with_issues",
    "no_action",
    "incomplete",
    "failed",
];

/// A program, as it calls itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Harness {
    /// Its name, 1 to 128 bytes.
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// By which an identity lets another key sign for it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// Until when, RFC 3339 UTC in milliseconds.
    pub expires_at: String,
    /// Base64 of the identity's own signature over (origin, session key, role, expires_at).
    pub signature: String,
}

/// Arguments of `ars_session_checkin`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkin {
    /// As what: one of your roles (`identity_list` shows them); an owner may take any.
    pub role: String,
    /// `seat` (default). `run` is only for what a dispatch began.
    pub class: Option<String>,
    /// The program that runs you.
    pub harness: Harness,
    /// Your model, at most 128 bytes.
    pub model: Option<String>,
    /// Your own time now, RFC 3339 UTC in milliseconds, such as 2026-11-29T13:00:00.000Z.
    pub clock: String,
    /// The client that carries your calls.
    pub client: Option<Harness>,
    /// Attestation of the run that sent you.
    pub dispatch: Option<String>,
    /// Base64 of the SPKI of a key that is to sign in this session; needs `binding`.
    pub session_public_key: Option<String>,
    /// Your signature that lets that key sign for you.
    pub binding: Option<Binding>,
    /// The session ends after so many seconds without a heartbeat: 10 to 86,400, 900 if absent, unless `settings_get` says otherwise.
    pub ttl_s: Option<u64>,
    /// A session of yours: live, it is renewed; ended, the new one says that it goes on from it.
    pub resume: Option<String>,
    /// Take the role alone: refused while anybody else has it, and keeps everybody else out.
    pub exclusive: Option<bool>,
}

impl Checkin {
    /// Whether the texts can be what they are to be.
    ///
    /// # Errors
    /// A sentence that names the argument.
    pub fn check(&self) -> Result<(), String> {
        let programs = [
            ("harness", Some(&self.harness)),
            ("client", self.client.as_ref()),
        ];
        for (name, program) in programs {
            let Some(program) = program else { continue };
            label(&format!("{name}.name"), &program.name)?;
            if let Some(version) = &program.version {
                label(&format!("{name}.version"), version)?;
            }
        }
        if let Some(model) = &self.model {
            label("model", model)?;
        }
        Ok(())
    }
}

/// Arguments of `ars_session_heartbeat`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// What you are at, at most 1,000 bytes; stays in the log for ever.
    pub note: Option<String>,
    /// How far you are, in per cent: 0 to 100.
    pub progress: Option<u8>,
    /// Renew the session's leases too, each for as long as it was asked for; true if absent.
    pub renew_leases: Option<bool>,
}

impl Heartbeat {
    /// Whether it says anything but that the session lives.
    #[must_use]
    pub fn says_something(&self) -> bool {
        self.note.is_some() || self.progress.is_some()
    }

    /// Whether the texts can be what they are to be.
    ///
    /// # Errors
    /// A sentence that names the argument.
    pub fn check(&self) -> Result<(), String> {
        if self.progress.is_some_and(|progress| progress > 100) {
            return Err("progress: 0 to 100".into());
        }
        note(self.note.as_deref())
    }
}

/// A file that shows what was done.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EvidenceOf {
    /// What it is called, 1 to 128 bytes.
    pub name: String,
    /// SHA-256 of its bytes in hexadecimal.
    pub sha256: String,
}

/// Arguments of `ars_session_checkout`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checkout {
    /// What came of it: `delivered`, `delivered_with_issues`, `no_action`, `incomplete` or `failed`.
    pub outcome: String,
    /// In your words, at most 1,000 bytes; stays in the log for ever.
    pub note: Option<String>,
    /// Up to 32 files that show it.
    pub evidence: Option<Vec<EvidenceOf>>,
    /// End the session's leases now (default); else they run out by themselves, and nobody can renew them.
    pub release_leases: Option<bool>,
}

impl Checkout {
    /// Whether the texts can be what they are to be.
    ///
    /// # Errors
    /// A sentence that names the argument.
    pub fn check(&self) -> Result<(), String> {
        if !OUTCOMES.contains(&self.outcome.as_str()) {
            return Err(format!("outcome: one of {}", OUTCOMES.join(", ")));
        }
        note(self.note.as_deref())?;
        let evidence = self.evidence.as_deref().unwrap_or_default();
        if evidence.len() > EVIDENCE_MAX {
            return Err(format!("evidence: at most {EVIDENCE_MAX}"));
        }
        for file in evidence {
            label("evidence.name", &file.name)?;
            if countersign_verifier::hash::Hash::from_hex(&file.sha256).is_err() {
                return Err("evidence.sha256: 64 lowercase hexadecimal digits".into());
            }
        }
        Ok(())
    }
}

/// A short text on one line that looks like nothing else.
fn label(name: &str, text: &str) -> Result<(), String> {
    let fits = (1..=NAME_BYTES_MAX).contains(&text.len());
    match fits && !text.chars().any(is_hidden) {
        true => Ok(()),
        false => Err(format!(
            "{name}: 1 to {NAME_BYTES_MAX} bytes, none of them a control or a change of direction"
        )),
    }
}

pub(in crate::state) fn note(text: Option<&str>) -> Result<(), String> {
    match text {
        Some(text) if text.len() > NOTE_BYTES_MAX || text.contains('\0') => {
            Err(format!("note: at most {NOTE_BYTES_MAX} bytes, without NUL"))
        }
        _ => Ok(()),
    }
}

/// Characters that cannot be seen, or that change how others are.
pub(in crate::state) fn is_hidden(c: char) -> bool {
    let directs = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{61c}');
    c.is_control() || directs || matches!(c, '\u{2028}' | '\u{2029}')
}
