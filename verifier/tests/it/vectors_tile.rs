//! Every vector of the tile and bundle kinds.

use countersign_verifier::base64;
use countersign_verifier::hash::{Hash, leaf_hash, sha256};
use countersign_verifier::range::Range;
use countersign_verifier::tile::{
    Bundle, Tile, TileError, bundles, hash_of, level_hashes, parse_bundle, parse_hashes,
    push_entry, tiles,
};
use serde_json::Value;

use crate::support::{text, texts, unhex, vectors};
use crate::vectors_tree::{be64, dec, number};

#[test]
fn tile_path() {
    let all = vectors("tile_path");
    assert_eq!(all.len(), 35);
    for v in all {
        let path = text(&v, "path");
        let (tile, bundle) = (Tile::parse(path), Bundle::parse(path));
        if !v["valid"].as_bool().unwrap() {
            assert_eq!(
                (tile, bundle),
                (Err(TileError::Path), Err(TileError::Path)),
                "{path}"
            );
            continue;
        }
        let index: u64 = text(&v, "index").parse().unwrap();
        let width = v["width"]
            .as_u64()
            .map_or(256, |width| u16::try_from(width).unwrap());
        if text(&v, "level") == "entries" {
            assert!(tile.is_err(), "{path}");
            assert_eq!(bundle, Ok(Bundle { index, width }), "{path}");
            assert_eq!(bundle.unwrap().path(), path);
        } else {
            let level = text(&v, "level").parse().unwrap();
            assert!(bundle.is_err(), "{path}");
            assert_eq!(
                tile,
                Ok(Tile {
                    level,
                    index,
                    width
                }),
                "{path}"
            );
            assert_eq!(tile.unwrap().path(), path);
        }
    }
}

#[test]
fn tile_layout() {
    let all = vectors("tile_layout");
    assert_eq!(all.len(), 11);
    for v in all {
        let size: u64 = text(&v, "size").parse().unwrap();
        let mut want = vec![];
        for level in v["levels"].as_array().unwrap() {
            let full = number(level, "full");
            let number = u8::try_from(number(level, "level")).unwrap();
            want.extend((0..full).map(|index| Tile {
                level: number,
                index,
                width: 256,
            }));
            if let Some(width) = level["partial_width"].as_u64() {
                want.push(Tile {
                    level: number,
                    index: full,
                    width: u16::try_from(width).unwrap(),
                });
            }
        }
        assert_eq!(tiles(size).collect::<Vec<_>>(), want, "{size}");
        let level_0 = want.iter().filter(|tile| tile.level == 0);
        let bundled: Vec<_> = level_0
            .map(|t| Bundle {
                index: t.index,
                width: t.width,
            })
            .collect();
        assert_eq!(bundles(size).collect::<Vec<_>>(), bundled, "{size}");
    }
}

/// The bytes of one resource of a log, from its entries alone.
fn resource(path: &str, entries: &[Vec<u8>]) -> Vec<u8> {
    if let Ok(Bundle { index, width }) = Bundle::parse(path) {
        let from = usize::try_from(index).unwrap() * 256;
        let mut bundle = vec![];
        entries[from..from + usize::from(width)]
            .iter()
            .for_each(|e| push_entry(&mut bundle, e).unwrap());
        return bundle;
    }
    let Tile {
        level,
        index,
        width,
    } = Tile::parse(path).unwrap();
    let mut row: Vec<Hash> = entries.iter().map(|entry| leaf_hash(entry)).collect();
    for _ in 0..level {
        row = row
            .as_chunks::<256>()
            .0
            .iter()
            .map(|full| hash_of(full))
            .collect();
    }
    let from = usize::try_from(index).unwrap() * 256;
    row[from..from + usize::from(width)]
        .iter()
        .flat_map(|hash| hash.0)
        .collect()
}

#[test]
fn tile_log() {
    let all = vectors("tile_log");
    assert_eq!(all.len(), 5);
    for v in all {
        let id = text(&v, "id");
        let Some(files) = v["files_sha256"].as_object() else {
            small_log(&v);
            continue;
        };
        let size = usize::try_from(number(&v, "size")).unwrap();
        let leaf: fn(u64) -> Vec<u8> = match text(&v, "leaf_rule") {
            "8-byte big-endian counter" => be64,
            "ASCII decimal counter" => dec,
            "4-byte big-endian counter" => |n| u32::try_from(n).unwrap().to_be_bytes().to_vec(),
            other => panic!("{other}"),
        };
        let entries: Vec<_> = (0..size as u64).map(leaf).collect();
        let root: Range = entries.iter().map(|entry| leaf_hash(entry)).collect();
        assert_eq!(root.root().to_base64(), text(&v, "root"), "{id}");
        let (tiles, bundles): (Vec<_>, Vec<_>) =
            (tiles(size as u64).collect(), bundles(size as u64).collect());
        for (path, want) in files {
            let listed = tiles.iter().any(|tile| tile.path() == *path)
                || bundles.iter().any(|bundle| bundle.path() == *path);
            assert!(listed, "{id} {path}");
            assert_eq!(
                sha256(&resource(path, &entries)).to_hex(),
                want.as_str().unwrap(),
                "{id} {path}"
            );
        }
        assert!(
            files.len() == tiles.len() + bundles.len() || id == "be32-65536-root",
            "{id}"
        );
    }
}

/// A whole small log: every checkpoint's root follows from the bundle and the tile of its size.
fn small_log(v: &Value) {
    let file = |path: &str| base64::decode(text(&v["files_b64"], path)).unwrap();
    let mut seen = 0;
    for size in 0..=15_u16 {
        let checkpoint = String::from_utf8(file(&format!("checkpoint.{size}"))).unwrap();
        let root = Hash::from_base64(checkpoint.lines().nth(2).unwrap()).unwrap();
        seen += 1;
        let Some(tile) = tiles(u64::from(size)).next() else {
            assert_eq!(root, Range::new().root());
            continue;
        };
        let hashes = parse_hashes(&file(&tile.path()), size).unwrap();
        let bundle = file(&bundles(u64::from(size)).next().unwrap().path());
        let entries = parse_bundle(&bundle, size).unwrap();
        assert_eq!(
            entries
                .iter()
                .map(|entry| leaf_hash(entry))
                .collect::<Vec<_>>(),
            hashes
        );
        assert_eq!(hash_of(&hashes), root);
        seen += 2;
    }
    assert_eq!(seen, v["files_b64"].as_object().unwrap().len());
    assert_eq!(level_hashes(15, 0), 15);
}

#[test]
fn entry_bundle() {
    let all = vectors("entry_bundle");
    assert_eq!(all.len(), 6);
    for v in all {
        let id = text(&v, "id");
        match (id, v["bundle_hex"].as_str()) {
            ("max-length-entry", None) => {
                let (entry, mut bundle) = (vec![0x41; 65_535], vec![]);
                push_entry(&mut bundle, &entry).unwrap();
                assert_eq!(sha256(&bundle).to_hex(), text(&v, "bundle_sha256"));
                assert_eq!(parse_bundle(&bundle, 1).unwrap(), [&entry[..]]);
                assert_eq!(leaf_hash(&entry).to_hex(), text(&v, "leaf_hash_hex"));
            }
            ("257-entries", None) => {
                let bundle = [0, 1, 7].repeat(257);
                assert_eq!(
                    parse_bundle(&bundle, 256),
                    Err(TileError::Trailing {
                        bytes: 3,
                        width: 256
                    })
                );
                assert_eq!(
                    parse_bundle(&bundle, 257),
                    Err(TileError::Width { width: 257 })
                );
            }
            (_, Some(bundle)) if v["valid"] == true => {
                let entries: Vec<_> = texts(&v, "entries_hex").into_iter().map(unhex).collect();
                let width = u16::try_from(entries.len()).unwrap();
                assert_eq!(
                    parse_bundle(&unhex(bundle), width).unwrap(),
                    entries,
                    "{id}"
                );
            }
            (_, Some(bundle)) => {
                assert!(
                    (0..=256).all(|width| parse_bundle(&unhex(bundle), width).is_err()),
                    "{id}"
                );
            }
            _ => panic!("{id}"),
        }
    }
}
