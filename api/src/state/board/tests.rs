//! The board, by operations judged and taken in one after the other: each refusal changes nothing, and what is listed is what
//! reading every item would find.

use countersign_verifier::{
    key::{Algorithm, PrivateKey},
    leaf::{Class, Millis},
    operation::Operation,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{file::FileError, names, *};
use crate::{
    code::Code,
    state::{At, Caller, Decided, Identity, State, identity::Possession, verb},
};

/// A board with a clock, and two who ask: a worker, and a reviewer.
struct Desk {
    state: State,
}

fn identity(n: u8, roles: &[&str]) -> Identity {
    let key = PrivateKey::from_secret(Algorithm::Ed25519, &[n; 32]).unwrap();
    Identity {
        id: key.public().identity(),
        name: format!("identity-{n}"),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        class: Class::AgentKey,
        key: key.public().into(),
        retired: Vec::new(),
        possession: Possession::Proved,
        enrolled: None,
        rotations: Vec::new(),
        revoked: None,
    }
}

fn worker() -> Identity {
    identity(1, &["agent"])
}

fn reviewer() -> Identity {
    identity(2, &["reviewer"])
}

impl Desk {
    fn new() -> Desk {
        let mut state = State::default();
        (state.at, state.size) = (1_700_000_000_000, 1);
        Desk { state }
    }

    /// Judges a call and takes it in; the effect, or code and detail of the refusal, which changes nothing.
    fn ask(
        &mut self,
        by: &Identity,
        tool: &str,
        arguments: Value,
    ) -> Result<Map<String, Value>, (Code, Map<String, Value>)> {
        let operation = Operation {
            tool: tool.into(),
            arguments,
            log: "localhost/dev".into(),
            session: None,
            nonce: "0123456789abcdef".into(),
            issued_at: Millis(0),
            prev: Vec::new(),
            observed: None,
        };
        let verb = verb::find(tool).unwrap();
        self.state.at += 1_000;
        let at = At {
            at: self.state.at,
            index: self.state.size,
        };
        let before = self.state.board.clone();
        let decided = (verb.decide)(&self.state, &Caller::from(by), &operation, at);
        assert_eq!(self.state.board, before);
        match decided {
            Decided::Applied(effect) => {
                (verb.apply)(&mut self.state, by.id, &operation, &effect, at.index).unwrap();
                self.state.size += 1;
                self.check();
                Ok(effect)
            }
            Decided::Refused(code, message, mut detail) => {
                detail.insert("message".into(), message.into());
                Err((code, detail))
            }
        }
    }

    fn upsert(&mut self, item: Value) -> Result<Map<String, Value>, (Code, Map<String, Value>)> {
        self.ask(&worker(), "board_upsert", json!({ "item": item }))
    }

    fn item(&self, id: &str) -> &Item {
        self.state.board.get(id).unwrap()
    }

    fn ready(&self) -> Vec<&str> {
        self.state.board.ready(None).map(|item| &*item.id).collect()
    }

    /// Every index holds what reading all items finds, and a snapshot gives the same board back.
    fn check(&self) {
        let board = &self.state.board;
        for item in board.iter() {
            let done = |id: &Arc<str>| board.get(id).is_some_and(|i| i.status == Status::Done);
            let ready = item.status == Status::Pending && item.depends_on.iter().all(done);
            assert_eq!(board.is_ready(item), ready, "{}", item.id);
        }
        let fits = |fits: &dyn Fn(&Item) -> bool| -> Vec<Arc<str>> {
            board
                .iter()
                .filter(|i| fits(i))
                .map(|i| i.id.clone())
                .collect()
        };
        let of = |by: By| -> Vec<Arc<str>> { board.of(&by, None).map(|i| i.id.clone()).collect() };
        for status in Status::ALL {
            assert_eq!(of(By::Status(status)), fits(&|i| i.status == status));
        }
        for name in ["a", "b"].map(Arc::<str>::from) {
            assert_eq!(of(By::Tag(name.clone())), fits(&|i| i.tags.contains(&name)));
            let is = |has: &Option<Arc<str>>| has.as_ref() == Some(&name);
            assert_eq!(of(By::Owner(name.clone())), fits(&|i| is(&i.owner)));
            assert_eq!(
                of(By::Workstream(name.clone())),
                fits(&|i| is(&i.workstream))
            );
        }
        assert_eq!(Board::from_rows(board.to_rows()).as_ref(), Some(board));
    }

    /// Imports a file as a client does: planned, cut, and one operation a part.
    fn import(&mut self, content: &str, mode: Mode) -> (Vec<(String, Merged)>, u64) {
        let read = file::read(content).unwrap();
        let items = read
            .items
            .iter()
            .map(|(_, members)| members.clone())
            .collect();
        let mut became = Vec::new();
        let mut applied = 0;
        for part in file::cut(&read.sha256, mode, items, Vec::new()) {
            let ids: Vec<String> = part["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["id"].as_str().unwrap().to_owned())
                .collect();
            let effect = self.ask(&worker(), "board_import", part).unwrap();
            let letters = effect["became"].as_str().unwrap().chars();
            became.extend(ids.into_iter().zip(letters.filter_map(Merged::from_letter)));
            applied += effect["applied"].as_u64().unwrap();
        }
        (became, applied)
    }
}

fn code(result: Result<Map<String, Value>, (Code, Map<String, Value>)>) -> Code {
    result.unwrap_err().0
}

/// A file of these items, as an export would be.
fn file_of(items: &[Value]) -> String {
    let mut board = Board::default();
    for item in items {
        let mut members = item::blank(item["id"].as_str().unwrap(), 1_600_000_000_000);
        members.insert("version".into(), 1.into());
        members.extend(item.as_object().unwrap().clone());
        let provenance = Provenance {
            by: worker().id,
            session: None,
            index: 0,
        };
        board.insert(Item::new(members, provenance).unwrap());
    }
    file::write(&board)
}

#[test]
fn an_upsert_makes_and_patches() {
    let mut desk = Desk::new();
    let effect = desk.upsert(json!({"title": "One"})).unwrap();
    assert_eq!(
        effect,
        verb::map(json!({"id": "i_1", "version": 1, "created": true}))
    );
    let effect = desk
        .upsert(json!({"id": "i_1", "owner": "a", "tags": ["a", "b"], "extra": {"x": 1}}))
        .unwrap();
    assert_eq!(
        effect,
        verb::map(json!({"id": "i_1", "version": 2, "created": false}))
    );
    let read = desk.item("i_1").read();
    assert_eq!(
        (read.title.as_str(), read.owner.as_deref()),
        ("One", Some("a"))
    );
    assert_eq!((read.priority, read.extra.len()), (2, 1));
    assert!(read.created_at < read.updated_at);
    desk.upsert(json!({"id": "i_1", "owner": null})).unwrap();
    assert_eq!(desk.item("i_1").read().owner, None);
    desk.upsert(json!({"id": "i_1", "status": "done"})).unwrap();
    let done = desk.item("i_1").read().done_at.unwrap();
    desk.upsert(json!({"id": "i_1", "title": "Two"})).unwrap();
    assert_eq!(
        desk.item("i_1").read().done_at,
        Some(done),
        "kept while it is done"
    );
    desk.upsert(json!({"id": "i_1", "status": "active"}))
        .unwrap();
    assert_eq!(desk.item("i_1").read().done_at, None);
}

#[test]
fn texts_are_kept_byte_for_byte() {
    let mut desk = Desk::new();
    let text = "a\r\nb\tc\u{2028}d cafe\u{301} \u{202e}x\0\u{1f600}";
    desk.upsert(json!({"id": "T", "title": "cafe\u{301}", "description": text}))
        .unwrap();
    let read = desk.item("T").read();
    assert_eq!(
        (read.title.as_str(), read.description.as_str()),
        ("cafe\u{301}", text)
    );
}

#[test]
fn what_cannot_be_an_item() {
    let mut desk = Desk::new();
    for item in [
        json!({"id": "x"}),
        json!({"id": "", "title": "t"}),
        json!({"id": "a\u{202e}b", "title": "t"}),
        json!({"id": "a\nb", "title": "t"}),
        json!({"id": "x".repeat(129), "title": "t"}),
        json!({"title": ""}),
        json!({"title": "t".repeat(1_025)}),
        json!({"title": "t", "priority": 5}),
        json!({"title": "t", "status": "begun"}),
        json!({"title": "t", "tags": ["a\u{200b}"]}),
        json!({"title": "t", "owner": " a"}),
        json!({"title": "t", "unknown": 1}),
        json!({"title": "t", "depends_on": vec!["x"; 257]}),
        json!({"title": "t", "links": [{"rel": "blocks"}]}),
        json!({"title": "t", "version": 7}),
        json!({"title": "t", "comments": []}),
    ] {
        let shown = item.to_string();
        assert_eq!(code(desk.upsert(item)), Code::Malformed, "{shown}");
    }
    let (code, detail) = desk
        .upsert(json!({"title": "t", "description": "x".repeat(32 << 10)}))
        .unwrap_err();
    assert_eq!((code, &detail["limit"]), (Code::TooLarge, &json!(32_768)));
    assert!(desk.state.board.is_empty());
}

#[test]
fn a_version_that_has_moved_is_refused() {
    let mut desk = Desk::new();
    let ask = |desk: &mut Desk, version| {
        let call = json!({"item": {"id": "T", "title": "t"}, "if_version": version});
        desk.ask(&worker(), "board_upsert", call)
    };
    assert_eq!(code(ask(&mut desk, 1)), Code::VersionMismatch);
    ask(&mut desk, 0).unwrap();
    let (code, detail) = ask(&mut desk, 0).unwrap_err();
    assert_eq!(
        (code, &detail["version"]),
        (Code::VersionMismatch, &json!(1))
    );
    ask(&mut desk, 1).unwrap();
    let call = json!({"id": "T", "outcome": "done", "if_version": 1});
    let (code, _) = desk.ask(&worker(), "board_resolve", call).unwrap_err();
    assert_eq!(code, Code::VersionMismatch);
}

#[test]
fn a_fence_that_nobody_holds_is_stale() {
    let mut desk = Desk::new();
    let call = json!({"item": {"id": "T", "title": "t"}, "fence": 7});
    assert_eq!(
        code(desk.ask(&worker(), "board_upsert", call)),
        Code::StaleFence
    );
    desk.upsert(json!({"id": "T", "title": "t"})).unwrap();
    let call = json!({"id": "T", "outcome": "done", "fence": 7});
    assert_eq!(
        code(desk.ask(&worker(), "board_resolve", call)),
        Code::StaleFence
    );
}

// B182, B183
#[test]
fn ids_that_readers_would_take_for_one_another_are_one_or_refused() {
    let mut desk = Desk::new();
    desk.upsert(json!({"id": "caf\u{e9}-bot", "title": "t"}))
        .unwrap();
    // The other spelling is the same id.
    let effect = desk
        .upsert(json!({"id": "cafe\u{301}-bot", "title": "u"}))
        .unwrap();
    assert_eq!(
        (&effect["id"], &effect["version"]),
        (&json!("caf\u{e9}-bot"), &json!(2))
    );
    for twin in ["CAF\u{c9}-bot", "caf\u{e9}-b\u{43e}t", "Caf\u{e9}-Bot"] {
        let (code, detail) = desk.upsert(json!({"id": twin, "title": "t"})).unwrap_err();
        assert_eq!(
            (code, &detail["id"]),
            (Code::IdTaken, &json!("caf\u{e9}-bot")),
            "{twin}"
        );
    }
}

#[test]
fn nothing_waits_for_itself() {
    let mut desk = Desk::new();
    let own = desk.upsert(json!({"id": "A", "title": "t", "depends_on": ["A"]}));
    assert_eq!(code(own), Code::DependencyCycle);
    // What is waited for need not be there yet.
    desk.upsert(json!({"id": "A", "title": "t", "depends_on": ["B"]}))
        .unwrap();
    desk.upsert(json!({"id": "B", "title": "t", "depends_on": ["C"]}))
        .unwrap();
    let (code, detail) = desk
        .upsert(json!({"id": "C", "title": "t", "depends_on": ["A"]}))
        .unwrap_err();
    assert_eq!(code, Code::DependencyCycle);
    assert_eq!(detail["through"], json!(["A", "B"]));
    assert!(desk.ready().is_empty());
    desk.upsert(json!({"id": "C", "title": "t"})).unwrap();
    assert_eq!(desk.ready(), ["C"]);
}

#[test]
fn a_search_for_a_cycle_is_bounded() {
    let mut desk = Desk::new();
    let moment = Moment {
        at: desk.state.at,
        by: worker().id,
        session: None,
        index: 1,
    };
    let chain = cycle::CYCLE_NODES_MAX + 2;
    for n in 0..chain {
        let patch = verb::map(json!({"title": "t", "depends_on": [format!("n{}", n + 1)]}));
        let item = patch::patched(None, &format!("n{n}"), &patch, &moment).unwrap();
        desk.state.board.insert(item);
    }
    desk.state.board.insert(
        patch::patched(
            None,
            "w",
            &verb::map(json!({"title": "t", "depends_on": ["x"]})),
            &moment,
        )
        .unwrap(),
    );
    let call = json!({"item": {"id": "x", "title": "t", "depends_on": ["n0"]}});
    let operation = Operation {
        tool: "board_upsert".into(),
        arguments: call,
        log: String::new(),
        session: None,
        nonce: String::new(),
        issued_at: Millis(0),
        prev: Vec::new(),
        observed: None,
    };
    let identity = worker();
    let at = At { at: 0, index: 2 };
    let decided = (UPSERT.decide)(&desk.state, &Caller::from(&identity), &operation, at);
    assert!(
        matches!(decided, Decided::Refused(Code::DependencyTooDeep, ..)),
        "{decided:?}"
    );
}

/// Puts an item in, with what it depends on and where it stands.
fn put(board: &mut Board, id: &str, depends: &[&str], status: &str) {
    let moment = Moment {
        at: 1,
        by: worker().id,
        session: None,
        index: 1,
    };
    let patch = verb::map(json!({"title": "t", "depends_on": depends, "status": status}));
    board.insert(patch::patched(board.get(id), id, &patch, &moment).unwrap());
}

#[test]
fn what_an_item_waits_for_is_counted() {
    let mut board = Board::default();
    put(&mut board, "w", &["a", "b", "b"], "pending");
    put(&mut board, "v", &["a"], "pending");
    let ready = |board: &Board| -> Vec<String> {
        board.ready(None).map(|item| item.id.to_string()).collect()
    };
    put(&mut board, "a", &[], "done");
    assert_eq!(ready(&board), ["v"]);
    // Who still waits for another one is not judged again, nor is what that one waits for read.
    assert_eq!(board.waits.clone().settle("b", true), [Arc::from("w")]);
    assert_eq!(board.waits.clone().settle("a", false), [Arc::from("v")]);
    put(&mut board, "b", &[], "done");
    assert_eq!(ready(&board), ["v", "w"]);
    put(&mut board, "a", &[], "active");
    assert_eq!(ready(&board), [""; 0]);
    put(&mut board, "w", &["b"], "pending");
    assert_eq!(ready(&board), ["w"]);
    assert_eq!(
        ["a", "b", "x"].map(|id| board.dependents_count(id)),
        [1, 1, 0]
    );
    assert_eq!(Board::from_rows(board.to_rows()).as_ref(), Some(&board));
}

#[test]
fn one_operation_looks_at_so_many_dependencies_and_no_more() {
    let mut board = Board::default();
    // Layers, each of which depends on all of the next one: few items, and many ways.
    let layer = |n: usize| -> Vec<String> { (0..40).map(|i| format!("n{n}_{i}")).collect() };
    for n in 0..4 {
        let below = layer(n + 1);
        let below: Vec<&str> = below.iter().map(String::as_str).collect();
        layer(n)
            .iter()
            .for_each(|id| put(&mut board, id, &below, "pending"));
    }
    put(&mut board, "w", &["x"], "pending");
    let new = |depends: &[&str]| {
        let mut with = board.clone();
        put(&mut with, "x", depends, "pending");
        with.get("x").unwrap().clone()
    };
    let shallow = new(&["n2_0"]);
    // One in layer 2, and all of layer 3 and 4, of which the last ones are not there.
    let layers = |n: usize| 41 + n * 40 * 41;
    let looked = layers(1);
    for (most, found) in [(looked, None), (looked - 1, Some(cycle::Cycle::TooMuch))] {
        assert_eq!(cycle::cycle(&board, &shallow, &Work::of(most)), found);
    }
    let deep = new(&["n0_0"]);
    for (most, found) in [
        (layers(3), None),
        (layers(3) - 1, Some(cycle::Cycle::TooMuch)),
    ] {
        assert_eq!(cycle::cycle(&board, &deep, &Work::of(most)), found);
    }
    // All parts of one operation share it.
    let work = Work::of(looked + 1);
    assert_eq!(cycle::cycle(&board, &shallow, &work), None);
    assert_eq!(
        cycle::cycle(&board, &shallow, &work),
        Some(cycle::Cycle::TooMuch)
    );
    // What it depended on before was looked at then.
    put(&mut board, "x", &["n0_0"], "pending");
    let same = board.get("x").unwrap();
    assert_eq!(cycle::cycle(&board, same, &Work::of(0)), None);
}

#[test]
fn as_many_wait_for_one_item_as_can_be_told() {
    let mut desk = Desk::new();
    let most = waits::DEPENDENTS_MAX;
    for n in 0..most {
        let pair = ("hub".into(), format!("n{n}").into());
        desk.state
            .board
            .waits
            .change(&pair.1, (&[], &[pair.0]), |_| false);
    }
    let new = json!({"id": "one", "title": "t", "depends_on": ["hub"]});
    let (code, detail) = desk.upsert(new.clone()).unwrap_err();
    assert_eq!(
        (code, &detail["limit"]),
        (Code::DependencyTooDeep, &json!(most))
    );
    assert_eq!(detail["through"], json!(["hub"]));
    // In an import it is passed over, and so is what would have to tell more than one operation may.
    let mut board = desk.state.board.clone();
    let moment = Moment {
        at: 1,
        by: worker().id,
        session: None,
        index: 1,
    };
    let mut merge = |item: Value, work: Option<&Work>| {
        let rests = Rests {
            held: &|_| false,
            reviews: true,
            items_max: 9,
            work,
        };
        merge(&mut board, &verb::map(item), Mode::Merge, &moment, &rests).unwrap()
    };
    let hub = json!({"id": "hub", "title": "t", "status": "done"});
    let work = Work::of(most);
    assert_eq!(merge(new.clone(), Some(&work)), Merged::Deep);
    assert_eq!(merge(hub.clone(), Some(&Work::of(most - 1))), Merged::Deep);
    assert_eq!(merge(hub, Some(&work)), Merged::Created);
    assert!(!work.take(1), "it took one for each that waits");
    // What was judged before is taken in as it was judged.
    assert_eq!(merge(new, None), Merged::Created);
}

#[test]
fn what_is_ready_comes_in_order_of_priority_and_age() {
    let mut desk = Desk::new();
    desk.upsert(json!({"id": "late", "title": "t", "priority": 3}))
        .unwrap();
    desk.upsert(json!({"id": "b", "title": "t", "depends_on": ["a"]}))
        .unwrap();
    desk.upsert(json!({"id": "a", "title": "t"})).unwrap();
    desk.upsert(json!({"id": "first", "title": "t", "priority": 0}))
        .unwrap();
    assert_eq!(desk.ready(), ["first", "a", "late"]);
    // What is in progress is not offered.
    desk.upsert(json!({"id": "first", "status": "active"}))
        .unwrap();
    assert_eq!(desk.ready(), ["a", "late"]);
    desk.ask(
        &worker(),
        "board_resolve",
        json!({"id": "a", "outcome": "done"}),
    )
    .unwrap();
    assert_eq!(desk.ready(), ["b", "late"]);
    desk.upsert(json!({"id": "a", "status": "pending"}))
        .unwrap();
    assert_eq!(
        desk.ready(),
        ["a", "late"],
        "what it waited for is not done any more"
    );
    desk.ask(
        &worker(),
        "board_resolve",
        json!({"id": "a", "outcome": "dropped"}),
    )
    .unwrap();
    assert_eq!(desk.ready(), ["late"], "dropped is not done");
}

#[test]
fn whoever_delivers_does_not_accept() {
    let mut desk = Desk::new();
    let new = json!({"id": "N", "title": "t", "review_required": true, "status": "done"});
    assert_eq!(code(desk.upsert(new)), Code::ReviewRequired);
    desk.upsert(json!({"id": "T", "title": "t", "review_required": true}))
        .unwrap();
    let resolve = |desk: &mut Desk, by: &Identity, outcome: &str| {
        let call = json!({"id": "T", "outcome": outcome, "note": "n", "evidence": [{"name": "x.md", "sha256": "0".repeat(64)}]});
        desk.ask(by, "board_resolve", call)
    };
    assert_eq!(
        code(resolve(&mut desk, &worker(), "changes_requested")),
        Code::ReviewRequired
    );
    let effect = resolve(&mut desk, &worker(), "done").unwrap();
    assert_eq!(effect["status"], "awaiting_review");
    let read = desk.item("T").read();
    assert_eq!(read.comments[0].author, worker().id.to_string());
    assert_eq!(read.comments[0].id, "c_2");
    assert_eq!(
        read.links[0].target,
        format!("sha256:{}:x.md", "0".repeat(64))
    );
    assert_eq!(read.done_at, None);
    for outcome in ["done", "dropped", "changes_requested"] {
        assert_eq!(
            code(resolve(&mut desk, &worker(), outcome)),
            Code::ReviewRequired,
            "{outcome}"
        );
    }
    // Nor by the other way in.
    assert_eq!(
        code(desk.upsert(json!({"id": "T", "status": "done"}))),
        Code::ReviewRequired
    );
    let loosen = json!({"id": "T", "review_required": false});
    assert_eq!(code(desk.upsert(loosen)), Code::ReviewRequired);
    let effect = resolve(&mut desk, &reviewer(), "changes_requested").unwrap();
    assert_eq!(effect["status"], "pending");
    resolve(&mut desk, &worker(), "done").unwrap();
    assert_eq!(
        resolve(&mut desk, &reviewer(), "done").unwrap()["status"],
        "done"
    );
    assert!(desk.item("T").read().done_at.is_some());
    assert_eq!(
        code(resolve(&mut desk, &worker(), "done")),
        Code::ReviewRequired
    );
    // What was accepted is neither opened again nor written over by whoever may not accept it.
    for patch in [
        json!({"id": "T", "status": "pending"}),
        json!({"id": "T", "description": "other"}),
    ] {
        assert_eq!(code(desk.upsert(patch)), Code::ReviewRequired);
    }
    let rewritten = file_of(&[
        json!({"id": "T", "title": "other", "review_required": true, "status": "done", "version": 99}),
    ]);
    let (became, applied) = desk.import(&rewritten, Mode::Merge);
    assert_eq!((became[0].1, applied), (Merged::Review, 0));
}

#[test]
fn a_file_leaves_room_for_the_versions_to_come() {
    let far = |version: u64| file_of(&[json!({"id": "V", "title": "t", "version": version})]);
    assert!(file::read(&far(1 << 52)).is_ok());
    assert!(file::read(&far((1 << 52) + 1)).is_err());
    let mut desk = Desk::new();
    desk.import(&far(1 << 52), Mode::Merge);
    desk.upsert(json!({"id": "V", "title": "other"})).unwrap();
    assert_eq!(desk.item("V").version, (1 << 52) + 1);
}

#[test]
fn what_cannot_be_resolved_or_commented() {
    let mut desk = Desk::new();
    desk.upsert(json!({"id": "T", "title": "t"})).unwrap();
    for (tool, call, expected) in [
        (
            "board_resolve",
            json!({"id": "U", "outcome": "done"}),
            Code::NotFound,
        ),
        (
            "board_resolve",
            json!({"id": "t", "outcome": "done"}),
            Code::NotFound,
        ),
        (
            "board_resolve",
            json!({"id": "T", "outcome": "finished"}),
            Code::Malformed,
        ),
        (
            "board_resolve",
            json!({"id": "T", "outcome": "done", "evidence": [{"name": "x", "sha256": "0"}]}),
            Code::Malformed,
        ),
        (
            "board_comment",
            json!({"id": "U", "text": "x"}),
            Code::NotFound,
        ),
        (
            "board_comment",
            json!({"id": "T", "text": ""}),
            Code::Malformed,
        ),
        (
            "board_comment",
            json!({"id": "T", "text": "x".repeat(33_000)}),
            Code::TooLarge,
        ),
    ] {
        let shown = call.to_string();
        let shown: String = shown.chars().take(80).collect();
        assert_eq!(code(desk.ask(&worker(), tool, call)), expected, "{shown}");
    }
    let effect = desk
        .ask(
            &worker(),
            "board_comment",
            json!({"id": "T", "text": "a\r\n"}),
        )
        .unwrap();
    assert_eq!(effect["comment"], "c_2");
    assert_eq!(desk.item("T").read().comments[0].text, "a\r\n");
}

/// What other tools and other line ends make of a file.
// B147
#[test]
fn a_file_comes_in_whatever_was_done_to_its_line_ends() {
    let text = "one\r\ntwo\tthree\u{2028}four";
    let plain = file_of(&[
        json!({"id": "A", "title": "cafe\u{301}", "description": text, "version": 4, "x_unknown": {"b": [1, null]}, "extra": {"k": "v"},
               "comments": [{"id": "c_9", "author": "somebody", "at": "2026-01-01T00:00:00.000Z", "text": "\r\n", "x": 1}]}),
        json!({"id": "B", "title": "t", "depends_on": ["A"], "done_at": null}),
    ]);
    let crlf = plain.replace('\n', "\r\n");
    let marked = format!("\u{feff}{plain}");
    let cut_end = plain.trim_end().to_owned();
    for content in [&plain, &crlf, &marked, &cut_end] {
        let mut desk = Desk::new();
        let (_, applied) = desk.import(content, Mode::Merge);
        assert_eq!(applied, 2);
        assert_eq!(file::write(&desk.state.board), plain);
        assert_eq!(desk.item("A").read().description, text);
        // Again: nothing.
        let before = desk.state.board.clone();
        let (became, applied) = desk.import(content, Mode::Merge);
        assert_eq!(applied, 0, "{became:?}");
        assert_eq!(desk.state.board, before);
    }
}

#[test]
fn what_is_no_file() {
    let good = file_of(&[
        json!({"id": "A", "title": "t"}),
        json!({"id": "B", "title": "t"}),
    ]);
    let lines: Vec<&str> = good.lines().collect();
    let resealed = |lines: &[&str]| {
        let body = lines.join("\n") + "\n";
        let digest = countersign_verifier::hash::sha256(body.as_bytes()).to_hex();
        format!("{body}{{\"sha256\":\"{digest}\"}}\n")
    };
    let line = |content: &str| match file::read(content) {
        Err(FileError::Line(line, _)) => Some(line),
        _ => None,
    };
    assert_eq!(line(""), Some(1));
    assert_eq!(line("{}\n"), Some(1));
    assert_eq!(
        line(&lines[..1].join("\n")),
        Some(2),
        "cut after the header"
    );
    assert_eq!(
        line(&lines[..3].join("\n")),
        Some(3),
        "cut before the trailer"
    );
    assert_eq!(line(&resealed(&lines[..2])), Some(1), "the count is wrong");
    let title = lines[2].replace("\"t\"", "\"\"");
    assert_eq!(line(&resealed(&[lines[0], lines[1], &title])), Some(3));
    let half = lines[2].replace("\"priority\":2", "\"priority\":2.5");
    assert_eq!(line(&resealed(&[lines[0], lines[1], &half])), Some(3));
    let deep = lines[2].replace(
        "\"extra\":{}",
        &format!("\"extra\":{{\"x\":{}{}}}", "[".repeat(28), "]".repeat(28)),
    );
    assert_eq!(line(&resealed(&[lines[0], lines[1], &deep])), Some(3));
    let changed = good.replace("\"t\"", "\"u\"");
    assert!(matches!(
        file::read(&changed),
        Err(FileError::Digest { .. })
    ));
    for twin in ["A", "a", "\u{391}"] {
        let other = lines[2].replace("\"id\":\"B\"", &format!("\"id\":\"{twin}\""));
        let found = file::read(&resealed(&[lines[0], lines[1], &other]));
        let Err(FileError::Duplicate { lines, .. }) = found else {
            panic!("{twin}: {found:?}")
        };
        assert_eq!(lines, [2, 3]);
    }
}

// B143
#[test]
fn a_merge_keeps_the_newer_version_and_all_comments() {
    let comment = |id: &str, text: &str| json!({"id": id, "author": "a", "at": "2026-01-01T00:00:00.000Z", "text": text});
    let mut desk = Desk::new();
    let ours = |version: u64, title: &str, comments: &[Value]| json!({"id": "A", "title": title, "version": version, "comments": comments});
    desk.import(
        &file_of(&[ours(3, "ours", &[comment("c_1", "ours")])]),
        Mode::Merge,
    );
    for (theirs, expected, title, version, comments) in [
        (
            ours(2, "older", &[comment("c_1", "ours")]),
            Merged::Older,
            "ours",
            3,
            1,
        ),
        (
            ours(3, "other", &[comment("c_1", "ours")]),
            Merged::Conflict,
            "ours",
            3,
            1,
        ),
        // Two boards have each made a comment 1.
        (
            ours(3, "ours", &[comment("c_1", "theirs")]),
            Merged::Joined,
            "ours",
            4,
            2,
        ),
        (
            ours(3, "ours", &[comment("c_1", "theirs")]),
            Merged::Unchanged,
            "ours",
            4,
            2,
        ),
        (
            ours(2, "older", &[comment("c_5", "third")]),
            Merged::Joined,
            "ours",
            5,
            3,
        ),
        (
            ours(9, "newer", &[comment("c_1", "ours")]),
            Merged::Updated,
            "newer",
            10,
            3,
        ),
        (
            ours(9, "newer", &[comment("c_1", "ours")]),
            Merged::Unchanged,
            "newer",
            10,
            3,
        ),
    ] {
        let shown = theirs.to_string();
        let (became, _) = desk.import(&file_of(&[theirs]), Mode::Merge);
        assert_eq!(became[0].1, expected, "{shown}");
        let read = desk.item("A").read();
        assert_eq!(
            (read.title.as_str(), read.version, read.comments.len()),
            (title, version, comments),
            "{shown}"
        );
        let mut ids: Vec<&str> = read.comments.iter().map(|c| c.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), comments, "each has an id of its own");
    }
}

// B141: whoever brings a file that lacks items takes none of them away.
#[test]
fn a_replacement_wins_and_deletes_nothing() {
    let mut desk = Desk::new();
    desk.import(
        &file_of(&[
            json!({"id": "A", "title": "ours", "version": 7}),
            json!({"id": "B", "title": "b"}),
        ]),
        Mode::Merge,
    );
    let content = file_of(&[json!({"id": "A", "title": "theirs", "version": 2})]);
    let read = file::read(&content).unwrap();
    let items = read
        .items
        .iter()
        .map(|(_, members)| members.clone())
        .collect();
    for (applied, letters) in [(2, "ud"), (0, "ss")] {
        let part = file::cut(
            &read.sha256,
            Mode::Replace,
            Vec::clone(&items),
            vec!["B".into()],
        )
        .remove(0);
        let effect = desk.ask(&worker(), "board_import", part).unwrap();
        assert_eq!(
            (&effect["applied"], &effect["became"]),
            (&json!(applied), &json!(letters))
        );
        let read = desk.item("A").read();
        assert_eq!(
            (read.title.as_str(), read.version),
            ("theirs", 8),
            "a version never goes back"
        );
        assert_eq!(desk.item("B").status, Status::Dropped);
    }
}

#[test]
fn an_import_passes_over_what_it_may_not_touch() {
    let mut desk = Desk::new();
    desk.upsert(json!({"id": "R", "title": "t", "review_required": true}))
        .unwrap();
    desk.upsert(json!({"id": "P", "title": "t", "depends_on": ["Q"]}))
        .unwrap();
    let content = file_of(&[
        json!({"id": "R", "title": "t", "review_required": true, "status": "done", "version": 9}),
        json!({"id": "r2", "title": "t"}),
        json!({"id": "p", "title": "t"}),
        json!({"id": "Q", "title": "t", "depends_on": ["P"]}),
    ]);
    let (became, applied) = desk.import(&content, Mode::Merge);
    let of = |id: &str| became.iter().find(|(i, _)| i == id).unwrap().1;
    assert_eq!(
        (of("R"), of("p"), of("Q"), of("r2")),
        (Merged::Review, Merged::Twin, Merged::Cycle, Merged::Created)
    );
    assert_eq!(applied, 1);
}

#[test]
fn what_is_no_chunk() {
    let mut desk = Desk::new();
    let good = json!({"format": "countersign.board/1", "mode": "merge", "sha256": "0".repeat(64), "part": 1, "parts": 1,
                      "items": [{"id": "A", "title": "t"}]});
    for (name, value) in [
        ("format", json!("other/1")),
        ("content", json!("x")),
        ("dry_run", json!(false)),
        ("sha256", json!("x")),
        ("part", json!(0)),
        ("part", json!(2)),
        ("items", json!([])),
        ("items", json!([{"id": "A"}])),
        ("items", json!([1])),
        ("drop", json!(["B"])),
    ] {
        let mut call = good.clone();
        call[name] = value;
        let shown = call.to_string();
        assert_eq!(
            code(desk.ask(&worker(), "board_import", call)),
            Code::Malformed,
            "{shown}"
        );
    }
    // What a file need not say is filled in, and is the same the next time.
    for applied in [1, 0] {
        let effect = desk.ask(&worker(), "board_import", good.clone()).unwrap();
        assert_eq!(effect["applied"], applied);
    }
    assert_eq!(desk.item("A").version, 1);
}

#[test]
fn every_outcome_of_an_import_has_its_letter() {
    for letter in "cujdsoxltyrf".chars() {
        let merged = Merged::from_letter(letter).unwrap();
        assert_eq!(merged.letter(), letter);
        assert!(!merged.why().is_empty());
    }
}

#[test]
fn a_large_board_is_cut_into_parts_that_fit() {
    let items: Vec<Value> = (0..300)
        .map(|n| json!({"id": format!("T-{n}"), "title": "t", "description": "x".repeat(n * 7)}))
        .chain([json!({"id": "big", "title": "t", "description": "x".repeat(32_000)})])
        .collect();
    let content = file_of(&items);
    let read = file::read(&content).unwrap();
    let all = read
        .items
        .iter()
        .map(|(_, members)| members.clone())
        .collect();
    let parts = file::cut(&read.sha256, Mode::Merge, all, Vec::new());
    assert!(parts.len() > 10);
    for part in &parts {
        let bytes = countersign_verifier::json::canonical(part).len();
        assert!(bytes <= file::CHUNK_BYTES_MAX, "{bytes}");
    }
    let mut desk = Desk::new();
    assert_eq!(desk.import(&content, Mode::Merge).1, 301);
    assert_eq!(file::write(&desk.state.board), content);
}

fn patch() -> impl Strategy<Value = Value> {
    let id = prop::sample::select(vec!["A", "B", "C", "D", "E", "a"]);
    let status = prop::sample::select(vec![
        "pending",
        "active",
        "awaiting_review",
        "done",
        "dropped",
    ]);
    let names = || prop::collection::vec(prop::sample::select(vec!["a", "b"]), 0..3);
    let depends = prop::collection::vec(
        prop::sample::select(vec!["A", "B", "C", "D", "E", "F"]),
        0..3,
    );
    let flags = (any::<bool>(), 0..5_u8, prop::option::of(0..4_u64));
    (id, status, names(), depends, flags).prop_map(|(id, status, tags, depends, (review, priority, version))| {
        let owner = tags.first().copied();
        let mut call = json!({"item": {"id": id, "title": "t", "status": status, "tags": tags, "owner": owner, "workstream": owner,
                              "depends_on": depends, "review_required": review, "priority": priority}});
        if let Some(version) = version {
            call["if_version"] = version.into();
        }
        call
    })
}

fn call() -> impl Strategy<Value = (bool, &'static str, Value)> {
    let id = prop::sample::select(vec!["A", "B", "C", "D", "E"]);
    let outcome = prop::sample::select(vec!["done", "dropped", "changes_requested"]);
    let resolve = (id.clone(), outcome).prop_map(|(id, outcome)| {
        (
            "board_resolve",
            json!({"id": id, "outcome": outcome, "note": "n"}),
        )
    });
    let comment = id.prop_map(|id| ("board_comment", json!({"id": id, "text": "x"})));
    let upsert = patch().prop_map(|call| ("board_upsert", call));
    let import = (patch(), 1..6_u64).prop_map(|(call, version)| {
        let mut item = call["item"].clone();
        item["version"] = version.into();
        // An absent owner is no member at all.
        if item["owner"].is_null() {
            item.as_object_mut().unwrap().retain(|name, _| name != "owner" && name != "workstream");
        }
        ("board_import", json!({"format": "countersign.board/1", "sha256": "0".repeat(64), "part": 1, "parts": 1, "items": [item]}))
    });
    (
        any::<bool>(),
        prop_oneof![4 => upsert, 3 => resolve, 1 => comment, 2 => import],
    )
        .prop_map(|(reviews, (tool, call))| (reviews, tool, call))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A version never goes back, a refusal changes nothing, nothing waits for itself, and an export brought into another account
    /// is the same file there.
    #[test]
    fn whatever_is_asked_the_board_holds(calls in prop::collection::vec(call(), 1..60)) {
        let mut desk = Desk::new();
        for (reviews, tool, call) in calls {
            let before = desk.state.board.clone();
            let by = if reviews { reviewer() } else { worker() };
            let asked = desk.ask(&by, tool, call);
            if asked.is_err() {
                prop_assert_eq!(&desk.state.board, &before);
            }
            for old in before.iter() {
                let now = desk.item(&old.id);
                prop_assert!(now.version >= old.version);
                prop_assert!(now.version > old.version || now.line == old.line);
            }
        }
        // Only what is new is looked at, so that all of it is put in once more.
        let mut again = Board::default();
        for item in desk.state.board.iter() {
            prop_assert_eq!(cycle::cycle(&again, item, &Work::default()), None);
            again.insert(item.clone());
        }
        let content = file::write(&desk.state.board);
        let mut other = Desk::new();
        other.import(&content, Mode::Merge);
        prop_assert_eq!(file::write(&other.state.board), content.clone());
        let (_, applied) = other.import(&content, Mode::Merge);
        prop_assert_eq!(applied, 0);
    }
}

#[test]
fn a_plan_rests_on_who_asks() {
    let mut board = Board::default();
    let moment = Moment {
        at: 5,
        by: worker().id,
        session: None,
        index: 3,
    };
    let members = verb::map(json!({"id": "A", "title": "t"}));
    let held = Rests {
        held: &|id| id == "A",
        reviews: false,
        items_max: 1,
        work: None,
    };
    let merged = merge(&mut board, &members, Mode::Merge, &moment, &held).unwrap();
    assert_eq!((merged, board.len()), (Merged::Held, 0));
    assert_eq!(names::twin("A"), names::twin("a"));
}
