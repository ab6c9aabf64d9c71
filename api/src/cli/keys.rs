//! Reading keys from files, with messages that name the file and what to do.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use anyhow::{Context as _, anyhow, bail};
use countersign_verifier::{
    key::{KeyError, PrivateKey, PublicKey},
    vkey::is_name,
};
use zeroize::Zeroizing;

use crate::files;

/// No key file is longer; what is longer is the wrong file.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;

/// Reads a private key from a file that was named, which may be a pipe.
pub fn private(path: &Path) -> anyhow::Result<PrivateKey> {
    parse(path, &text(path, File::open(path))?)
}

/// Reads a private key that lies in a data directory.
pub fn of_dir(path: &Path) -> anyhow::Result<PrivateKey> {
    parse(path, &text(path, files::open_plain(path))?)
}

fn parse(path: &Path, text: &str) -> anyhow::Result<PrivateKey> {
    match PrivateKey::parse(text) {
        Ok(key) => Ok(key),
        Err(error) if PublicKey::parse_all(text.as_bytes()).is_ok() => Err(anyhow!(
            "{}: {error}: this is a public key; name the file that holds the private one",
            path.display()
        )),
        Err(error) => Err(anyhow!("{}: {error}", path.display())),
    }
}

/// Reads a public key: from a file that holds it, from a private key's file, or from a vkey itself. The private key comes with it
/// where it is at hand.
pub fn public(file_or_vkey: &str) -> anyhow::Result<(PublicKey, Option<PrivateKey>)> {
    let path = Path::new(file_or_vkey);
    if !path.exists() && file_or_vkey.contains('+') {
        let key = PublicKey::parse(file_or_vkey.as_bytes())
            .with_context(|| format!("{file_or_vkey}: no such file, and as a vkey"))?;
        return Ok((key, None));
    }
    let text = text(path, File::open(path))?;
    match PublicKey::parse(text.as_bytes()) {
        Ok(key) => Ok((key, None)),
        Err(KeyError::Private) => private(path).map(|key| (key.public(), Some(key))),
        // An OpenSSH or PKCS#8 text is told by its own reader.
        Err(error) => match PrivateKey::parse(&text) {
            Ok(key) => Ok((key.public(), Some(key))),
            Err(_) => Err(anyhow!("{}: {error}", path.display())),
        },
    }
}

fn text(path: &Path, opened: io::Result<File>) -> anyhow::Result<Zeroizing<String>> {
    let name = || format!("{}", path.display());
    let mut text = Zeroizing::new(String::new());
    let mut file = opened.with_context(name)?.take(KEY_FILE_BYTES_MAX + 1);
    match file.read_to_string(&mut text) {
        Ok(read) if read as u64 > KEY_FILE_BYTES_MAX => {
            bail!("{}: longer than any key file", path.display())
        }
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            bail!(
                "{}: not text; keys are read as PEM, OpenSSH or vkey",
                path.display()
            )
        }
        Err(error) => Err(error).with_context(name),
    }
}

/// An Ed25519 key as a line of an OpenSSH file (RFC 4253 section 6.6, RFC 8709).
pub fn openssh_line(key: &PublicKey) -> Option<String> {
    let PublicKey::Ed25519(ed25519) = key else {
        return None;
    };
    let mut blob = Vec::new();
    for part in [&b"ssh-ed25519"[..], ed25519.as_bytes()] {
        // OK because both are short.
        blob.extend(
            u32::try_from(part.len())
                .expect("openssh_line: a short part")
                .to_be_bytes(),
        );
        blob.extend(part);
    }
    Some(format!(
        "ssh-ed25519 {}",
        countersign_verifier::base64::encode(&blob)
    ))
}

/// An Ed25519 key as a vkey under a name (c2sp.org/signed-note).
pub fn vkey(key: &PublicKey, name: &str) -> Option<String> {
    use countersign_verifier::vkey::{Algorithm, VerifierKey};
    let PublicKey::Ed25519(ed25519) = key else {
        return None;
    };
    VerifierKey::new(name, Algorithm::Ed25519(*ed25519))
        .ok()
        .map(|vkey| vkey.to_string())
}

/// The name that a key file gives its vkey: the file's own, without extension. `ci.key` and its `ci.key.pub` give the same.
pub fn name_of(path: &Path) -> String {
    let private = if path.extension().is_some_and(|e| e == "pub") {
        path.with_extension("")
    } else {
        path.to_owned()
    };
    let stem = private
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    if is_name(&stem) {
        stem
    } else {
        "key".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use countersign_verifier::key::Algorithm;

    #[test]
    fn every_form_is_the_same_key() {
        let dir = tempfile::tempdir().unwrap();
        let key = PrivateKey::from_secret(Algorithm::Ed25519, &[3; 32]).unwrap();
        let public_key = key.public();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let forms = [
            file("a.key", &key.to_pem()),
            file("a.pub", &public_key.spki_pem()),
            file("a.ssh", &openssh_line(&public_key).unwrap()),
            vkey(&public_key, "ci").unwrap(),
        ];
        for (i, form) in forms.iter().enumerate() {
            let (read, private) = public(form).unwrap();
            assert_eq!(
                (read == public_key, private.is_some()),
                (true, i == 0),
                "{form}"
            );
        }
        let error = private(Path::new(&forms[1])).unwrap_err().to_string();
        assert!(error.contains("this is a public key"), "{error}");
        let long = file("long", &"x".repeat(1 << 17));
        assert!(
            public(&long)
                .unwrap_err()
                .to_string()
                .contains("longer than any key")
        );
        assert!(
            public("no+such+key")
                .unwrap_err()
                .to_string()
                .contains("no such file, and as a vkey")
        );
        assert!(private(&dir.path().join("none")).is_err());
        for (path, name) in [
            ("x/ci.key", "ci"),
            ("ci.key.pub", "ci"),
            ("ci.pub", "ci"),
            ("ci", "ci"),
            ("a b.key", "key"),
        ] {
            assert_eq!(name_of(Path::new(path)), name);
        }
    }

    #[test]
    fn ecdsa_keys_have_no_vkey() {
        let key = PrivateKey::from_secret(Algorithm::EcdsaP256, &[3; 32])
            .unwrap()
            .public();
        assert_eq!((vkey(&key, "x"), openssh_line(&key)), (None, None));
    }
}
