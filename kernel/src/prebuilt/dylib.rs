//! Build of the dylib with cargo, and collection of the files that rustc needs to link cells to
//! it.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use epsilab::{Error, ErrorKind, Result};
use serde_json::Value;

use super::build_env::{BUILD_FLAGS, BuildEnv, GPU_FEATURES, Origin};
use super::progress::{BuildProgress, Progress, format_bar};
use super::toolchain::{Toolchain, last_lines};

/// Result of a build.
pub struct BuildOutput {
    /// Path of the dylib.
    pub dylib: PathBuf,
    /// Metadata of all crates that the dylib is linked from, and their procedural macros.
    pub metadata: Vec<PathBuf>,
}

/// Returns a cargo command for the kernel's package with the compiler, flags and target folder of
/// this binary. Other settings would compile Burn again.
pub fn cargo_command(env: &BuildEnv, toolchain: &Toolchain) -> Command {
    let mut command = Command::new(&toolchain.cargo);
    let bin = toolchain.sysroot.join("bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path)));
    command.current_dir(&env.kernel_dir).env("CARGO_TARGET_DIR", &env.target_dir);
    if let Ok(path) = path {
        command.env("PATH", path);
    }
    // The kernel sets the wrapper for cells. Even an empty one here would make cargo compile the
    // library a second time.
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO",
        "LD_LIBRARY_PATH",
    ] {
        command.env_remove(name);
    }
    // `cargo run` and `cargo test` set variables about this package. Build scripts that read them,
    // such as that of ring, would run again, and dependent crates would be compiled again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "OUT_DIR"]
            .iter()
            .any(|prefix| text.starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    command.env("RUSTUP_TOOLCHAIN", &toolchain.sysroot);
    if !BUILD_FLAGS.is_empty() {
        command.env("CARGO_ENCODED_RUSTFLAGS", BUILD_FLAGS);
    }
    command
}

/// Returns the output of `cargo metadata` for the kernel's package.
///
/// # Errors
/// Cargo fails.
pub fn cargo_metadata(env: &BuildEnv, toolchain: &Toolchain) -> Result<Value> {
    let out = cargo_command(env, toolchain)
        .args(["metadata", "--format-version", "1", "--locked", "--features", GPU_FEATURES])
        .arg("--filter-platform")
        .arg(env.triple.as_deref().unwrap_or(&toolchain.host))
        .output()
        .map_err(|e| Error::io(format!("starting {}", toolchain.cargo.display()), &e))?;
    if !out.status.success() {
        return Err(build_error("cargo metadata", &String::from_utf8_lossy(&out.stderr)));
    }
    serde_json::from_slice(&out.stdout).map_err(|e| Error::io("reading cargo metadata", &e.into()))
}

/// Compiles the library of this package as a dylib. `estimate` and `progress`: as for
/// [`run_cargo`].
///
/// # Errors
/// The library does not compile, or cargo can't run.
pub fn build_dylib(
    env: &BuildEnv,
    toolchain: &Toolchain,
    metadata: &Value,
    estimate: f64,
    progress: Progress<'_>,
) -> Result<BuildOutput> {
    let mut command = cargo_command(env, toolchain);
    command.args(["rustc", "-p", "epsilab-kernel", "--lib", "--crate-type", "dylib", "--locked"]);
    command.args(["--features", GPU_FEATURES, "--profile", &env.profile]);
    if env.origin == Origin::Packages {
        // Nothing is compiled yet in this target folder, and cells need no kernel.
        command.arg("--no-default-features");
    }
    command.args(["--message-format", "json-render-diagnostics"]);
    command.args(env.target_option()).args(["--", "-C", "prefer-dynamic"]);
    let action = "building the lab as a library for cells";
    let messages = run_cargo(command, action, estimate, progress)?;
    collect_artifacts(&messages, &library_dependencies(metadata))
        .ok_or_else(|| build_error(action, "cargo named no dylib"))
}

/// Runs cargo and returns the lines of its standard output. `progress` gets the lines about crates,
/// and in every second without one a bar for the seconds of the `estimate`.
///
/// # Errors
/// cargo can't be started, or fails.
pub fn run_cargo(
    mut command: Command,
    action: &str,
    estimate: f64,
    progress: Progress<'_>,
) -> Result<Vec<String>> {
    let start = Instant::now();
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| Error::io(format!("starting {program}"), &e))?;
    let stdout = child.stdout.take().map(|out| {
        std::thread::spawn(move || BufReader::new(out).lines().map_while(Result::ok).collect())
    });
    let mut output = String::new();
    let (lines, received) = mpsc::channel();
    if let Some(stderr) = child.stderr.take() {
        std::thread::spawn(move || {
            let all = BufReader::new(stderr).lines().map_while(std::result::Result::ok);
            all.map(|line| lines.send(line)).take_while(std::result::Result::is_ok).count()
        });
    }
    loop {
        let line = match received.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                progress(BuildProgress::Bar(&format_bar(start.elapsed().as_secs_f64(), estimate)));
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if line.trim_start().starts_with("Compiling") || line.contains("Blocking") {
            progress(BuildProgress::Line(line.trim()));
        }
        output.push_str(&line);
        output.push('\n');
    }
    let status = child.wait().map_err(|e| Error::io("waiting for cargo", &e))?;
    let messages: Vec<String> = stdout.and_then(|thread| thread.join().ok()).unwrap_or_default();
    if !status.success() {
        return Err(build_error(action, &output));
    }
    Ok(messages)
}

fn build_error(action: &str, output: &str) -> Error {
    Error::new(ErrorKind::Notebook, format!("{action} failed"), last_lines(output, 20))
        .fix("fix the errors that the compiler reports, then run the same command again")
}

/// Returns the text of a value of cargo's output, empty for any other type.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the items of a list of cargo's output.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the dependencies of a node of `cargo metadata` that are linked to it.
pub fn linked(node: &Value) -> impl Iterator<Item = &Value> {
    items(&node["deps"]).filter(|dep| items(&dep["dep_kinds"]).any(|kind| kind["kind"].is_null()))
}

/// Returns the package with this name, null if there is none.
pub fn package<'a>(metadata: &'a Value, name: &str) -> &'a Value {
    items(&metadata["packages"]).find(|package| package["name"] == name).unwrap_or(&Value::Null)
}

fn is_macro(target: &Value) -> bool {
    items(&target["kind"]).any(|kind| kind == "proc-macro")
}

/// Returns the ids of the packages whose metadata rustc reads with that of the lab. Dependencies
/// of procedural macros are not among them.
fn library_dependencies(metadata: &Value) -> HashSet<String> {
    let macros =
        items(&metadata["packages"]).filter(|package| items(&package["targets"]).any(is_macro));
    let macros: HashSet<String> = macros.map(|package| text(&package["id"])).collect();
    let normal: HashMap<String, Vec<String>> = items(&metadata["resolve"]["nodes"])
        .map(|node| (text(&node["id"]), linked(node).map(|dep| text(&dep["pkg"])).collect()))
        .collect();
    let mut found = HashSet::new();
    let mut open = vec![text(&package(metadata, "epsilab")["id"])];
    while let Some(id) = open.pop() {
        if found.insert(id.clone()) && !macros.contains(&id) {
            open.extend(normal.get(&id).cloned().unwrap_or_default());
        }
    }
    found
}

fn collect_artifacts(messages: &[String], wanted: &HashSet<String>) -> Option<BuildOutput> {
    let mut library = None;
    let mut metadata = Vec::new();
    for line in messages {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let target = &message["target"];
        let mut files = items(&message["filenames"]).map(|name| PathBuf::from(text(name)));
        if target["name"] == "epsilab_lab" {
            library = files.find(|file| is_dynamic_library(file)).or(library);
        } else if wanted.contains(&text(&message["package_id"])) {
            metadata.extend(files.filter(|file| {
                file.extension().is_some_and(|e| e == "rmeta")
                    || (is_macro(target) && is_dynamic_library(file))
            }));
        }
    }
    Some(BuildOutput { dylib: library?, metadata })
}

fn is_dynamic_library(file: &Path) -> bool {
    file.extension().is_some_and(|e| e == std::env::consts::DLL_EXTENSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_procedural_macros_and_of_the_kernel_are_left_out() {
        let dep =
            |id: &str, kind: Value| serde_json::json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let metadata = serde_json::json!({
            "packages": [
                {"name": "epsilab", "id": "lab", "targets": [{"kind": ["lib"]}]},
                {"name": "derive", "id": "derive", "targets": [{"kind": ["proc-macro"]}]},
            ],
            "resolve": {"nodes": [
                {"id": "kernel", "deps": [dep("lab", Value::Null), dep("evcxr", Value::Null)]},
                {"id": "lab", "deps": [dep("burn", Value::Null), dep("cc", "build".into())]},
                {"id": "burn", "deps": [dep("derive", Value::Null)]},
                {"id": "derive", "deps": [dep("syn", Value::Null)]},
            ]},
        });
        let mut found: Vec<_> = library_dependencies(&metadata).into_iter().collect();
        found.sort();
        assert_eq!(found, ["burn", "derive", "lab"]);
    }
}
