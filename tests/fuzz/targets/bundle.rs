//! Entry bundles and hash tiles: what is read is written back to the same bytes.
#![no_main]
use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::tile::{parse_bundle, parse_hashes, push_entry};
use libfuzzer_sys::fuzz_target;

// The first two bytes are the width, since the path carries it and the bundle does not.
fuzz_target!(
    init: {
        let mut file = 2u16.to_be_bytes().to_vec();
        for leaf in &FIXTURE.leaves {
            push_entry(&mut file, leaf).expect("a leaf is an entry");
        }
        seed([file, [&1u16.to_be_bytes()[..], &[7; 32]].concat()]);
    },
    |data: &[u8]| {
        let Some((width, data)) = data.split_first_chunk() else { return };
        let width = u16::from_be_bytes(*width);
        if let Ok(entries) = parse_bundle(data, width) {
            let mut again = vec![];
            for entry in &entries {
                push_entry(&mut again, entry).expect("an entry that was read can be written");
            }
            assert_eq!((entries.len(), again.as_slice()), (usize::from(width), data));
        }
        if let Ok(hashes) = parse_hashes(data, width) {
            assert_eq!(hashes.iter().flat_map(|hash| hash.0).collect::<Vec<u8>>(), data);
        }
    }
);
