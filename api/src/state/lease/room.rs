//! How many leases there may be: of a session, of an identity, of an account.

use crate::{
    code::Code,
    state::{Decided, State, session::Session},
};

/// Whether this session may have one more.
pub(super) fn room(state: &State, session: &Session) -> Result<(), Decided> {
    let (settings, leases) = (&state.settings, &state.leases);
    let of_identity = || {
        let sessions = state.sessions.of(&session.identity);
        sessions
            .map(|session| leases.count_of(session.index))
            .sum::<u64>()
    };
    let (limit, whose) = if leases.count_of(session.index) >= settings.leases_per_session_max {
        (settings.leases_per_session_max, "a session")
    } else if of_identity() >= settings.leases_per_identity_max {
        (settings.leases_per_identity_max, "an identity")
    } else if leases.live_count() as u64 >= settings.leases_max {
        (settings.leases_max, "an account")
    } else {
        return Ok(());
    };
    let why = format!("{whose} has at most {limit} live leases");
    Err(Decided::refuse(Code::LimitReached, why).with("limit", limit))
}
