//! Replies to completion and inspection requests. The protocol counts code points, evcxr bytes.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use evcxr::{CommandContext, Completions};
use serde_json::{Value, json};

use super::cell_commands;
use super::inspection;
use super::is_complete;
use super::receiver;
use super::requests::CodeCursor;
use super::string_completion;
use super::visibility::{MemberKind, Visibility};

/// Request of a client about code at a cursor.
#[derive(Clone, Copy)]
pub enum Question {
    /// `complete_request`: the texts that may replace the word at the cursor.
    Complete,
    /// `inspect_request`: the documentation of the word at the cursor.
    Inspect,
}

impl Question {
    /// Returns the message type of the reply.
    pub fn reply(self) -> &'static str {
        match self {
            Self::Complete => "complete_reply",
            Self::Inspect => "inspect_reply",
        }
    }

    /// Returns the content of the reply without completions or documentation.
    pub fn no_answer(self, cursor: &CodeCursor) -> Value {
        match self {
            Self::Complete => completed(&[], cursor.position()..cursor.position()),
            Self::Inspect => empty_inspection(),
        }
    }
}

/// Returns the content of a `complete_reply`: the texts that may replace these code points.
pub fn completed(matches: &[String], range: Range<usize>) -> Value {
    json!({
        "status": "ok", "matches": matches, "metadata": {},
        "cursor_start": range.start, "cursor_end": range.end,
    })
}

fn empty_inspection() -> Value {
    json!({ "status": "ok", "found": false, "data": {}, "metadata": {} })
}

/// Returns the content of a `complete_reply`. Own members of the type come first, then methods of
/// traits, then conversions that every type has. Nothing private is offered.
pub fn complete(
    context: &mut CommandContext,
    visibility: &Visibility,
    code: &str,
    cursor: usize,
) -> Value {
    if let Some(content) =
        complete_command(code, cursor).or_else(|| string_completion::complete(code, cursor))
    {
        return content;
    }
    let Some(found) = request_completions(context, code, char_to_byte(code, cursor)) else {
        return completed(&[], cursor..cursor);
    };
    let (start, end) =
        (byte_to_char(code, found.start_offset), byte_to_char(code, found.end_offset));
    let completion = CompletionContext::from_prefix(&code[..found.start_offset], |name| {
        context
            .variables_and_types()
            .find(|(variable, _)| *variable == name)
            .map(|(_, kind)| kind.to_owned())
    });
    let mut seen = HashSet::new();
    let mut offered: Vec<_> = found
        .completions
        .into_iter()
        .filter_map(|item| {
            let text = strip_arguments(&item.code).to_owned();
            let rank = completion.rank(visibility, item.kind, &text)?;
            let entry = json!({
                "text": text, "type": item.kind, "signature": item.label,
                "start": start, "end": end,
            });
            seen.insert(text.clone()).then_some((rank, text, entry))
        })
        .collect();
    offered.sort_by_key(|(rank, _, _)| *rank);
    let (matches, types): (Vec<String>, Vec<Value>) =
        offered.into_iter().map(|(_, text, entry)| (text, entry)).unzip();
    let mut reply = completed(&matches, start..end);
    reply["metadata"]["_jupyter_types_experimental"] = types.into();
    reply
}

/// Returns the completions of evcxr at byte `byte`; behind a dot without completions, those where
/// a function is expected.
fn request_completions(
    context: &mut CommandContext,
    code: &str,
    byte: usize,
) -> Option<Completions> {
    if let Ok(found) = context.completions(code, byte) {
        return Some(found);
    }
    let (changed, more) = receiver::wrap_in_fn_context(code, byte)?;
    let mut found = context.completions(&changed, byte + more).ok()?;
    found.start_offset -= more;
    found.end_offset -= more;
    Some(found)
}

/// Returns the completions of the command at the cursor.
fn complete_command(code: &str, cursor: usize) -> Option<Value> {
    let before: String = code.chars().take(cursor).collect();
    let typed = before.lines().last().filter(|_| !before.ends_with('\n'))?.trim_start();
    if !typed.starts_with(':') || typed.contains([' ', '(']) || typed.starts_with("::") {
        return None;
    }
    let matches =
        cell_commands::command_names().filter(|name| name.starts_with(typed)).map(str::to_owned);
    let matches: Vec<String> = matches.collect::<BTreeSet<_>>().into_iter().collect();
    Some(completed(&matches, cursor - typed.chars().count()..cursor))
}

/// Returns the name in the completion of a call, without brackets and arguments, which the user
/// types.
fn strip_arguments(code: &str) -> &str {
    let name = code.find(|c: char| !c.is_alphanumeric() && !"_:!#".contains(c));
    match name {
        Some(end) if end > 0 && code[end..].starts_with(['(', '[', '{']) => &code[..end],
        _ => code,
    }
}

/// Methods that every value or nearly every value has.
const UNIVERSAL_METHODS: &[&str] = &[
    "borrow",
    "borrow_mut",
    "clone_from",
    "clone_into",
    "eq",
    "from",
    "into",
    "ne",
    "to_owned",
    "try_from",
    "try_into",
    "type_id",
];
/// Methods that many values have and that cells do use.
const COMMON_METHODS: &[&str] = &["clone", "fmt", "to_string"];

/// Code before the word to complete.
#[derive(Debug, PartialEq)]
enum CompletionContext {
    /// Member access by a dot, with the name of the type of the value before it if that is a
    /// variable.
    Member(Option<String>),
    /// Path: `parent::`.
    Path(String),
    Other,
}

impl CompletionContext {
    fn from_prefix(code: &str, type_of: impl Fn(&str) -> Option<String>) -> Self {
        let code = code.trim_end();
        if let Some(path) = code.strip_suffix("::") {
            return Self::Path(receiver::split_word(path).1.to_owned());
        }
        let Some(value) = code.strip_suffix('.') else { return Self::Other };
        let (before, name) = receiver::split_word(value);
        let is_variable = !name.is_empty() && !before.trim_end().ends_with(['.', ':']);
        let Some(kind) = is_variable.then(|| type_of(name)).flatten() else {
            return Self::Member(None);
        };
        let path = kind.split('<').next().unwrap_or_default().trim_start_matches('&').trim();
        let name = path.rsplit("::").next().unwrap_or_default().to_owned();
        Self::Member(Some(name))
    }

    /// Returns the rank of a completion, lowest first; `None` for an item that a cell can't use.
    fn rank(&self, visibility: &Visibility, kind: &str, text: &str) -> Option<u8> {
        let name = text.trim_end_matches(':').trim_end_matches('!');
        if UNIVERSAL_METHODS.contains(&name) && matches!(self, Self::Member(_)) {
            return Some(4);
        }
        match self {
            Self::Member(Some(receiver)) if !visibility.knows_type(receiver) => {
                Some(u8::from(COMMON_METHODS.contains(&name)) * 3)
            }
            Self::Member(receiver) => {
                let receiver = receiver.as_deref();
                let member =
                    if kind == "function" { MemberKind::Method } else { MemberKind::Field };
                visibility.is_usable(member, receiver, name).then(|| {
                    if COMMON_METHODS.contains(&name) {
                        3
                    } else {
                        1 + u8::from(!visibility.is_inherent(receiver, name))
                    }
                })
            }
            Self::Path(parent) => visibility.is_item_usable(parent, name).then_some(1),
            Self::Other => Some(1),
        }
    }
}

/// Returns the content of an `inspect_reply`, which describes the word at the cursor, or the call
/// whose arguments the cursor is in.
pub fn inspect(context: &mut CommandContext, code: &str, cursor: usize) -> Value {
    let at = before_question_mark(code, char_to_byte(code, cursor));
    for at in [Some(end_of_word(code, at)), open_call(&code[..at])].into_iter().flatten() {
        if let Ok((text, html)) = context.hover_at(code, at)
            && text != "No documentation found"
            && !text.trim().is_empty()
        {
            let short = inspection::shorten(&html);
            return json!({
                "status": "ok", "found": true, "metadata": {},
                "data": { "text/plain": inspection::html_to_text(&short), "text/html": short },
            });
        }
    }
    empty_inspection()
}

fn char_to_byte(code: &str, cursor: usize) -> usize {
    code.char_indices().nth(cursor).map_or(code.len(), |(byte, _)| byte)
}

fn byte_to_char(code: &str, byte: usize) -> usize {
    code.char_indices().take_while(|(at, _)| *at < byte).count()
}

/// Returns the end of the word at the cursor, because evcxr describes the item that ends at a
/// position. evcxr recognises a method only with the bracket of its arguments.
fn end_of_word(code: &str, byte: usize) -> usize {
    let rest = &code[byte..];
    let end = byte + rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    if code[end..].starts_with('(') { end + 1 } else { end }
}

/// Returns the position before question marks: behind a call, the end of its name.
fn before_question_mark(code: &str, byte: usize) -> usize {
    let before = code[..byte].trim_end_matches('?');
    if before.len() == byte || !before.ends_with(')') {
        return before.len();
    }
    open_call(&before[..before.len() - 1]).map_or(before.len(), |open| open - 1)
}

/// Returns the position behind the bracket of the innermost call that is still open.
fn open_call(code: &str) -> Option<usize> {
    let open = is_complete::open_bracket(code)?;
    code[open..].starts_with('(').then_some(open + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_code_points() {
        // One grapheme of two code points (e + accent), and one of four bytes.
        let code = "e\u{301}🙂x";
        assert_eq!(
            (char_to_byte(code, 2), char_to_byte(code, 3), char_to_byte(code, 99)),
            (3, 7, 8)
        );
        assert_eq!(
            (byte_to_char(code, 3), byte_to_char(code, 7), byte_to_char(code, 8)),
            (2, 3, 4)
        );
    }

    #[test]
    fn completions_are_names_without_arguments() {
        for (code, expected) in [
            ("epochs(epochs)", "epochs"),
            ("vec![]", "vec!"),
            ("figures::", "figures::"),
            ("r#type", "r#type"),
            ("(", "("),
        ] {
            assert_eq!(strip_arguments(code), expected);
        }
    }

    #[test]
    fn the_receiver_is_known_if_it_is_a_variable() {
        let type_of = |name: &str| match name {
            "plan" => Some("epsilab::methods::DpSgd<f32>".to_owned()),
            "text" => Some("String".to_owned()),
            _ => None,
        };
        let member =
            |receiver: Option<&str>| CompletionContext::Member(receiver.map(str::to_owned));
        assert_eq!(CompletionContext::from_prefix("let x = plan.", type_of), member(Some("DpSgd")));
        assert_eq!(CompletionContext::from_prefix("text.", type_of), member(Some("String")));
        assert_eq!(CompletionContext::from_prefix("f(1).", type_of), member(None));
        assert_eq!(CompletionContext::from_prefix("a.plan.", type_of), member(None));
        let path = CompletionContext::Path("figures".into());
        assert_eq!(CompletionContext::from_prefix("show::figures::", type_of), path);
    }

    #[test]
    fn a_cursor_inside_a_word_selects_the_whole_word() {
        assert_eq!(end_of_word("let größe = 1;", 6), "let größe".len());
        assert_eq!(end_of_word("x.len()", 3), "x.len(".len());
        assert_eq!(end_of_word("a + b", 1), 1);
    }

    #[test]
    fn a_question_mark_belongs_to_the_call_before_it() {
        let code = "let d = data::glyphs(f(1))?.len()";
        let name = "let d = data::glyphs".len();
        assert_eq!(before_question_mark(code, "let d = data::glyphs(f(1))?".len()), name);
        assert_eq!(before_question_mark("x?", 2), 1);
        assert_eq!(before_question_mark(code, name), name);
    }

    #[test]
    fn arguments_belong_to_the_call_that_is_open() {
        assert_eq!(open_call("f(g(1), "), Some(2));
        assert_eq!(open_call("f(1)"), None);
        assert_eq!(open_call("f([1, "), None);
    }
}
