//! The shim: the package `epsilab` that cells depend on.
//!
//! For rustc it re-exports the prebuilt dylib, so that nothing is compiled. For rust-analyzer,
//! which infers the types of variables, it contains the sources of the library, of accounting and
//! of Burn.

use std::path::Path;

use epsilab::{Error, Result};
use ra_ap_syntax::SyntaxKind::{COMMENT, WHITESPACE};
use ra_ap_syntax::ast::{AstNode, HasModuleItem};
use ra_ap_syntax::{Edition, SourceFile};
use serde_json::Value;

use super::build_env::BuildEnv;
use super::signatures;

/// Build script of the shim. Cargo passes both search paths on to cells: `crate` for the lab,
/// `dependency` for the crates that its metadata refers to.
const BUILD_SCRIPT: &str = r#"fn main() {
    let shim = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let lib = std::path::Path::new(&shim).parent().expect("the lab").join("lib");
    println!("cargo:rerun-if-changed={}", lib.display());
    println!("cargo:rustc-link-search=crate={}", lib.display());
    println!("cargo:rustc-link-search=dependency={}", lib.display());
}
"#;

const RUSTC_REEXPORT: &str = "#[cfg(not(rust_analyzer))]\nextern crate epsilab_lab;\n\
                          #[cfg(not(rust_analyzer))]\npub use epsilab_lab::*;\n";

/// Writes `shim/` into the lab folder.
///
/// # Errors
/// A source can't be read or the folder can't be written.
pub fn write_shim(env: &BuildEnv, metadata: &Value, dir: &Path) -> Result<()> {
    let io = |e: std::io::Error| Error::io("writing the package that cells depend on", &e);
    let shim = dir.join("shim");
    let from = env.library_dir.join("src");
    signatures::copy_signatures(&from, &shim.join("src")).map_err(io)?;
    let root = std::fs::read_to_string(from.join("lib.rs")).map_err(io)?;
    std::fs::write(shim.join("src/lib.rs"), crate_root(&root)).map_err(io)?;
    std::fs::write(shim.join("build.rs"), BUILD_SCRIPT).map_err(io)?;
    let others = super::packages::write(metadata, &dir.join("shim/ra"))?;
    let dependencies: String =
        others.iter().map(|name| format!("{name} = {{ path = \"ra/{name}\" }}\n")).collect();
    let manifest = format!(
        "[package]\nname = \"epsilab\"\nversion = \"{}\"\nedition = \"2024\"\nbuild = \"build.rs\"\n\
         \n[workspace]\nexclude = [\"ra\"]\n\n[lints.rust]\nunexpected_cfgs = {{ level = \"allow\" }}\n\
         \n[target.'cfg(rust_analyzer)'.dependencies]\n{dependencies}",
        env!("CARGO_PKG_VERSION")
    );
    std::fs::write(shim.join("Cargo.toml"), manifest).map_err(io)
}

/// Returns the crate root: the re-export for rustc, then every item of the real root for
/// rust-analyzer.
fn crate_root(root: &str) -> String {
    let file = SourceFile::parse(root, Edition::Edition2024).tree();
    let items = file.items().map(|item| {
        let tokens = item.syntax().children_with_tokens();
        let code = tokens.skip_while(|part| matches!(part.kind(), COMMENT | WHITESPACE));
        let code: String = code.map(|part| part.to_string()).collect();
        format!("#[cfg(rust_analyzer)]\n{code}\n")
    });
    items.fold(RUSTC_REEXPORT.to_owned(), |text, item| text + &item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_of_the_root_is_for_rust_analyzer_only() {
        let root = "//! Docs.\n#![warn(missing_docs)]\n\npub mod a;\n/// Doc.\n#[doc(hidden)]\n\
                    pub use b::{\n    c,\n    d,\n};\nmod e;\npub fn f() {\n    g();\n}\n";
        let text = crate_root(root);
        let ours = text.strip_prefix(RUSTC_REEXPORT).expect("rustc's face first");
        assert_eq!(
            ours,
            "#[cfg(rust_analyzer)]\npub mod a;\n#[cfg(rust_analyzer)]\n#[doc(hidden)]\n\
             pub use b::{\n    c,\n    d,\n};\n#[cfg(rust_analyzer)]\nmod e;\n\
             #[cfg(rust_analyzer)]\npub fn f() {\n    g();\n}\n"
        );
    }
}
