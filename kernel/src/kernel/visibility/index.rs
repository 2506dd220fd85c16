//! What the sources of one library say of their items.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use ra_ap_syntax::ast::{self, AstNode, HasAttrs, HasModuleItem, HasName, HasVisibility};
use ra_ap_syntax::{Edition, SourceFile};

use super::Member;

/// A type or module, and a name in it.
type Key = (String, String);

/// The items of one library. Values are true for public items. Names that occur several times are
/// public if one of them is; fields of the standard library if all are, because nearly all are
/// private and some of its types are internal.
#[derive(Default)]
pub struct Index {
    fields: HashMap<Key, bool>,
    methods: HashMap<Key, bool>,
    items: HashMap<Key, bool>,
    types: HashSet<String>,
    /// By name alone.
    any_field: HashMap<String, bool>,
    any_method: HashMap<String, bool>,
    /// Implementations of traits do not tell whether a method is stable.
    is_std: bool,
}

impl Index {
    /// Without items. `is_std`: for the standard library.
    pub fn new(is_std: bool) -> Self {
        Self { is_std, ..Self::default() }
    }

    /// Reads all sources in a folder.
    pub fn of_folder(dir: &Path, is_std: bool) -> Self {
        let mut index = Self::new(is_std);
        index.add_folder(dir);
        index
    }

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

    /// Adds the items of a file, which is the module of this name.
    pub fn add_file(&mut self, module: &str, code: &str) {
        let file = SourceFile::parse(code, Edition::Edition2024).tree();
        self.add_items(module, file.items());
    }

    /// Whether a type of this name is in the sources.
    pub fn has_type(&self, name: &str) -> bool {
        self.types.contains(name)
    }

    /// Whether a member of a type is public, if the type has it.
    pub fn member(&self, member: Member, of: &str, name: &str) -> Option<bool> {
        let members = if member == Member::Field { &self.fields } else { &self.methods };
        members.get(&(of.to_owned(), name.to_owned())).copied()
    }

    /// Whether a member of this name is public, if any type or trait has one.
    pub fn any(&self, member: Member, name: &str) -> Option<bool> {
        let any = if member == Member::Field { &self.any_field } else { &self.any_method };
        any.get(name).copied()
    }

    /// Whether an item of a module, or an associated function of a type, is public.
    pub fn item(&self, parent: &str, name: &str) -> Option<bool> {
        let key = (parent.to_owned(), name.to_owned());
        self.items.get(&key).or_else(|| self.methods.get(&key)).copied()
    }

    fn add_items(&mut self, module: &str, items: impl Iterator<Item = ast::Item>) {
        for item in items {
            match &item {
                ast::Item::Fn(of) => self.named(module, of),
                ast::Item::Static(of) => self.named(module, of),
                ast::Item::Const(of) => self.named(module, of),
                ast::Item::TypeAlias(of) => self.named(module, of),
                ast::Item::Enum(of) => self.a_type(module, of),
                ast::Item::Union(of) => self.a_type(module, of),
                ast::Item::Struct(of) => {
                    self.a_type(module, of);
                    self.fields_of(of);
                }
                ast::Item::Trait(of) => {
                    self.named(module, of);
                    // As public as the trait.
                    for function in functions(of.assoc_item_list()) {
                        self.method("", &function, !is_unstable(&function));
                    }
                }
                ast::Item::Impl(of) => self.implementation(of),
                ast::Item::Module(of) if !is_for_tests(of) => {
                    self.named(module, of);
                    if let (Some(name), Some(list)) = (of.name(), of.item_list()) {
                        self.add_items(name.text(), list.items());
                    }
                }
                ast::Item::Use(of) => self.imports(module, of),
                _ => {}
            }
        }
    }

    fn named<T: HasName + HasVisibility + HasAttrs>(&mut self, module: &str, item: &T) {
        if let Some(name) = item.name() {
            self.an_item(module, name.text(), is_public(item));
        }
    }

    fn a_type<T: HasName + HasVisibility + HasAttrs>(&mut self, module: &str, item: &T) {
        self.named(module, item);
        self.types.extend(item.name().map(|name| name.text().to_string()));
    }

    fn an_item(&mut self, module: &str, name: &str, public: bool) {
        *self.items.entry((module.to_owned(), name.to_owned())).or_default() |= public;
    }

    /// The names that a `use` declaration brings into a module.
    fn imports(&mut self, module: &str, of: &ast::Use) {
        let public = is_public(of);
        for tree in of.syntax().descendants().filter_map(ast::UseTree::cast) {
            let is_leaf = tree.use_tree_list().is_none() && tree.star_token().is_none();
            let name = match tree.rename() {
                Some(rename) => rename.name().map(|name| name.text().to_string()),
                None => tree.path().filter(|_| is_leaf).and_then(|path| last_name(&path)),
            };
            if let Some(name) = name {
                self.an_item(module, &name, public);
            }
        }
    }

    fn implementation(&mut self, of: &ast::Impl) {
        let is_of_trait = of.trait_().is_some();
        if is_of_trait && self.is_std {
            return;
        }
        let name = match of.self_ty() {
            Some(ast::Type::PathType(of)) if !is_of_trait => of.path().and_then(|p| last_name(&p)),
            _ => None,
        };
        for function in functions(of.assoc_item_list()) {
            let public = is_of_trait || is_public(&function);
            self.method(name.as_deref().unwrap_or_default(), &function, public);
        }
    }

    /// `of`: the type, or nothing for a method of a trait.
    fn method(&mut self, of: &str, function: &ast::Fn, public: bool) {
        let Some(name) = function.name().map(|name| name.text().to_string()) else { return };
        *self.any_method.entry(name.clone()).or_default() |= public;
        if !of.is_empty() {
            *self.methods.entry((of.to_owned(), name)).or_default() |= public;
        }
    }

    fn fields_of(&mut self, of: &ast::Struct) {
        let Some(ast::FieldList::RecordFieldList(fields)) = of.field_list() else { return };
        let kind = of.name().map(|name| name.text().to_string()).unwrap_or_default();
        for field in fields.fields() {
            let Some(name) = field.name().map(|name| name.text().to_string()) else { continue };
            let public = is_public(&field);
            let any = self.any_field.entry(name.clone()).or_insert(public);
            *any = if self.is_std { *any && public } else { *any || public };
            *self.fields.entry((kind.clone(), name)).or_default() |= public;
        }
    }
}

fn functions(items: Option<ast::AssocItemList>) -> impl Iterator<Item = ast::Fn> {
    let items = items.into_iter().flat_map(|list| list.assoc_items().collect::<Vec<_>>());
    items.filter_map(|item| match item {
        ast::AssocItem::Fn(function) => Some(function),
        _ => None,
    })
}

/// Public without a restriction such as `pub(crate)`, and stable.
fn is_public<T: HasVisibility + HasAttrs>(item: &T) -> bool {
    item.visibility().is_some_and(|of| of.syntax().text() == "pub") && !is_unstable(item)
}

fn is_unstable<T: HasAttrs>(item: &T) -> bool {
    attributes(item).any(|text| text.starts_with("#[unstable"))
}

fn is_for_tests(of: &ast::Module) -> bool {
    attributes(of).any(|text| text.starts_with("#[cfg(test)"))
}

fn attributes<T: HasAttrs>(item: &T) -> impl Iterator<Item = String> {
    item.attrs().map(|attribute| attribute.syntax().text().to_string())
}

/// `c` of `a::b::c`.
fn last_name(path: &ast::Path) -> Option<String> {
    Some(path.segment()?.name_ref()?.text().to_string()).filter(|name| name != "self")
}

/// `a/b.rs` and `a/b/mod.rs` are the module `b`.
fn module_of(path: &Path) -> String {
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
