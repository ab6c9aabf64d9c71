//! How deep a policy may be: reading and evaluating one goes as deep as it is nested, and must never depend on the stack at hand.

/// Brackets in brackets.
const NESTING_MAX: usize = 24;
/// Words and signs of one rule: a chain of `&&` is as deep as it is long.
const TOKENS_MAX: usize = 400;

/// Looks at the text before it is read as a policy.
///
/// # Errors
/// Which bound it is beyond, and in which line.
pub(super) fn check(text: &str) -> Result<(), String> {
    let (mut nesting, mut tokens, mut line) = (0_usize, 0_usize, 1_usize);
    let mut word = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\n' {
            line += 1;
        }
        let part = c.is_alphanumeric() || c == '_';
        if part && word {
            continue;
        }
        word = part;
        match c {
            '/' if chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|next| *next != '\n') {
                    chars.next();
                }
                continue;
            }
            '"' => {
                while let Some(inner) = chars.next() {
                    match inner {
                        '\\' => drop(chars.next()),
                        '\n' => line += 1,
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '(' | '[' | '{' => nesting += 1,
            ')' | ']' | '}' => nesting = nesting.saturating_sub(1),
            ';' if nesting == 0 => tokens = 0,
            c if c.is_whitespace() => continue,
            _ => {}
        }
        tokens += 1;
        if nesting > NESTING_MAX {
            return Err(format!(
                "line {line}: more than {NESTING_MAX} brackets in each other"
            ));
        }
        if tokens > TOKENS_MAX {
            return Err(format!(
                "line {line}: a rule of more than {TOKENS_MAX} words and signs: make two of it"
            ));
        }
    }
    Ok(())
}
