//! Which items of the lab, of Burn and of the standard library a cell can name.
//!
//! rust-analyzer offers private items as well, because it takes every source file for one that the
//! user edits. Indices of the sources tell which ones a cell can't use. Items made by macros are
//! not in them; they count as public. Unstable items of the standard library count as private.

use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The indices, the lab's own first.
pub struct Visibility {
    indices: Vec<Index>,
}

/// What was found in the sources of one library. Values are true for public items. Names that occur
/// several times are public if one of them is; fields of the standard library if all are.
#[derive(Default)]
struct Index {
    /// By type and name.
    fields: HashMap<(String, String), bool>,
    methods: HashMap<(String, String), bool>,
    /// By module and name.
    items: HashMap<(String, String), bool>,
    types: HashSet<String>,
    /// By name alone.
    any_field: HashMap<String, bool>,
    any_method: HashMap<String, bool>,
    /// Implementations of traits do not tell whether a method is stable.
    is_std: bool,
}

/// A member of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    Field,
    Method,
}

impl Visibility {
    /// Reads the sources in the folder of a lab.
    pub fn of_lab(dir: &Path) -> Self {
        let folders = ["shim/src", "rust-src", "shim/ra"];
        let indices = folders.iter().map(|folder| {
            let mut index = Index { is_std: *folder == "rust-src", ..Index::default() };
            index.add_folder(&dir.join(folder));
            index
        });
        Self { indices: indices.collect() }
    }

    /// True if a type of this name is in the sources.
    pub fn knows_type(&self, name: &str) -> bool {
        self.of_type(name).is_some()
    }

    fn of_type(&self, name: &str) -> Option<&Index> {
        self.indices.iter().find(|index| index.types.contains(name))
    }

    /// False if a cell can't use this member. `receiver`: name of the type if it is known.
    pub fn is_usable(&self, member: Member, receiver: Option<&str>, name: &str) -> bool {
        let found = match receiver.and_then(|of| Some((of, self.of_type(of)?))) {
            Some((of, index)) => index.member(member, of, name).or(index.any(member, name)),
            None => self.indices.iter().find_map(|index| index.any(member, name)),
        };
        found.unwrap_or(true)
    }

    /// True if the type has this public method or field of its own, not by a trait.
    pub fn is_inherent(&self, receiver: Option<&str>, name: &str) -> bool {
        match receiver {
            Some(of) => self.of_type(of).is_some_and(|index| {
                let field = index.member(Member::Field, of, name);
                field.or(index.member(Member::Method, of, name)) == Some(true)
            }),
            None => self.indices[0].any(Member::Method, name) == Some(true),
        }
    }

    /// False if a cell can't use the item `name` of a module or type.
    pub fn is_usable_in(&self, parent: &str, name: &str) -> bool {
        let key = (parent.to_owned(), name.to_owned());
        let of = |index: &Index| index.items.get(&key).or_else(|| index.methods.get(&key)).copied();
        self.indices.iter().find_map(of).unwrap_or(true)
    }
}

impl Index {
    fn add_folder(&mut self, dir: &Path) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                self.add_folder(&path);
            } else if path.extension().is_some_and(|e| e == "rs")
                && let Ok(code) = std::fs::read_to_string(&path)
            {
                self.add_file(&module_of(&path), &code);
            }
        }
    }

    fn add_file(&mut self, module: &str, code: &str) {
        let tokens = tokens(code);
        Parser { tokens: &tokens, at: 0, index: self }.items(&Scope::Module(module.to_owned()));
    }

    fn member(&self, member: Member, of: &str, name: &str) -> Option<bool> {
        let members = if member == Member::Field { &self.fields } else { &self.methods };
        members.get(&(of.to_owned(), name.to_owned())).copied()
    }

    fn any(&self, member: Member, name: &str) -> Option<bool> {
        let any = if member == Member::Field { &self.any_field } else { &self.any_method };
        any.get(name).copied()
    }
}

/// `a/b.rs` and `a/b/mod.rs` are the module `b`.
fn module_of(path: &Path) -> String {
    let stem = |path: &Path| {
        path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    };
    match stem(path).as_str() {
        "mod" => path.parent().map(stem).unwrap_or_default(),
        "lib" => "epsilab".into(),
        name => name.into(),
    }
}

/// Where an item stands.
enum Scope {
    Module(String),
    /// Inherent methods of a type.
    Impl(String),
    /// Methods of a trait, which are as public as the trait.
    Trait,
    /// Methods of an implementation of a trait.
    Implementation,
}

/// What attributes say of the item below them.
#[derive(Clone, Copy, Default)]
struct Attributes {
    is_test: bool,
    is_unstable: bool,
}

struct Parser<'a, 'b> {
    tokens: &'a [&'a str],
    at: usize,
    index: &'b mut Index,
}

impl Parser<'_, '_> {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).copied().unwrap_or("")
    }

    fn next(&mut self) -> String {
        self.at += 1;
        self.tokens.get(self.at - 1).copied().unwrap_or("").to_owned()
    }

    fn is_done(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Reads items up to the bracket that closes the scope.
    fn items(&mut self, scope: &Scope) {
        let mut attributes = Attributes::default();
        while !self.is_done() {
            match self.peek() {
                "}" => {
                    self.at += 1;
                    return;
                }
                "#" => {
                    let more = self.attribute();
                    attributes.is_test |= more.is_test;
                    attributes.is_unstable |= more.is_unstable;
                }
                _ => {
                    let before = self.at;
                    self.item(scope, std::mem::take(&mut attributes));
                    self.at = self.at.max(before + 1);
                }
            }
        }
    }

    /// Reads an attribute.
    fn attribute(&mut self) -> Attributes {
        self.at += 1;
        if self.peek() == "!" {
            self.at += 1;
        }
        let start = self.at;
        self.skip_group();
        let tokens = &self.tokens[start..self.at.min(self.tokens.len())];
        Attributes {
            is_test: tokens.windows(3).any(|w| w == ["cfg", "(", "test"]),
            is_unstable: tokens.get(1) == Some(&"unstable"),
        }
    }

    fn visibility(&mut self) -> bool {
        if self.peek() != "pub" {
            return false;
        }
        self.at += 1;
        if self.peek() == "(" {
            self.skip_group();
            return false;
        }
        true
    }

    fn item(&mut self, scope: &Scope, Attributes { is_test, is_unstable }: Attributes) {
        let public = self.visibility() && !is_unstable;
        while matches!(self.peek(), "unsafe" | "async" | "extern" | "default")
            || (self.peek() == "const" && self.tokens.get(self.at + 1) == Some(&"fn"))
        {
            self.at += 1;
        }
        let keyword = self.next();
        match keyword.as_str() {
            "fn" => {
                let name = self.next();
                match scope {
                    Scope::Module(module) => self.record_item(module, &name, public),
                    Scope::Impl(of) => self.record_member(Member::Method, of, &name, public),
                    Scope::Trait => self.record_member(Member::Method, "", &name, !is_unstable),
                    Scope::Implementation if self.index.is_std => {}
                    Scope::Implementation => self.record_member(Member::Method, "", &name, true),
                }
                self.skip_item();
            }
            "struct" | "enum" | "union" | "type" | "static" | "const" | "trait" => {
                let name = self.next();
                if let Scope::Module(module) = scope {
                    self.record_item(module, &name, public);
                }
                if matches!(keyword.as_str(), "struct" | "enum" | "union") {
                    self.index.types.insert(name.clone());
                }
                match keyword.as_str() {
                    "struct" => self.fields(&name),
                    "trait" if self.skip_to_body() => self.items(&Scope::Trait),
                    _ => self.skip_item(),
                }
            }
            "impl" => {
                let scope = self.implementation();
                if self.peek() == "{" {
                    self.at += 1;
                    self.items(&scope);
                }
            }
            "mod" => {
                let name = self.next();
                if let Scope::Module(module) = scope {
                    self.record_item(module, &name, public);
                }
                match self.peek() {
                    "{" if is_test => self.skip_group(),
                    "{" => {
                        self.at += 1;
                        self.items(&Scope::Module(name));
                    }
                    _ => {}
                }
            }
            "use" => self.imports(scope, public),
            "{" | "(" | "[" => {
                self.at -= 1;
                self.skip_group();
            }
            _ => {}
        }
    }

    fn record_item(&mut self, module: &str, name: &str, public: bool) {
        *self.index.items.entry((module.into(), name.into())).or_default() |= public;
    }

    fn record_member(&mut self, member: Member, of: &str, name: &str, public: bool) {
        let everywhere = self.index.is_std && member == Member::Field;
        let (members, any) = match member {
            Member::Field => (&mut self.index.fields, &mut self.index.any_field),
            Member::Method => (&mut self.index.methods, &mut self.index.any_method),
        };
        // The standard library's fields are nearly all private, and some types are internal.
        let found = any.entry(name.into()).or_insert(public);
        *found = if everywhere { *found && public } else { *found || public };
        if !of.is_empty() {
            *members.entry((of.into(), name.into())).or_default() |= public;
        }
    }

    /// The names that a `use` declaration brings into a module.
    fn imports(&mut self, scope: &Scope, public: bool) {
        let mut name = String::new();
        loop {
            let token = self.next();
            match token.as_str() {
                ";" | "," | "}" | "" => {
                    if let Scope::Module(module) = scope
                        && !matches!(name.as_str(), "" | "*" | "self" | "_")
                    {
                        self.record_item(module, &name, public);
                    }
                    name.clear();
                    if matches!(token.as_str(), ";" | "") {
                        return;
                    }
                }
                "{" => name.clear(),
                _ => name = token,
            }
        }
    }

    /// Fields of a struct with named fields.
    fn fields(&mut self, of: &str) {
        if !self.skip_to_body() {
            return;
        }
        while !self.is_done() && self.peek() != "}" {
            if self.peek() == "#" {
                self.attribute();
                continue;
            }
            let public = self.visibility();
            let name = self.next();
            self.record_member(Member::Field, of, &name, public);
            let mut angles = 0i32;
            while !self.is_done() {
                match self.peek() {
                    "}" => break,
                    "," if angles == 0 => break,
                    "<" => angles += 1,
                    ">" => angles -= 1,
                    "(" | "[" | "{" => {
                        self.skip_group();
                        continue;
                    }
                    _ => {}
                }
                self.at += 1;
            }
            if self.peek() == "," {
                self.at += 1;
            }
        }
        self.at += 1;
    }

    /// Reads the head of an `impl` block up to its bracket.
    fn implementation(&mut self) -> Scope {
        let (mut angles, mut name, mut of_trait) = (0i32, String::new(), false);
        let mut in_bounds = false;
        while !self.is_done() && self.peek() != "{" {
            let token = self.next();
            match token.as_str() {
                "<" => angles += 1,
                ">" => angles -= 1,
                "for" if angles == 0 && self.peek() != "<" => of_trait = true,
                "where" => in_bounds = true,
                word if angles == 0 && !in_bounds && is_word(word) => name = token,
                _ => {}
            }
        }
        if of_trait { Scope::Implementation } else { Scope::Impl(name) }
    }

    /// Moves behind the bracket that opens the body. False if the item has none.
    fn skip_to_body(&mut self) -> bool {
        while !self.is_done() {
            match self.peek() {
                "{" => {
                    self.at += 1;
                    return true;
                }
                ";" => {
                    self.at += 1;
                    return false;
                }
                "(" | "[" => self.skip_group(),
                _ => self.at += 1,
            }
        }
        false
    }

    fn skip_item(&mut self) {
        while !self.is_done() {
            match self.peek() {
                "{" => return self.skip_group(),
                ";" => {
                    self.at += 1;
                    return;
                }
                "(" | "[" => self.skip_group(),
                _ => self.at += 1,
            }
        }
    }

    /// Skips a bracket and everything up to the one that closes it.
    fn skip_group(&mut self) {
        let mut depth = 0;
        while !self.is_done() {
            match self.next().as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth <= 0 {
                return;
            }
        }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words and single characters, without comments, literals and arrows.
fn tokens(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let word = |rest: &str| {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        };
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => string(rest),
            'r' | 'b' | 'c' if raw_string(rest).is_some() => raw_string(rest).unwrap_or(1),
            'b' | 'c' if rest[1..].starts_with('"') => 1 + string(&rest[1..]),
            '\'' => quote(rest),
            '-' | '=' if rest[1..].starts_with('>') => 2,
            c if c.is_alphabetic() || c == '_' => {
                found.push(&rest[..word(rest)]);
                word(rest)
            }
            c if c.is_numeric() => word(rest),
            c if c.is_whitespace() => c.len_utf8(),
            c => {
                found.push(&rest[..c.len_utf8()]);
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    found
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let body = rest.trim_start_matches(['b', 'c']).strip_prefix('r')?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let inside = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = rest.len() - inside.len();
    Some(inside.find(&end).map_or(rest.len(), |at| start + at + end.len()))
}

/// Length of a character literal, or of the quote of a lifetime.
fn quote(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), _) => rest[3..].find('\'').map_or(rest.len(), |at| at + 4),
        (_, Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_items_are_told_from_public_ones() {
        let mut index = Index::default();
        let code = r##"
            mod hidden; pub mod shown { fn f() {} }
            use crate::{a::Inner, Error as E}; pub use x::{y, z};
            pub struct Plan<T: Fn(u8) -> u8> { settings: Vec<(u8, T)>, pub seed: u64, }
            impl<T> Plan<T> where T: Fn(u8) -> u8 {
                pub fn epochs(self, n: f64) -> Self { let s = "}"; self }
                pub(crate) fn origin(&self) -> char { '}' }
                fn secret<'a>(&'a self) -> &'a str { r#"}"# }
            }
            impl Clone for Plan<u8> { fn clone(&self) -> Self { todo!() } }
            #[cfg(test)] mod tests { fn epochs() {} }
            pub trait Train { fn train(&self); }
        "##;
        index.add_file("methods", code);
        let index = Visibility { indices: vec![index] };
        let plan = Some("Plan");
        for (name, usable) in [
            ("epochs", true),
            ("origin", false),
            ("secret", false),
            ("train", true),
            ("clone", true),
        ] {
            assert_eq!(index.is_usable(Member::Method, plan, name), usable, "{name}");
            assert_eq!(index.is_usable(Member::Method, None, name), usable, "{name}");
        }
        assert!(!index.is_usable(Member::Field, plan, "settings"));
        assert!(index.is_usable(Member::Field, plan, "seed"));
        assert!(index.knows_type("Plan") && !index.knows_type("Own"));
        assert!(index.is_inherent(plan, "epochs") && !index.is_inherent(plan, "clone"));
        for (name, usable) in [("hidden", false), ("shown", true), ("Inner", false), ("E", false)] {
            assert_eq!(index.is_usable_in("methods", name), usable, "{name}");
        }
        assert!(index.is_usable_in("methods", "z") && index.is_usable_in("methods", "unknown"));
        assert!(!index.is_usable_in("shown", "f") && !index.is_usable_in("Plan", "origin"));
    }

    #[test]
    fn unstable_and_private_members_of_the_standard_library_are_not_usable() {
        let mut std = Index { is_std: true, ..Index::default() };
        let code = r#"
            pub struct Vec<T> { buf: RawVec<T>, len: usize }
            impl<T> Vec<T> {
                #[stable(feature = "rust1")] pub fn push(&mut self, value: T) {}
                #[unstable(feature = "x")] pub fn into_raw_parts(self) {}
            }
            pub trait Iterator {
                #[unstable(feature = "y")] fn advance_by(&mut self) {}
                fn count(self) -> usize { 0 }
            }
            impl Iterator for Vec<u8> { fn advance_by(&mut self) {} fn count(self) -> usize { 0 } }
        "#;
        std.add_file("vec", code);
        let mut lab = Index::default();
        // Nothing that the lab has of the same name counts for the types of others.
        lab.add_file("a", "pub struct A { pub buf: u8 } impl A { fn push(&self) {} }");
        let index = Visibility { indices: vec![lab, std] };
        for receiver in [Some("Vec"), None] {
            for (name, usable) in
                [("into_raw_parts", false), ("advance_by", false), ("count", true)]
            {
                assert_eq!(index.is_usable(Member::Method, receiver, name), usable, "{name}");
            }
        }
        let vec = Some("Vec");
        assert!(index.is_usable(Member::Method, vec, "push"));
        assert!(!index.is_usable(Member::Field, vec, "buf"));
        assert!(!index.is_usable(Member::Field, None, "len"));
        assert!(index.is_usable(Member::Field, Some("A"), "buf"));
        assert!(index.is_inherent(vec, "push") && !index.is_inherent(vec, "count"));
    }
}
