//! Keys in every form that is read: each has one identity, and survives being written.
#![no_main]
use countersign_fuzz::{FIXTURE, seed};
use countersign_verifier::key::{Algorithm, PrivateKey, PublicKey};
use countersign_verifier::mldsa::SecretKey;
use libfuzzer_sys::fuzz_target;

fn same(key: &PublicKey) {
    assert_eq!(PublicKey::from_spki(&key.spki_der()).as_ref(), Ok(key));
    assert_eq!(
        PublicKey::parse(key.spki_pem().as_bytes()).as_ref(),
        Ok(key)
    );
    assert!(key.matches_hint(&key.identity().to_string()));
    let _ = key.verify(b"message", &[0; 64]);
}

fuzz_target!(
    init: {
        let keys = [Algorithm::Ed25519, Algorithm::EcdsaP256, Algorithm::EcdsaP384];
        let keys = keys.map(|a| PrivateKey::from_secret(a, &[5; 48][..if a == Algorithm::EcdsaP384 { 48 } else { 32 }]).expect("a secret"));
        let mut files: Vec<Vec<u8>> = vec![FIXTURE.log.to_string().into()];
        for key in &keys {
            files.push(key.to_pem().as_bytes().to_vec());
            files.push(key.public().spki_der());
            files.push(key.public().spki_pem().into());
        }
        files.push(SecretKey::from_seed(&[6; 32]).to_pem().as_bytes().to_vec());
        files.push(b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIBdRx+kUYz7qXzGtV17BzFXLhMD25LCsxZjdw1M8cbM someone".to_vec());
        seed(files);
    },
    |data: &[u8]| {
        if let Ok(keys) = PublicKey::parse_all(data) {
            keys.iter().for_each(same);
        }
        if let Ok(key) = PublicKey::from_spki(data) {
            assert_eq!(key.spki_der(), data);
        }
        if let Some(key) = std::str::from_utf8(data).ok().and_then(|text| SecretKey::parse(text).ok()) {
            let again = SecretKey::parse(&key.to_pem()).expect("a key that was written is read");
            assert_eq!(again.public(), key.public());
        }
        if let Ok(key) = std::str::from_utf8(data).map_err(|_| ()).and_then(|text| PrivateKey::parse(text).map_err(|_| ())) {
            let public = key.public();
            same(&public);
            let again = PrivateKey::parse(&key.to_pem()).expect("a key that was written is read");
            assert_eq!(again.public(), public);
            assert!(public.verify(b"message", &key.sign(b"message")));
        }
    }
);
