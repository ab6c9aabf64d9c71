//! What the commands about identities share.

use anyhow::{anyhow, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use countersign_verifier::{
    key::{IdentityId, PrivateKey},
    leaf::Class,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{place::Service, tool::read};

/// An identity, as the service lists it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Row {
    /// `id_…`.
    pub identity: String,
    /// Its label.
    pub name: String,
    /// Where its key lives.
    pub class: String,
    /// `proved` or `stated`.
    #[serde(default)]
    pub possession: String,
    /// Of its present key.
    #[serde(default)]
    pub algorithm: String,
    /// Base64 of the SPKI of its present key.
    pub public_key: String,
    /// The leaf that enrolled it.
    #[serde(default)]
    pub enrolled_index: u64,
    /// The leaf that gave it its present key.
    #[serde(default)]
    pub rotated_index: Option<u64>,
    /// The leaf that revoked it.
    #[serde(default)]
    pub revoked_index: Option<u64>,
}

impl Row {
    /// Its id.
    pub fn id(&self) -> anyhow::Result<IdentityId> {
        self.identity
            .parse()
            .map_err(|e| anyhow!("the service lists an identity {:?}: {e}", self.identity))
    }
}

/// Reads an attribution class.
pub fn class() -> impl TypedValueParser<Value = Class> {
    let classes = [
        Class::AgentKey,
        Class::SessionKey,
        Class::SeatKey,
        Class::ServiceKey,
    ];
    PossibleValuesParser::new(classes.map(Class::name))
        // OK because only names of classes come this far.
        .map(|name| Class::from_name(&name).expect("class: one of the names"))
}

/// All identities of the account as the service wrote them, page after page, each handed to `take`; it returns whether to go on.
pub async fn list(
    service: &Service,
    key: Option<&PrivateKey>,
    take: impl FnMut(Value) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    pages(service, key, ("identity_list", "identities"), take).await
}

/// All rows of a tool that lists, out of the member of its result that holds them.
pub async fn pages(
    service: &Service,
    key: Option<&PrivateKey>,
    (tool, member): (&str, &str),
    mut take: impl FnMut(Value) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let mut arguments = json!({"limit": 200});
    loop {
        let answer = read(service, key, tool, arguments.clone()).await?;
        let Some(rows) = answer.result.get(member).and_then(Value::as_array) else {
            bail!(
                "{}: its answer to {tool} has no {member}",
                service.client.url()
            );
        };
        for row in rows {
            if !take(row.clone())? {
                return Ok(());
            }
        }
        match answer.result.get("next").and_then(Value::as_str) {
            // A page that ends where it began would go on for ever.
            Some(next) if arguments.get("cursor").and_then(Value::as_str) != Some(next) => {
                arguments["cursor"] = next.into()
            }
            _ => return Ok(()),
        }
    }
}

/// The first identity that `is` finds.
pub async fn find(
    service: &Service,
    key: Option<&PrivateKey>,
    is: impl Fn(&Row) -> bool,
) -> anyhow::Result<Option<Row>> {
    let mut found = None;
    list(service, key, |row| {
        let row: Row = serde_json::from_value(row)
            .map_err(|e| anyhow!("the service lists an identity that cannot be read: {e}"))?;
        if is(&row) {
            found = Some(row);
        }
        Ok(found.is_none())
    })
    .await?;
    Ok(found)
}

/// The identity of this id or name.
pub async fn named(
    service: &Service,
    key: Option<&PrivateKey>,
    identity_or_name: &str,
) -> anyhow::Result<Row> {
    let found = find(service, key, |row| {
        row.identity == identity_or_name || row.name == identity_or_name
    })
    .await?;
    found.ok_or_else(|| {
        let (account, url) = (service.client.account(), service.client.url());
        anyhow!("no identity {identity_or_name} in account {account} at {url}; `countersign identity list` shows them")
    })
}
