//! What a call sees: one version of an account, and the answer to a read of it.

use std::sync::Arc;

use countersign_log::{Reader, store::Head};
use countersign_verifier::{hash::Hash, key::IdentityId, leaf::Millis};
use serde_json::{Value, json};

use super::Answered;
use crate::{
    account::Account,
    app::App,
    doors::http::answer,
    error::Problem,
    quota::Rate,
    state::State,
    tools::{
        Tool, View,
        define::Read,
        page::{self, Pages},
    },
};

/// One committed version of an account, and what lies around it.
pub(in crate::doors) struct Seen<'a> {
    account: &'a Account,
    reader: Reader<State>,
    head: Head,
    pub(super) state: Arc<State>,
    /// The newest version: who asks is seen there, whichever version is shown.
    newest: Arc<State>,
    /// Which list is shown, and behind what it goes on.
    of: Hash,
    after: Option<String>,
    log_url: String,
}

impl<'a> Seen<'a> {
    pub(in crate::doors) fn of(app: &App, account: &'a Account) -> Seen<'a> {
        let reader = account.reader();
        let (head, state) = reader.committed();
        Seen {
            account,
            reader,
            head,
            newest: state.clone(),
            state,
            of: Hash([0; 32]),
            after: None,
            log_url: answer::log_url(app, account),
        }
    }

    /// Takes a request of this caller, who is known by now; without an identity it is the owner.
    pub(super) fn take(&self, app: &App, caller: Option<IdentityId>) -> Result<(), Problem> {
        let Some(caller) = caller.or_else(|| self.newest.owner()) else {
            return Ok(());
        };
        let rate = Rate::calls(self.newest.settings.requests_per_minute);
        let caller = (self.account.origin.as_str(), caller);
        app.quotas.take(caller, rate, app.boot_ms())
    }

    /// The version that a cursor among these arguments names; this one without a cursor.
    pub(super) fn paged(&self, tool: &Tool, arguments: &Value) -> Result<Seen<'a>, Problem> {
        let Account {
            versions, seats, ..
        } = self.account;
        let now_ms = self.account.log_now_ms();
        let (of, place) = page::open(versions, seats, (tool.name, arguments), now_ms)?;
        let (head, state, after) = match place {
            Some(place) => (place.head, place.state, Some(place.after)),
            None => (self.head, self.state.clone(), None),
        };
        Ok(Seen {
            account: self.account,
            reader: self.reader.clone(),
            head,
            state,
            newest: self.newest.clone(),
            of,
            after,
            log_url: self.log_url.clone(),
        })
    }

    pub(in crate::doors) fn view<'s>(
        &'s self,
        caller: Option<&IdentityId>,
        session: Option<&'s str>,
    ) -> View<'s> {
        View {
            head: self.head,
            state: &self.state,
            reader: &self.reader,
            seats: &self.account.seats,
            eras: &self.account.eras,
            pages: Pages {
                versions: &self.account.versions,
                of: self.of,
                after: self.after.clone(),
            },
            caller: caller.and_then(|id| self.newest.identities.get(id)),
            session,
            log_url: &self.log_url,
            now_ms: self.account.log_now_ms(),
        }
    }
}

/// The answer to a read, all of it as of one committed size: the newest, or the one that a cursor names.
pub(in crate::doors) fn read_answer(
    app: &App,
    view: &View<'_>,
    account: &Account,
    arguments: &Value,
    read: Read,
) -> Result<Answered, Problem> {
    let (head, state) = (view.head, view.state);
    let witnessed = account.witnessed.then(|| view.reader.published().head.size);
    // Some read leaves and tiles: other requests of this thread go on elsewhere meanwhile.
    let result = tokio::task::block_in_place(|| read(view, arguments))?;
    let body = json!({
        "result": result,
        "as_of": {
            "size": head.size,
            "root": head.root.to_hex(),
            "at": Millis(state.at).to_string(),
            // Without a quorum nobody but the log has signed: there is no witnessed head.
            "witnessed_size": witnessed.unwrap_or(0).min(head.size),
        },
        "server_time": app.server_time(),
    });
    Ok((200, body))
}
