//! Whether two globs of paths have a path in common: decided, not guessed.
//!
//! A path is segments of one character or more with `/` between them. In a glob `?` is one character of a segment, `*` any number
//! of them, `**` any text with its slashes; `**/` at the start of a segment is any number of whole segments, none included. Each
//! glob is a machine that reads a path one character at a time; a third one admits only what is a path. Both globs accept one path
//! if the three together can come to their ends, and there are few enough ways for that to be tried: (m+1)(n+1) places, twice. Each
//! place that is looked at is a step, and who asks says how many steps there may be.

/// Where a machine can be: what it reads there, and where that leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// This character, and on.
    One(char),
    /// A character of a segment, and on.
    Any,
    /// Any number of characters of a segment.
    Star,
    /// Any text.
    Deep,
    /// Before a whole segment: on past the next step, or into one.
    Segments,
    /// Within a whole segment, up to its slash, which leads back to the step before.
    Within,
}

/// What a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    Char(char),
    NoSlash,
    Anything,
}

/// How many steps may still be taken.
#[derive(Debug, PartialEq, Eq)]
pub struct Steps(usize);

impl Steps {
    /// So many.
    #[must_use]
    pub const fn new(most: usize) -> Steps {
        Steps(most)
    }

    /// Takes one, if there is one.
    fn take(&mut self) -> Result<(), TooMuch> {
        self.0 = self.0.checked_sub(1).ok_or(TooMuch)?;
        Ok(())
    }
}

/// It would take more steps than may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

/// A glob, ready to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    steps: Vec<Step>,
    /// No segment of it is empty, so that some path is matched by it.
    is_sound: bool,
}

impl Glob {
    /// Reads a glob; every text is one.
    #[must_use]
    pub fn new(text: &str) -> Glob {
        let chars: Vec<char> = text.chars().collect();
        let mut steps = Vec::with_capacity(chars.len());
        let mut at = 0;
        while at < chars.len() {
            let starts = at == 0 || chars[at - 1] == '/';
            let step = match (chars[at], chars.get(at + 1), chars.get(at + 2)) {
                ('*', Some('*'), Some('/')) if starts => {
                    steps.push(Step::Segments);
                    at += 2;
                    Step::Within
                }
                ('*', Some('*'), _) => {
                    at += 1;
                    Step::Deep
                }
                ('*', ..) => Step::Star,
                ('?', ..) => Step::Any,
                (c, ..) => Step::One(c),
            };
            steps.push(step);
            at += 1;
        }
        let is_sound = text.split('/').all(|segment| !segment.is_empty());
        Glob { steps, is_sound }
    }

    /// Whether some path is matched by both.
    ///
    /// # Errors
    /// [`TooMuch`] where saying so takes more than `left`, none of which is left then.
    pub fn overlaps(&self, other: &Glob, left: &mut Steps) -> Result<bool, TooMuch> {
        left.take()?;
        if let Some(said) = self.begins(other) {
            return Ok(said);
        }
        let (m, n) = (self.steps.len(), other.steps.len());
        let place =
            |(i, j, inside): (usize, usize, bool)| (i * (n + 1) + j) * 2 + usize::from(inside);
        let mut seen = vec![false; (m + 1) * (n + 1) * 2];
        let mut open = vec![(0, 0, false)];
        while let Some((i, j, inside)) = open.pop() {
            if std::mem::replace(&mut seen[place((i, j, inside))], true) {
                continue;
            }
            left.take()?;
            if (i, j, inside) == (m, n, true) {
                return Ok(true);
            }
            open.extend(self.skip(i).map(|i| (i, j, inside)));
            open.extend(other.skip(j).map(|j| (i, j, inside)));
            for (mine, next) in self.reads(i) {
                for (theirs, after) in other.reads(j) {
                    let ends = [false, true].into_iter();
                    let ends = ends.filter(|slash| both(mine, theirs, *slash));
                    // A slash ends a segment that has begun; anything else begins one or goes on with it.
                    open.extend(
                        ends.filter(|slash| !slash || inside)
                            .map(|slash| (next, after, !slash)),
                    );
                }
            }
        }
        Ok(false)
    }

    /// What the texts before the first wildcards already say: most pairs are told by them.
    fn begins(&self, other: &Glob) -> Option<bool> {
        let pairs = self.steps.iter().zip(&other.steps);
        let same = |pair: &(&Step, &Step)| matches!(pair, (Step::One(a), Step::One(b)) if a == b);
        let at = pairs.take_while(same).count();
        match (&self.steps[at..], &other.steps[at..]) {
            ([Step::One(_), ..], [] | [Step::One(_), ..]) | ([], [Step::One(_), ..]) => Some(false),
            // One text; or any text behind it, and whatever the other matches is such a text.
            ([], []) | ([Step::Deep], _) | (_, [Step::Deep]) if self.is_sound && other.is_sound => {
                Some(true)
            }
            _ => None,
        }
    }

    /// Where a machine can go without reading.
    fn skip(&self, at: usize) -> Option<usize> {
        match self.steps.get(at)? {
            Step::Star | Step::Deep => Some(at + 1),
            Step::Segments => Some(at + 2),
            _ => None,
        }
    }

    /// What it can read there, and where each leads.
    fn reads(&self, at: usize) -> impl Iterator<Item = (Reads, usize)> + use<> {
        let (first, second) = match self.steps.get(at) {
            None => (None, None),
            Some(Step::One(c)) => (Some((Reads::Char(*c), at + 1)), None),
            Some(Step::Any) => (Some((Reads::NoSlash, at + 1)), None),
            Some(Step::Star) => (Some((Reads::NoSlash, at)), None),
            Some(Step::Deep) => (Some((Reads::Anything, at)), None),
            Some(Step::Segments) => (Some((Reads::NoSlash, at + 1)), None),
            Some(Step::Within) => (Some((Reads::NoSlash, at)), Some((Reads::Char('/'), at - 1))),
        };
        first.into_iter().chain(second)
    }
}

/// Whether two steps can read the same character, which is a slash or is none.
fn both(a: Reads, b: Reads, slash: bool) -> bool {
    let can = |reads: Reads| match reads {
        Reads::Char(c) => (c == '/') == slash,
        Reads::NoSlash => !slash,
        Reads::Anything => true,
    };
    match (a, b) {
        (Reads::Char(a), Reads::Char(b)) if a != b => false,
        _ => can(a) && can(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn overlap(a: &str, b: &str) -> bool {
        let mut all = Steps::new(usize::MAX);
        Glob::new(a).overlaps(&Glob::new(b), &mut all).unwrap()
    }

    /// Whether a glob matches a path, by another way: by trying.
    fn matches(glob: &[char], path: &[char], starts: bool) -> bool {
        let Some((first, rest)) = glob.split_first() else {
            return path.is_empty();
        };
        let begins = |at: usize| at == 0 || path[at - 1] == '/';
        match (first, rest) {
            ('*', ['*', '/', after @ ..]) if starts => (0..=path.len())
                .filter(|at| begins(*at))
                .any(|at| matches(after, &path[at..], true)),
            ('*', ['*', after @ ..]) => {
                (0..=path.len()).any(|at| matches(after, &path[at..], false))
            }
            ('*', _) => (0..=path.len())
                .take_while(|at| *at == 0 || path[at - 1] != '/')
                .any(|at| matches(rest, &path[at..], false)),
            ('?', _) => path
                .split_first()
                .is_some_and(|(c, path)| *c != '/' && matches(rest, path, false)),
            (c, _) => path
                .split_first()
                .is_some_and(|(p, path)| p == c && matches(rest, path, *c == '/')),
        }
    }

    /// Every path of up to six of a, b and /.
    fn paths() -> Vec<Vec<char>> {
        let mut all: Vec<Vec<char>> = vec![Vec::new()];
        let mut last = all.clone();
        for _ in 0..6 {
            last = last
                .iter()
                .flat_map(|path| ['a', 'b', '/'].map(|c| [path.clone(), vec![c]].concat()))
                .collect();
            all.extend(last.clone());
        }
        let is_path =
            |path: &Vec<char>| path.split(|c| *c == '/').all(|segment| !segment.is_empty());
        all.retain(is_path);
        all
    }

    #[test]
    fn globs_overlap_where_a_path_is_in_both() {
        for (a, b, overlap) in [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "src/b.rs", false),
            ("src/*.rs", "src/a.*", true),
            ("src/*.rs", "src/a/b.rs", false),
            ("src/**", "src/a/b.rs", true),
            ("src/**", "src", false),
            ("**/b.rs", "b.rs", true),
            ("**/b.rs", "a/c/b.rs", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "ab", false),
            ("a/?", "a/*", true),
            ("a/?", "a/bc", false),
            ("*", "a/b", false),
            ("**", "a/b", true),
            ("*a*", "b*", true),
            ("a/*/c", "a/b/*", true),
            ("a/*", "a/*/b", false),
            ("x**z", "x/y/z", true),
            ("src**", "src", true),
            ("src**", "src/*", true),
            ("src/a", "src/a/b", false),
        ] {
            assert_eq!(super::tests::overlap(a, b), overlap, "{a} {b}");
            assert_eq!(super::tests::overlap(b, a), overlap, "{b} {a}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

        #[test]
        fn trying_every_short_path_says_the_same(a in "[ab/?*]{1,4}", b in "[ab/?*]{1,4}") {
            let (left, right): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            let found = paths().into_iter().any(|path| matches(&left, &path, true) && matches(&right, &path, true));
            // Four steps each need no more than seven characters to meet; with six, what is found is there, and what is not
            // found is missed only where both are long.
            let said = overlap(&a, &b);
            prop_assert!(said || !found, "{a} {b} have a path in common");
            if a.len() + b.len() <= 6 {
                prop_assert_eq!(said, found, "{} {}", a, b);
            }
        }
    }

    #[test]
    fn the_longest_globs_are_decided_quickly_enough() {
        let (a, b) = ("*a".repeat(100), "**b".repeat(70));
        assert!(overlap(&(a + "b"), &b));
    }

    #[test]
    fn steps_are_counted_and_end() {
        let took = |a: &str, b: &str, most: usize| {
            let mut left = Steps::new(most);
            let said = Glob::new(a).overlaps(&Glob::new(b), &mut left);
            (said, most - left.0)
        };
        // What the beginnings say is one step, however long the rest is.
        assert_eq!(took("src/**", "src/a/b/*.rs", 9), (Ok(true), 1));
        assert_eq!(took("src/*.rs", "docs/*.rs", 9), (Ok(false), 1));
        let (a, b) = (
            "*a".repeat(8) + &"a".repeat(90),
            "*a".repeat(8) + &"a".repeat(90) + "b",
        );
        let (said, all) = took(&a, &b, usize::MAX);
        assert!(said == Ok(false) && all > 10_000, "{said:?} after {all}");
        assert_eq!(took(&a, &b, all), (Ok(false), all));
        assert_eq!(took(&a, &b, all - 1), (Err(TooMuch), all - 1));
    }
}
