//! Sources of other packages for rust-analyzer: those whose types appear in cells, without their
//! dependencies. The full graph would cost seconds and gigabytes per session.

use std::collections::HashMap;
use std::path::Path;

use epsilab::{Error, Result};
use serde_json::Value;

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
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: HashMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .filter(|package| KEPT.iter().any(|name| package["name"] == *name))
        .map(|package| (package["id"].as_str().unwrap_or_default().to_owned(), package))
        .collect();
    let mut direct = Vec::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let kept: Vec<(String, String)> = list(&node["deps"])
            .iter()
            .filter(|dep| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()))
            .filter_map(|dep| {
                let package = packages.get(dep["pkg"].as_str()?)?;
                Some((dep["name"].as_str()?.to_owned(), package["name"].as_str()?.to_owned()))
            })
            .collect();
        let id = node["id"].as_str().unwrap_or_default();
        if let Some(package) = packages.get(id) {
            one(package, &node, &kept, dir)
                .map_err(|e| Error::io("copying sources for rust-analyzer", &e))?;
        } else if is_the_lab(metadata, id) {
            direct = kept.into_iter().map(|(_, package)| package).collect();
        }
    }
    Ok(direct)
}

fn is_the_lab(metadata: &Value, id: &str) -> bool {
    metadata["packages"]
        .as_array()
        .is_some_and(|all| all.iter().any(|p| p["name"] == "epsilab" && p["id"] == id))
}

fn one(
    package: &Value,
    node: &Value,
    deps: &[(String, String)],
    dir: &Path,
) -> std::io::Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&package["name"]);
    let from = Path::new(package["manifest_path"].as_str().unwrap_or_default())
        .parent()
        .unwrap_or(Path::new("/"))
        .join("src");
    let to = dir.join(&name);
    signatures::copy(&from, &to.join("src"))?;
    let features: Vec<String> = node["features"]
        .as_array()
        .map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default();
    let features: Vec<_> = features.into_iter().filter(|name| name != "default").collect();
    let mut manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"{}\"\nedition = \"{}\"\n\n[lib]\n\
         path = \"src/lib.rs\"\n\n[features]\ndefault = {features:?}\n",
        text(&package["version"]),
        text(&package["edition"]),
    );
    for feature in &features {
        manifest.push_str(&format!("{feature} = []\n"));
    }
    manifest.push_str("\n[dependencies]\n");
    for (alias, dep) in deps {
        let alias = if alias == &dep.replace('-', "_") { dep } else { alias };
        manifest.push_str(&format!("{alias} = {{ path = \"../{dep}\", package = \"{dep}\" }}\n"));
    }
    std::fs::write(to.join("Cargo.toml"), manifest)
}
