//! Sources without the bodies of functions. rust-analyzer reads them to infer the types of
//! variables, which takes it less time and memory than whole sources.

use std::path::Path;

use ra_ap_syntax::ast::{self, AstNode};
use ra_ap_syntax::{Edition, SourceFile, WalkEvent};

use super::build_env::collect_sources;
use super::derives;
use crate::edits::edited;

/// Copies all Rust sources below `from` to `to`, with what Burn's macros derive and without the
/// bodies of functions.
///
/// # Errors
/// A source can't be read, or a copy can't be written.
pub fn copy_signatures(from: &Path, to: &Path) -> std::io::Result<()> {
    let mut files = Vec::new();
    collect_sources(from, &mut files)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let parts = files.chunks(files.len().div_ceil(cores).max(1));
        let copying = parts.map(|part| {
            scope.spawn(move || part.iter().try_for_each(|file| copy_one(file, from, to)))
        });
        let copying: Vec<_> = copying.collect();
        copying.into_iter().try_for_each(|part| {
            part.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread panicked")))
        })
    })
}

fn copy_one(file: &Path, from: &Path, to: &Path) -> std::io::Result<()> {
    let copy = to.join(file.strip_prefix(from).unwrap_or(file));
    std::fs::create_dir_all(copy.parent().unwrap_or(to))?;
    std::fs::write(copy, strip_bodies(&derives::expand_derives(&std::fs::read_to_string(file)?)))
}

/// Replaces the body of every function by `{}` so that the code still compiles, except for
/// constant functions: types may contain their values.
pub fn strip_bodies(code: &str) -> String {
    let file = SourceFile::parse(code, Edition::Edition2024).tree();
    let mut edits = Vec::new();
    let mut nodes = file.syntax().preorder();
    while let Some(event) = nodes.next() {
        let WalkEvent::Enter(node) = event else { continue };
        let Some(function) = ast::Fn::cast(node) else { continue };
        let Some(body) = function.body().filter(|_| function.const_token().is_none()) else {
            continue;
        };
        edits.push((body.syntax().text_range().into(), "{}".to_owned()));
        nodes.skip_subtree();
    }
    edited(code, edits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bodies_of_functions_that_are_not_constant_go() {
        let constant =
            "//! Docs.\nconst N: usize = size(3);\nconst fn size(n: usize) -> usize { n }\n";
        let other = "macro_rules! m { () => { fn h() { 1 } } }\nstruct B { f: fn() }\n";
        let code = format!(
            "{constant}/** More {{ docs. */ fn f<T>(x: T) -> impl Fn() where T: Copy {{\n    \
             fn g() {{}}\n    move || {{ x; }}\n}}\ntrait A {{ fn a(&self); fn b() -> u8 {{ 1 }} }}\n\
             impl A for B {{ fn a(&self) {{ loop {{}} }} }}\n{other}"
        );
        let short = format!(
            "{constant}/** More {{ docs. */ fn f<T>(x: T) -> impl Fn() where T: Copy {{}}\n\
             trait A {{ fn a(&self); fn b() -> u8 {{}} }}\nimpl A for B {{ fn a(&self) {{}} }}\n{other}"
        );
        assert_eq!(strip_bodies(&code), short);
        assert_eq!(strip_bodies(&short), short);
    }
}
