//! The results as files.

use std::path::Path;

use epsilab::grid::{self, GridResult};
use epsilab::{Error, Result};

/// Makes the folder and sees whether it takes files: better now than after hours of training.
///
/// # Errors
/// Kind `Io` if not.
pub fn can_write(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::io(format!("making the folder {}", folder.display()), &e))?;
    tempfile::tempfile_in(folder).map(|_| ()).map_err(|e| {
        Error::io(format!("writing to {}", folder.display()), &e)
            .fix("name a folder of yours with `--out DIR`")
    })
}

/// Writes `grid.json`, `grid.csv`, `grid.md` and, per data set, model, method and epsilon, the
/// figures as SVG and PNG.
///
/// # Errors
/// Kind `Io` for the first file that can't be written.
pub fn write(folder: &Path, json: &str, results: &[GridResult]) -> Result<()> {
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes)
            .map_err(|e| Error::io(format!("writing {}", path.display()), &e))
    };
    write("grid.json", format!("{json}\n").as_bytes())?;
    write("grid.csv", grid::csv(results)?.as_bytes())?;
    write("grid.md", grid::markdown(results).as_bytes())?;
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
    eprintln!("wrote {}", folder.display());
    Ok(())
}

/// Letters, digits, dots, dashes and underscores; everything else becomes an underscore.
fn file_name(text: &str) -> String {
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
        assert!(can_write(&folder.path().join("file")).is_err());
    }
}
