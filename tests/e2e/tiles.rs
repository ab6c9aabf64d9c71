//! The tree as C2SP clients read it: which paths exist at which size, and what never answers.

use std::collections::BTreeSet;

use countersign_verifier::tile::{bundles, parse_bundle, tiles};

use crate::rig::{NDJSON, Rig, receipt, receipts};

/// Grows the log to this size by lines, and looks at the whole tree.
fn grow(rig: &mut Rig, to: u64) {
    let owner = rig.owner();
    loop {
        let size = rig.size();
        assert!(size <= to);
        if size == to {
            break;
        }
        let lines = (size..to)
            .take(1_000)
            .map(|n| receipt(&format!("{n}"), &owner).to_json());
        let body = lines.collect::<Vec<_>>().join(&b'\n');
        let answer = rig.http().post(&receipts(""), NDJSON, &body);
        assert!(answer.lines().iter().all(|row| row["status"] == 200));
    }
    rig.check();
}

/// Below `/log/dev/`, what a tree of each of these sizes has, and nothing that only a larger one has.
fn present(size: u64) -> BTreeSet<String> {
    let hashes = tiles(size).map(|tile| tile.path());
    hashes
        .chain(bundles(size).map(|bundle| bundle.path()))
        .collect()
}

#[test]
fn the_shape_of_the_tree_at_each_size() {
    // B057, B055
    let mut rig = Rig::up();
    let sizes = [1, 2, 255, 256, 257, 600];
    let mut old = BTreeSet::new();
    for size in sizes {
        grow(&mut rig, size);
        let now = present(size);
        let mut http = rig.http();
        // What an earlier head needs stays readable until the full tile is there, and here longer.
        for path in now.union(&old) {
            let answer = http.get(&format!("/log/dev/{path}"));
            assert_eq!(answer.status, 200, "{path} at {size}: {}", answer.text());
            let width: u16 = match path.rsplit_once(".p/") {
                Some((_, width)) => width.parse().unwrap(),
                None => 256,
            };
            if path.starts_with("tile/entries") {
                parse_bundle(&answer.body, width).unwrap_or_else(|e| panic!("{path}: {e}"));
            } else {
                assert_eq!(answer.body.len(), 32 * usize::from(width), "{path}");
            }
        }
        for later in sizes.iter().filter(|later| **later > size) {
            for path in present(*later)
                .difference(&now)
                .filter(|path| !old.contains(*path))
            {
                let answer = http.get(&format!("/log/dev/{path}"));
                assert_eq!(answer.status, 404, "{path} at {size}");
                assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
            }
        }
        old = now;
    }
    for (path, bytes) in [
        ("tile/0/000", 8_192),
        ("tile/0/001.p/1", 32),
        ("tile/0/002.p/88", 88 * 32),
        ("tile/1/000.p/2", 64),
        ("tile/1/000.p/1", 32),
    ] {
        assert_eq!(
            rig.get(&format!("/log/dev/{path}")).body.len(),
            bytes,
            "{path}"
        );
    }
    // Each width of a partial tile is served, and none of no width.
    for width in 1..=88 {
        let body = rig.get(&format!("/log/dev/tile/0/002.p/{width}")).body;
        assert_eq!(body.len(), 32 * width);
    }
    assert_eq!(rig.get("/log/dev/tile/0/002.p/89").status, 404);
    assert_eq!(rig.get("/log/dev/tile/0/002").status, 404);
    rig.restart();
    assert_eq!(rig.get("/log/dev/tile/0/001.p/1").status, 200);
}

#[test]
fn one_spelling_of_a_path_and_no_way_out() {
    let rig = Rig::up();
    let leak = rig.dir().with_file_name("data-leak");
    std::fs::create_dir(&leak).unwrap();
    std::fs::write(leak.join("x"), "secret of a sibling").unwrap();
    let spelled = [
        "0/000.p/0",
        "0/000.p/256",
        "0/000.p/01",
        "0/000.p/",
        "0/000.p/1/",
        "0/000.p/-1",
        "0/0",
        "0/0000",
        "0/x000",
        "0/x000/000",
        "00/000",
        "-1/000",
        "64/000",
        "256/000",
        "a/000",
        "0/000/000",
        "0/18446744073709551616",
        "0/x018/x446/x744/x073/x709/x551/x616/000",
        "entries/000.p/0",
        "entries/0",
        "entries/x000/000",
        "entries/",
        "",
        "0",
        "0/",
        "0/000?x=1.p/1/..",
        "Entries/000",
        "0/000.P/1",
        "0/ 000",
        "0/000%20",
        "0/000%00",
    ];
    // B059, B060
    let out = [
        "0/%2e%2e/%2e%2e/x",
        "0/../../x",
        "..%2f..%2fowner.key",
        "%2e./owner.key",
        "%2e%2e%2fowner.key",
        "entries/..%5c..%5cx",
        "0/..%252f..%252fowner.key",
        "..%2fdata-leak%2fx",
        "../../../../data-leak/x",
        "%2fetc%2fpasswd",
        "/etc/passwd",
        "entries/%00",
        "entries/%ff%fe",
        "0/..;/x",
        "%c0%ae%c0%ae/x",
    ];
    let mut http = rig.http();
    for path in spelled.iter().chain(&out) {
        if path.contains('?') {
            continue;
        }
        let target = format!("/log/dev/tile/{path}").replace(' ', "%20");
        let answer = http.send("GET", &target, &[], b"");
        assert!(
            [400, 404].contains(&answer.status),
            "{target}: {}",
            answer.status
        );
        let text = answer.text();
        for echoed in ["owner", "leak", "%2e", "..", "passwd", "secret", "PRIVATE"] {
            assert!(!text.contains(echoed), "{target}: {text}");
        }
        assert!(answer.body.len() < 1_000, "{target}");
    }
    for target in [
        "/log/../owner.key",
        "/log/dev/../../owner.key",
        "/log/%2e%2e/owner.key",
        "/log/dev%2f..%2fdev/checkpoint",
        "//log/dev/checkpoint",
        "/log/dev/checkpoint/",
        "/log/DEV/checkpoint",
        "/log//checkpoint",
    ] {
        let answer = http.send("GET", target, &[], b"");
        assert!(
            [400, 404].contains(&answer.status),
            "{target}: {}",
            answer.status
        );
        assert!(!answer.text().contains("PRIVATE"));
    }
}

#[test]
fn what_never_changes_may_be_kept_and_is_known_again() {
    let mut rig = Rig::up();
    grow(&mut rig, 257);
    for (path, kind, kept) in [
        ("tile/0/000", "application/octet-stream", true),
        ("tile/entries/001.p/1", "application/octet-stream", true),
        (
            "consistency?from=1&to=257",
            "text/plain; charset=utf-8",
            true,
        ),
        ("checkpoint", "text/plain; charset=utf-8", false),
        ("evidence/0", "application/json", false),
        ("policy", "text/plain; charset=utf-8", false),
        ("keys", "application/json", false),
    ] {
        let target = format!("/log/dev/{path}");
        let mut http = rig.http();
        let answer = http.get(&target);
        assert_eq!(answer.status, 200, "{target}");
        assert_eq!(answer.header("content-type"), Some(kind), "{target}");
        assert_eq!(
            answer.header("access-control-allow-origin"),
            Some("*"),
            "{target}"
        );
        let cache = answer.header("cache-control").unwrap();
        assert_eq!(cache.contains("immutable"), kept, "{target}: {cache}");
        let tag = answer
            .header("etag")
            .unwrap_or_else(|| panic!("{target} has no ETag"))
            .to_owned();
        let head = http.send("HEAD", &target, &[], b"");
        assert_eq!((head.status, head.body.len()), (200, 0), "{target}");
        assert_eq!(head.header("etag"), Some(tag.as_str()), "{target}");
        let length = head.header("content-length").and_then(|l| l.parse().ok());
        assert!(
            length.is_none_or(|length: usize| length == answer.body.len()),
            "{target}"
        );
        let weak = format!("W/{tag}");
        let listed = format!("\"x\", {tag}");
        for (tag, status) in [
            (tag.as_str(), 304),
            (&weak, 304),
            (&listed, 304),
            ("*", 304),
            ("\"x\"", 200),
        ] {
            let answer = http.send("GET", &target, &[("if-none-match", tag)], b"");
            assert_eq!(answer.status, status, "{target} {tag}");
            if status == 304 {
                assert!(answer.body.is_empty() && answer.header("etag").is_some());
            }
        }
    }
}

#[test]
fn bundles_are_compressed_for_those_who_ask_and_errors_never() {
    let mut rig = Rig::up();
    grow(&mut rig, 256);
    let gzip = [("accept-encoding", "gzip")];
    let mut http = rig.http();
    let bundle = http.send("GET", "/log/dev/tile/entries/000", &gzip, b"");
    assert_eq!(bundle.header("content-encoding"), Some("gzip"));
    assert!(bundle.body.len() < rig.get("/log/dev/tile/entries/000").body.len());
    // Hashes are random bytes: nothing is gained.
    let tile = http.send("GET", "/log/dev/tile/0/000", &gzip, b"");
    assert_eq!(
        (tile.header("content-encoding"), tile.body.len()),
        (None, 8_192)
    );
    let missing = http.send("GET", "/log/dev/tile/entries/009", &gzip, b"");
    assert_eq!(
        (missing.status, missing.header("content-encoding")),
        (404, None)
    );
}
