//! Writes the results to files.

use std::path::Path;

use epsilab::grid::{self, GridResult};
use epsilab::{Error, Result};

/// Creates the folder and checks that files can be written, before hours of training.
///
/// # Errors
/// Kind `Io` if they can't.
pub fn can_write(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|e| failed(format!("making the folder {}", folder.display()), &e))?;
    tempfile::tempfile_in(folder)
        .map(|_| ())
        .map_err(|e| failed(format!("writing to {}", folder.display()), &e))
}

/// Writes `grid.json`, `grid.csv` and, per data set, model, method and epsilon, the figures as SVG
/// and PNG.
///
/// # Errors
/// Kind `Io` for the first file that can't be written.
pub fn write(folder: &Path, json: &str, results: &[GridResult]) -> Result<()> {
    let write = |name: &str, bytes: &[u8]| save(folder, name, bytes);
    write("grid.json", format!("{json}\n").as_bytes())?;
    write("grid.csv", grid::csv(results)?.as_bytes())?;
    for result in results {
        for (figure, bundle) in result.figures() {
            let stem = file_name(&format!("{figure}_{}_{}", result.data(), result.model()));
            if let Some(svg) = &bundle.svg {
                write(&format!("{stem}.svg"), svg.as_bytes())?;
            }
            if let Some(png) = &bundle.png {
                write(&format!("{stem}.png"), png)?;
            }
        }
    }
    Ok(())
}

/// Writes `grid.md`, whose notes give the total privacy cost of the runs.
///
/// # Errors
/// Kind `Io` if it can't be written.
pub fn write_notes(folder: &Path, results: &[GridResult]) -> Result<()> {
    save(folder, "grid.md", grid::markdown(results).as_bytes())?;
    eprintln!("wrote {}", folder.display());
    Ok(())
}

/// Writes a file in the folder.
///
/// # Errors
/// Kind `Io` if it can't be written.
pub fn save(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).map_err(|e| failed(format!("writing {}", path.display()), &e))
}

fn failed(doing: String, error: &std::io::Error) -> Error {
    Error::io(doing, error).fix("name a folder of yours with `--out DIR`; it needs room for files")
}

/// Replaces all characters but letters, digits, dots, dashes and underscores by underscores.
pub fn file_name(text: &str) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    text.chars().map(|c| if fine(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_leave_no_folder() {
        assert_eq!(
            file_name("heat_map_eps_3_Fashion-MNIST, 1/2_../x"),
            "heat_map_eps_3_Fashion-MNIST__1_2_.._x"
        );
        let folder = tempfile::tempdir().unwrap();
        can_write(&folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let refused = can_write(&folder.path().join("file")).unwrap_err();
        assert!(refused.advice().contains("--out"), "{refused}");
    }
}
