//! What a build tells the user while it works.

use std::io::{IsTerminal, Write};

/// A piece of progress.
pub enum Step<'a> {
    /// A line of its own.
    Line(&'a str),
    /// The last line, which the next bar replaces.
    Bar(&'a str),
}

/// Who hears of the progress.
pub type Progress<'a> = &'a mut dyn FnMut(Step<'_>);

/// Prints to standard error. Bars are for terminals only.
pub fn to_terminal() -> impl FnMut(Step<'_>) {
    let is_terminal = std::io::stderr().is_terminal();
    let mut width = 0;
    move |step| {
        match step {
            Step::Line(line) => {
                eprintln!("{}{line}", if width > 0 { "\n" } else { "" });
                width = 0;
            }
            Step::Bar(bar) if is_terminal => {
                eprint!("\r{bar:<width$}");
                width = bar.chars().count();
            }
            Step::Bar(_) => {}
        }
        // The build goes on if progress can't be printed.
        let _ = std::io::stderr().flush();
    }
}

/// The bar after so many seconds of a build that is expected to take `estimate` seconds.
pub fn bar(seconds: f64, estimate: f64) -> String {
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
    fn a_bar_says_how_long_it_takes_and_when_it_takes_longer() {
        assert_eq!(bar(0.0, 60.0), "[........................] 0 s, about 60 s left");
        assert_eq!(bar(30.0, 60.0), "[############............] 30 s, about 30 s left");
        let late = "[########################] 90 s, longer than expected (60 s)";
        assert_eq!(bar(90.0, 60.0), late);
    }
}
