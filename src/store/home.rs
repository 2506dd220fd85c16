//! The project folder, which holds the runs and ledgers.

use std::path::{Path, PathBuf};

/// Returns the project folder: `$EPSILAB_HOME`, else `.epsilab/` beside the nearest parent
/// `Cargo.toml` or `.git`, else `.epsilab/` in the current folder.
pub fn home() -> PathBuf {
    let current = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    home_for(std::env::var_os("EPSILAB_HOME").map(PathBuf::from), &current)
}

fn home_for(chosen: Option<PathBuf>, current: &Path) -> PathBuf {
    if let Some(chosen) = chosen.filter(|path| !path.as_os_str().is_empty()) {
        return chosen;
    }
    let project = current
        .ancestors()
        .find(|folder| folder.join("Cargo.toml").is_file() || folder.join(".git").exists())
        .unwrap_or(current);
    project.join(".epsilab")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_chosen_then_beside_the_project_then_here() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("project/notebooks/week1");
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(home_for(Some("/x/y".into()), &deep), Path::new("/x/y"));
        // Unless the temporary folder is inside a project itself.
        if !root.path().ancestors().any(|p| p.join(".git").exists()) {
            assert_eq!(home_for(None, &deep), deep.join(".epsilab"));
        }
        std::fs::write(root.path().join("project/Cargo.toml"), "").unwrap();
        assert_eq!(home_for(None, &deep), root.path().join("project/.epsilab"));
        assert_eq!(home_for(Some("".into()), &deep), root.path().join("project/.epsilab"));
    }
}
