//! Items that Burn's derive macros `Config` and `Module` add to a type, as far as the types of
//! variables depend on them. rust-analyzer runs no procedural macros in a notebook.

use ra_ap_syntax::ast::{self, AstNode, HasAttrs, HasGenericParams, HasName};
use ra_ap_syntax::{Edition, SourceFile};

use crate::edits::edited;

/// Returns the code with the items that the macros add, without bodies, behind each type.
pub fn expand_derives(code: &str) -> String {
    if !code.contains("derive(") {
        return code.to_owned();
    }
    let file = SourceFile::parse(code, Edition::Edition2024).tree();
    let types = file.syntax().descendants().filter_map(ast::Adt::cast);
    let edits = types.filter_map(|item| {
        let end = usize::from(item.syntax().text_range().end());
        Some((end..end, added(&item)?))
    });
    edited(code, edits)
}

/// Returns the items that the macros add to a type; `None` if it has no name.
fn added(item: &ast::Adt) -> Option<String> {
    let header = ImplHeader::from_adt(item)?;
    let has = |name: &str| derives(item, name);
    let mut added = String::new();
    if has("Config") {
        added.push_str(&header.impl_block("Config", ""));
        if let ast::Adt::Struct(structure) = item {
            added.push_str(&config_constructors(&header, structure));
        }
    }
    if has("Module") {
        added.push_str(&header.impl_block("Module", ""));
    }
    if !added.is_empty() && !has("Clone") {
        added.push_str(&header.impl_block("Clone", "fn clone(&self) -> Self {}"));
    }
    Some(added)
}

/// Returns whether this name stands in an attribute `derive` of a type.
fn derives(item: &ast::Adt, name: &str) -> bool {
    item.attrs().any(|attribute| {
        let text = attribute.syntax().text().to_string();
        let list = text.split_once("derive(").and_then(|(_, rest)| rest.split(')').next());
        list.is_some_and(|list| list.split(',').any(|derived| derived.trim() == name))
    })
}

/// Name and generic parameters of a type, as an `impl` repeats them.
struct ImplHeader {
    name: String,
    parameters: String,
    arguments: String,
}

impl ImplHeader {
    /// Returns the header of an item; `None` if the type has no name.
    fn from_adt(item: &ast::Adt) -> Option<Self> {
        let name = item.name()?.text().to_string();
        let Some(list) = item.generic_param_list() else {
            return Some(Self { name, parameters: String::new(), arguments: String::new() });
        };
        let parameters: Vec<String> = list
            .generic_params()
            // A default is not repeated.
            .map(|p| p.to_string().split(" = ").next().unwrap_or_default().to_owned())
            .collect();
        let arguments: Vec<String> = list
            .generic_params()
            .filter_map(|parameter| match parameter {
                ast::GenericParam::LifetimeParam(parameter) => {
                    Some(parameter.lifetime()?.to_string())
                }
                ast::GenericParam::TypeParam(parameter) => Some(parameter.name()?.to_string()),
                ast::GenericParam::ConstParam(parameter) => Some(parameter.name()?.to_string()),
            })
            .collect();
        let list = |parts: &[String]| format!("<{}>", parts.join(", "));
        Some(Self { name, parameters: list(&parameters), arguments: list(&arguments) })
    }

    fn impl_block(&self, name: &str, items: &str) -> String {
        let Self { name: type_name, parameters, arguments } = self;
        format!("\nimpl{parameters} {name} for {type_name}{arguments} {{ {items} }}\n")
    }
}

/// Returns the constructors of a configuration: `new` takes the fields without a default; the
/// others have a method each.
fn config_constructors(header: &ImplHeader, structure: &ast::Struct) -> String {
    let Some(ast::FieldList::RecordFieldList(fields)) = structure.field_list() else {
        return String::new();
    };
    let (mut required, mut methods) = (Vec::new(), String::new());
    for field in fields.fields() {
        let (Some(name), Some(kind)) = (field.name(), field.ty()) else { continue };
        let is_default = field.attrs().any(|attribute| {
            let text = attribute.syntax().text().to_string();
            text.contains("config(") && text.contains("default")
        });
        if is_default || kind.to_string().starts_with("Option<") {
            methods.push_str(&format!(" pub fn with_{name}(self, {name}: {kind}) -> Self {{}}"));
        } else {
            required.push(format!("{name}: {kind}"));
        }
    }
    let ImplHeader { name, parameters, arguments } = header;
    format!(
        "\nimpl{parameters} {name}{arguments} {{ pub fn new({}) -> Self {{}}{methods} }}\n",
        required.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_have_constructors_and_modules_are_cloned() {
        let code = "/// Docs.\n#[derive(Config, Debug)]\npub struct A {\n    /// In.\n    pub d: usize,\n    \
                    #[config(default = true)]\n    pub bias: bool,\n    pub p: Option<f64>,\n}\n\
                    #[derive(Module, Debug)]\nstruct M<B: Backend, const D: usize = 2> { w: B }\n\
                    #[derive(Clone, Config)]\nenum E { X }\n#[derive(Debug)]\nstruct N;\n";
        let text = expand_derives(code);
        for added in [
            "impl Config for A {  }\n",
            "impl A { pub fn new(d: usize) -> Self {} pub fn with_bias(self, bias: bool) -> Self {} \
             pub fn with_p(self, p: Option<f64>) -> Self {} }\n",
            "impl Clone for A { fn clone(&self) -> Self {} }\n",
            "impl<B: Backend, const D: usize> Module for M<B, D> {  }\n",
            "impl<B: Backend, const D: usize> Clone for M<B, D> {",
            "impl Config for E {  }\n",
        ] {
            assert!(text.contains(added), "{added}\n{text}");
        }
        assert!(!text.contains("Clone for E") && !text.contains(" for N"), "{text}");
        let plain = "#[derive(Debug)] struct N;\nfn f() {}\n";
        assert_eq!(expand_derives(plain), plain);
    }
}
