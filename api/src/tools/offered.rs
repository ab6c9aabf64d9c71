//! Which tools a caller is shown. What it may do is judged when it calls; this only spares it what would be refused.

use countersign_verifier::leaf::Class;

use super::{Handler, Tool};
use crate::{
    policy::Family,
    state::{Caller, Identity, State, policy::family, verb},
};

/// Whether a tool is shown to whoever holds this identity's token; `None`: the owner's token, which acts by a seat.
///
/// A token alone signs by a key that the service keeps, which some tools never take; and the account's policy may keep a tool from
/// it, asked about nothing in particular: a rule for single resources is heard when the tool is called.
#[must_use]
pub fn is_offered(tool: &Tool, caller: Option<(&State, &Identity)>) -> bool {
    let Some((state, identity)) = caller else {
        return !verb::needs_own_key(tool.name);
    };
    if identity.class == Class::SeatKey && verb::needs_own_key(tool.name) {
        return false;
    }
    let caller = Caller::from(identity);
    let may = |family| state.allows(&caller, (tool.name, family), "", None);
    match tool.handler {
        Handler::Read(_) => may(Family::Read),
        Handler::Write(_) | Handler::Receipt => may(family(tool.name)),
        // What reads or writes is of use to whoever may do one of the two.
        _ => may(Family::Read) || may(family(tool.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::find;

    #[test]
    fn the_owners_token_is_not_shown_what_only_its_key_may_do() {
        for (name, shown) in [
            ("identity_list", true),
            ("seat_get", true),
            ("identity_enroll", false),
            ("token_new", false),
            ("log_close", false),
        ] {
            assert_eq!(is_offered(find(name).unwrap(), None), shown, "{name}");
        }
    }
}
