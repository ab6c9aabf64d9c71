//! A real log before witnesses that gossip: heads of two sizes are settled by what it answers.

use std::net::SocketAddr;

use countersign_verifier::{add_checkpoint, checkpoint::origin_hash};
use serde_json::{Value, json};

use super::witnessed::{row, until, witnessed};
use crate::{
    rig::{Http, Rig},
    witness::Witness,
};

/// Where the witnesses of `up` listen.
fn locals(rig: &Rig) -> Vec<SocketAddr> {
    let row = row(&rig.service);
    let urls = row["witnesses"].as_array().expect("witnesses").iter();
    let address = |w: &Value| w["url"].as_str()?.strip_prefix("http://")?.parse().ok();
    urls.map(|w| address(w).expect("an address")).collect()
}

fn checkpoint(rig: &Rig) -> String {
    rig.get("/log/dev/checkpoint").text()
}

/// What each witness of `up` says of a head, and what it shows of the log's nodes.
fn settled_by_each(rig: &Rig, head: &str) {
    let hash = origin_hash("localhost/dev").to_hex();
    for address in locals(rig) {
        let mut http = Http::new(address, None);
        let shown = json!({ "heads": [head] }).to_string();
        let said = http.post("/gossip/heads", "application/json", shown.as_bytes());
        assert_eq!(said.json()["verdicts"], json!(["consistent"]), "{address}");
        let query = "size=2&level=1&index=0";
        let own = rig.get(&format!("/log/dev/node?{query}"));
        let said = http.get(&format!("/gossip/node/{hash}?{query}"));
        assert_eq!((own.status, said.status), (200, 200), "{}", said.text());
        assert_eq!(said.body, own.body);
    }
}

#[test]
fn heads_of_two_sizes_are_settled_through_the_log_that_up_serves() {
    let mut rig = Rig::witnessed();
    witnessed(&mut rig, "early");
    let early = checkpoint(&rig);
    // A witness elsewhere that knows no address of the log, and holds an early head.
    let mut other = Witness::init(&[]);
    let added = other.command(&["add-log", &rig.service.vkey]);
    assert_eq!(added.status.code(), Some(0), "{added:?}");
    let peer = format!("http://{}", locals(&rig)[0]);
    let settings = ["--peer", &peer, "--gossip-interval-s", "1"];
    let mut at_other = Http::new(other.serve_with(&settings), None);
    let body = add_checkpoint::request(0, &[], &early);
    let cosigned = at_other.post("/add-checkpoint", "text/plain", body.as_bytes());
    assert_eq!(cosigned.status, 200, "{}", cosigned.text());
    for n in ["more", "and more"] {
        witnessed(&mut rig, n);
    }
    // By nodes, which the peer asks the log for.
    until("the two heads are settled", || {
        let metrics = at_other.get("/metrics").text();
        let consistent = "gossip_heads_total{verdict=\"consistent\"}";
        metrics.contains(consistent).then_some(())
    });
    until("nothing is unresolved", || {
        let health = at_other.get("/health").json();
        (health["unresolved"] == 0 && health["forks"] == 0).then_some(())
    });
    settled_by_each(&rig, &early);
    // Another start has another address, which they are told too.
    rig.restart();
    settled_by_each(&rig, &early);
}
