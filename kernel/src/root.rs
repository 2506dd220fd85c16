//! Check whether JupyterLab may run as root: JupyterLab ends at once as root unless its arguments
//! or its settings allow that. The user gets the error before anything is built or installed.

use std::path::{Path, PathBuf};

use epsilab::{Error, ErrorKind, Result, program};

use crate::folder::entries;
use crate::jupyter::JupyterArgs;

/// Checks that JupyterLab runs as this user. `prefixes` are folders with the `etc/jupyter` of
/// installations of JupyterLab.
///
/// # Errors
/// The user is root, and neither arguments nor settings allow it.
pub fn check(args: &JupyterArgs, prefixes: &[PathBuf]) -> Result<()> {
    if !is_root() {
        return Ok(());
    }
    let variables: Vec<String> =
        std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    if is_allowed(&args.jupyter_args, &variables, &folders(prefixes)) {
        Ok(())
    } else {
        Err(refusal(args))
    }
}

fn refusal(args: &JupyterArgs) -> Error {
    let mut arguments = vec![program::name().into_owned()];
    arguments.extend(args.no_browser.then(|| "--no-browser".to_owned()));
    arguments.push("--".to_owned());
    arguments.extend(args.jupyter_args.iter().cloned());
    arguments.push("--allow-root".to_owned());
    let why = "it refuses this by default, because anyone who can open its page could then do \
               anything on this machine";
    Error::new(ErrorKind::Notebook, "JupyterLab can't start as root", why).fix(format!(
        "allow it, in a container for example: `{}`; or run it as another user",
        arguments.join(" ")
    ))
}

/// Returns whether arguments, environment variables or files of settings mention the permission. A
/// file that an argument names is not read: it may hold the permission.
fn is_allowed(arguments: &[String], variables: &[String], folders: &[PathBuf]) -> bool {
    let names = arguments.iter().chain(variables);
    names.map(|name| name.to_lowercase().replace('-', "_")).any(|name| is_mentioned(&name))
        || arguments.iter().any(|argument| argument.starts_with("--config"))
        || folders.iter().any(|folder| is_mentioned_in(folder))
}

/// Returns Jupyter's folders with settings.
fn folders(prefixes: &[PathBuf]) -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let mut folders: Vec<PathBuf> =
        variable("JUPYTER_CONFIG_PATH").iter().flat_map(std::env::split_paths).collect();
    folders.extend(variable("JUPYTER_CONFIG_DIR").map(PathBuf::from));
    folders.extend(dirs::config_dir().map(|dir| dir.join("jupyter")));
    if let Some(home) = dirs::home_dir() {
        folders.extend([home.join(".jupyter"), home.join(".local/etc/jupyter")]);
    }
    let system = [PathBuf::from("/usr/local"), PathBuf::from("/")];
    folders.extend(prefixes.iter().chain(&system).map(|prefix| prefix.join("etc/jupyter")));
    folders
}

/// Returns whether a file of settings in the folder, or in one of its folders such as
/// `jupyter_server_config.d`, mentions the permission.
fn is_mentioned_in(folder: &Path) -> bool {
    let is_settings = |path: &PathBuf| path.extension().is_some_and(|e| e == "py" || e == "json");
    let inner = entries(folder).filter(|path| path.extension().is_some_and(|e| e == "d"));
    let mut files =
        entries(folder).chain(inner.flat_map(|path| entries(&path))).filter(is_settings);
    files.any(|path| std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(is_mentioned)))
}

/// Returns whether a line mentions the permission. Jupyter writes files in which every setting is
/// a comment.
fn is_mentioned(line: &str) -> bool {
    !line.trim_start().starts_with('#') && line.contains("allow_root")
}

fn is_root() -> bool {
    // SAFETY: a query without arguments.
    unsafe { libc::geteuid() == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[&str]) -> Vec<String> {
        all.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn root_is_allowed_by_an_argument_or_a_variable() {
        let is_allowed_by = |arguments: &[&str], variables: &[&str]| {
            is_allowed(&words(arguments), &words(variables), &[])
        };
        assert!(
            !is_allowed_by(&[], &["PATH", "HOME"])
                && !is_allowed_by(&["--port", "9999", "--no-root"], &[])
        );
        assert!(is_allowed_by(&["--port", "9999", "--allow-root"], &[]));
        assert!(
            is_allowed_by(&["--ServerApp.allow_root=True"], &[])
                && is_allowed_by(&["--config=mine.py"], &[])
        );
        assert!(is_allowed_by(&[], &["JUPYTER_SERVER__ServerApp__allow_root"]));
    }

    #[test]
    fn root_is_allowed_by_files_of_settings() {
        let dir = tempfile::tempdir().expect("temp");
        let allowed = || is_allowed(&[], &[], &[dir.path().join("none"), dir.path().to_owned()]);
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        // As `jupyter server --generate-config` writes it.
        write("jupyter_server_config.py", "# Default: False\n# c.ServerApp.allow_root = False\n");
        write("notes.txt", "c.ServerApp.allow_root = True\n");
        write("migrated/old.py", "c.ServerApp.allow_root = True\n");
        assert!(!allowed());
        let of_a_package = "jupyter_server_config.d/package.json";
        write(of_a_package, r#"{"ServerApp": {"allow_root": true}}"#);
        assert!(allowed());
        std::fs::remove_file(dir.path().join(of_a_package)).expect("removed");
        assert!(!allowed());
        write("jupyter_server_config.py", "c = get_config()\nc.ServerApp.allow_root = True\n");
        assert!(allowed());
    }

    #[test]
    fn the_refusal_has_the_command_to_type() {
        let args = JupyterArgs { no_browser: true, jupyter_args: words(&["--port", "9999"]) };
        let command = program::command("--no-browser -- --port 9999 --allow-root");
        assert!(refusal(&args).advice().contains(&format!("`{command}`")));
    }
}
