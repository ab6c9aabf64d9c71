//! The tools: each is one value, from which its route, its reference page and its checks derive.

pub mod attestation;
pub mod blob;
pub mod board;
pub mod closed;
pub mod contract;
pub mod define;
pub mod head;
pub mod identity;
pub mod lease;
pub mod log_read;
mod near;
pub mod nouns;
mod offered;
pub mod page;
pub mod policy;
pub mod receipt;
pub mod session;
pub mod settings;
pub mod start;
pub mod token;

use crate::{
    policy::Family,
    state::{self, policy::family},
};

pub use near::hint;
pub use offered::is_offered;

pub use define::{Done, Handler, Hints, Runs, Tool, View, find, schema, tool_hint};

/// Every tool that clients may call, in the order of the reference.
pub const TOOLS: &[Tool] = &[
    session::CHECKIN,
    session::HEARTBEAT,
    session::CHECKOUT,
    session::GET,
    session::LIST,
    lease::ACQUIRE,
    lease::RENEW,
    lease::RELEASE,
    lease::GET,
    lease::LIST,
    attestation::VERIFY,
    identity::ENROLL,
    identity::ROTATE,
    identity::REVOKE,
    identity::LIST,
    identity::RECEIPT_POLICY,
    receipt::SUBMIT,
    receipt::GET,
    policy::GET,
    policy::SET,
    token::SEAT,
    token::NEW,
    token::REVOKE,
    token::LIST,
    head::TRACK,
    head::SUBMIT,
    head::LIST,
    start::START,
    board::UPSERT,
    board::GET,
    board::LIST,
    board::RESOLVE,
    board::COMMENT,
    board::IMPORT,
    board::EXPORT,
    board::PARITY,
    blob::ERASE,
    settings::GET,
    settings::SET,
    closed::CLOSE,
    log_read::READ,
];

/// What actions of a policy can be: every tool, what the service itself says, and bodies that come and go; each with its families.
#[must_use]
pub fn actions() -> Vec<(&'static str, Vec<Family>)> {
    let families = |tool: &Tool| match tool.handler {
        Handler::Read(_) => vec![Family::Read],
        Handler::Write(_) | Handler::Receipt => vec![family(tool.name)],
        _ => vec![Family::Read, family(tool.name)],
    };
    let tools = TOOLS.iter().map(|tool| (tool.name, families(tool)));
    let said = crate::state::refusal::FOLDED.tool;
    // Bodies are no arguments: they come and go by addresses of their own.
    let blobs = [state::blob::PUT, state::blob::READ].map(|(name, family)| (name, vec![family]));
    let others = [(said, vec![family(said)])];
    tools.chain(others).chain(blobs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::state::verb;

    #[test]
    fn names_are_unique_and_every_example_decodes() {
        for (i, tool) in TOOLS.iter().enumerate() {
            assert!(
                TOOLS[..i].iter().all(|other| other.name != tool.name),
                "{} stands twice",
                tool.name
            );
            let example: Value = serde_json::from_str(tool.example).unwrap();
            tool.check_names(&example).unwrap();
            let schema = (tool.arguments)();
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            assert_eq!((tool.result)()["type"], "object", "{}", tool.name);
            for argument in tool.table().iter().filter(|a| a.required) {
                assert!(
                    example.get(&argument.name).is_some(),
                    "{}: {} is missing from the example",
                    tool.name,
                    argument.name
                );
            }
        }
    }

    #[test]
    fn the_starter_policy_has_no_fault() {
        let starter = crate::policy::Policy::default();
        assert_eq!(crate::policy::faults(&starter, &actions()), [""; 0]);
    }

    #[test]
    fn every_writing_tool_has_its_verb() {
        for tool in TOOLS {
            let writes = !matches!(tool.handler, Handler::Read(_));
            let operates = writes && !matches!(tool.handler, Handler::Receipt);
            assert_eq!(verb::find(tool.name).is_some(), operates, "{}", tool.name);
            assert_eq!(tool.hints.read_only, !writes, "{}", tool.name);
        }
    }

    #[test]
    fn an_unknown_argument_is_named_with_the_nearest_known() {
        let problem = identity::ENROLL
            .check_names(&serde_json::json!({"nmae": "x"}))
            .unwrap_err();
        assert!(
            problem.message.contains("did you mean `name`"),
            "{}",
            problem.message
        );
        let problem = identity::ENROLL
            .check_names(&serde_json::json!({"zzzzzzzzzzzz": "x"}))
            .unwrap_err();
        assert!(
            !problem.message.contains("did you mean"),
            "{}",
            problem.message
        );
        let problem = board::UPSERT
            .check_names(&serde_json::json!({"item": {"title": "x", "depends": []}}))
            .unwrap_err();
        assert_eq!(
            problem.message,
            "item takes no member \"depends\"; did you mean `depends_on`?"
        );
        assert_eq!(problem.to_json()["detail"]["argument"], "item/depends");
    }

    #[test]
    fn a_tool_that_is_not_there_is_told_from_its_neighbours() {
        assert_eq!(tool_hint("board_upset"), "; did you mean `board_upsert`?");
        assert_eq!(tool_hint("make_coffee"), "");
    }
}
