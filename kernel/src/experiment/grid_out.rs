//! Writes the results to files.

use std::path::Path;

use epsilab::grid::{self, GridResult};
use epsilab::{Result, file};

/// Writes `grid.json`, `grid.csv` and, per data set, model, method and epsilon, the figures as SVG
/// and PNG.
///
/// # Errors
/// Kind `Io` for the first file that can't be written.
pub fn write(folder: &Path, json: &str, results: &[GridResult]) -> Result<()> {
    let write = |name: &str, bytes: &[u8]| file::write(folder.join(name), bytes);
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
    file::write(folder.join("grid.md"), grid::markdown(results))?;
    eprintln!("wrote {}", folder.display());
    Ok(())
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
    }
}
