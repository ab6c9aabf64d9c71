//! What an identity may do: a Cedar policy, evaluated. Pure: the text, who asks and for what go in, yes or no comes out.

use std::{
    collections::{HashMap, HashSet},
    str::FromStr as _,
    sync::Arc,
};

use cedar_policy::{
    AuthorizationError, Authorizer, Context, Decision, Effect, Entities, Entity, EntityId,
    EntityTypeName, EntityUid, ParseErrors, PolicySet, Request, RestrictedExpression, Schema,
    ValidationMode, Validator,
};

mod answers;
mod bounds;

use answers::Answers;

/// The stack on which policies are read and evaluated, whoever asks: enough for whatever the bounds let through, so that no answer
/// depends on how much a thread had left. Only what is used of it is ever touched.
const STACK_BYTES: usize = 32 << 20;

/// The policy of an account that has set none.
pub const STARTER: &str = include_str!("policy/starter.cedar");

/// The family of an action: what a policy may name instead of each tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// It changes nothing.
    Read,
    /// Sessions, leases, the board.
    Coordinate,
    /// What an identity does about itself.
    Own,
    /// Everything else.
    Govern,
}

impl Family {
    /// As policies name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Family::Read => "read",
            Family::Coordinate => "coordinate",
            Family::Own => "own",
            Family::Govern => "govern",
        }
    }
}

/// A question to a policy.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// `id_…` of who asks.
    pub identity: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Where the key lives that signed.
    pub class: &'a str,
    /// What it may be.
    pub roles: &'a [String],
    /// The tool.
    pub tool: &'a str,
    /// The tool's family.
    pub family: Family,
    /// What the call is about.
    pub resource: &'a str,
    /// The account's origin.
    pub account: &'a str,
    /// The role of the session that the call is part of; empty without one.
    pub role: &'a str,
}

/// A policy, read.
#[derive(Clone, Debug)]
pub struct Policy {
    text: Arc<str>,
    set: Arc<PolicySet>,
    /// What it has answered; `None` of one that asks about resources, of which there is no end.
    answers: Option<Arc<Answers>>,
}

impl PartialEq for Policy {
    /// By their text: what was read of it follows.
    fn eq(&self, other: &Policy) -> bool {
        self.text == other.text
    }
}

impl Default for Policy {
    fn default() -> Policy {
        // OK because a test reads it.
        Policy::parse(STARTER).expect("Policy::default: the starter policy")
    }
}

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// What is wrong, and in which line.
    pub fn parse(text: &str) -> Result<Policy, String> {
        bounds::check(text)?;
        // What is looked for in a rule goes as deep as reading it.
        let read = stacker::grow(STACK_BYTES, || {
            let set = PolicySet::from_str(text)?;
            Ok((answers::ask_of_resources(&set), set))
        });
        let (asks, set) = read.map_err(|errors: ParseErrors| {
            let said: Vec<String> = errors.iter().map(|e| place(text, e)).collect();
            said.join("; ")
        })?;
        Ok(Policy {
            text: text.into(),
            answers: (!asks).then(Arc::default),
            set: Arc::new(set),
        })
    }

    /// The text, as it was set.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the policy allows it. Whatever cannot be put to it is not allowed, and nothing is where a `forbid` cannot be evaluated:
    /// what it was to keep from happening does not happen because of a slip in it.
    #[must_use]
    pub fn allows(&self, question: &Question<'_>) -> bool {
        match &self.answers {
            Some(answers) => answers.get_or(question, || self.answer(question)),
            None => self.answer(question),
        }
    }

    fn answer(&self, question: &Question<'_>) -> bool {
        let Some((request, entities)) = put(question) else {
            return false;
        };
        let ask = || Authorizer::new().is_authorized(&request, &self.set, &entities);
        let answer = stacker::grow(STACK_BYTES, ask);
        let failed = answer.diagnostics().errors().any(|error| {
            let AuthorizationError::PolicyEvaluationError(error) = error;
            let rule = self.set.policy(error.policy_id());
            rule.is_none_or(|rule| rule.effect() == Effect::Forbid)
        });
        answer.decision() == Decision::Allow && !failed
    }
}

/// What a policy says that can never be so: an action that no tool has, an attribute that nobody has. A `permit` that fails for it
/// permits nothing, a `forbid` forbids. Each begins with its line. `tools`: every tool with its families.
#[must_use]
pub fn faults(policy: &Policy, tools: &[(&str, Vec<Family>)]) -> Vec<String> {
    let mut text = String::from(
        "entity Account; entity Resource in [Account]; entity Identity { name: String, class: String, roles: Set<String> };\n\
         action read, coordinate, own, govern;\n",
    );
    for (tool, families) in tools {
        let families: Vec<&str> = families.iter().map(|family| family.name()).collect();
        text += &format!(
            "action {tool} in [{}] appliesTo {{ principal: Identity, resource: Resource, context: {{ role: String }} }};\n",
            families.join(", ")
        );
    }
    // OK because a test reads it for every tool there is.
    let (schema, _) = Schema::from_cedarschema_str(&text).expect("policy::faults: our own schema");
    let found = Validator::new(schema).validate(&policy.set, ValidationMode::Strict);
    let text = policy.text();
    let errors = found.validation_errors().map(|e| place(text, e));
    let warnings = found.validation_warnings().map(|e| place(text, e));
    errors.chain(warnings).collect()
}

/// Whether the owner, with a key of its own, could still read under this policy: one that keeps it from that is set by mistake, such as
/// a file with a `forbid` and nothing else.
#[must_use]
pub fn owner_reads(policy: &Policy) -> bool {
    policy.allows(&Question {
        identity: "id_owner",
        name: "owner",
        class: "agent_key",
        roles: &["owner".to_owned()],
        tool: "identity_list",
        family: Family::Read,
        resource: "",
        account: "",
        role: "",
    })
}

/// An error with the line that it is about, in place of the number that its rule has among the others.
fn place(text: &str, error: &dyn miette::Diagnostic) -> String {
    let said = error.to_string();
    let Some(label) = error.labels().and_then(|mut labels| labels.next()) else {
        return said;
    };
    let rest = said.strip_prefix("for policy `");
    let why = rest.and_then(|rest| rest.split_once("`, "));
    let why = why.map_or(said.as_str(), |(_, why)| why);
    let upto = text.get(..label.offset()).unwrap_or(text);
    format!("line {}: {why}", upto.matches('\n').count() + 1)
}

fn uid(kind: &str, id: &str) -> Option<EntityUid> {
    let kind = EntityTypeName::from_str(kind).ok()?;
    Some(EntityUid::from_type_name_and_id(kind, EntityId::new(id)))
}

/// A question in Cedar's terms.
fn put(question: &Question<'_>) -> Option<(Request, Entities)> {
    let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
    let principal = uid("Identity", question.identity)?;
    let action = uid("Action", question.tool)?;
    let family = uid("Action", question.family.name())?;
    let account = uid("Account", question.account)?;
    let resource = uid("Resource", question.resource)?;
    let roles = question.roles.iter().map(|role| text(role));
    let about = HashMap::from([
        ("name".to_owned(), text(question.name)),
        ("class".to_owned(), text(question.class)),
        ("roles".to_owned(), RestrictedExpression::new_set(roles)),
    ]);
    let entities = [
        Entity::new(principal.clone(), about, HashSet::new()).ok()?,
        Entity::new(action.clone(), HashMap::new(), HashSet::from([family])).ok()?,
        Entity::new(resource.clone(), HashMap::new(), HashSet::from([account])).ok()?,
    ];
    let context = Context::from_pairs([("role".to_owned(), text(question.role))]).ok()?;
    let request = Request::new(principal, action, resource, context, None).ok()?;
    Some((request, Entities::from_entities(entities, None).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(policy: &Policy, roles: &[&str], tool: &str, family: Family) -> bool {
        let roles: Vec<String> = roles.iter().map(|r| (*r).to_owned()).collect();
        policy.allows(&Question {
            identity: "id_00",
            name: "builder",
            class: "seat_key",
            roles: &roles,
            tool,
            family,
            resource: "item:\"quoted\" \u{202e}",
            account: "example.com/log",
            role: "",
        })
    }

    #[test]
    fn the_starter_policy_gives_each_role_its_own() {
        let starter = Policy::default();
        for (roles, tool, family, allowed) in [
            (&["owner"][..], "identity_enroll", Family::Govern, true),
            (&["agent"], "identity_enroll", Family::Govern, false),
            (&["agent"], "ars_lease_acquire", Family::Coordinate, true),
            (&["reviewer"], "board_resolve", Family::Coordinate, true),
            (&["operator"], "board_upsert", Family::Coordinate, true),
            (&["builder"], "board_upsert", Family::Coordinate, true),
            (
                &["auditor", "agent"],
                "board_upsert",
                Family::Coordinate,
                true,
            ),
            (&["auditor"], "board_upsert", Family::Coordinate, false),
            (&["service"], "board_upsert", Family::Coordinate, false),
            (&[], "board_upsert", Family::Coordinate, false),
            (&["reader"], "ars_lease_acquire", Family::Coordinate, false),
            (&["reader"], "board_list", Family::Read, true),
            (&[], "board_list", Family::Read, true),
            (&["reader"], "token_revoke", Family::Own, true),
            (&["agent"], "head_submit", Family::Govern, true),
            (&["agent"], "refusals_folded", Family::Govern, false),
            (&["service"], "refusals_folded", Family::Govern, true),
            (&["agent"], "settings_set", Family::Govern, false),
        ] {
            assert_eq!(
                ask(&starter, roles, tool, family),
                allowed,
                "{roles:?} {tool}"
            );
        }
    }

    #[test]
    fn a_forbid_wins_and_an_error_names_its_line() {
        let text = format!(
            "{STARTER}\nforbid (principal, action == Action::\"board_upsert\", resource)\nunless {{ principal.class == \"agent_key\" }};"
        );
        let policy = Policy::parse(&text).unwrap();
        assert!(!ask(
            &policy,
            &["owner"],
            "board_upsert",
            Family::Coordinate
        ));
        assert!(ask(&policy, &["owner"], "board_get", Family::Read));
        let why =
            Policy::parse("permit (principal, action, resource);\npermit (nobody);").unwrap_err();
        assert!(why.contains("line 2"), "{why}");
    }

    #[test]
    fn what_can_never_be_so_is_found_before_it_is_set() {
        let tools = [
            ("board_upsert", vec![Family::Coordinate]),
            ("board_list", vec![Family::Read]),
        ];
        let found = |text: &str| faults(&Policy::parse(text).unwrap(), &tools);
        let rule = |scope: &str, when: &str| {
            format!(
                "forbid (principal, action == Action::\"{scope}\", resource) when {{ {when} }};"
            )
        };
        assert_eq!(
            found(&rule("board_upsert", "principal.name == \"x\"")),
            [""; 0]
        );
        for (bad, named) in [
            (rule("board_upsrt", "true"), "board_upsrt"),
            (rule("board_upsert", "principal.nam == \"x\""), "nam"),
            (rule("board_list", "context.rol == \"x\""), "rol"),
        ] {
            // Behind another rule, so that its line is not the first one.
            let text = format!("{}\n\n// The second.\n{bad}", rule("board_upsert", "true"));
            let all = found(&text).join("\n");
            assert!(all.contains(named), "{bad}: {all}");
            assert!(all.starts_with("line 4: "), "{bad}: {all}");
            assert!(
                !all.contains("policy0") && !all.contains("policy1"),
                "{all}"
            );
        }
    }

    #[test]
    fn a_policy_that_keeps_the_owner_out_is_seen() {
        assert!(owner_reads(&Policy::default()));
        let alone =
            "forbid (principal, action, resource) unless { principal.class == \"agent_key\" };";
        for text in ["", alone] {
            assert!(!owner_reads(&Policy::parse(text).unwrap()), "{text}");
        }
    }

    #[test]
    fn what_is_within_the_bounds_is_read_and_answered_and_what_is_beyond_is_refused() {
        let when =
            |text: String| format!("permit (principal, action, resource) when {{ {text} }};");
        let nested = move |n: usize| when(format!("{}true{}", "(".repeat(n), ")".repeat(n)));
        let chained = move |n: usize| when(vec!["true"; n].join(" && "));
        let branched = move |n: usize| {
            when(format!(
                "{}true{}",
                "if true then ".repeat(n),
                " else false".repeat(n)
            ))
        };
        let negated = move |n: usize| when(format!("{}true", "! ! ".repeat(n)));
        let answers = |text: &str| {
            let read = Policy::parse(text);
            read.map(|policy| ask(&policy, &["owner"], "board_upsert", Family::Coordinate))
        };
        // On a thread with little stack: neither is the answer another one, nor does the process end.
        let run = std::thread::Builder::new()
            .stack_size(512 << 10)
            .spawn(move || {
                for text in [nested(20), chained(120), branched(70), negated(1)] {
                    assert_eq!(answers(&text), Ok(true), "{text}");
                }
                for text in [nested(40), nested(15_000), chained(1_000), branched(400)] {
                    assert!(answers(&text).is_err(), "{}", text.len());
                }
            });
        run.unwrap().join().unwrap();
    }

    #[test]
    fn a_forbid_that_cannot_be_evaluated_forbids() {
        let slip = format!(
            "{STARTER}\nforbid (principal, action == Action::\"board_upsert\", resource) when {{ principal.nam == \"x\" }};"
        );
        let policy = Policy::parse(&slip).unwrap();
        assert!(!ask(
            &policy,
            &["owner"],
            "board_upsert",
            Family::Coordinate
        ));
        assert!(ask(
            &policy,
            &["owner"],
            "board_comment",
            Family::Coordinate
        ));
    }
}
