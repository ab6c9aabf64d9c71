//! Text for people.

use alloc::string::String;

/// What a file says, as it may be shown: control characters as escapes, so that no file can draw on the
/// reader's terminal.
#[must_use]
pub fn printable(text: &str) -> String {
    // Bidirectional controls reorder what stands beside them, so they are shown as well.
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) {
            out.extend(c.escape_unicode())
        } else {
            out.push(c)
        }
    }
    out
}
