//! ASCII decimal as the text formats write it: digits alone, no sign, no leading zero.

/// The number whose one spelling is `text`; `None` for any other text, beyond 64 bits included.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    if !digits || (text.len() > 1 && text.starts_with('0')) {
        return None; // the standard parser takes "+5" and "05"
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn t20_numbers_have_one_spelling() {
        for good in [0, 1, 10, 5_000, u64::MAX] {
            assert_eq!(parse(&alloc::format!("{good}")), Some(good));
        }
        let bad = "+5,05,00, 5,5 ,1_000,0x5,-1,,٣,１,18446744073709551616,99999999999999999999999";
        for text in bad.split(',') {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
