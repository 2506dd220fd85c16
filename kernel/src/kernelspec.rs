//! Kernelspecs: writing, reading and finding the folders that register this kernel with Jupyter.

use std::path::{Path, PathBuf};

use epsilab::{Error, ErrorKind, Result, file};
use jupyter_zmq_client::dirs;
use serde_json::{Value, json};

use crate::prebuilt::STOCK_NAME;
use crate::run::notebook::KERNEL_NAME;
use crate::{folder, programs};

const LOGOS: [(&str, &[u8]); 3] = [
    ("logo-32x32.png", include_bytes!("../assets/logo-32x32.png")),
    ("logo-64x64.png", include_bytes!("../assets/logo-64x64.png")),
    ("logo-svg.svg", include_bytes!("../assets/logo-svg.svg")),
];

/// A kernelspec of this kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSpec {
    /// Name of the kernel in Jupyter.
    pub name: String,
    /// Folder of the kernelspec.
    pub dir: PathBuf,
    /// Program that the kernelspec starts.
    pub binary: PathBuf,
    /// Version of Epsilab that wrote the kernelspec.
    pub version: String,
}

impl KernelSpec {
    /// Reads the kernelspec in `dir`, if it is one of ours.
    pub fn read(dir: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(dir.join("kernel.json")).ok()?;
        let json: Value = serde_json::from_str(&text).ok()?;
        Some(Self {
            name: dir.file_name()?.to_string_lossy().into_owned(),
            dir: dir.to_path_buf(),
            binary: PathBuf::from(json["argv"][0].as_str().unwrap_or_default()),
            version: json["metadata"]["epsilab"]["version"].as_str()?.to_owned(),
        })
    }

    /// Returns whether the program exists.
    pub fn binary_exists(&self) -> bool {
        self.binary.is_file()
    }
}

/// Kernel that a kernelspec starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KernelKind {
    /// This kernel.
    Lab,
    /// evcxr's own kernel, with the lab in its cells.
    Stock,
}

impl KernelKind {
    /// Returns the command of the program that serves a notebook, and the title that Jupyter shows
    /// for a kernel with this name.
    fn command_and_title(self, name: &str) -> (&'static str, String) {
        let (command, title, usual) = match self {
            Self::Lab => ("kernel", "Epsilab (Rust", KERNEL_NAME),
            Self::Stock => ("stock", "evcxr with Epsilab (Rust", STOCK_NAME),
        };
        let more = if name == usual { String::new() } else { format!(", {name}") };
        (command, format!("{title}{more})"))
    }
}

/// Checks a name by the rules of Jupyter and two of our own. Returns it in lower case, as Jupyter
/// stores it.
///
/// # Errors
/// Kind `Setting` for a name that Jupyter does not allow, one of dots only, and `rust`.
pub fn validate_name(name: &str) -> Result<String> {
    let wrong = |why: &str| {
        Err(Error::setting("--name", format!("{name:?}"), why)
            .fix("choose a name such as `epsilab` or `epsilab-dev`"))
    };
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || !name.chars().all(valid) {
        return wrong("Jupyter allows only the letters a to z, digits, and the signs . _ -");
    }
    if name.chars().all(|c| c == '.') {
        return wrong("this is a special folder name, not a kernel name");
    }
    if name.eq_ignore_ascii_case("rust") {
        return wrong(
            "this name belongs to the evcxr kernel, whose installation would overwrite it",
        );
    }
    Ok(name.to_ascii_lowercase())
}

/// Writes the kernelspec to `kernels/name`. `env` are environment variables that the kernel needs.
///
/// # Errors
/// Another kernel has that name, or the folder can't be written.
pub fn write_spec(
    kernels: &Path,
    name: &str,
    kind: KernelKind,
    env: &[(String, String)],
) -> Result<PathBuf> {
    let dir = kernels.join(name);
    if dir.exists() && KernelSpec::read(&dir).is_none() {
        return Err(Error::new(
            ErrorKind::Notebook,
            format!("{} exists", dir.display()),
            "another kernel, not installed by Epsilab, has this name",
        )
        .fix("choose another name with `--name`"));
    }
    let exe = std::env::current_exe().map_err(|e| Error::io("finding this program", &e))?;
    let env: Value = env.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let (command, title) = kind.command_and_title(name);
    let spec = json!({
        "argv": [exe.to_string_lossy(), command, "-f", "{connection_file}"],
        "display_name": title,
        "language": "rust",
        "interrupt_mode": "message",
        "env": env,
        "metadata": {"debugger": false, "epsilab": {"version": env!("CARGO_PKG_VERSION")}},
    });
    let writing = |e: &std::io::Error| {
        Error::io(format!("writing {}", dir.display()), e)
            .fix("choose a folder that you can write: `--user`, or `--prefix DIR`")
    };
    std::fs::create_dir_all(&dir).map_err(|e| writing(&e))?;
    for (file, bytes) in LOGOS {
        std::fs::write(dir.join(file), bytes).map_err(|e| writing(&e))?;
    }
    file::write(dir.join("kernel.json"), format!("{spec:#}\n"))?;
    Ok(dir)
}

/// Returns all our kernelspecs that Jupyter can find, and those in the data folders `more`.
pub fn find_all(more: &[PathBuf]) -> Vec<KernelSpec> {
    let mut found: Vec<KernelSpec> = Vec::new();
    for data in more.iter().cloned().chain(data_dirs()) {
        for spec in folder::entries(&data.join("kernels")).filter_map(|dir| KernelSpec::read(&dir))
        {
            let same =
                |other: &KernelSpec| other.dir.canonicalize().ok() == spec.dir.canonicalize().ok();
            if !found.iter().any(same) {
                found.push(spec);
            }
        }
    }
    found.sort_by(|a, b| (&a.name, &a.dir).cmp(&(&b.name, &b.dir)));
    found
}

/// Returns Jupyter's data folder for this user.
///
/// # Errors
/// The user has no home folder.
pub fn user_data_dir() -> Result<PathBuf> {
    dir_from_env("JUPYTER_DATA_DIR").or_else(|| dirs::user_data_dir().ok()).ok_or_else(|| {
        Error::new(ErrorKind::Notebook, "no home folder", "Jupyter keeps kernels there")
            .fix("set JUPYTER_DATA_DIR, or use `--prefix DIR`")
    })
}

/// Returns `sys.prefix` of the active virtual or conda environment, else of Python itself.
///
/// # Errors
/// There is no Python.
pub fn sys_prefix() -> Result<PathBuf> {
    prefixes().next().ok_or_else(|| {
        Error::new(ErrorKind::Notebook, "no Python environment", "no Python 3 was found")
            .fix("activate the environment first, or use `--user` or `--prefix DIR`")
    })
}

/// Returns `sys.prefix` of the active environments, then of Python itself.
fn prefixes() -> impl Iterator<Item = PathBuf> {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(dir_from_env);
    let of_python = || {
        programs::capture_stdout(
            &programs::find_python()?,
            &["-c", "import sys; print(sys.prefix)"],
        )
    };
    active.chain(std::iter::once_with(of_python).flatten().map(PathBuf::from))
}

/// Returns the folders that Jupyter searches, in its order.
fn data_dirs() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    if let Some(paths) = std::env::var_os("JUPYTER_PATH") {
        found.extend(std::env::split_paths(&paths).filter(|p| p.is_absolute()));
    }
    found.extend(user_data_dir().ok());
    let own_prefix =
        crate::jupyter::environment_dir().into_iter().flat_map(|home| [home.join("venv"), home]);
    found.extend(prefixes().chain(own_prefix).map(|prefix| prefix.join("share/jupyter")));
    found.extend(dirs::system_data_dirs());
    found
}

/// Returns the absolute path in an environment variable.
fn dir_from_env(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_jupyters_rule() {
        assert_eq!(validate_name("Epsilab-dev_2.0").expect("valid"), "epsilab-dev_2.0");
        for wrong in ["", "a b", "a/b", "..", ".", "ε", "rust", "Rust", "a\\b"] {
            assert!(validate_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_specs_with_our_mark_are_ours_and_others_are_never_overwritten() {
        let kernels = tempfile::tempdir().expect("a temporary folder");
        let env = [("CARGO_HOME".to_owned(), "/c".to_owned())];
        let dir = write_spec(kernels.path(), KERNEL_NAME, KernelKind::Lab, &env).expect("written");
        let spec = KernelSpec::read(&dir).expect("ours");
        assert!(spec.binary_exists() && spec.name == KERNEL_NAME);
        for file in ["logo-32x32.png", "logo-64x64.png", "logo-svg.svg"] {
            assert!(dir.join(file).is_file(), "{file}");
        }
        let text = std::fs::read_to_string(dir.join("kernel.json")).expect("text");
        let json: Value = serde_json::from_str(&text).expect("json");
        assert_eq!(json["interrupt_mode"], "message");
        assert_eq!(json["argv"][3], "{connection_file}");
        assert_eq!(json["env"]["CARGO_HOME"], "/c");
        assert!(
            write_spec(kernels.path(), KERNEL_NAME, KernelKind::Lab, &[]).is_ok(),
            "ours may be renewed"
        );
        let dir = write_spec(kernels.path(), STOCK_NAME, KernelKind::Stock, &[]).expect("written");
        let text = std::fs::read_to_string(dir.join("kernel.json")).expect("text");
        let json: Value = serde_json::from_str(&text).expect("json");
        assert_eq!(
            (&json["argv"][1], &json["argv"][3]),
            (&json!("stock"), &json!("{connection_file}"))
        );
        assert_eq!(json["display_name"], "evcxr with Epsilab (Rust)");

        let other = kernels.path().join("other");
        std::fs::create_dir(&other).expect("made");
        std::fs::write(other.join("kernel.json"), "{\"argv\":[\"x\"]}").expect("written");
        assert!(KernelSpec::read(&other).is_none());
        assert!(write_spec(kernels.path(), "other", KernelKind::Lab, &[]).is_err());
    }
}
