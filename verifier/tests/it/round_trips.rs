//! Properties: what is printed is read back, what is read prints the same bytes, nothing panics.

use countersign_verifier::add_checkpoint::{AddCheckpoint, parse_conflict, request};
use countersign_verifier::base64;
use countersign_verifier::checkpoint::Checkpoint;
use countersign_verifier::cosign;
use countersign_verifier::hash::Hash;
use countersign_verifier::note::{Note, open, parse_signatures};
use countersign_verifier::policy::Policy;
use countersign_verifier::proof::TlogProof;
use countersign_verifier::range::Range;
use countersign_verifier::tile::{Bundle, Tile, parse_bundle, parse_hashes, push_entry, tiles};
use countersign_verifier::tree::{
    inclusion_path_len, sizes_of_path, verify_consistency, verify_inclusion,
};
use countersign_verifier::vkey::{CosignSigner, NoteSigner, VerifierKey};
use ed25519_dalek::SigningKey;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{V1, v1_policy};

fn hashes(most: usize) -> impl Strategy<Value = Vec<Hash>> {
    vec(any::<[u8; 32]>().prop_map(Hash), 0..=most)
}

/// Sizes of every magnitude, edges of the powers of two included.
fn size() -> impl Strategy<Value = u64> {
    (0..64_u32, 0..3_u64)
        .prop_map(|(bit, d)| (1_u64 << bit).wrapping_add(d).wrapping_sub(1))
        .boxed()
}

/// A text of lines, empty ones among them.
fn lines() -> impl Strategy<Value = String> {
    vec("[ -~\u{80}-\u{2fff}]{0,20}", 1..6).prop_map(|lines| lines.join("\n") + "\n")
}

const NAME: &str = "[!-*,-~é鍵]{1,12}";

/// V1 or a policy with a piece cut out, put twice, or changed.
fn damaged(whole: String) -> impl Strategy<Value = Vec<u8>> {
    let whole = whole.into_bytes();
    let length = whole.len();
    (0..length, 0..length, any::<u8>(), 0..4_u8).prop_map(move |(a, b, byte, how)| {
        let (a, b) = (a.min(b), a.max(b));
        match how {
            0 => [&whole[..a], &whole[b..]].concat(),
            1 => [&whole[..b], &whole[a..]].concat(),
            2 => [&whole[..a], &[byte], &whole[a..]].concat(),
            _ => [&whole[..a], &[byte], &whole[a + 1..]].concat(),
        }
    })
}

proptest! {
    #[test]
    fn base64_has_one_spelling(bytes in vec(any::<u8>(), 0..100), text in "[A-Za-z0-9+/=_-]{0,12}") {
        prop_assert_eq!(base64::decode(&base64::encode(&bytes)).unwrap(), bytes);
        if let Ok(bytes) = base64::decode(&text) {
            prop_assert_eq!(base64::encode(&bytes), text);
        }
    }

    #[test]
    fn tile_paths(level in 0..64_u8, index in size(), width in 1..=256_u16) {
        let (tile, bundle) = (Tile { level, index, width }, Bundle { index, width });
        prop_assert_eq!(Tile::parse(&tile.path()), Ok(tile));
        prop_assert_eq!(Bundle::parse(&bundle.path()), Ok(bundle));
    }

    #[test]
    fn tile_path_texts(path in "tile/([0-9]{1,2}|entries)(/x?[0-9]{3}){1,3}(\\.p/[0-9]{1,3})?") {
        if let Ok(tile) = Tile::parse(&path) {
            prop_assert_eq!(tile.path(), path);
        } else if let Ok(bundle) = Bundle::parse(&path) {
            prop_assert_eq!(bundle.path(), path);
        }
    }

    #[test]
    fn bundles_and_tiles(entries in vec(vec(any::<u8>(), 0..40), 0..=256), hashes in hashes(256)) {
        let mut bundle = vec![];
        entries.iter().for_each(|entry| push_entry(&mut bundle, entry).unwrap());
        let width = u16::try_from(entries.len()).unwrap();
        prop_assert_eq!(parse_bundle(&bundle, width).unwrap(), entries);
        let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.0).collect();
        let width = u16::try_from(hashes.len()).unwrap();
        prop_assert_eq!(parse_hashes(&bytes, width).unwrap(), hashes);
        prop_assert!(parse_hashes(&bytes, width + 1).is_err());
    }

    #[test]
    fn every_hash_of_every_level_lies_in_one_tile(size in 0..2_000_000_u64) {
        for level in 0..3 {
            let width: u64 = tiles(size).filter(|t| t.level == level).map(|t| u64::from(t.width)).sum();
            prop_assert_eq!(width, size >> (8 * level));
        }
    }

    #[test]
    fn proofs_of_any_numbers_do_not_panic(i in size(), m in size(), n in size(), path in hashes(66)) {
        let root = Hash([7; 32]);
        let _ = verify_inclusion(&root, i, n, &path, &root).map_err(|error| error.to_string());
        let _ = verify_consistency(m, &root, n, &root, &path).map_err(|error| error.to_string());
        if i < n {
            let fits = sizes_of_path(i, inclusion_path_len(i, n)).unwrap();
            prop_assert!(fits.contains(&n), "{i} {n} {fits:?}");
            prop_assert_eq!(inclusion_path_len(i, *fits.start()), inclusion_path_len(i, *fits.end()));
        }
    }

    #[test]
    fn ranges(size in 0..1_u64 << 62, extra in 0..3_usize) {
        let ones = size.count_ones() as usize;
        let range = Range::from_parts(size, vec![Hash([1; 32]); ones]).unwrap();
        prop_assert_eq!(Range::from_parts(range.size(), range.nodes().to_vec()).unwrap(), range);
        prop_assert_eq!(Range::from_parts(size, vec![Hash([1; 32]); extra]).is_ok(), ones == extra);
    }

    #[test]
    fn vkeys(name in NAME, seed in any::<[u8; 32]>()) {
        let log = NoteSigner::new(&name, SigningKey::from_bytes(&seed)).unwrap();
        let witness = CosignSigner::new(&name, SigningKey::from_bytes(&seed)).unwrap();
        for key in [log.vkey(), witness.vkey()] {
            prop_assert_eq!(&VerifierKey::parse(&key.to_string()).unwrap(), key);
        }
        prop_assert_ne!(log.vkey().id, witness.vkey().id);
    }

    #[test]
    fn vkey_texts(text in "[a+]{0,3}\\+[0-9a-f+]{0,9}\\+[A-Za-z0-9+/=]{0,50}") {
        if let Ok(key) = VerifierKey::parse(&text) {
            prop_assert_eq!(key.to_string(), text);
        }
    }

    #[test]
    fn notes(text in lines(), name in NAME, seed in any::<[u8; 32]>(), time in 0..=cosign::TIME_MAX) {
        let key = SigningKey::from_bytes(&seed);
        let log = NoteSigner::new(&name, key.clone()).unwrap();
        let witness = CosignSigner::new(&name, key).unwrap();
        let note = format!("{text}\n{}{}", log.sign(&text), witness.sign(&text, time));
        let parsed = Note::parse(note.as_bytes()).unwrap();
        prop_assert_eq!(parsed.to_string(), note.as_str());
        prop_assert_eq!(parsed.text, text.as_str());
        let verified = open(&parsed, [log.vkey(), witness.vkey()]).unwrap();
        prop_assert_eq!(verified.len(), 2);
        prop_assert_eq!(cosign::parse_body(&verified[1].signature.signature).unwrap().0, time);
        prop_assert!(open(&parsed, [NoteSigner::new("x", SigningKey::from_bytes(&[9; 32])).unwrap().vkey()]).is_err());
    }

    #[test]
    fn checkpoints(origin in "[ -~é]{1,20}", size in size(), root in any::<[u8; 32]>(), extensions in vec("[ -~]{1,9}", 0..3)) {
        let checkpoint = Checkpoint { origin, size, root: Hash(root), extensions };
        prop_assert_eq!(Checkpoint::parse(&checkpoint.to_text()), Ok(checkpoint));
    }

    #[test]
    fn add_checkpoint_requests(old in size(), proof in hashes(63)) {
        let body = request(old, &proof, V1);
        let parsed = AddCheckpoint::parse(body.as_bytes()).unwrap();
        prop_assert_eq!((parsed.old, &parsed.proof), (old, &proof));
        prop_assert_eq!(request(parsed.old, &parsed.proof, &parsed.note.to_string()), body);
    }

    #[test]
    fn tlog_proofs(extra in proptest::option::of(vec(any::<u8>(), 1..80)), index in size(), path in hashes(64)) {
        let proof = TlogProof { extra, index, path, checkpoint: V1.into() };
        prop_assert_eq!(TlogProof::parse(proof.to_text().as_bytes()), Ok(proof));
    }

    #[test]
    fn damaged_texts_are_refused_or_print_themselves(
        note in damaged(V1.into()),
        body in damaged(request(5, &[Hash([3; 32]); 3], V1)),
        proof in damaged(TlogProof { extra: Some(vec![1]), index: 2, path: vec![Hash([3; 32])], checkpoint: V1.into() }.to_text()),
        policy in damaged(v1_policy("w")),
    ) {
        if let Ok(parsed) = Note::parse(&note) {
            prop_assert_eq!(parsed.to_string().into_bytes(), note.clone());
            let _ = Policy::parse(v1_policy("w")).unwrap().check(&parsed).map_err(|error| error.to_string());
            if let Ok(checkpoint) = Checkpoint::parse(parsed.text) {
                prop_assert_eq!(checkpoint.to_text(), parsed.text);
            }
        }
        if let Ok(parsed) = AddCheckpoint::parse(&body) {
            let again = request(parsed.old, &parsed.proof, &parsed.note.to_string());
            prop_assert_eq!(again.as_bytes(), &body);
        }
        if let Ok(parsed) = TlogProof::parse(&proof) {
            prop_assert_eq!(parsed.to_text().into_bytes(), proof);
        }
        let _ = Policy::parse(&policy).map_err(|error| error.to_string());
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = (Note::parse(&bytes).is_ok(), parse_signatures(&bytes).is_ok(), AddCheckpoint::parse(&bytes).is_ok());
        let _ = (TlogProof::parse(&bytes).is_ok(), Policy::parse(&bytes).is_ok(), cosign::parse_body(&bytes).is_ok());
        for width in 0..=257 {
            let _ = parse_bundle(&bytes, width);
        }
        let _ = parse_conflict("text/x.tlog.size", &bytes);
        let text = String::from_utf8_lossy(&bytes);
        let _ = (Checkpoint::parse(&text).is_ok(), VerifierKey::parse(&text).is_ok(), Tile::parse(&text).is_ok());
    }
}
