//! Sources of other packages for rust-analyzer: those whose types appear in cells, without their
//! dependencies. The full graph would cost seconds and gigabytes per session.

use std::collections::HashMap;
use std::path::Path;

use epsilab::{Error, Result};
use serde_json::Value;

use super::dylib::{items, linked, package, text};
use super::signatures;

/// Packages with the types of tensors, modules and optimisers, and of accounting. Those not in the
/// lock file are skipped.
const KEPT: [&str; 14] = [
    "epsilab-accounting",
    "burn",
    "burn-core",
    "burn-tensor",
    "burn-std",
    "burn-backend",
    "burn-nn",
    "burn-optim",
    "burn-dispatch",
    "burn-autodiff",
    "burn-pack",
    "burn-einsum",
    "burn-linalg",
    "cubecl-zspace",
];

/// Writes the packages to `dir` and returns the names of those that the library depends on.
///
/// # Errors
/// A source can't be read or the folder can't be written.
pub fn write(metadata: &Value, dir: &Path) -> Result<Vec<String>> {
    let packages: HashMap<String, &Value> = items(&metadata["packages"])
        .filter(|package| KEPT.iter().any(|name| package["name"] == *name))
        .map(|package| (text(&package["id"]), package))
        .collect();
    let lab = package(metadata, "epsilab");
    let mut direct = Vec::new();
    for node in items(&metadata["resolve"]["nodes"]) {
        let kept = linked(node).filter_map(|dep| {
            let package = packages.get(dep["pkg"].as_str()?)?;
            Some((text(&dep["name"]), text(&package["name"])))
        });
        let kept: Vec<(String, String)> = kept.collect();
        if let Some(package) = packages.get(&text(&node["id"])) {
            one(package, node, &kept, dir)
                .map_err(|e| Error::io("copying sources for rust-analyzer", &e))?;
        } else if node["id"] == lab["id"] {
            direct = kept.into_iter().map(|(_, package)| package).collect();
        }
    }
    Ok(direct)
}

fn one(
    package: &Value,
    node: &Value,
    deps: &[(String, String)],
    dir: &Path,
) -> std::io::Result<()> {
    let name = text(&package["name"]);
    let from = Path::new(&text(&package["manifest_path"])).with_file_name("src");
    let to = dir.join(&name);
    signatures::copy_signatures(&from, &to.join("src"))?;
    let features = items(&node["features"]).map(text).filter(|name| name != "default");
    let features: Vec<String> = features.collect();
    let declared: String = features.iter().map(|feature| format!("{feature} = []\n")).collect();
    let dependency = |(alias, dep): &(String, String)| {
        let alias = if alias == &dep.replace('-', "_") { dep } else { alias };
        format!("{alias} = {{ path = \"../{dep}\", package = \"{dep}\" }}\n")
    };
    let dependencies: String = deps.iter().map(dependency).collect();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"{}\"\nedition = \"{}\"\n\n[lib]\n\
         path = \"src/lib.rs\"\n\n[features]\ndefault = {features:?}\n{declared}\n\
         [dependencies]\n{dependencies}",
        text(&package["version"]),
        text(&package["edition"]),
    );
    std::fs::write(to.join("Cargo.toml"), manifest)
}
