//! Each case of `tests/cases.txt` is named by a test: so none is lost when tests are moved or written anew.

use std::collections::BTreeSet;

use crate::rig::{files, workspace};

/// Where tests are, and in which languages.
const PLACES: &[(&str, &[&str])] = &[
    ("verifier", &["rs"]),
    ("log/src", &["rs"]),
    ("witness", &["rs"]),
    ("api/src", &["rs"]),
    ("tests", &["rs", "py", "mjs", "go"]),
    ("tests/scripts", &["txt"]),
];

/// The ids in a text: `B123` as a word of a comment, or `b123` as a word of a function's name.
fn ids(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let is_id = |word: &&str| {
        let number = word.strip_prefix(['B', 'P', 'b', 'p']);
        number.is_some_and(|n| n.len() == 3 && n.bytes().all(|b| b.is_ascii_digit()))
    };
    words.filter(is_id).map(str::to_ascii_uppercase)
}

#[test]
fn every_case_has_its_test() {
    let list = std::fs::read_to_string(workspace().join("tests/cases.txt")).expect("the cases");
    let mut named = BTreeSet::new();
    for (folder, kinds) in PLACES {
        for kind in *kinds {
            for path in files(&workspace().join(folder), kind) {
                let text = std::fs::read_to_string(&path).expect("a source file");
                named.extend(ids(&text));
            }
        }
    }
    let mut known = BTreeSet::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let (id, later) = match words[..] {
            [id, _] => (id, false),
            [id, _, "later"] => (id, true),
            _ => panic!("no case: {line}"),
        };
        assert!(ids(id).eq([id.to_owned()]), "no id: {line}");
        assert!(known.insert(id.to_owned()), "{id} is listed twice");
        assert!(later || named.contains(id), "no test names {id}");
    }
    assert!(known.len() > 100, "{} cases", known.len());
}

#[test]
fn ids_are_words() {
    let text = "// B086, b1234 xB087\nfn b164_b165_what(P256: u8) { b'x' } // B168: so";
    let found: Vec<String> = ids(text).collect();
    assert_eq!(found, ["B086", "B164", "B165", "P256", "B168"]);
}
