//! Renders TeX mathematics as HTML without scripts. Greek letters and symbols become characters;
//! indices and fractions keep their layout; unknown commands are shown by name.

use super::escape::{escape, escape_into};
use super::symbols::{LETTERS, PLAIN, RELATIONS, SIGNS};

/// Deeper nesting is shown as source text.
const DEEPEST: usize = 24;

/// Renders inline mathematics.
pub fn inline(tex: &str) -> String {
    format!("<span class=\"math\">{}</span>", Reader::new(tex, false).all())
}

/// Renders display mathematics.
pub fn block(tex: &str) -> String {
    format!("<span class=\"math block\">{}</span>", Reader::new(tex, true).all())
}

struct Reader<'a> {
    rest: &'a str,
    tall: bool,
    depth: usize,
    /// The last element was a value, so a following sign is binary and gets space.
    after_value: bool,
}

impl<'a> Reader<'a> {
    fn new(tex: &'a str, tall: bool) -> Self {
        Self { rest: tex.trim(), tall, depth: 0, after_value: false }
    }

    fn all(&mut self) -> String {
        let mut out = String::new();
        while !self.rest.is_empty() {
            self.until_brace(&mut out);
            // A closing brace without an opening one.
            self.next();
        }
        out
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn until_brace(&mut self, out: &mut String) {
        while let Some(c) = self.rest.chars().next() {
            if c == '}' {
                return;
            }
            self.item(out);
        }
    }

    /// Reads one element: letters, a number, a sign, a command or a group.
    fn item(&mut self, out: &mut String) {
        let Some(c) = self.rest.chars().next() else { return };
        if c.is_alphabetic() {
            return self.letters(out);
        }
        self.next();
        match c {
            '\\' => self.command(out),
            '{' => self.group(out),
            '^' | '_' => {
                let tag = if c == '^' { "sup" } else { "sub" };
                let inside = self.argument();
                out.push_str(&format!("<{tag}>{inside}</{tag}>"));
                self.after_value = true;
            }
            '=' | '<' | '>' | ':' => self.relation(out, &escape(&c.to_string())),
            '+' => self.sign(out, "+"),
            '-' => self.sign(out, "−"),
            '*' => self.sign(out, "∗"),
            '~' => out.push('\u{a0}'),
            '&' => out.push(' '),
            '\'' => out.push('′'),
            ',' | ';' => {
                out.push(c);
                out.push(' ');
                self.after_value = false;
            }
            '(' | '[' | '|' => {
                out.push(c);
                self.after_value = c == '|';
            }
            c if c.is_whitespace() => {}
            c => {
                escape_into(out, &c.to_string());
                self.after_value = true;
            }
        }
    }

    fn letters(&mut self, out: &mut String) {
        let end = self.rest.find(|c: char| !c.is_alphabetic()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        out.push_str("<i>");
        escape_into(out, word);
        out.push_str("</i>");
        self.after_value = true;
    }

    fn group(&mut self, out: &mut String) {
        if self.depth >= DEEPEST {
            escape_into(out, self.rest);
            self.rest = "";
            return;
        }
        self.depth += 1;
        self.until_brace(out);
        self.depth -= 1;
        self.next();
    }

    /// Reads an argument, index or power: a group, a command or one character.
    fn argument(&mut self) -> String {
        self.rest = self.rest.trim_start();
        if self.depth >= DEEPEST {
            return self.next().map(|c| escape(&c.to_string())).unwrap_or_default();
        }
        self.depth += 1;
        let mut out = String::new();
        self.after_value = false;
        match self.rest.chars().next() {
            Some('{') | Some('\\') => self.item(&mut out),
            Some('}') | None => {}
            Some(c) if c.is_alphabetic() => {
                self.next();
                out.push_str(&format!("<i>{}</i>", escape(&c.to_string())));
            }
            Some(_) => self.item(&mut out),
        }
        self.depth -= 1;
        self.after_value = true;
        out
    }

    /// Reads the argument of a command that takes plain text.
    fn words(&mut self) -> String {
        self.rest = self.rest.trim_start();
        let Some(inside) = self.rest.strip_prefix('{') else {
            return self.next().map(String::from).unwrap_or_default();
        };
        let end = inside.find('}').unwrap_or(inside.len());
        self.rest = inside.get(end + 1..).unwrap_or("");
        inside[..end].replace('\\', "")
    }

    fn relation(&mut self, out: &mut String, sign: &str) {
        out.push_str(&format!(" {sign} "));
        self.after_value = false;
    }

    fn sign(&mut self, out: &mut String, sign: &str) {
        out.push_str(&if self.after_value { format!(" {sign} ") } else { sign.to_owned() });
        self.after_value = false;
    }

    fn command(&mut self, out: &mut String) {
        let end = self.rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.rest.len());
        if end == 0 {
            match self.next() {
                Some('\\') => out.push_str("<br>"),
                Some(',' | ';' | ':' | ' ' | '>') => out.push('\u{2009}'),
                Some('!') | None => {}
                Some('|') => out.push('‖'),
                Some(c) => escape_into(out, &c.to_string()),
            }
            return;
        }
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        match name {
            "frac" | "dfrac" | "tfrac" => {
                let (over, under) = (self.argument(), self.argument());
                if self.tall {
                    out.push_str(&format!(
                        "<span class=\"frac\"><span>{over}</span><span>{under}</span></span>"
                    ));
                } else {
                    out.push_str(&format!("{}/{}", bracketed(&over), bracketed(&under)));
                }
            }
            "sqrt" => {
                let inside = self.argument();
                out.push_str(&format!("√<span class=\"root\">{inside}</span>"));
            }
            "hat" | "tilde" | "bar" | "vec" | "dot" | "overline" | "widehat" | "widetilde" => {
                let inside = self.argument();
                out.push_str(&accented(&inside, name));
            }
            "text" | "mathrm" | "textrm" | "operatorname" | "mathsf" | "mathtt" | "texttt"
            | "mbox" => {
                escape_into(out, &self.words());
                self.after_value = true;
            }
            "mathbf" | "boldsymbol" | "bm" | "textbf" => {
                let inside = self.argument();
                out.push_str(&format!("<b>{inside}</b>"));
            }
            "mathcal" | "mathbb" | "mathscr" | "mathfrak" => {
                let letters = self.words();
                letters.chars().for_each(|c| out.push(fancy(name, c)));
                self.after_value = true;
            }
            "begin" | "end" => {
                self.words();
            }
            "quad" | "qquad" => out.push('\u{2003}'),
            "left" | "right" | "big" | "Big" | "bigl" | "bigr" | "Bigl" | "Bigr" | "bigg"
            | "displaystyle" | "limits" | "nolimits" => {
                // `\right.` closes an invisible bracket.
                if matches!(name, "left" | "right") && self.rest.starts_with('.') {
                    self.next();
                }
            }
            _ => self.symbol(out, name),
        }
    }

    fn symbol(&mut self, out: &mut String, name: &str) {
        if let Some((_, sign)) = RELATIONS.iter().find(|(n, _)| *n == name) {
            self.relation(out, sign);
        } else if let Some((_, sign)) = SIGNS.iter().find(|(n, _)| *n == name) {
            self.sign(out, sign);
        } else if let Some((_, letter)) = LETTERS.iter().find(|(n, _)| *n == name) {
            out.push_str(&format!("<i>{letter}</i>"));
            self.after_value = true;
        } else if let Some((_, sign)) = PLAIN.iter().find(|(n, _)| *n == name) {
            out.push_str(sign);
            self.after_value = !matches!(name, "langle" | "lfloor" | "lceil");
        } else {
            // A function such as \log, or an unknown command: its name, upright.
            if self.after_value {
                out.push('\u{2009}');
            }
            escape_into(out, name);
            let bracket = self.rest.trim_start().starts_with(['(', '_', '^', '{', '[', '\\', '}']);
            if !bracket && !self.rest.trim_start().is_empty() {
                out.push('\u{2009}');
            }
            self.after_value = false;
        }
    }
}

/// Adds brackets where the text would be misread beside a slash.
fn bracketed(html: &str) -> String {
    if html.contains([' ', '−', '+']) { format!("({html})") } else { html.to_owned() }
}

fn accented(html: &str, name: &str) -> String {
    let mark = match name {
        "hat" | "widehat" => '\u{302}',
        "tilde" | "widetilde" => '\u{303}',
        "bar" | "overline" => '\u{304}',
        "vec" => '\u{20d7}',
        _ => '\u{307}',
    };
    match html.strip_suffix("</i>") {
        Some(letter) => format!("{letter}{mark}</i>"),
        None => format!("{html}{mark}"),
    }
}

fn fancy(style: &str, c: char) -> char {
    match (style, c) {
        ("mathbb", 'R') => 'ℝ',
        ("mathbb", 'N') => 'ℕ',
        ("mathbb", 'Z') => 'ℤ',
        ("mathbb", 'E') => '𝔼',
        ("mathbb", 'P') => 'ℙ',
        ("mathcal" | "mathscr", 'L') => 'ℒ',
        ("mathcal" | "mathscr", 'N') => '𝒩',
        ("mathcal" | "mathscr", 'D') => '𝒟',
        ("mathcal" | "mathscr", 'M') => 'ℳ',
        ("mathcal" | "mathscr", 'A') => '𝒜',
        ("mathcal" | "mathscr", 'B') => 'ℬ',
        ("mathcal" | "mathscr", 'O') => '𝒪',
        ("mathcal" | "mathscr", 'S') => '𝒮',
        ("mathcal" | "mathscr", 'X') => '𝒳',
        ("mathcal" | "mathscr", 'Y') => '𝒴',
        (_, '<' | '>' | '&' | '"') => ' ',
        (_, c) => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tex: &str) -> String {
        Reader::new(tex, false).all()
    }

    #[test]
    fn common_formulas_read_well() {
        assert_eq!(read(r"\varepsilon = 3"), "<i>ε</i> = 3");
        assert_eq!(read(r"\delta=10^{-5}"), "<i>δ</i> = 10<sup>−5</sup>");
        assert_eq!(read(r"\mathcal{N}(0, \sigma^2 C^2 I)"), {
            "𝒩(0, <i>σ</i><sup>2</sup><i>C</i><sup>2</sup><i>I</i>)"
        });
        assert_eq!(read(r"\frac{1}{B}\sum_i \bar{g}_i"), {
            "1/<i>B</i>∑<sub><i>i</i></sub><i>g\u{304}</i><sub><i>i</i></sub>"
        });
        assert_eq!(read(r"\frac{a+b}{2}"), "(<i>a</i> + <i>b</i>)/2");
        assert_eq!(read(r"-x - y"), "−<i>x</i> − <i>y</i>");
        assert_eq!(read(r"\log_2 n"), "log<sub>2</sub><i>n</i>");
        assert_eq!(read(r"\text{clip}(g) \le C"), "clip(<i>g</i>) ≤ <i>C</i>");
        assert!(block(r"\frac{1}{2}").contains("class=\"frac\""));
    }

    #[test]
    fn broken_or_hostile_mathematics_is_only_text() {
        for tex in ["{", "}", "^", "_", "\\", "\\frac", "\\frac{1", "\\text{", "a}b", "\\sqrt"] {
            read(tex);
        }
        let deep = "{".repeat(10_000) + "x" + &"^{".repeat(10_000) + &"\\sqrt".repeat(10_000);
        assert!(!inline(&deep).is_empty());
        let hostile = inline(r"<script>\text{<b>}\mathcal{<}\unknown<x");
        assert!(
            !hostile.contains("<script") && !hostile.contains("<b>") && !hostile.contains("<x")
        );
    }
}
