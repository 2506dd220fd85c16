//! Visibility of the items of the lab, of Burn and of the standard library to a cell.
//!
//! rust-analyzer offers private items as well, because it takes every source file for one that the
//! user edits. Indices of the sources tell which ones a cell can't use. Items made by macros are
//! not in them; they count as public. Unstable items of the standard library count as private.

mod index;

use std::path::Path;

use index::ItemIndex;

/// Indices of the libraries, the lab's own first.
pub struct Visibility {
    indices: Vec<ItemIndex>,
}

/// Kind of a member of a value, or of an item of a module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemberKind {
    Field,
    Method,
    Item,
}

impl Visibility {
    /// Creates the indices from the sources in the folder of a lab.
    pub fn from_sources(dir: &Path) -> Self {
        let folders = ["shim/src", "rust-src", "shim/ra"];
        let indices = folders
            .iter()
            .map(|folder| ItemIndex::from_dir(&dir.join(folder), *folder == "rust-src"));
        Self { indices: indices.collect() }
    }

    /// Returns whether a type of this name is in the sources.
    pub fn knows_type(&self, name: &str) -> bool {
        self.index_with_type(name).is_some()
    }

    fn index_with_type(&self, name: &str) -> Option<&ItemIndex> {
        self.indices.iter().find(|index| index.has_type(name))
    }

    /// Returns whether a cell can use this member. `receiver` is the name of the type if it is
    /// known.
    pub fn is_usable(&self, member: MemberKind, receiver: Option<&str>, name: &str) -> bool {
        let found = match receiver
            .and_then(|receiver| Some((receiver, self.index_with_type(receiver)?)))
        {
            Some((receiver, index)) => index
                .member_visibility(member, receiver, name)
                .or(index.any_member_visibility(member, name)),
            None => self.indices.iter().find_map(|index| index.any_member_visibility(member, name)),
        };
        found.unwrap_or(true)
    }

    /// Returns whether the type has this public method or field of its own, not by a trait.
    pub fn is_inherent(&self, receiver: Option<&str>, name: &str) -> bool {
        match receiver {
            Some(receiver) => self.index_with_type(receiver).is_some_and(|index| {
                let field = index.member_visibility(MemberKind::Field, receiver, name);
                field.or(index.member_visibility(MemberKind::Method, receiver, name)) == Some(true)
            }),
            None => self.indices[0].any_member_visibility(MemberKind::Method, name) == Some(true),
        }
    }

    /// Returns whether a cell can use the item `name` of the module or type `parent`. Unknown items
    /// count as usable.
    pub fn is_item_usable(&self, parent: &str, name: &str) -> bool {
        let mut found =
            self.indices.iter().filter_map(|index| index.item_visibility(parent, name)).peekable();
        found.peek().is_none() || found.any(|is_public| is_public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_items_are_distinguished_from_public_ones() {
        let mut index = ItemIndex::new(false);
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
            assert_eq!(index.is_usable(MemberKind::Method, plan, name), usable, "{name}");
            assert_eq!(index.is_usable(MemberKind::Method, None, name), usable, "{name}");
        }
        assert!(!index.is_usable(MemberKind::Field, plan, "settings"));
        assert!(index.is_usable(MemberKind::Field, plan, "seed"));
        assert!(index.knows_type("Plan") && !index.knows_type("Own"));
        assert!(index.is_inherent(plan, "epochs") && !index.is_inherent(plan, "clone"));
        for (name, usable) in [("hidden", false), ("shown", true), ("Inner", false), ("E", false)] {
            assert_eq!(index.is_item_usable("methods", name), usable, "{name}");
        }
        assert!(index.is_item_usable("methods", "z") && index.is_item_usable("methods", "unknown"));
        assert!(!index.is_item_usable("shown", "f") && !index.is_item_usable("Plan", "origin"));
    }

    #[test]
    fn what_one_file_imports_privately_another_may_make_public() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, code: &str| {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, code).unwrap();
        };
        write("shim/src/ledger.rs", "use crate::privacy::Entry; use crate::clock::now;");
        let accounting = "shim/ra/epsilab-accounting/src";
        write(&format!("{accounting}/ledger/mod.rs"), "pub struct Entry;");
        write(&format!("{accounting}/lib.rs"), "pub mod ledger; mod nodes;");
        let index = Visibility::from_sources(dir.path());
        assert!(index.is_item_usable("ledger", "Entry") && !index.is_item_usable("ledger", "now"));
        // The crate of accounting is the module `privacy` of the lab.
        assert!(
            index.is_item_usable("privacy", "ledger") && !index.is_item_usable("privacy", "nodes")
        );
    }

    #[test]
    fn unstable_and_private_members_of_the_standard_library_are_not_usable() {
        let mut std = ItemIndex::new(true);
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
        let mut lab = ItemIndex::new(false);
        // Nothing that the lab has of the same name counts for the types of others.
        lab.add_file("a", "pub struct A { pub buf: u8 } impl A { fn push(&self) {} }");
        let index = Visibility { indices: vec![lab, std] };
        for receiver in [Some("Vec"), None] {
            for (name, usable) in
                [("into_raw_parts", false), ("advance_by", false), ("count", true)]
            {
                assert_eq!(index.is_usable(MemberKind::Method, receiver, name), usable, "{name}");
            }
        }
        let vec = Some("Vec");
        assert!(index.is_usable(MemberKind::Method, vec, "push"));
        assert!(!index.is_usable(MemberKind::Field, vec, "buf"));
        assert!(!index.is_usable(MemberKind::Field, None, "len"));
        assert!(index.is_usable(MemberKind::Field, Some("A"), "buf"));
        assert!(index.is_inherent(vec, "push") && !index.is_inherent(vec, "count"));
    }
}
