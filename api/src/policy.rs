//! What an identity may do: a Cedar policy, evaluated. Pure: the text, who asks and for what go in, yes or no comes out.

use std::{
    collections::{HashMap, HashSet},
    str::FromStr as _,
    sync::Arc,
};

use cedar_policy::{
    ActionConstraint, Authorizer, Context, Decision, Entities, Entity, EntityId, EntityTypeName,
    EntityUid, PolicySet, Request, RestrictedExpression,
};

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
        let set = PolicySet::from_str(text).map_err(|errors| {
            let said: Vec<String> = errors.iter().map(|e| place(text, e)).collect();
            said.join("; ")
        })?;
        Ok(Policy {
            text: text.into(),
            set: Arc::new(set),
        })
    }

    /// The text, as it was set.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the policy allows it. Whatever cannot be put to it is not allowed.
    #[must_use]
    pub fn allows(&self, question: &Question<'_>) -> bool {
        let Some((request, entities)) = put(question) else {
            return false;
        };
        let answer = Authorizer::new().is_authorized(&request, &self.set, &entities);
        answer.decision() == Decision::Allow
    }
}

/// The actions that a policy names and that are neither a tool nor a family: most likely misspelled, for nothing ever is such an
/// action.
#[must_use]
pub fn unknown_actions(policy: &Policy, tools: &[&str]) -> Vec<String> {
    const FAMILIES: [Family; 4] = [
        Family::Read,
        Family::Coordinate,
        Family::Own,
        Family::Govern,
    ];
    let known =
        |name: &str| tools.contains(&name) || FAMILIES.iter().any(|family| family.name() == name);
    let mut unknown: Vec<String> = Vec::new();
    for rule in policy.set.policies() {
        let named: Vec<EntityUid> = match rule.action_constraint() {
            ActionConstraint::Any => Vec::new(),
            ActionConstraint::In(several) => several,
            ActionConstraint::Eq(one) => vec![one],
        };
        let names = named.iter().map(|uid| uid.id().unescaped().to_owned());
        unknown.extend(names.filter(|name| !known(name)));
    }
    unknown.sort();
    unknown.dedup();
    unknown
}

/// An error with the line that it is about.
fn place(text: &str, error: &cedar_policy::ParseError) -> String {
    use miette::Diagnostic as _;
    let offset = error.labels().and_then(|mut labels| labels.next());
    match offset {
        Some(label) => {
            let upto = text.get(..label.offset()).unwrap_or(text);
            format!("line {}: {error}", upto.matches('\n').count() + 1)
        }
        None => error.to_string(),
    }
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
        let text =
            "permit (principal, action in [Action::\"read\", Action::\"board_upsrt\"], resource);";
        let found = unknown_actions(&Policy::parse(text).unwrap(), &["board_upsert"]);
        assert_eq!(found, ["board_upsrt"]);
        let why =
            Policy::parse("permit (principal, action, resource);\npermit (nobody);").unwrap_err();
        assert!(why.contains("line 2"), "{why}");
    }
}
