//! Which tools a caller is shown. What it may do is judged when it calls; this only spares it what would be refused.

use countersign_verifier::leaf::Class;

use super::Tool;
use crate::state::{Identity, verb};

/// Whether a tool is shown to whoever holds this identity's token; `None`: the owner's token, which acts by a seat.
///
/// A token alone signs by a key that the service keeps, which some tools never take.
#[must_use]
pub fn is_offered(tool: &Tool, caller: Option<&Identity>) -> bool {
    let by_seat = caller.is_none_or(|identity| identity.class == Class::SeatKey);
    !(by_seat && verb::needs_own_key(tool.name))
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
