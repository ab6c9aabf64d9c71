//! Paths of tiles and bundles: one spelling each, and never both.
#![no_main]
use countersign_fuzz::seed;
use countersign_verifier::tile::{Bundle, Tile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: seed(["tile/0/x001/x234/067", "tile/63/000.p/255", "tile/entries/x001/000.p/1", "tile/1/x018/x446/x744/x073/x709/x551/615"]),
    |path: &str| {
        let (tile, bundle) = (Tile::parse(path), Bundle::parse(path));
        assert!(tile.is_err() || bundle.is_err());
        if let Ok(tile) = tile {
            assert_eq!(tile.path(), path);
        }
        if let Ok(bundle) = bundle {
            assert_eq!(bundle.path(), path);
        }
    }
);
