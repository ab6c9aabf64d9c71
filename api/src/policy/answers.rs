//! Answers of a policy, kept: evaluating one takes longer than checking a signature, and agents ask the same all day.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use cedar_policy::{PolicySet, ResourceConstraint};
use serde_json::Value;

use super::Question;

/// So many answers are kept; then all are forgotten. Identities times tools is less, but of very large fleets.
const KEPT_MAX: usize = 10_000;

/// Whether any rule looks at the resource, or cannot be looked into.
pub(super) fn ask_of_resources(set: &PolicySet) -> bool {
    set.policies().any(|rule| {
        let scoped = rule.resource_constraint() != ResourceConstraint::Any;
        scoped || rule.to_json().map_or(true, |rule| names_resource(&rule))
    })
}

/// Whether the variable stands anywhere in a rule, in Cedar's JSON form of it.
fn names_resource(part: &Value) -> bool {
    match part {
        Value::Object(members) => members.iter().any(|(name, part)| {
            let is_it = name == "Var" && part.as_str() == Some("resource");
            is_it || names_resource(part)
        }),
        Value::Array(parts) => parts.iter().any(names_resource),
        _ => false,
    }
}

/// By all that a question says but the resource.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<HashMap<Vec<u8>, bool>>);

impl Answers {
    /// The answer that was given to this question, else what `work` answers.
    pub(super) fn get_or(&self, question: &Question<'_>, work: impl FnOnce() -> bool) -> bool {
        let key = key(question);
        // A panic elsewhere leaves the answers as they were: each is put in whole.
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = kept().get(&key) {
            return *answer;
        }
        let answer = work();
        let mut kept = kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, answer);
        answer
    }
}

/// Each part with its length before it, so that no two questions have one key.
fn key(question: &Question<'_>) -> Vec<u8> {
    let Question {
        identity,
        name,
        class,
        roles,
        tool,
        family,
        resource: _,
        account,
        role,
    } = question;
    let parts = [
        *identity,
        *name,
        *class,
        *tool,
        family.name(),
        *account,
        *role,
    ];
    let mut key = Vec::with_capacity(256);
    for part in parts.into_iter().chain(roles.iter().map(String::as_str)) {
        key.extend_from_slice(&part.len().to_be_bytes());
        key.extend_from_slice(part.as_bytes());
    }
    key
}

#[cfg(test)]
mod tests {
    use super::super::{Family, Policy};
    use super::*;

    fn question<'a>(roles: &'a [String], resource: &'a str) -> Question<'a> {
        Question {
            identity: "id_00",
            name: "builder",
            class: "agent_key",
            roles,
            tool: "board_upsert",
            family: Family::Coordinate,
            resource,
            account: "example.com/log",
            role: "",
        }
    }

    fn kept(policy: &Policy) -> Option<usize> {
        let answers = policy.answers.as_ref()?;
        Some(answers.0.lock().unwrap().len())
    }

    #[test]
    fn what_does_not_look_at_the_resource_is_asked_once() {
        let (policy, agent) = (Policy::default(), ["agent".to_owned()]);
        for n in 0..100 {
            assert!(policy.allows(&question(&agent, &format!("item:{n}"))));
        }
        assert_eq!(kept(&policy), Some(1));
        // Everything else that can differ is another question.
        let base = question(&agent, "item:1");
        let (none, two) = ([], ["agent".to_owned(), "auditor".to_owned()]);
        for other in [
            Question {
                identity: "id_01",
                ..base.clone()
            },
            Question {
                name: "other",
                ..base.clone()
            },
            Question {
                class: "seat_key",
                ..base.clone()
            },
            Question {
                roles: &none,
                ..base.clone()
            },
            Question {
                roles: &two,
                ..base.clone()
            },
            Question {
                tool: "identity_enroll",
                family: Family::Govern,
                ..base.clone()
            },
            Question {
                account: "example.com/other",
                ..base.clone()
            },
            Question {
                role: "agent",
                ..base.clone()
            },
        ] {
            let before = kept(&policy);
            assert_eq!(policy.allows(&other), policy.answer(&other), "{other:?}");
            assert_eq!(kept(&policy), before.map(|n| n + 1), "{other:?}");
        }
        assert!(!policy.allows(&Question {
            roles: &none,
            ..base
        }));
    }

    #[test]
    fn what_looks_at_the_resource_is_asked_each_time() {
        for rule in [
            r#"permit (principal, action, resource == Resource::"item:a");"#,
            r#"permit (principal, action, resource) when { resource == Resource::"item:a" };"#,
            r#"permit (principal, action, resource) unless { [resource].contains(Resource::"item:b") };"#,
            r#"permit (principal, action, resource); forbid (principal, action, resource) when { if principal.name == "builder" then resource == Resource::"item:b" else false };"#,
        ] {
            let (policy, agent) = (Policy::parse(rule).unwrap(), ["agent".to_owned()]);
            assert_eq!(kept(&policy), None, "{rule}");
            for _ in 0..2 {
                assert!(policy.allows(&question(&agent, "item:a")), "{rule}");
                assert!(!policy.allows(&question(&agent, "item:b")), "{rule}");
            }
        }
    }

    #[test]
    fn no_more_are_kept_than_fit() {
        let (policy, agent) = (Policy::default(), ["agent".to_owned()]);
        let answers = policy.answers.as_ref().unwrap();
        for n in 0..=KEPT_MAX {
            let identity = format!("id_{n}");
            let asked = Question {
                identity: &identity,
                ..question(&agent, "")
            };
            answers.get_or(&asked, || true);
        }
        assert_eq!(kept(&policy), Some(1));
    }
}
