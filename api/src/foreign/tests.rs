//! What servers and folders may answer, and what becomes of it.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use countersign_verifier::{
    hash::leaf_hash,
    range::Range,
    tile::{bundles, push_entry, tiles},
};

use super::*;

/// A server that answers every request with what `answer` makes of its path, until the process ends.
fn serve(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut request, mut byte) = (Vec::new(), [0]);
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                request.push(byte[0]);
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            let path = text.split(' ').nth(1).unwrap_or("").to_owned();
            // A reader that has read enough goes away.
            let _ = stream.write_all(&answer(&path));
        }
    });
    url
}

fn http(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// The body gzip'd without compression: stored blocks, so that no library is needed to make it.
fn gzip(body: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = body.chunks(60_000).peekable();
    while let Some(block) = blocks.next() {
        let len = u16::try_from(block.len()).unwrap();
        out.push(u8::from(blocks.peek().is_none()));
        out.extend(len.to_le_bytes());
        out.extend((!len).to_le_bytes());
        out.extend(block);
    }
    let mut crc = u32::MAX;
    for byte in body {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
        }
    }
    out.extend((!crc).to_le_bytes());
    out.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
    out
}

fn checkpoint_of(answer: Vec<u8>) -> Result<String, ForeignError> {
    let url = serve(move |_| answer.clone());
    Foreign::open(&url, None).unwrap().checkpoint()
}

#[test]
fn an_answer_is_read_or_its_fault_is_named_with_the_url() {
    // T36: gzip that was not asked for; and what hostile servers do.
    let length = |n: usize| format!("content-length: {n}\r\n");
    let body = b"log\n0\n".as_slice();
    let packed = gzip(body);
    let labelled = |packed: &[u8]| {
        let headers = format!("content-encoding: gzip\r\n{}", length(packed.len()));
        http("200 OK", &headers, packed)
    };
    assert_eq!(
        checkpoint_of(http("200 OK", &length(6), body)).unwrap(),
        "log\n0\n"
    );
    assert_eq!(checkpoint_of(http("200 OK", "", body)).unwrap(), "log\n0\n");
    assert_eq!(checkpoint_of(labelled(&packed)).unwrap(), "log\n0\n");

    let bomb = gzip(&vec![b'a'; NOTE_BYTES_MAX + 1]);
    let endless = http("200 OK", "", &vec![b'a'; NOTE_BYTES_MAX * 4]);
    for answer in [
        endless,
        labelled(&bomb),
        labelled(b"not gzip at all"),
        http("302 Found", "location: http://example.com/\r\n", b""),
        http("204 No Content", "", b""),
    ] {
        let error = checkpoint_of(answer).unwrap_err();
        assert!(matches!(error, ForeignError::Server { .. }), "{error}");
        assert!(
            error.to_string().starts_with("http://127.0.0.1:"),
            "{error}"
        );
        assert!(error.is_the_logs());
    }
    let redirect = http(
        "301 Moved",
        "location: http://elsewhere.example.com/x\r\n",
        b"",
    );
    let error = checkpoint_of(redirect).unwrap_err().to_string();
    assert!(error.contains("elsewhere.example.com"), "{error}");
    for (answer, is) in [
        (http("404 Not Found", "", b""), "Missing"),
        (http("410 Gone", "", b""), "Missing"),
        (http("403 Forbidden", "", b""), "Denied"),
        (http("503 Busy", "retry-after: 99\r\n", b""), "Unreachable"),
        // Cut short: tried again, and then nobody's fault that could be told.
        (http("200 OK", &length(60), body), "Unreachable"),
        (http("200 OK", &length(1), b"\xff"), "Malformed"),
    ] {
        let error = checkpoint_of(answer).unwrap_err();
        assert!(format!("{error:?}").starts_with(is), "{error:?}");
    }
}

#[test]
fn addresses_are_urls_or_folders() {
    for bad in [
        "http://a:b@example.com",
        "https://example.com/?x",
        "http://",
        "ftp://example.com",
        "/nowhere/at/all",
        "",
    ] {
        let opened = Foreign::open(bad, None).map(|_| ());
        assert!(matches!(opened, Err(ForeignError::Address { .. })), "{bad}");
    }
    let log = Foreign::open("https://example.com/a/", None).unwrap();
    assert_eq!(log.at("checkpoint"), "https://example.com/a/checkpoint");
}

fn entry(n: u64) -> Vec<u8> {
    format!("entry {n}").into_bytes()
}

/// Writes the tiles of a tree of `size` into a folder; its root.
fn write_tree(folder: &std::path::Path, size: u64) -> Hash {
    let mut levels: Vec<Vec<Hash>> = vec![(0..size).map(|n| leaf_hash(&entry(n))).collect()];
    let put = |path: String, bytes: Vec<u8>| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    for bundle in bundles(size) {
        let mut bytes = Vec::new();
        for n in 0..u64::from(bundle.width) {
            push_entry(&mut bytes, &entry(bundle.index * 256 + n)).unwrap();
        }
        put(bundle.path(), bytes);
    }
    for tile in tiles(size) {
        while levels.len() <= usize::from(tile.level) {
            let below = levels.last().unwrap();
            let above = below
                .chunks_exact(256)
                .map(countersign_verifier::tile::hash_of);
            levels.push(above.collect());
        }
        let first = usize::try_from(tile.index).unwrap() * 256;
        let row = &levels[usize::from(tile.level)][first..][..usize::from(tile.width)];
        put(tile.path(), row.iter().flat_map(|hash| hash.0).collect());
    }
    levels[0].iter().copied().collect::<Range>().root()
}

#[test]
fn every_earlier_tree_is_proved_out_of_the_newest_tiles() {
    let folder = tempfile::tempdir().unwrap();
    let size = 700;
    let root = write_tree(folder.path(), size);
    let log = Foreign::open(folder.path().to_str().unwrap(), None).unwrap();
    let mut range = Range::new();
    for old in 0..=size {
        // No partial tile of an old size is there: T31, T32.
        assert_eq!(
            past(&log, old, size, &root).unwrap().root,
            range.root(),
            "{old}"
        );
        range.push(leaf_hash(&entry(old)));
    }
    let other = past(&log, 5, size, &leaf_hash(b"another root"));
    assert!(
        matches!(other, Err(ForeignError::Tiles { .. })),
        "{other:?}"
    );
    std::fs::write(folder.path().join("tile/0/000"), b"short").unwrap();
    let short = past(&log, 5, size, &root);
    assert!(
        matches!(short, Err(ForeignError::Malformed { .. })),
        "{short:?}"
    );
    std::fs::remove_file(folder.path().join("tile/0/000")).unwrap();
    let gone = past(&log, 5, size, &root);
    assert!(
        matches!(gone, Err(ForeignError::Missing { .. })),
        "{gone:?}"
    );
}

#[test]
fn a_full_bundle_stands_in_for_a_partial_one() {
    let folder = tempfile::tempdir().unwrap();
    write_tree(folder.path(), 256);
    let log = Foreign::open(folder.path().to_str().unwrap(), None).unwrap();
    let wanted = Bundle { index: 0, width: 3 };
    let (pieces, error) = log.arrived(log.ahead([wanted]));
    assert!(error.is_none() && pieces.len() == 1);
    assert_eq!(pieces[0].entries.list(), [entry(0), entry(1), entry(2)]);
    assert_eq!(pieces[0].hashes.as_ref().unwrap().len(), 3);
    let beyond = Bundle { index: 1, width: 3 };
    let (pieces, error) = log.arrived(log.ahead([wanted, beyond, wanted]));
    assert_eq!(pieces.len(), 1);
    let error = error.unwrap().to_string();
    assert!(error.contains("tile/entries/001.p/3"), "{error}");
}

#[test]
fn a_pipe_in_a_folder_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    write_tree(folder.path(), 5);
    let log = Foreign::open(folder.path().to_str().unwrap(), None).unwrap();
    let tile = Tile {
        level: 0,
        index: 0,
        width: 5,
    };
    let path = folder.path().join(tile.path());
    std::fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let error = log.tile(&tile).unwrap_err();
    assert!(
        matches!(error, ForeignError::Unreachable { .. }),
        "{error:?}"
    );
    assert!(error.to_string().ends_with("no plain file"), "{error}");
    // A folder is no file, so that the full tile is looked for.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let error = log.tile(&tile).unwrap_err();
    assert!(matches!(error, ForeignError::Missing { .. }), "{error:?}");
}
