//! Ids and names on the board: what can be one, in which spelling it is kept, and which two nobody could tell apart.
//!
//! The tables behind NFC and look-alikes are part of what decides, so their crates are pinned to one release each; see the
//! decision on names of items.

use unicode_normalization::{UnicodeNormalization as _, is_nfc};
use unicode_security::skeleton;

/// An id has at most so many bytes: it is part of every resource, cursor and list that names the item.
pub const ID_BYTES_MAX: usize = 128;
/// A tag, an owner, a workstream.
pub const NAME_BYTES_MAX: usize = 128;

/// The one spelling in which a name is kept: NFC.
#[must_use]
pub fn nfc(text: &str) -> String {
    if is_nfc(text) {
        text.to_owned()
    } else {
        text.nfc().collect()
    }
}

/// Whether a text in NFC can be a name: something, of which every character shows and none moves another.
///
/// # Errors
/// What is wrong with it.
pub fn check(text: &str, bytes_max: usize) -> Result<(), String> {
    if text.is_empty() || text.len() > bytes_max {
        return Err(format!("1 to {bytes_max} bytes"));
    }
    if let Some(bad) = text.chars().find(|c| hides(*c)) {
        return Err(format!(
            "U+{:04X} is a control, changes direction, or cannot be seen",
            u32::from(bad)
        ));
    }
    let blank = |c: char| c.is_whitespace() && c != ' ';
    if text.starts_with(' ') || text.ends_with(' ') || text.contains(blank) {
        return Err("no white space but single spaces between words".into());
    }
    Ok(())
}

/// Controls, marks of direction, and what takes no room: U+200B to U+200F, the fillers, the variation selectors, the tags.
fn hides(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0x00AD | 0x034F | 0x061C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F
            | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}

/// What two ids share that a reader would take for one another: letters of another case, letters that look alike (UTS 39).
#[must_use]
pub fn twin(id: &str) -> String {
    let lower = id.to_lowercase();
    // Of ASCII only `0`, `1`, `m` and `|` have a look-alike in ASCII; the tables are asked all the same, so that there is one rule.
    skeleton(&lower).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_a_name() {
        for good in ["T-1", "a b", "caf\u{e9}", "задача", "x/y:z#1", "日本"] {
            assert_eq!(check(good, 128), Ok(()), "{good}");
        }
        for bad in [
            "",
            " a",
            "a ",
            "a\tb",
            "a\nb",
            "a\0b",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\u{2066}b",
            "a\u{a0}b",
            "a\u{2028}b",
            "a\u{fe0f}",
        ] {
            assert!(check(bad, 128).is_err(), "{bad:?}");
        }
        assert!(check(&"x".repeat(129), 128).is_err());
        assert_eq!(nfc("cafe\u{301}"), "caf\u{e9}");
    }

    #[test]
    fn twins_are_of_case_or_looks() {
        for (a, b) in [
            ("BlueFox", "bluefox"),
            ("build-bot", "build-b\u{43e}t"), // a Cyrillic letter
            ("T-1", "T-l"),
            ("O2", "02"),
        ] {
            assert_eq!(twin(a), twin(b), "{a} {b}");
        }
        for (a, b) in [
            ("i_1", "i_11"),
            ("a-b", "a_b"),
            ("caf\u{e9}", "cafe"),
            ("T1", "T2"),
            ("i_10", "i_01"),
        ] {
            assert_ne!(twin(a), twin(b), "{a} {b}");
        }
    }
}
