//! Points at which a running cell can be stopped: a call at the head of every loop body.
//!
//! A thread can't be stopped from outside. The compiler wrapper inserts the calls into the source
//! of a cell; after an interrupt the next one unwinds the cell as a panic would, so that its
//! variables are kept. Loops in arguments of macros have none: the parser does not see them.

use ra_ap_syntax::ast::{self, AstNode, HasLoopBody};
use ra_ap_syntax::{Edition, SourceFile, SyntaxNode};

/// What is inserted. It adds no line, so line numbers stay.
const CALL: &str = " ::epsilab::cell_process::stop_point();";

/// The code with a call at the head of every loop body; `None` if it has no loop.
pub fn insert(code: &str) -> Option<String> {
    let places = places(code);
    let (first, _) = places.split_first()?;
    let mut out = code[..*first].to_owned();
    let ends = places.iter().skip(1).copied().chain([code.len()]);
    for (&from, to) in places.iter().zip(ends) {
        out.push_str(CALL);
        out.push_str(&code[from..to]);
    }
    Some(out)
}

/// The code without the calls.
pub fn remove(code: &str) -> String {
    code.replace(CALL, "")
}

/// The column, from 1, that a place in a line has without the calls.
pub fn column_without(line: &str, column: usize) -> usize {
    let before: String = line.chars().take(column.saturating_sub(1)).collect();
    column - before.matches(CALL).count() * CALL.chars().count()
}

/// Byte offsets behind the opening braces of all loop bodies, in order.
fn places(code: &str) -> Vec<usize> {
    if !["loop", "while", "for"].iter().any(|word| code.contains(word)) {
        return Vec::new();
    }
    let file = SourceFile::parse(code, Edition::Edition2024).tree();
    file.syntax()
        .descendants()
        .filter_map(body)
        .filter(|body| !is_const(body))
        .filter_map(|body| body.stmt_list()?.l_curly_token())
        .map(|brace| usize::from(brace.text_range().end()))
        .collect()
}

fn body(node: SyntaxNode) -> Option<ast::BlockExpr> {
    match ast::Expr::cast(node)? {
        ast::Expr::LoopExpr(found) => found.loop_body(),
        ast::Expr::WhileExpr(found) => found.loop_body(),
        ast::Expr::ForExpr(found) => found.loop_body(),
        _ => None,
    }
}

/// Whether the body is evaluated by the compiler, which can't call what may unwind.
fn is_const(body: &ast::BlockExpr) -> bool {
    body.syntax().ancestors().any(|node| {
        ast::Const::can_cast(node.kind())
            || ast::Static::can_cast(node.kind())
            || ast::ConstArg::can_cast(node.kind())
            || ast::Fn::cast(node.clone()).is_some_and(|f| f.const_token().is_some())
            || ast::BlockExpr::cast(node).is_some_and(|block| block.const_token().is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(code: &str) -> String {
        insert(code).unwrap_or_else(|| code.into()).replace(CALL, "•")
    }

    #[test]
    fn every_loop_body_begins_with_a_call() {
        let code = "fn f(v: &[u8]) {\n    'a: loop { n += 1; }\n    while v.iter().any(|x| { *x > 1 }) \
                    {}\n    while let Some(x) = { g() } { h(x) }\n    for i in 0..3 {\n        for j \
                    in S { k: 1 } { }\n    }\n}\n";
        let expected = "fn f(v: &[u8]) {\n    'a: loop {• n += 1; }\n    while v.iter().any(|x| { *x > \
                        1 }) {•}\n    while let Some(x) = { g() } {• h(x) }\n    for i in 0..3 {•\n";
        assert!(marked(code).starts_with(expected), "{}", marked(code));
        assert_eq!(insert(code).unwrap().lines().count(), code.lines().count());
    }

    #[test]
    fn what_is_no_loop_or_is_run_by_the_compiler_stays() {
        for code in [
            "impl Iterator for A { fn f<T: for<'a> Fn(&'a u8)>() {} }",
            "fn f() { let a = \"loop { }\"; /* while x { } */ let b = 'f'; }",
            "const fn f() -> u8 { loop { return 1; } }",
            "const N: usize = { let mut n = 0; while n < 3 { n += 1; } n };",
            "fn f() { let a = const { loop { break 1 } }; }",
            "fn f() { println!(\"{}\", loop { break 1 }); }",
            "let format = 1;",
        ] {
            assert_eq!(insert(code), None, "{code}");
        }
        // Code that does not parse is left to the compiler.
        let _ = insert("fn f( { loop { for in while } ");
    }

    #[test]
    fn code_and_columns_are_as_without_the_calls() {
        let code = "fn f() {\n    for i in 0..3 { ä(i); loop { b(); } }\n}\n";
        let with = insert(code).unwrap();
        assert_eq!(remove(&with), code);
        let [line, line_with] = [code, &with].map(|code| code.lines().nth(1).unwrap());
        for word in ["for", "ä(i)", "loop", "b()"] {
            let column = |line: &str| line[..line.find(word).unwrap()].chars().count() + 1;
            assert_eq!(column_without(line_with, column(line_with)), column(line), "{word}");
        }
        assert_eq!(column_without("", 4), 4);
    }
}
