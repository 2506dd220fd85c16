//! Points at which a running cell can be stopped: a call at the head of every loop body, of every
//! closure with a block, and of every function that calls itself.
//!
//! A thread can't be stopped from outside. The compiler wrapper inserts the calls into the source
//! of a cell; after an interrupt the next one unwinds the cell as a panic would, so that its
//! variables are kept. Code in arguments of macros has none: the parser does not see it. Nor have
//! closures without a block, such as `|x| x * x`: the call would keep the compiler from using
//! vector instructions.

use ra_ap_syntax::ast::{self, AstNode, HasLoopBody, HasName};
use ra_ap_syntax::{Edition, SourceFile, SyntaxNode};

use crate::edits::edited;

/// Inserted call. It adds no line, so line numbers stay.
const SAFEPOINT_CALL: &str = " ::epsilab::cell_process::safepoint();";

/// Inserts the calls into the code; `None` if it needs none.
pub fn insert_safepoints(code: &str) -> Option<String> {
    let places = insertion_points(code);
    let calls = places.iter().map(|offset| (*offset..*offset, SAFEPOINT_CALL.to_owned()));
    (!places.is_empty()).then(|| edited(code, calls))
}

/// Removes the calls from the code.
pub fn remove_safepoints(code: &str) -> String {
    code.replace(SAFEPOINT_CALL, "")
}

/// Returns the column, from 1, that a place in a line has without the calls.
pub fn original_column(line: &str, column: usize) -> usize {
    let before: String = line.chars().take(column.saturating_sub(1)).collect();
    column - before.matches(SAFEPOINT_CALL).count() * SAFEPOINT_CALL.chars().count()
}

/// Returns the byte offsets behind the opening braces of the bodies that get a call, in order.
fn insertion_points(code: &str) -> Vec<usize> {
    if !["loop", "while", "for", "|", "fn"].iter().any(|word| code.contains(word)) {
        return Vec::new();
    }
    let file = SourceFile::parse(code, Edition::Edition2024).tree();
    file.syntax()
        .descendants()
        .filter_map(stoppable_body)
        .filter(|body| !must_not_unwind(body))
        .filter_map(|body| body.stmt_list()?.l_curly_token())
        .map(|brace| usize::from(brace.text_range().end()))
        .collect()
}

fn stoppable_body(node: SyntaxNode) -> Option<ast::BlockExpr> {
    if let Some(function) = ast::Fn::cast(node.clone()) {
        return function.body().filter(|body| is_recursive(&function, body));
    }
    match ast::Expr::cast(node)? {
        ast::Expr::LoopExpr(found) => found.loop_body(),
        ast::Expr::WhileExpr(found) => found.loop_body(),
        ast::Expr::ForExpr(found) => found.loop_body(),
        ast::Expr::ClosureExpr(found) if !is_evcxr_wrapper(&found) => {
            ast::BlockExpr::cast(found.body()?.syntax().clone())
        }
        _ => None,
    }
}

/// Returns whether a closure is the one into which evcxr wraps a whole cell.
fn is_evcxr_wrapper(closure: &ast::ClosureExpr) -> bool {
    let of_question_marks = closure.ret_type().is_some_and(|returned| {
        returned.syntax().text().to_string().contains("EvcxrUserCodeError")
    });
    let arguments = closure.syntax().parent();
    let call = arguments.and_then(|list| list.parent()).and_then(ast::CallExpr::cast);
    let callee = call.and_then(|call| call.expr()).map(|callee| callee.syntax().text().to_string());
    let guards = ["AssertUnwindSafe", "catch_unwind"];
    let is_guarded =
        callee.is_some_and(|callee| guards.iter().any(|guard| callee.ends_with(guard)));
    of_question_marks || is_guarded
}

/// Returns whether the body of the function contains its name.
fn is_recursive(function: &ast::Fn, body: &ast::BlockExpr) -> bool {
    let Some(name) = function.name() else { return false };
    let mut names = body.syntax().descendants().filter_map(ast::NameRef::cast);
    names.any(|found| found.text() == name.text())
}

/// Returns whether the body is evaluated by the compiler, which can't call functions that may
/// unwind, or is called by foreign code, through which nothing may unwind.
fn must_not_unwind(body: &ast::BlockExpr) -> bool {
    let stays = |function: ast::Fn| {
        // evcxr's function around a cell has a guard.
        let is_cells = function.name().is_some_and(|n| n.text().starts_with("run_user_code_"));
        function.const_token().is_some() || (function.abi().is_some() && !is_cells)
    };
    body.syntax().ancestors().any(|node| {
        ast::Const::can_cast(node.kind())
            || ast::Static::can_cast(node.kind())
            || ast::ConstArg::can_cast(node.kind())
            || ast::Fn::cast(node.clone()).is_some_and(stays)
            || ast::BlockExpr::cast(node).is_some_and(|block| block.const_token().is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(code: &str) -> String {
        insert_safepoints(code).unwrap_or_else(|| code.into()).replace(SAFEPOINT_CALL, "•")
    }

    #[test]
    fn every_loop_body_begins_with_a_call() {
        let code = "fn f(v: &[u8]) {\n    'a: loop { n += 1; }\n    while v.iter().any(|x| *x > 1) \
                    {}\n    while let Some(x) = { g() } { h(x) }\n    for i in 0..3 {\n        for j \
                    in S { k: 1 } { }\n    }\n}\n";
        let expected = "fn f(v: &[u8]) {\n    'a: loop {• n += 1; }\n    while v.iter().any(|x| *x > \
                        1) {•}\n    while let Some(x) = { g() } {• h(x) }\n    for i in 0..3 {•\n";
        assert!(marked(code).starts_with(expected), "{}", marked(code));
        assert_eq!(insert_safepoints(code).unwrap().lines().count(), code.lines().count());
    }

    #[test]
    fn closures_with_a_block_and_recursive_functions_begin_with_a_call() {
        for (code, expected) in [
            (
                "fn f() { (0..).for_each(|i| { g(i) }); }",
                "fn f() { (0..).for_each(|i| {• g(i) }); }",
            ),
            ("fn f(n: u8) -> u8 { f(n) }", "fn f(n: u8) -> u8 {• f(n) }"),
            ("impl A { fn g(&self) { self.g() } }", "impl A { fn g(&self) {• self.g() } }"),
            (
                "pub extern \"C\" fn run_user_code_3() { catch_unwind(AssertUnwindSafe(||{ let _ = \
                 (|| -> Result<(), EvcxrUserCodeError> { v.all(|x| { x }) })(); })); }",
                "pub extern \"C\" fn run_user_code_3() { catch_unwind(AssertUnwindSafe(||{ let _ = \
                 (|| -> Result<(), EvcxrUserCodeError> { v.all(|x| {• x }) })(); })); }",
            ),
        ] {
            assert_eq!(marked(code), expected);
        }
    }

    #[test]
    fn code_without_loops_or_of_the_compiler_is_unchanged() {
        for code in [
            "impl Iterator for A { fn f<T: for<'a> Fn(&'a u8)>() {} }",
            "fn f() { let a = \"loop { }\"; /* while x { } */ let b = 'f'; }",
            "const fn f() -> u8 { loop { return 1; } }",
            "const N: usize = { let mut n = 0; while n < 3 { n += 1; } n };",
            "fn f() { let a = const { loop { break 1 } }; }",
            "fn f() { println!(\"{}\", loop { break 1 }); }",
            "let format = 1;",
            "fn f() { v.iter().map(|x| x * x); }",
            "extern \"C\" fn f() { loop { f() } }",
        ] {
            assert_eq!(insert_safepoints(code), None, "{code}");
        }
        // Code that does not parse is left to the compiler.
        let _ = insert_safepoints("fn f( { loop { for in while } ");
    }

    #[test]
    fn code_and_columns_are_as_without_the_calls() {
        let code = "fn f() {\n    for i in 0..3 { ä(i); loop { b(); } }\n}\n";
        let with = insert_safepoints(code).unwrap();
        assert_eq!(remove_safepoints(&with), code);
        let [line, line_with] = [code, &with].map(|code| code.lines().nth(1).unwrap());
        for word in ["for", "ä(i)", "loop", "b()"] {
            let column = |line: &str| line[..line.find(word).unwrap()].chars().count() + 1;
            assert_eq!(original_column(line_with, column(line_with)), column(line), "{word}");
        }
        assert_eq!(original_column("", 4), 4);
    }
}
