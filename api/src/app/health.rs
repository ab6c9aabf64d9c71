//! How the service is, as it says itself.

use serde_json::{Value, json};

use super::App;
use crate::{
    account::Account,
    accounts::{Place, Standing},
    witnessing,
};

impl App {
    /// How the service is: what `/health` says. `all` shows private accounts too.
    #[must_use]
    pub fn health(&self, all: bool) -> Value {
        let mut worst = "ok";
        let mut rows = Vec::new();
        let mut offset = 0_i64;
        let all_closed = self.all_closed();
        for place in self.accounts.all() {
            let shown = place.public || all;
            let account = match place.standing() {
                Standing::Open(account) => account,
                other => {
                    if matches!(other, Standing::Failing) && worst == "ok" {
                        worst = "degraded";
                    }
                    rows.extend(shown.then(|| not_open(&place, &other)));
                    continue;
                }
            };
            let status = account.log.status();
            if status.clock_offset_ms.abs() > offset.abs() {
                offset = status.clock_offset_ms;
            }
            // A log that its owner closed is as he wants it: it says nothing against the others.
            if status.stop.is_some() || all_closed {
                worst = "read_only";
            } else if (status.publication.is_some() || status.witnesses.quorum_lost_since.is_some())
                && worst == "ok"
            {
                worst = "degraded";
            }
            if shown {
                rows.push(self.open_row(&account));
            }
        }
        json!({
            "status": worst,
            "version": env!("CARGO_PKG_VERSION"),
            "limits": self.limits(),
            "accounts": rows,
            "clock_offset_ms": offset,
        })
    }

    fn open_row(&self, account: &Account) -> Value {
        let status = account.log.status();
        let mut row = json!({
            "name": account.name,
            "origin": account.origin,
            "size": status.published.size,
            // Without a quorum nobody but the log has signed: there is no witnessed head.
            "witnessed_size": if account.witnessed { status.published.size } else { 0 },
            "owner_forgeable": self.owner_is_forgeable(),
        });
        witnessing::show(&status.witnesses, &mut row);
        if let Some(closed) = account.closed() {
            row["closed"] = json!({"index": closed.index, "successor": closed.successor});
        }
        if account.unguarded {
            row["unguarded"] = true.into();
        }
        if let Some(why) = account.takes_nothing(&status) {
            row["read_only"] = why.into();
        }
        row
    }

    /// Why not every account that is open takes writes; `None` where all do that their owners have not ended. A private account is
    /// not named.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        let all_closed = self.all_closed();
        self.accounts.values().find_map(|account| {
            let status = account.log.status();
            if status.stop.is_none() && !all_closed {
                return None;
            }
            let why = account.takes_nothing(&status)?;
            Some(match account.public {
                true => format!("account {}: {why}", account.name),
                false => why,
            })
        })
    }

    /// Whether no account will ever take a write again, because their owners said so.
    fn all_closed(&self) -> bool {
        let places = self.accounts.all();
        places.iter().all(|place| match place.standing() {
            Standing::Open(account) => account.closed().is_some(),
            Standing::Closed(left) => left.ended,
            Standing::Unopened | Standing::Failing => false,
        })
    }
}

/// An account that is not open, as `/health` and `status` show it: as it was when it was closed.
pub(crate) fn not_open(place: &Place, standing: &Standing) -> Value {
    let mut row = json!({"name": place.name, "origin": place.origin, "open": false});
    match standing {
        Standing::Closed(left) => {
            row["size"] = left.size.into();
            row["witnessed_size"] = left.witnessed_size.into();
        }
        Standing::Failing => row["read_only"] = "the account does not open".into(),
        Standing::Unopened | Standing::Open(_) => {}
    }
    row
}
