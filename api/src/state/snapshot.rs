//! The state as bytes and back: a cache that replay can always remake, never the truth.

use countersign_verifier::{base64, hash::Hash, leaf::Class};
use serde::{Deserialize, Serialize};

use super::{
    Board, Closed, Erased, Heads, Identity, Leases, Opened, ReceiptPolicy, Rules, Sessions,
    Settings, State, Tokens, board, head,
    identity::{Change, Possession},
    lease::Lease,
    opened::spki,
    refusal::Kind,
    session::Session,
    token,
};

/// Raised whenever the form changes: a snapshot of another form is no snapshot, and the leaves are replayed.
const FORM: u32 = 9;

/// All that is read of a snapshot of unknown form.
#[derive(Deserialize)]
struct Stated {
    form: u32,
}

#[derive(Serialize, Deserialize)]
struct Form {
    form: u32,
    size: u64,
    at: u64,
    opened: Option<String>,
    identities: Vec<Row>,
    tokens: Vec<token::Row>,
    /// Its text, and the leaf that set it; `None` of an account that has set none.
    rules: Option<(String, u64)>,
    receipts: ReceiptPolicy,
    heads: Vec<head::Row>,
    sessions: Vec<Session>,
    leases: Vec<Lease>,
    board: Vec<board::Row>,
    /// Commitment and leaf.
    erased: Vec<(String, u64)>,
    settings: Settings,
    closed: Option<(u64, String)>,
    refusals: Vec<(String, u64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct Row {
    id: String,
    name: String,
    class: String,
    roles: Vec<String>,
    key: String,
    retired: Vec<String>,
    proved: bool,
    enrolled: Option<(u64, String)>,
    rotations: Vec<(u64, String)>,
    revoked: Option<u64>,
}

impl State {
    /// The form of this release's snapshots.
    pub const SNAPSHOT_FORM: u32 = FORM;

    /// The form that a snapshot says it has; `None` for bytes that are none of any release.
    #[must_use]
    pub fn snapshot_form(bytes: &[u8]) -> Option<u32> {
        let stated: Stated = serde_json::from_slice(bytes).ok()?;
        Some(stated.form)
    }

    /// The state as bytes.
    #[must_use]
    pub fn to_snapshot(&self) -> Vec<u8> {
        let change = |c: &Change| (c.index, c.by.to_string());
        let row = |identity: &Identity| Row {
            id: identity.id.to_string(),
            name: identity.name.clone(),
            class: identity.class.name().into(),
            roles: identity.roles.clone(),
            key: base64::encode(&identity.key.public.spki_der()),
            retired: identity
                .retired
                .iter()
                .map(|key| base64::encode(&key.public.spki_der()))
                .collect(),
            proved: identity.possession == Possession::Proved,
            enrolled: identity.enrolled.as_ref().map(change),
            rotations: identity.rotations.iter().map(change).collect(),
            revoked: identity.revoked,
        };
        let form = Form {
            form: FORM,
            size: self.size,
            at: self.at,
            opened: self.opened.as_ref().map(Opened::to_event),
            identities: self.identities.iter().map(row).collect(),
            tokens: self.tokens.to_rows(),
            rules: self
                .rules
                .set
                .map(|index| (self.rules.policy.text().to_owned(), index)),
            receipts: self.receipts.clone(),
            heads: self.heads.to_rows(),
            sessions: self.sessions.to_rows(),
            leases: self.leases.to_rows(),
            board: self.board.to_rows(),
            erased: self.erased.to_rows(),
            settings: self.settings.clone(),
            closed: self.closed.clone().map(|c| (c.index, c.successor)),
            refusals: self
                .refusals
                .iter()
                .map(|(kind, index, at)| (kind.hash().to_hex(), index, at))
                .collect(),
        };
        // OK because a struct of strings and numbers has no key that is not a string.
        serde_json::to_vec(&form).expect("State::to_snapshot")
    }

    /// The state out of bytes that [`State::to_snapshot`] gave; `None` for any others.
    #[must_use]
    pub fn from_snapshot(bytes: &[u8]) -> Option<State> {
        let form: Form = serde_json::from_slice(bytes).ok()?;
        if form.form != FORM {
            return None;
        }
        let change = |(index, by): (u64, String)| {
            Some(Change {
                index,
                by: by.parse().ok()?,
            })
        };
        let mut state = State {
            size: form.size,
            at: form.at,
            tokens: Tokens::from_rows(form.tokens)?,
            rules: Rules::from_row(form.rules)?,
            receipts: form.receipts,
            heads: Heads::from_rows(form.heads)?,
            sessions: Sessions::from_rows(form.sessions),
            leases: Leases::from_rows(form.leases)?,
            board: Board::from_rows(form.board)?,
            erased: Erased::from_rows(form.erased).ok()?,
            settings: form.settings,
            closed: form
                .closed
                .map(|(index, successor)| Closed { index, successor }),
            ..State::default()
        };
        if let Some(event) = form.opened {
            state.opened = Some(Opened::parse(&event).ok()?);
        }
        for row in form.identities {
            state.identities.insert(Identity {
                id: row.id.parse().ok()?,
                name: row.name,
                class: Class::from_name(&row.class)?,
                roles: row.roles,
                key: spki(&row.key).ok()?.into(),
                retired: row
                    .retired
                    .iter()
                    .map(|key| Some(spki(key).ok()?.into()))
                    .collect::<Option<_>>()?,
                possession: if row.proved {
                    Possession::Proved
                } else {
                    Possession::Stated
                },
                enrolled: match row.enrolled {
                    Some(row) => Some(change(row)?),
                    None => None,
                },
                rotations: row
                    .rotations
                    .into_iter()
                    .map(change)
                    .collect::<Option<_>>()?,
                revoked: row.revoked,
            });
        }
        let mut refusals: Vec<_> = form.refusals;
        refusals.sort_by_key(|(_, index, _)| *index);
        for (hash, index, at) in refusals {
            state
                .refusals
                .note(Kind::from_hash(Hash::from_hex(&hash).ok()?), index, at);
        }
        Some(state)
    }
}
