//! Base64 as the text formats write it: RFC 4648 section 4, padded, canonical, nothing else.
//!
//! The one place that names the engine. Strict both ways: no missing padding, no white space, no
//! other alphabet, and no set bits behind the last byte, so that each byte string has one spelling.

use alloc::string::String;
use alloc::vec::Vec;

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;

/// Why a text is not the base64 of anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Base64Error {
    /// A byte outside the standard alphabet.
    #[error("byte 0x{byte:02x} at offset {offset} is not of the standard base64 alphabet")]
    Byte {
        /// Where in the text, in bytes.
        offset: usize,
        /// The byte found there.
        byte: u8,
    },
    /// The number of symbols fits no number of bytes.
    #[error("{symbols} base64 symbols fit no number of bytes")]
    Length {
        /// Symbols without padding.
        symbols: usize,
    },
    /// The last symbol has bits that belong to no byte.
    #[error("the last base64 symbol, at offset {offset}, has bits set behind the last byte")]
    TrailingBits {
        /// Where in the text, in bytes.
        offset: usize,
    },
    /// `=` is missing, or there is too much of it.
    #[error("base64 is not padded to a multiple of four symbols")]
    Padding,
    /// Well formed, but of another length than the field has.
    #[error("base64 of {have} bytes where {want} are due")]
    Bytes {
        /// Bytes found.
        have: usize,
        /// Bytes due.
        want: usize,
    },
}

impl From<::base64::DecodeError> for Base64Error {
    fn from(error: ::base64::DecodeError) -> Self {
        use ::base64::DecodeError as E;
        match error {
            E::InvalidByte(offset, byte) => Self::Byte { offset, byte },
            E::InvalidLength(symbols) => Self::Length { symbols },
            E::InvalidLastSymbol(offset, _) => Self::TrailingBits { offset },
            E::InvalidPadding => Self::Padding,
        }
    }
}

/// Standard padded base64 of `bytes`.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Appends the standard padded base64 of `bytes` to `out`.
pub fn encode_to(bytes: &[u8], out: &mut String) {
    STANDARD.encode_string(bytes, out);
}

/// The bytes whose one standard padded spelling is `text`.
///
/// # Errors
/// [`Base64Error`], never of kind [`Base64Error::Bytes`].
pub fn decode(text: &str) -> Result<Vec<u8>, Base64Error> {
    Ok(STANDARD.decode(text)?)
}

/// As [`decode`], for a field of exactly `N` bytes; allocates nothing for a text of another length.
///
/// # Errors
/// [`Base64Error`]; [`Base64Error::Bytes`] when the text is well formed and of another length.
pub fn decode_array<const N: usize>(text: &str) -> Result<[u8; N], Base64Error> {
    let mut out = [0; N];
    if text.len() == N.div_ceil(3) * 4 {
        use ::base64::DecodeSliceError as E;
        match STANDARD.decode_slice(text, &mut out) {
            Ok(have) if have == N => return Ok(out),
            Ok(have) => return Err(Base64Error::Bytes { have, want: N }),
            Err(E::DecodeError(error)) => return Err(error.into()),
            // One or two bytes more than N in the same number of symbols.
            Err(E::OutputSliceTooSmall) => {}
        }
    }
    let have = decode(text)?.len();
    Err(Base64Error::Bytes { have, want: N })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_base64_is_strict_both_ways() {
        assert_eq!(decode("Zm8="), Ok(b"fo".to_vec()));
        assert_eq!(decode(""), Ok(Vec::new()));
        assert_eq!(decode("Zm8"), Err(Base64Error::Padding));
        assert!(decode("Zm8==").is_err());
        assert_eq!(decode("Zm9="), Err(Base64Error::TrailingBits { offset: 2 }));
        assert!(matches!(
            decode("Zm\n8="),
            Err(Base64Error::Byte {
                offset: 2,
                byte: b'\n'
            })
        ));
        assert!(matches!(
            decode("Zm8=\r\n"),
            Err(Base64Error::Byte { .. } | Base64Error::Padding)
        ));
        assert!(decode("-_-_").is_err() && decode("Z").is_err() && decode("=").is_err());
    }

    #[test]
    fn arrays_have_exactly_their_length() {
        assert_eq!(decode_array::<2>("Zm8="), Ok(*b"fo"));
        assert_eq!(
            decode_array::<1>("Zm8="),
            Err(Base64Error::Bytes { have: 2, want: 1 })
        );
        assert_eq!(
            decode_array::<3>("Zm8="),
            Err(Base64Error::Bytes { have: 2, want: 3 })
        );
        assert_eq!(
            decode_array::<4>("Zm8="),
            Err(Base64Error::Bytes { have: 2, want: 4 })
        );
        assert_eq!(decode_array::<2>("Zm8"), Err(Base64Error::Padding));
    }
}
