//! Keys in every form that is read, what they verify, and what they refuse.

use countersign_verifier::base64;
use countersign_verifier::key::{Algorithm, IdentityId, KeyError, PrivateKey, PublicKey};
use countersign_verifier::vkey;
use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity as _;
use sha2::{Digest as _, Sha512};

/// The agent of the cases: Ed25519, seed 32 x 0x03. Published, so never to be used for anything.
pub const AGENT_RAW: &str = "7UkoxijRwsbq6QM4kFmVYSlZJzpcY/k2NsFGFKyHN9E=";
const AGENT_SSH: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO1JKMYo0cLG6ukDOJBZlWEpWSc6XGP5NjbBRhSshzfR agent@example.com";
const AGENT_SSH_PRINT: &str = "SHA256:zbv/nU7iZdO0fB0DalMI70dP6/yFD8sctXvvW4+OokY";
const AGENT_PEM: &str = "\
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMD
-----END PRIVATE KEY-----
";
const AGENT_SSH_PRIVATE: &str = "\
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACDtSSjGKNHCxurpAziQWZVhKVknOlxj+TY2wUYUrIc30QAAAJgBAgMEAQID
BAAAAAtzc2gtZWQyNTUxOQAAACDtSSjGKNHCxurpAziQWZVhKVknOlxj+TY2wUYUrIc30Q
AAAEADAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA+1JKMYo0cLG6ukDOJBZlWEp
WSc6XGP5NjbBRhSshzfRAAAAEWFnZW50QGV4YW1wbGUuY29tAQIDBA==
-----END OPENSSH PRIVATE KEY-----
";

// Made by OpenSSL for these tests, with its signatures (DER) over "DSSEv1 1 t 5 hello".
const P256_PEM: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgpEVmoExv5/65ju6V
r+B//RWq6+p74dtcAXES1PSRtuuhRANCAARzMNVL3VgKfwhOTtbP8V/QprzwsUkO
qBus0VGLH257AMGbsu37H2/Y5c1mkAAl6g5xerPl1prblRFhnWq++vGT
-----END PRIVATE KEY-----
";
const P256_PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEczDVS91YCn8ITk7Wz/Ff0Ka88LFJ
DqgbrNFRix9uewDBm7Lt+x9v2OXNZpAAJeoOcXqz5daa25URYZ1qvvrxkw==
-----END PUBLIC KEY-----
";
const P256_SIG: &str = "MEYCIQDjXzLpjMgXSmtSpP571klMxgFqdm9e/L0tKmi6HRGopgIhAKkcrO76ZOhV8pqKmgUbHaisoqZ8DNwkAVwM+lyqWpun";
const P384_PEM: &str = "\
-----BEGIN PRIVATE KEY-----
MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDBwmXRRETdFnHOYZRTL
W7cJlzC/lUwkvGtIxXn1JWpmWnt1kKrNXnrKPC2j6ZgvspKhZANiAAQZF3ZIR8C3
chA5kJqnQ5M7aqOg+d+bsmypcnw/DfZ+0jSP/Y2X+otUVwpG9Nj67/+cXkNFZLZW
DnHJUhkso7rhgtNrVzX/IfzPmxGG2TyeGuY88F5PDPeL7uhXRcpbnNo=
-----END PRIVATE KEY-----
";
const P384_PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEGRd2SEfAt3IQOZCap0OTO2qjoPnfm7Js
qXJ8Pw32ftI0j/2Nl/qLVFcKRvTY+u//nF5DRWS2Vg5xyVIZLKO64YLTa1c1/yH8
z5sRhtk8nhrmPPBeTwz3i+7oV0XKW5za
-----END PUBLIC KEY-----
";
const P384_SIG: &str = "MGUCMCdjYhxf/WaaNEjOAJ5ux/cKFiOKu+fjGRJxqAwFj0i9FGZ285y/NO9GZzbjLRn8igIxAKhRsc3FBeSZBLOiwf621IVa50dVxwYYevfYWV2it/nwhjolcwnT/GdHDuLJQ51PjA==";
const SIGNED: &[u8] = b"DSSEv1 1 t 5 hello";

pub fn ed25519(seed: u8) -> PrivateKey {
    PrivateKey::from_secret(Algorithm::Ed25519, &[seed; 32]).unwrap()
}

fn all() -> Vec<PrivateKey> {
    vec![
        ed25519(3),
        PrivateKey::parse(P256_PEM).unwrap(),
        PrivateKey::parse(P384_PEM).unwrap(),
    ]
}

#[test]
fn one_key_in_every_form_has_one_identity() {
    let agent = ed25519(3).public();
    assert_eq!(agent.raw(), base64::decode(AGENT_RAW).unwrap());
    let vkey = vkey::NoteSigner::new(
        "agent.example/a",
        ed25519_dalek::SigningKey::from_bytes(&[3; 32]),
    )
    .unwrap();
    let crlf = agent.spki_pem().replace('\n', "\r\n");
    for form in [
        agent.spki_der(),
        agent.spki_pem().into(),
        crlf.into(),
        AGENT_SSH.into(),
        vkey.vkey().to_string().into(),
        format!("# the agent\n\n{AGENT_SSH}\n").into(),
    ] {
        assert_eq!(
            PublicKey::parse(&form),
            Ok(agent.clone()),
            "{}",
            String::from_utf8_lossy(&form)
        );
    }
    let id = agent.identity();
    assert_eq!(id.to_string().parse::<IdentityId>(), Ok(id));
    assert_eq!(id.to_string().len(), 67);
    for bad in [
        &id.to_string()[3..],
        &id.to_string().to_uppercase(),
        "id_",
        "",
        "id_zz",
    ] {
        assert!(bad.parse::<IdentityId>().is_err(), "{bad}");
    }
    for private in [
        AGENT_PEM,
        AGENT_SSH_PRIVATE,
        &ed25519(3).to_pem(),
        &AGENT_PEM.replace('\n', "\r\n"),
    ] {
        assert_eq!(
            PrivateKey::parse(private).unwrap().public(),
            agent,
            "{private}"
        );
    }
    assert_eq!(
        PublicKey::parse(P256_PUBLIC.as_bytes()).unwrap().spki_pem(),
        P256_PUBLIC
    );
    assert_eq!(
        PublicKey::parse(P384_PUBLIC.as_bytes()).unwrap().spki_pem(),
        P384_PUBLIC
    );
    for key in all() {
        assert_eq!(
            PrivateKey::parse(&key.to_pem()).unwrap().public(),
            key.public()
        );
        assert_eq!(
            PublicKey::from_spki(&key.public().spki_der()),
            Ok(key.public())
        );
    }
}

#[test]
fn a_file_may_hold_several_keys() {
    let keys: Vec<PublicKey> = all().iter().map(PrivateKey::public).collect();
    let pem: String = keys.iter().map(PublicKey::spki_pem).collect();
    assert_eq!(PublicKey::parse_all(pem.as_bytes()), Ok(keys));
    assert_eq!(PublicKey::parse(pem.as_bytes()), Err(KeyError::Count(3)));
    assert_eq!(PublicKey::parse(b"# none\n"), Err(KeyError::Count(0)));
    let lines = format!("{AGENT_SSH}\n{AGENT_SSH}\n");
    assert_eq!(PublicKey::parse_all(lines.as_bytes()).unwrap().len(), 2);
}

#[test]
fn what_is_no_key_is_told_apart() {
    let parse = |text: &str| PublicKey::parse(text.as_bytes()).unwrap_err();
    assert_eq!(parse(AGENT_PEM), KeyError::Private);
    assert_eq!(parse(AGENT_SSH_PRIVATE), KeyError::Private);
    assert_eq!(parse("PRIVATE+KEY+a+12345678+AAAA"), KeyError::Private);
    assert_eq!(
        parse("ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ== a"),
        KeyError::Algorithm
    );
    assert_eq!(parse("ecdsa-sha2-nistp256 AAAA a"), KeyError::Algorithm);
    assert!(matches!(parse("hello"), KeyError::Malformed(_)));
    assert!(matches!(
        parse("ssh-ed25519 AAAA a"),
        KeyError::Malformed(_)
    ));
    assert!(matches!(
        parse("-----BEGIN PUBLIC KEY-----\nAAAA"),
        KeyError::Malformed(_)
    ));
    // A cosigner's key is not an agent's: T17, one key must not serve two statements.
    assert_eq!(parse(crate::support::WITNESS_VKEY), KeyError::Algorithm);
    // T15: a vkey whose id is not that of its key.
    let vkey = crate::support::LOG_VKEY;
    assert!(PublicKey::parse(vkey.as_bytes()).is_ok());
    let wrong = vkey.replace("+870806f8+", "+870806f9+");
    assert_eq!(
        parse(&wrong),
        KeyError::Malformed("a vkey whose key id fits its key")
    );
    // The neutral element and another point of small order verify what nobody signed.
    let mut neutral = [0; 32];
    neutral[0] = 1;
    assert_eq!(PublicKey::from_ed25519(&neutral), Err(KeyError::Weak));
    assert_eq!(
        PublicKey::from_ed25519(&EIGHT_TORSION[1].compress().0),
        Err(KeyError::Weak)
    );
    // A compressed point would be a second identity of the same key.
    let key = PublicKey::parse(P256_PUBLIC.as_bytes()).unwrap();
    let mut compressed = key.spki_der()[..26].to_vec();
    compressed[1] -= 32;
    compressed[24] -= 32;
    compressed.extend([3; 33]);
    assert_eq!(PublicKey::from_spki(&compressed), Err(KeyError::Algorithm));
    let mut long = ed25519(3).public().spki_der();
    long.push(0);
    assert!(PublicKey::from_spki(&long).is_err());
}

#[test]
fn private_keys_that_cannot_be_used_say_why() {
    let parse = |text: &str| PrivateKey::parse(text).unwrap_err();
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    assert_eq!(parse(encrypted), KeyError::Encrypted);
    let body = |text: &str| {
        base64::decode(
            &text
                .lines()
                .filter(|l| !l.starts_with('-'))
                .collect::<String>(),
        )
        .unwrap()
    };
    let ssh = |bytes: &[u8]| {
        let text = base64::encode(bytes);
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{text}\n-----END OPENSSH PRIVATE KEY-----\n")
    };
    let good = body(AGENT_SSH_PRIVATE);
    assert!(PrivateKey::parse(&ssh(&good)).is_ok());
    let swap = |from: &[u8], to: &[u8], skip: usize| {
        let at = good
            .windows(from.len())
            .enumerate()
            .filter(|(_, w)| *w == from)
            .nth(skip)
            .unwrap()
            .0;
        let mut bytes = good.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        ssh(&bytes)
    };
    assert_eq!(parse(&swap(b"none", b"aes2", 0)), KeyError::Encrypted);
    assert_eq!(
        parse(&swap(b"ssh-ed25519", b"ssh-rsa9999", 1)),
        KeyError::Algorithm
    );
    assert!(matches!(
        parse(&swap(&[1, 2, 3, 4], &[9], 0)),
        KeyError::Malformed(_)
    ));
    assert!(matches!(
        parse(&swap(&[3; 32], &[4; 32], 0)),
        KeyError::Malformed(_)
    ));
    for cut in 0..good.len() - 5 {
        assert!(PrivateKey::parse(&ssh(&good[..cut])).is_err(), "{cut}");
    }
    assert!(matches!(
        parse("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"),
        KeyError::Malformed(_)
    ));
    assert!(matches!(parse(P256_PUBLIC), KeyError::Malformed(_)));
    assert!(PrivateKey::from_secret(Algorithm::EcdsaP256, &[0; 32]).is_err());
    assert!(PrivateKey::from_secret(Algorithm::EcdsaP384, &[1; 32]).is_err());
    assert!(PrivateKey::from_secret(Algorithm::EcdsaP384, &[1; 48]).is_ok());
    assert!(
        !format!("{:?}", ed25519(3)).contains("030303"),
        "no secret in a log line"
    );
}

#[test]
fn each_kind_signs_and_verifies() {
    for key in all() {
        let (public, sig) = (key.public(), key.sign(SIGNED));
        assert!(public.verify(SIGNED, &sig), "{public}");
        assert_eq!(sig, key.sign(SIGNED), "deterministic");
        assert!(!public.verify(b"other", &sig));
        for at in 0..sig.len() {
            let mut bad = sig.clone();
            bad[at] ^= 1;
            assert!(!public.verify(SIGNED, &bad), "{public} byte {at}");
        }
        for bad in [
            &sig[..sig.len() - 1],
            &[&sig[..], &[0]].concat(),
            &[],
            &vec![0; sig.len()],
        ] {
            assert!(!public.verify(SIGNED, bad), "{public}");
        }
    }
}

#[test]
fn ecdsa_is_read_raw_and_in_der_with_the_hash_of_its_curve() {
    let p256 = PublicKey::parse(P256_PUBLIC.as_bytes()).unwrap();
    let p384 = PublicKey::parse(P384_PUBLIC.as_bytes()).unwrap();
    let (der256, der384) = (
        base64::decode(P256_SIG).unwrap(),
        base64::decode(P384_SIG).unwrap(),
    );
    assert!(p256.verify(SIGNED, &der256) && p384.verify(SIGNED, &der384));
    assert!(!p256.verify(SIGNED, &der384) && !p384.verify(SIGNED, &der256));
    let raw = p256::ecdsa::Signature::from_der(&der256).unwrap();
    assert!(p256.verify(SIGNED, &raw.to_bytes()));
    // T63: the other s verifies as well, so no signature is the name of anything.
    let low = raw.normalize_s();
    let high =
        p256::ecdsa::Signature::from_scalars(raw.r().to_bytes(), (-*low.s().as_ref()).to_bytes())
            .unwrap();
    assert_ne!(low.to_bytes(), high.to_bytes());
    assert!(p256.verify(SIGNED, &low.to_bytes()) && p256.verify(SIGNED, &high.to_bytes()));
    let raw = p384::ecdsa::Signature::from_der(&der384).unwrap();
    assert!(p384.verify(SIGNED, &raw.to_bytes()));
    let mut trailing = der256.clone();
    trailing.push(0);
    assert!(!p256.verify(SIGNED, &trailing));
}

/// P006: a signature whose R carries a torsion component satisfies the cofactored equation that batch
/// verification uses. One predicate everywhere: it is refused.
#[test]
fn p006_a_torsion_component_in_r_is_refused() {
    let (secret, nonce) = (
        Scalar::from(0x1234_5678_9abc_u64),
        Scalar::from(0xfeed_beef_u64),
    );
    let public = secret * ED25519_BASEPOINT_POINT;
    let key = PublicKey::from_ed25519(&public.compress().0).unwrap();
    let sign = |r: curve25519_dalek::EdwardsPoint| {
        let hash = Sha512::new()
            .chain_update(r.compress().0)
            .chain_update(public.compress().0)
            .chain_update(SIGNED)
            .finalize();
        let k = Scalar::from_bytes_mod_order_wide(&hash.into());
        let s = nonce + k * secret;
        let left = s * ED25519_BASEPOINT_POINT - k * public - r;
        assert!(
            left.mul_by_cofactor().is_identity(),
            "the cofactored equation holds"
        );
        [r.compress().0, s.to_bytes()].concat()
    };
    let honest = nonce * ED25519_BASEPOINT_POINT;
    assert!(key.verify(SIGNED, &sign(honest)));
    for torsion in &EIGHT_TORSION[1..] {
        assert!(!key.verify(SIGNED, &sign(honest + torsion)));
    }
    // A key with a torsion component, and an s that is not reduced.
    let mixed = PublicKey::from_ed25519(&(public + EIGHT_TORSION[1]).compress().0).unwrap();
    assert!(!mixed.verify(SIGNED, &sign(honest)));
    let mut large = sign(honest);
    large[63] |= 0xe0;
    assert!(!key.verify(SIGNED, &large));
}

#[test]
fn keyids_are_hints_in_five_spellings() {
    for key in all() {
        let public = key.public();
        let id = public.identity().to_string();
        let raw = countersign_verifier::hash::sha256(&public.raw()).to_hex();
        for hint in [&id, &id[3..], &raw] {
            assert!(public.matches_hint(hint), "{hint}");
            assert!(!ed25519(9).public().matches_hint(hint));
        }
        for hint in ["", "id_", "agent", "SHA256:", &id[..66]] {
            assert!(!public.matches_hint(hint), "{hint}");
        }
    }
    assert!(ed25519(3).public().matches_hint(AGENT_SSH_PRINT));
    assert!(ed25519(1).public().matches_hint(crate::support::LOG_VKEY));
    assert!(!ed25519(3).public().matches_hint(crate::support::LOG_VKEY));
}

/// RFC 8410 section 7, version 1, without the public key: the form that OpenSSL reads and writes.
#[test]
fn an_ed25519_key_is_written_as_others_read_it() {
    assert_eq!(*ed25519(3).to_pem(), AGENT_PEM);
}
