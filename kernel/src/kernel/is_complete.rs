//! Tells whether code typed into a console is complete, by its brackets, strings, characters and
//! comments. Nothing is compiled.

/// The status of an `is_complete_reply`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The code can be run.
    Complete,
    /// A bracket, string or expression is still open.
    Incomplete,
    /// A bracket is closed that was not opened. More lines can't correct it.
    Invalid,
}

impl Answer {
    /// The name of the status in the protocol.
    pub fn status(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::Invalid => "invalid",
        }
    }
}

/// Classifies the code.
pub fn answer(code: &str) -> Answer {
    if code.trim_start().starts_with(':') {
        return Answer::Complete;
    }
    let chars: Vec<char> = code.chars().collect();
    let mut open = Vec::new();
    let mut last = ' ';
    let mut before_last = ' ';
    for (at, token) in tokens(&chars) {
        let length = match token {
            Token::Open(c) => {
                open.push(c);
                1
            }
            Token::Close(c) => {
                if open.pop() != Some(c) {
                    return Answer::Invalid;
                }
                1
            }
            Token::Space(_) => continue,
            Token::Other(n) => n,
            Token::Unfinished => return Answer::Incomplete,
        };
        // Only the last characters of tokens matter below.
        before_last = last;
        last = chars[at + length - 1];
        if length > 1 && !(last.is_alphanumeric() || last == '_') {
            before_last = ' ';
        }
    }
    let waits = matches!(last, '=' | '+' | '-' | '*' | '/' | '%' | '&' | '|' | '.' | ',' | '^')
        || (last == '>' && matches!(before_last, '-' | '='))
        || (last == ':' && before_last == ':');
    // `a..` is a complete range.
    let range = last == '.' && before_last == '.';
    if !open.is_empty() || (waits && !range) { Answer::Incomplete } else { Answer::Complete }
}

/// Number, from 1, of the line in which a block comment begins that is never closed. evcxr would
/// silently drop the code after it.
pub fn open_comment(code: &str) -> Option<usize> {
    // Commands before the code are not Rust.
    let other = |line: &&str| {
        let text = line.trim_start();
        line.starts_with('!') || [":", "//"].iter().any(|begin| text.starts_with(begin))
    };
    let skipped = code.lines().take_while(|line| other(line) || line.trim().is_empty()).count();
    let chars: Vec<char> = code.split_inclusive('\n').skip(skipped).flat_map(str::chars).collect();
    let (at, _) = tokens(&chars).find(|(_, token)| matches!(token, Token::Unfinished))?;
    let breaks = chars[..at].iter().filter(|c| **c == '\n').count();
    chars[at..].starts_with(&['/', '*']).then_some(skipped + breaks + 1)
}

/// Start of each token. An unfinished token is the last.
fn tokens(chars: &[char]) -> impl Iterator<Item = (usize, Token)> {
    let (mut at, mut before) = (0, ' ');
    std::iter::from_fn(move || {
        let start = at;
        let token =
            chars.get(start..).filter(|rest| !rest.is_empty()).map(|rest| read(rest, before))?;
        at = match token {
            Token::Open(_) | Token::Close(_) => at + 1,
            Token::Space(n) | Token::Other(n) => at + n,
            Token::Unfinished => chars.len(),
        };
        before = if matches!(token, Token::Space(_)) { ' ' } else { chars[at - 1] };
        Some((start, token))
    })
}

enum Token {
    Open(char),
    Close(char),
    Space(usize),
    Other(usize),
    Unfinished,
}

fn read(rest: &[char], before: char) -> Token {
    let second = rest.get(1).copied().unwrap_or(' ');
    let in_word = before.is_alphanumeric() || before == '_';
    match rest[0] {
        c if c.is_whitespace() => Token::Space(1),
        '/' if second == '/' => {
            Token::Space(rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()))
        }
        '/' if second == '*' => comment(rest),
        c @ ('(' | '[' | '{') => Token::Open(c),
        ')' => Token::Close('('),
        ']' => Token::Close('['),
        '}' => Token::Close('{'),
        '"' => string(rest, 0),
        '\'' => quote(rest),
        'b' | 'c' if second == '"' && !in_word => string(rest, 1),
        'b' if second == '\'' && !in_word => match quote(&rest[1..]) {
            Token::Other(n) => Token::Other(n + 1),
            other => other,
        },
        'r' if matches!(second, '"' | '#') && !in_word => raw_string(rest, 1),
        'b' | 'c' if second == 'r' && matches!(rest.get(2), Some('"' | '#')) && !in_word => {
            raw_string(rest, 2)
        }
        _ => Token::Other(1),
    }
}

/// Block comments nest.
fn comment(rest: &[char]) -> Token {
    let (mut depth, mut at) = (0, 0);
    while at + 1 < rest.len() {
        match (rest[at], rest[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Token::Space(at);
        }
    }
    Token::Unfinished
}

fn string(rest: &[char], start: usize) -> Token {
    let mut at = start + 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return Token::Other(at + 1),
            _ => at += 1,
        }
    }
    Token::Unfinished
}

fn raw_string(rest: &[char], start: usize) -> Token {
    let hashes = rest[start..].iter().take_while(|c| **c == '#').count();
    let quote = start + hashes;
    if rest.get(quote) != Some(&'"') {
        // A raw identifier such as `r#type`.
        return Token::Other(quote.min(rest.len()));
    }
    let mut at = quote + 1;
    while at < rest.len() {
        let end = at + 1 + hashes;
        if rest[at] == '"' && rest.get(at + 1..end).is_some_and(|s| s.iter().all(|c| *c == '#')) {
            return Token::Other(end);
        }
        at += 1;
    }
    Token::Unfinished
}

/// Reads a character literal or a lifetime.
fn quote(rest: &[char]) -> Token {
    match (rest.get(1), rest.get(2)) {
        (Some('\\'), _) => match rest[3.min(rest.len())..].iter().position(|c| *c == '\'') {
            Some(end) => Token::Other(end + 4),
            None => Token::Unfinished,
        },
        (Some(_), Some('\'')) => Token::Other(3),
        _ => Token::Other(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_incomplete_and_invalid_code() {
        use Answer::{Complete, Incomplete, Invalid};
        for (code, expected) in [
            ("", Complete),
            ("let x = 1;", Complete),
            ("x", Complete),
            (":dep rand = {", Complete),
            ("fn f() {", Incomplete),
            ("fn f() {\n    1\n}", Complete),
            ("vec![1, 2", Incomplete),
            ("f(x))", Invalid),
            ("(]", Invalid),
            ("}", Invalid),
            ("let s = \"a", Incomplete),
            ("let s = \"a\\\"", Incomplete),
            ("let s = \"}\";", Complete),
            ("let s = r\"\\\";", Complete),
            ("let s = r#\"a\"", Incomplete),
            ("let s = r#\"a\"b\"#;", Complete),
            ("let s = br##\"}\"# \"##;", Complete),
            ("let r#type = 1;", Complete),
            ("return r\"\\\";", Complete),
            ("let s = b\"{\";", Complete),
            ("let c = '{';", Complete),
            ("let c = '\\'';", Complete),
            ("let c = '\\u{7b}';", Complete),
            ("let c = b'{';", Complete),
            ("fn f<'a>(x: &'a str) -> &'a str { x }", Complete),
            ("'outer: loop {", Incomplete),
            ("// {", Complete),
            ("x // \"", Complete),
            ("/* {", Incomplete),
            ("/* /* */", Incomplete),
            ("/* /* } */ */ x", Complete),
            ("let x =", Incomplete),
            ("a +\n", Incomplete),
            ("a.", Incomplete),
            ("f(1).g()", Complete),
            ("let r = 0..", Complete),
            ("fn f() ->", Incomplete),
            ("std::", Incomplete),
            ("let v: Vec<u8>", Complete),
            ("let x = 1 // sum =", Complete),
            ("\"a=\"", Complete),
        ] {
            assert_eq!(answer(code), expected, "{code:?}");
        }
    }

    #[test]
    fn only_unclosed_comments_are_found() {
        for (code, expected) in [
            ("/* never", Some(1)),
            ("1\n+ 1; /* a /* b */", Some(2)),
            (":dep a = { path = \"/b/*\" }\n!ls /tmp/*\n\nlet x = 1;\n/*", Some(5)),
            ("x; /* closed */ // /*", None),
            ("!ls /tmp/*", None),
            ("\"/*\"", None),
            ("r#\"\" /* \"#", None),
            ("let s = \"open /*", None),
            ("let c = '\"'; let d = \"/*\";", None),
        ] {
            assert_eq!(open_comment(code), expected, "{code:?}");
        }
    }
}
