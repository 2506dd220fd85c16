//! Exercises of the notebooks, with the right answers and hints. They live here so that a cell
//! does not show the answer that its reader is looking for.

use super::{Checked, check};
use crate::privacy::{
    self, Delta, Epsilon, Event, NoiseMultiplier, Rdp, SamplingRate, TightestAccountant,
};
use crate::{Error, ErrorKind, Result};

/// Exercise: notebook and number (`"02.1"`), the right answer, which is computed on demand, and
/// the hint for wrong answers.
type Exercise = (&'static str, fn() -> Result<f64>, &'static str);

const EXERCISES: [Exercise; 21] = [
    (
        "01.1",
        || Ok(1.5 * 0.1 / 500.0),
        "the noise of the sum has standard deviation noise multiplier x clip norm; the sum \
               is then divided by the expected batch size",
    ),
    (
        "01.2",
        || Ok(noise_multiplier(2_048)? / noise_multiplier(1_024)? / 2.0),
        "divide each noise multiplier by its batch size, then the second by the first",
    ),
    (
        "02.1",
        || Ok(privacy::epsilon(&[Event::gaussian(2.0)], Delta(1e-10))?.epsilon),
        "follow the curve to its left end: epsilon grows when delta shrinks",
    ),
    ("02.2", || Ok(16.0), "how many is it for multiplier 4? Solve 8 / sqrt(k) = 2"),
    (
        "02.3",
        || {
            let rdp = Rdp::default().epsilon(&[training()], DELTA)?.epsilon;
            Ok(100.0 * (rdp / privacy::epsilon(&[training()], DELTA)?.epsilon - 1.0))
        },
        "the table above has both: 100 (rdp / headline - 1)",
    ),
    (
        "02.4",
        || {
            let (epsilon, noise) = (Epsilon(2.382), NoiseMultiplier(2.2));
            let by = TightestAccountant::default();
            Ok(privacy::steps_for(epsilon, DELTA, SamplingRate(RATE), noise, &by)?.epochs)
        },
        "noise counts at least squared, so begin above 4 * 60 epochs. Ask \
               privacy::steps_for, or go up in steps of 60 epochs until epsilon passes 2.38, \
               then back in smaller ones",
    ),
    (
        "02.5",
        || Ok(100.0 * privacy::attack_bounds(&[training()], DELTA)?.max_attack_accuracy()),
        "the sentences under \"A whole training run\" have it",
    ),
    ("03.1", || Ok(1.0 / 3.0), "both keep 0.25 of all weights; how many does at least one keep?"),
    (
        "03.2",
        || Ok(4.0 * 25_920f64.sqrt()),
        "take the square root of 25,920, about 161, times sigma",
    ),
    (
        "04.1",
        || Ok(0.1f64.sqrt()),
        "the norm grows with the square root of the number of coordinates",
    ),
    (
        "05.1",
        || Ok(10.0 / (0.5 * (63.0 + 10.0) / 64.0)),
        "the noise is sigma times the mean norm, (63 + 10) / 64",
    ),
    (
        "06.1",
        || Ok(0.01 * 10f64.sqrt()),
        "the input with the 1 for the bias has norm sqrt(3^2 + 1) at most",
    ),
    (
        "07.1",
        || Ok((0.6f64 / 0.01).ln()),
        "at delta 0, the canary is caught at most e^epsilon times as often as a false alarm \
               is raised",
    ),
    (
        "07.2",
        || {
            let bound = 0.05f64.powf(1.0 / 10_000.0);
            Ok((bound / (1.0 - bound)).ln())
        },
        "the rate of false alarms is at most 0.0003, that of canaries caught at least \
               0.9997; as in exercise 1",
    ),
    (
        "08.1",
        || Ok(0.8 * 1024.0 / 256.0),
        "the sum is divided by the batch size, and so is its noise",
    ),
    (
        "09.1",
        || Ok(32.0 * 10.0 + 10.0),
        "a weight for each input and output, and a bias for each output",
    ),
    ("10.1", || Ok(2.0 * (2.0 * 1.5f64).powi(2)), "solve 2 x 1.5 x sqrt(2 / n) = 1 for n"),
    ("11.1", || Ok(0.5), "maximise factor x norm, which is n / (1 + n^2), over all norms n"),
    ("11.2", || Ok(2.0 * 32.0), "two vectors of norm C are at most 2 C apart; the noise is C / 32"),
    ("12.1", || Ok((96.0f64 / 7.0).ceil()), "the last task may have fewer runs than the others"),
    ("12.2", || Ok(9.0 + 3.0), "only the runs that no worker has begun are closed with 0 steps"),
];

const DELTA: Delta = Delta(1e-5);
const RATE: f64 = 256.0 / 60_000.0;

/// Returns the training run of notebook 02: 60 epochs over 60,000 examples.
fn training() -> Event {
    Event::poisson(RATE, 1.1, 14_062)
}

/// Returns the noise multiplier of exercise 01.2: epsilon 3 and 8 epochs over 60,000 examples.
fn noise_multiplier(batch_size: u64) -> Result<f64> {
    let (rate, steps) = (batch_size as f64 / 60_000.0, 8 * 60_000 / batch_size);
    let accountant = TightestAccountant::default();
    let found =
        privacy::noise_multiplier_for(Epsilon(3.0), DELTA, SamplingRate(rate), steps, &accountant)?;
    Ok(found.noise_multiplier.0)
}

/// Returns the names that [`exercise`] takes.
#[doc(hidden)]
pub fn exercise_names() -> impl Iterator<Item = &'static str> {
    EXERCISES.iter().map(|(name, ..)| *name)
}

/// Compares an answer with the right one of a notebook's exercise, within 3 %. The exercise is
/// named by its notebook and number (`"02.1"`); NaN stands for "not answered yet". For exercises
/// of your own there is [`check`].
///
/// # Errors
/// `Setting` if no exercise has this name; as computing the right answer.
pub fn exercise(name: &str, answer: f64) -> Result<Checked> {
    let Some((_, right, hint)) = EXERCISES.iter().find(|(known, ..)| *known == name) else {
        let names: Vec<&str> = exercise_names().collect();
        let what = format!("exercise {name:?}");
        return Err(Error::new(ErrorKind::Setting, what, "unknown exercise")
            .fix(format!("the exercises are {}", names.join(", "))));
    };
    Ok(check(answer, right()?, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_answers_pass_and_others_have_the_hint() {
        let answers = [
            ("01.1", 0.0003),
            ("01.2", 0.604),
            ("02.1", 3.02),
            ("02.2", 16.0),
            ("02.3", 9.01),
            ("02.4", 349.0),
            ("02.5", 61.2),
            ("03.1", 0.333),
            ("03.2", 644.0),
            ("04.1", 0.316),
            ("05.1", 17.53),
            ("06.1", 0.0316),
            ("07.1", 4.09),
            ("07.2", 8.11),
            ("08.1", 3.2),
            ("09.1", 330.0),
            ("10.1", 18.0),
            ("11.1", 0.5),
            ("11.2", 64.0),
            ("12.1", 14.0),
            ("12.2", 12.0),
        ];
        assert_eq!(answers.map(|(name, _)| name), EXERCISES.map(|(name, ..)| name));
        for (name, answer) in answers {
            let right = exercise(name, answer).unwrap();
            assert!(right.is_right(), "{name}: {right}");
            let wrong = exercise(name, 0.9 * answer).unwrap();
            assert!(!wrong.is_right() && wrong.to_string().contains("A hint"), "{name}: {wrong}");
        }
    }

    #[test]
    fn an_unknown_exercise_is_refused_with_the_names_there_are() {
        let error = exercise("99.1", 1.0).unwrap_err().to_string();
        assert!(error.contains("99.1") && error.contains("02.1"), "{error}");
    }
}
