//! What an account's owner has set: the bounds that decisions keep to. Each is set by a leaf, within bounds of the release's own.

use std::ops::RangeInclusive;

use countersign_verifier::{key::IdentityId, operation::Operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    At, Caller, Decided, State,
    verb::{Verb, arguments, malformed},
};
use crate::code::Code;

/// The times that can be asked for, of a session and of a lease, in seconds.
const TTL_S: RangeInclusive<u64> = 10..=86_400;
/// Live sessions of one identity, and of an account: more is a program that checks in and never out.
const SESSIONS_OF_ONE: RangeInclusive<u64> = 1..=1_000;
const SESSIONS: RangeInclusive<u64> = 1..=50_000;
/// Live leases of one session, and of an identity or an account.
const LEASES_OF_ONE: RangeInclusive<u64> = 1..=1_000;
const LEASES: RangeInclusive<u64> = 1..=100_000;
/// Items of a board: the state of all must fit the memory of the process, and a snapshot a file.
const ITEMS: RangeInclusive<u64> = 1..=250_000;
/// Requests a minute: 10,000 a second is more than one service answers.
const REQUESTS: RangeInclusive<u64> = 0..=600_000;
/// Receipts a minute: they come by the thousand in one body.
const RECEIPTS: RangeInclusive<u64> = 0..=10_000_000;

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident = $usual:literal in $range:ident;)*) => {
        /// The settings of an account.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct Settings {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// Arguments of `settings_set`: what is absent stays as it is.
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct Set {
            $($(#[$doc])* pub $name: Option<u64>,)*
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { $($name: $usual,)* }
            }
        }

        impl Settings {
            /// These, changed as asked.
            fn with(&self, set: &Set) -> Settings {
                Settings { $($name: set.$name.unwrap_or(self.$name),)* }
            }

            /// Which of them is out of its bounds.
            fn out_of_bounds(&self) -> Option<String> {
                $(if !$range.contains(&self.$name) {
                    let (least, most) = ($range.start(), $range.end());
                    return Some(format!("{}: {least} to {most}", stringify!($name)));
                })*
                None
            }
        }
    };
}

settings! {
    /// The shortest time of a session, in seconds: 10 to 86,400; 10 at first.
    session_ttl_s_min = 10 in TTL_S;
    /// The longest time of a session, in seconds: 10 to 86,400; 86,400 at first.
    session_ttl_s_max = 86_400 in TTL_S;
    /// How long a session lasts where its check-in does not say, in seconds; 900 at first.
    session_ttl_s = 900 in TTL_S;
    /// The shortest time of a lease, in seconds: 10 to 86,400; 10 at first.
    lease_ttl_s_min = 10 in TTL_S;
    /// The longest time of a lease, in seconds: 10 to 86,400; 86,400 at first.
    lease_ttl_s_max = 86_400 in TTL_S;
    /// How long a lease lasts where nothing is said, in seconds; 900 at first.
    lease_ttl_s = 900 in TTL_S;
    /// Live sessions of one identity: 1 to 1,000; 1,000 at first.
    sessions_per_identity_max = 1_000 in SESSIONS_OF_ONE;
    /// Live sessions of the account: 1 to 50,000; 50,000 at first.
    sessions_max = 50_000 in SESSIONS;
    /// Live leases of one session: 1 to 1,000; 1,000 at first.
    leases_per_session_max = 1_000 in LEASES_OF_ONE;
    /// Live leases of one identity, in all of its sessions: 1 to 100,000; 10,000 at first.
    leases_per_identity_max = 10_000 in LEASES;
    /// Live leases of the account: 1 to 100,000; 100,000 at first.
    leases_max = 100_000 in LEASES;
    /// Items of the board: 1 to 250,000; 250,000 at first.
    board_items_max = 250_000 in ITEMS;
    /// Calls of one identity in a minute, of which as many may come at once: 0 to 600,000, 0 for any number; 6,000 at first. One
    /// more is refused at the door, and no leaf.
    requests_per_minute = 6_000 in REQUESTS;
    /// Receipts of one identity in a minute, by the first of their signers: 0 to 10,000,000, 0 for any number; 0 at first. One more
    /// is refused at the door, and no leaf.
    receipts_per_minute = 0 in RECEIPTS;
}

/// How long something may be asked to last, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Ttl {
    /// At least.
    pub min_s: u64,
    /// At most.
    pub max_s: u64,
    /// Where nothing is asked.
    pub usual_s: u64,
}

impl Settings {
    /// Of sessions.
    #[must_use]
    pub fn session_ttl(&self) -> Ttl {
        Ttl {
            min_s: self.session_ttl_s_min,
            max_s: self.session_ttl_s_max,
            usual_s: self.session_ttl_s,
        }
    }

    /// Of leases.
    #[must_use]
    pub fn lease_ttl(&self) -> Ttl {
        Ttl {
            min_s: self.lease_ttl_s_min,
            max_s: self.lease_ttl_s_max,
            usual_s: self.lease_ttl_s,
        }
    }

    fn check(&self) -> Result<(), String> {
        if let Some(why) = self.out_of_bounds() {
            return Err(why);
        }
        for (what, ttl) in [("session", self.session_ttl()), ("lease", self.lease_ttl())] {
            if !(ttl.min_s..=ttl.max_s).contains(&ttl.usual_s) {
                return Err(format!(
                    "{what}_ttl_s: {} to {} after this ({what}_ttl_s_min, {what}_ttl_s_max)",
                    ttl.min_s, ttl.max_s
                ));
            }
        }
        Ok(())
    }
}

/// Settings that came after the first ones. A leaf names them only where they are not what they are at first: so a log from before they
/// were there still says what its rules say.
const LATER: &[&str] = &["leases_per_identity_max", "receipts_per_minute"];

impl Settings {
    fn whole(&self) -> Value {
        // OK because a struct of numbers has a JSON form.
        serde_json::to_value(self).expect("Settings::whole")
    }

    /// As a leaf records them.
    #[must_use]
    pub fn recorded(&self) -> Value {
        let (mut all, first) = (self.whole(), Settings::default().whole());
        if let Value::Object(members) = &mut all {
            members.retain(|name, value| !LATER.contains(&name.as_str()) || first[name] != *value);
        }
        all
    }
}

impl Ttl {
    /// With another time where nothing is asked, as near to it as can be had.
    #[must_use]
    pub fn usually(self, usual_s: u64) -> Ttl {
        // Not `clamp`, which panics where the bounds cross; those of the state never do.
        let usual_s = usual_s.min(self.max_s).max(self.min_s);
        Ttl { usual_s, ..self }
    }
}

/// `settings_set`.
pub const SET: Verb = Verb {
    tool: "settings_set",
    decide,
    apply,
    resource: |_| String::new(),
};

fn decide(state: &State, caller: &Caller<'_>, operation: &Operation, _at: At) -> Decided {
    let asked: Set = match arguments(&operation.arguments) {
        Ok(asked) => asked,
        Err(why) => return malformed(why),
    };
    let next = state.settings.with(&asked);
    if let Err(why) = next.check() {
        return malformed(why);
    }
    if state.owner() != Some(caller.identity.id) {
        return Decided::refuse(Code::NotAllowed, "only the account's owner may do this");
    }
    Decided::Applied(Map::new()).with("settings", next.recorded())
}

fn apply(
    state: &mut State,
    _by: IdentityId,
    _operation: &Operation,
    effect: &Map<String, Value>,
    _index: u64,
) -> Result<(), String> {
    let settings = effect.get("settings").ok_or("effect without settings")?;
    // What came later than the leaf is as it is at first.
    let mut all = Settings::default().whole();
    for (name, value) in settings.as_object().into_iter().flatten() {
        all[name] = value.clone();
    }
    state.settings = Settings::deserialize(all).map_err(|e| e.to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(set: Value) -> Result<Settings, String> {
        let set: Set = arguments(&set).unwrap();
        let next = Settings::default().with(&set);
        next.check().map(|()| next)
    }

    #[test]
    fn what_is_absent_stays_and_what_cannot_be_is_named() {
        assert_eq!(after(json!({})).unwrap(), Settings::default());
        let next = after(json!({"lease_ttl_s_max": 60, "lease_ttl_s": 30})).unwrap();
        assert_eq!((next.lease_ttl_s_max, next.lease_ttl_s), (60, 30));
        assert_eq!(next.session_ttl_s, 900);
        for (set, named) in [
            (json!({"lease_ttl_s_max": 60}), "lease_ttl_s:"),
            (json!({"session_ttl_s_min": 901}), "session_ttl_s:"),
            (json!({"session_ttl_s_min": 9}), "session_ttl_s_min:"),
            (json!({"lease_ttl_s_max": 86_401}), "lease_ttl_s_max:"),
            (json!({"leases_max": 0}), "leases_max:"),
            (
                json!({"sessions_per_identity_max": 1_001}),
                "sessions_per_identity_max:",
            ),
            (json!({"board_items_max": 250_001}), "board_items_max:"),
            (
                json!({"requests_per_minute": 600_001}),
                "requests_per_minute:",
            ),
        ] {
            let why = after(set.clone()).unwrap_err();
            assert!(why.starts_with(named), "{set}: {why}");
        }
        assert!(arguments::<Set>(&json!({"leases": 1})).is_err());
    }

    #[test]
    fn a_leaf_names_a_later_setting_only_where_it_was_set() {
        assert!(
            LATER
                .iter()
                .all(|name| Settings::default().whole()[name].is_u64())
        );
        let names = |settings: &Settings| {
            let recorded = settings.recorded();
            LATER
                .iter()
                .filter(|name| recorded.get(**name).is_some())
                .count()
        };
        assert_eq!(names(&Settings::default()), 0);
        let set = after(json!({"receipts_per_minute": 7})).unwrap();
        assert_eq!(
            (names(&set), set.recorded()["receipts_per_minute"].as_u64()),
            (1, Some(7))
        );
        // A leaf from before they were there.
        let effect = json!({"settings": Settings::default().recorded()});
        let mut state = State {
            settings: set,
            ..State::default()
        };
        let operation = Operation {
            tool: "settings_set".into(),
            arguments: json!({}),
            log: String::new(),
            session: None,
            nonce: String::new(),
            issued_at: countersign_verifier::leaf::Millis(0),
            prev: Vec::new(),
            observed: None,
        };
        let by = IdentityId(countersign_verifier::hash::Hash([0; 32]));
        apply(&mut state, by, &operation, effect.as_object().unwrap(), 1).unwrap();
        assert_eq!(state.settings, Settings::default());
    }

    #[test]
    fn a_time_that_runs_stays_within_the_bounds() {
        let ttl = Ttl {
            min_s: 20,
            max_s: 60,
            usual_s: 30,
        };
        for (asked, had) in [(10, 20), (20, 20), (45, 45), (900, 60)] {
            assert_eq!(ttl.usually(asked).usual_s, had);
        }
    }
}
