//! Exercises with checked answers.

use std::fmt;

/// Relative tolerance of an answer: readers round, and compute with rounded values.
const TOLERANCE: f64 = 0.03;

/// The result of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    answer: f64,
    right: bool,
    hint: String,
}

/// Compares an answer to an exercise with the right one, within 3 %. NaN stands for "not answered
/// yet". A wrong or missing answer is no error: it gets the hint.
pub fn check(answer: f64, right: f64, hint: &str) -> Checked {
    let off = (answer - right).abs();
    Checked { answer, right: off <= TOLERANCE * right.abs(), hint: hint.to_owned() }
}

impl Checked {
    /// Returns whether the answer was right.
    pub fn is_right(&self) -> bool {
        self.right
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.right, self.answer.is_nan()) {
            (true, _) => write!(f, "Right: {}.", self.answer),
            (false, true) => write!(f, "Not answered yet. A hint: {}", self.hint),
            (false, false) => write!(f, "{} is not it. A hint: {}", self.answer, self.hint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_near_the_solution_are_right_and_others_have_the_hint() {
        assert!(check(16.0, 16.0, "").is_right() && check(16.3, 16.0, "").is_right());
        // A percentage of two epsilons as a table rounds them.
        assert!(check(8.79, 9.01, "").is_right() && !check(8.7, 9.01, "").is_right());
        let wrong = check(4.0, 16.0, "think of squares");
        assert_eq!(wrong.to_string(), "4 is not it. A hint: think of squares");
        let open = check(f64::NAN, 16.0, "think of squares");
        assert!(!open.is_right());
        assert_eq!(open.to_string(), "Not answered yet. A hint: think of squares");
    }
}
