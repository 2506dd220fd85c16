//! Index of the items in the sources of one library.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use ra_ap_syntax::ast::{self, AstNode, HasAttrs, HasModuleItem, HasName, HasVisibility};
use ra_ap_syntax::{Edition, SourceFile};

use super::MemberKind;
use crate::prebuilt::collect_sources;

/// The items of one library. Names that occur several times are public if one of them is; fields of
/// the standard library if all are, because nearly all are private and some of its types are
/// internal.
#[derive(Default)]
pub struct ItemIndex {
    /// Visibility of a member of a type, or an item of a module: whether it is public, by type or
    /// module, and name. Members also stand without their type.
    public: HashMap<(MemberKind, String, String), bool>,
    types: HashSet<String>,
    /// Whether this is the standard library, in which methods of implementations of traits are not
    /// marked as stable or unstable.
    is_std: bool,
}

/// Name that stands in place of the type of a member.
const ANY: &str = "";

impl ItemIndex {
    /// Creates an index without items. `is_std` is whether it is for the standard library.
    pub fn new(is_std: bool) -> Self {
        Self { is_std, ..Self::default() }
    }

    /// Creates an index of all sources in a folder.
    pub fn from_dir(dir: &Path, is_std: bool) -> Self {
        let (mut index, mut files) = (Self::new(is_std), Vec::new());
        // Items that can't be read count as public.
        let _ = collect_sources(dir, &mut files);
        for path in files {
            if let Ok(code) = std::fs::read_to_string(&path) {
                index.add_file(&module_name(&path), &code);
            }
        }
        index
    }

    /// Adds the items of a file, which is the module of this name.
    pub fn add_file(&mut self, module: &str, code: &str) {
        let file = SourceFile::parse(code, Edition::Edition2024).tree();
        self.add_items(module, file.items());
    }

    /// Returns whether a type of this name is in the sources.
    pub fn has_type(&self, name: &str) -> bool {
        self.types.contains(name)
    }

    /// Returns whether a member of a type is public, if the type has it.
    pub fn member_visibility(&self, member: MemberKind, parent: &str, name: &str) -> Option<bool> {
        self.public.get(&(member, parent.to_owned(), name.to_owned())).copied()
    }

    /// Returns whether a member of this name is public, if any type or trait has one.
    pub fn any_member_visibility(&self, member: MemberKind, name: &str) -> Option<bool> {
        self.member_visibility(member, ANY, name)
    }

    /// Returns whether an item of a module, or an associated function of a type, is public.
    pub fn item_visibility(&self, parent: &str, name: &str) -> Option<bool> {
        let member_visibility = |member| self.member_visibility(member, parent, name);
        member_visibility(MemberKind::Item).or_else(|| member_visibility(MemberKind::Method))
    }

    fn add(&mut self, member: MemberKind, parent: &str, name: &str, public: bool) {
        *self.public.entry((member, parent.to_owned(), name.to_owned())).or_default() |= public;
    }

    fn add_items(&mut self, module: &str, items: impl Iterator<Item = ast::Item>) {
        for item in items {
            match &item {
                ast::Item::Fn(item) => self.add_named(module, item),
                ast::Item::Static(item) => self.add_named(module, item),
                ast::Item::Const(item) => self.add_named(module, item),
                ast::Item::TypeAlias(item) => self.add_named(module, item),
                ast::Item::Enum(item) => self.add_type(module, item),
                ast::Item::Union(item) => self.add_type(module, item),
                ast::Item::Struct(item) => {
                    self.add_type(module, item);
                    self.add_fields(item);
                }
                ast::Item::Trait(item) => {
                    self.add_named(module, item);
                    // As public as the trait.
                    for function in functions(item.assoc_item_list()) {
                        self.add_method(ANY, &function, !is_unstable(&function));
                    }
                }
                ast::Item::Impl(item) => self.add_impl(item),
                ast::Item::Module(item) if !is_test_module(item) => {
                    self.add_named(module, item);
                    if let (Some(name), Some(list)) = (item.name(), item.item_list()) {
                        self.add_items(name.text(), list.items());
                    }
                }
                ast::Item::Use(item) => self.add_imports(module, item),
                _ => {}
            }
        }
    }

    fn add_named<T: HasName + HasVisibility + HasAttrs>(&mut self, module: &str, item: &T) {
        if let Some(name) = item.name() {
            self.add(MemberKind::Item, module, name.text(), is_public(item));
        }
    }

    fn add_type<T: HasName + HasVisibility + HasAttrs>(&mut self, module: &str, item: &T) {
        self.add_named(module, item);
        self.types.extend(item.name().map(|name| name.text().to_string()));
    }

    /// Adds the names that a `use` declaration imports into a module.
    fn add_imports(&mut self, module: &str, import: &ast::Use) {
        let public = is_public(import);
        for tree in import.syntax().descendants().filter_map(ast::UseTree::cast) {
            let is_leaf = tree.use_tree_list().is_none() && tree.star_token().is_none();
            let name = match tree.rename() {
                Some(rename) => rename.name().map(|name| name.text().to_string()),
                None => tree.path().filter(|_| is_leaf).and_then(|path| last_segment(&path)),
            };
            if let Some(name) = name {
                self.add(MemberKind::Item, module, &name, public);
            }
        }
    }

    fn add_impl(&mut self, block: &ast::Impl) {
        let is_of_trait = block.trait_().is_some();
        if is_of_trait && self.is_std {
            return;
        }
        let name = match block.self_ty() {
            Some(ast::Type::PathType(path_type)) if !is_of_trait => {
                path_type.path().and_then(|p| last_segment(&p))
            }
            _ => None,
        };
        for function in functions(block.assoc_item_list()) {
            let public = is_of_trait || is_public(&function);
            self.add_method(name.as_deref().unwrap_or(ANY), &function, public);
        }
    }

    /// Adds a method. `parent` is the type, or [`ANY`] for a method of a trait.
    fn add_method(&mut self, parent: &str, function: &ast::Fn, public: bool) {
        let Some(name) = function.name() else { return };
        self.add(MemberKind::Method, ANY, name.text(), public);
        self.add(MemberKind::Method, parent, name.text(), public);
    }

    fn add_fields(&mut self, item: &ast::Struct) {
        let Some(ast::FieldList::RecordFieldList(fields)) = item.field_list() else { return };
        let kind = item.name().map(|name| name.text().to_string()).unwrap_or_default();
        for field in fields.fields() {
            let Some(name) = field.name().map(|name| name.text().to_string()) else { continue };
            let public = is_public(&field);
            self.add(MemberKind::Field, &kind, &name, public);
            let any = (MemberKind::Field, ANY.to_owned(), name);
            let any = self.public.entry(any).or_insert(public);
            *any = if self.is_std { *any && public } else { *any || public };
        }
    }
}

fn functions(items: Option<ast::AssocItemList>) -> impl Iterator<Item = ast::Fn> {
    let items = items.into_iter().flat_map(|list| list.assoc_items().collect::<Vec<_>>());
    items.filter_map(|item| ast::Fn::cast(item.syntax().clone()))
}

/// Returns whether an item is public without a restriction such as `pub(crate)`, and stable.
fn is_public<T: HasVisibility + HasAttrs>(item: &T) -> bool {
    item.visibility().is_some_and(|visibility| visibility.syntax().text() == "pub")
        && !is_unstable(item)
}

fn is_unstable<T: HasAttrs>(item: &T) -> bool {
    attributes(item).any(|text| text.starts_with("#[unstable"))
}

fn is_test_module(module: &ast::Module) -> bool {
    attributes(module).any(|text| text.starts_with("#[cfg(test)"))
}

fn attributes<T: HasAttrs>(item: &T) -> impl Iterator<Item = String> {
    item.attrs().map(|attribute| attribute.syntax().text().to_string())
}

/// Returns the last name of a path: `c` of `a::b::c`.
fn last_segment(path: &ast::Path) -> Option<String> {
    Some(path.segment()?.name_ref()?.text().to_string()).filter(|name| name != "self")
}

/// Returns the module of a file: `b` for `a/b.rs` and `a/b/mod.rs`.
fn module_name(path: &Path) -> String {
    let stem = |path: &Path| {
        path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    };
    match stem(path).as_str() {
        "mod" => path.parent().map(stem).unwrap_or_default(),
        // The crate of accounting is a module of the lab.
        "lib" if path.iter().any(|part| part == "epsilab-accounting") => "privacy".into(),
        "lib" => "epsilab".into(),
        name => name.into(),
    }
}
