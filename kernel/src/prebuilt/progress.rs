//! Progress of a build as shown to the user.

use std::io::{IsTerminal, Write};

/// Step of progress.
pub enum BuildProgress<'a> {
    /// Line that stays.
    Line(&'a str),
    /// Progress bar in the last line, which the next one replaces.
    Bar(&'a str),
}

/// Receiver of the progress.
pub type Progress<'a> = &'a mut dyn FnMut(BuildProgress<'_>);

/// Returns a receiver that prints to standard error; bars only if that is a terminal.
pub fn terminal_progress() -> impl FnMut(BuildProgress<'_>) {
    let is_terminal = std::io::stderr().is_terminal();
    let mut width = 0;
    move |step| {
        match step {
            BuildProgress::Line(line) => {
                eprintln!("{}{line}", if width > 0 { "\n" } else { "" });
                width = 0;
            }
            BuildProgress::Bar(bar) if is_terminal => {
                eprint!("\r{bar:<width$}");
                width = bar.chars().count();
            }
            BuildProgress::Bar(_) => {}
        }
        // The build continues if progress can't be printed.
        let _ = std::io::stderr().flush();
    }
}

/// Formats the bar after `seconds` of a build that is expected to take `estimate` seconds.
pub fn format_bar(seconds: f64, estimate: f64) -> String {
    const WIDTH: usize = 24;
    let full = (seconds / estimate * WIDTH as f64).clamp(0.0, WIDTH as f64) as usize;
    let left = match estimate - seconds {
        left if left >= 1.0 => format!("about {left:.0} s left"),
        _ => format!("longer than expected ({estimate:.0} s)"),
    };
    format!("[{}{}] {seconds:.0} s, {left}", "#".repeat(full), ".".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_bar_shows_the_estimate_and_when_it_is_exceeded() {
        assert_eq!(format_bar(0.0, 60.0), "[........................] 0 s, about 60 s left");
        assert_eq!(format_bar(30.0, 60.0), "[############............] 30 s, about 30 s left");
        let late = "[########################] 90 s, longer than expected (60 s)";
        assert_eq!(format_bar(90.0, 60.0), late);
    }
}
