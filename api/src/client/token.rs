//! Bearer tokens.

use std::fmt;

use zeroize::Zeroizing;

/// A bearer token: `cst_` and 43 characters. Wiped when dropped, and never printed.
#[derive(Clone)]
pub struct Token(Zeroizing<String>);

/// A text that is no token. It is not repeated here: it may be a secret of another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a token: those are `cst_` and 43 characters of A-Z a-z 0-9 - _")]
pub struct TokenError;

impl Token {
    /// Reads a token; white space around it is ignored.
    ///
    /// # Errors
    /// [`TokenError`] for anything else.
    pub fn parse(text: &str) -> Result<Token, TokenError> {
        let text = text.trim();
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        match text.strip_prefix("cst_") {
            Some(rest) if rest.len() == 43 && rest.bytes().all(good) => {
                Ok(Token(Zeroizing::new(text.to_owned())))
            }
            _ => Err(TokenError),
        }
    }
}

impl Token {
    /// The token itself.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_one_form_and_is_not_shown() {
        let text = format!("cst_{}", "A".repeat(43));
        let token = Token::parse(&format!(" {text}\n")).unwrap();
        assert!(
            !format!(
                "{:?}",
                crate::client::Client::new("http://127.0.0.1", "a", Some(token)).unwrap()
            )
            .contains("AAAA")
        );
        for bad in [
            "",
            "cst_",
            &text[1..],
            &format!("{text}A"),
            &text.replace('A', "é"),
        ] {
            assert!(Token::parse(bad).is_err(), "{bad}");
        }
    }
}
