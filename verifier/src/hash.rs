//! SHA-256 and the two prefixes that keep leaves and nodes apart (RFC 6962 section 2.1).

use alloc::string::String;
use core::fmt;

use sha2::{Digest, Sha256};

use crate::base64::{self, Base64Error};

/// A SHA-256 hash, 32 bytes: of a leaf, a node, a root, or of plain bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

/// The root of the empty tree, SHA-256 of nothing. Not the hash of an empty leaf.
pub const EMPTY_ROOT: Hash = Hash([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]);

/// Why a text is not a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// Not exactly 64 lowercase hexadecimal digits.
    #[error("not a hash of 64 lowercase hexadecimal digits")]
    Hex,
    /// Not the standard padded base64 of exactly 32 bytes.
    #[error("not a hash: {0}")]
    Base64(#[from] Base64Error),
}

impl Hash {
    /// Reads 64 lowercase hexadecimal digits.
    ///
    /// # Errors
    /// [`HashError::Hex`] for anything else, uppercase included.
    pub fn from_hex(text: &str) -> Result<Self, HashError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(HashError::Hex);
        }
        let mut out = [0; 32];
        for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(out))
    }

    /// Reads the standard padded base64 of exactly 32 bytes: 44 characters.
    ///
    /// # Errors
    /// [`HashError::Base64`] for anything else, a hexadecimal hash included.
    pub fn from_base64(text: &str) -> Result<Self, HashError> {
        Ok(Self(base64::decode_array(text)?))
    }

    /// 44 characters of standard padded base64.
    #[must_use]
    pub fn to_base64(&self) -> String {
        base64::encode(&self.0)
    }

    /// 64 lowercase hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl AsRef<[u8]> for Hash {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// SHA-256 of `bytes`, without a prefix.
#[must_use]
pub fn sha256(bytes: &[u8]) -> Hash {
    Hash(Sha256::digest(bytes).into())
}

/// The hash of an entry as a leaf of the tree: SHA-256 of 0x00 and the entry (RFC 6962 section 2.1).
#[must_use]
pub fn leaf_hash(entry: &[u8]) -> Hash {
    Hash(
        Sha256::new_with_prefix([0])
            .chain_update(entry)
            .finalize()
            .into(),
    )
}

/// The hash of an inner node: SHA-256 of 0x01 and its two children (RFC 6962 section 2.1).
#[must_use]
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut node = [0; 65];
    node[0] = 1;
    node[1..33].copy_from_slice(&left.0);
    node[33..].copy_from_slice(&right.0);
    sha256(&node)
}

/// Lowercase hexadecimal digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n)]);
    bytes
        .iter()
        .flat_map(|&b| [digit(b >> 4), digit(b & 15)])
        .collect()
}

fn nibble(digit: u8) -> Result<u8, HashError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(HashError::Hex),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn t1_the_empty_tree_is_not_the_empty_leaf() {
        assert_eq!(sha256(b""), EMPTY_ROOT);
        assert_eq!(
            EMPTY_ROOT.to_base64(),
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        );
        let empty_leaf = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";
        assert_eq!(leaf_hash(b"").to_hex(), empty_leaf);
        assert_ne!(leaf_hash(b""), EMPTY_ROOT);
    }

    #[test]
    fn a_node_is_prefix_and_children() {
        let (l, r) = (leaf_hash(b"l"), leaf_hash(b"r"));
        assert_eq!(
            node_hash(&l, &r),
            sha256(&[&[1], &l.0[..], &r.0[..]].concat())
        );
    }

    #[test]
    fn texts_have_one_spelling() {
        let hash = leaf_hash(b"x");
        assert_eq!(Hash::from_hex(&hash.to_hex()), Ok(hash));
        assert_eq!(Hash::from_base64(&hash.to_base64()), Ok(hash));
        assert_eq!(
            format!("{hash} {hash:?}"),
            format!("{0} {0}", hash.to_hex())
        );
        assert_eq!(
            Hash::from_hex(&hash.to_hex().to_uppercase()),
            Err(HashError::Hex)
        );
        assert_eq!(Hash::from_hex(&hash.to_hex()[1..]), Err(HashError::Hex));
        // T21: 64 hexadecimal digits are valid base64, of 48 bytes.
        let want = HashError::Base64(Base64Error::Bytes { have: 48, want: 32 });
        assert_eq!(Hash::from_base64(&hash.to_hex()), Err(want));
    }
}
