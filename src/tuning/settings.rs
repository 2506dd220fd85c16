//! Settings of a tuning: the values that it tries.

use crate::data::Dataset;
use crate::methods::Method;
use crate::{Error, ErrorKind, Result};

/// Tuning of learning rate and clip norm of a private method, in the four steps of Kurakin et al.
/// (2022, "Toward training at ImageNet scale with differential privacy", section 3.3):
///
/// 1. Without clipping and noise, find the best learning rate.
/// 2. At that rate and without noise, find the smallest clip norm that is harmless.
/// 3. With that clip norm and the noise of the plan, find the best learning rate again.
/// 4. Try pairs in the vicinity. Where the clip norm is small, their product decides.
///
/// Each step is an [`Experiment`](crate::grid::Experiment), whose runs have as many steps and as
/// large batches as the private plan. Runs are stored, so a tuning that was stopped resumes from
/// there.
///
/// ```no_run
/// use epsilab::prelude::*;
/// # fn main() -> epsilab::Result<()> {
/// let data = data::mnist()?;
/// let method = DpSgd::new().target(Epsilon(1.0), Delta(1e-5)).batch_size(2048).epochs(6.0);
/// let tuned = Tuning::new(method)
///     .public(&data::drawn_digits(60_000, 5_000, 2)?)
///     .run(|data| models::papernot_cnn(data).seed(7).build(), &data)?;
/// println!("{tuned}");
/// let model = models::papernot_cnn(&data).seed(7).build()?;
/// let run = tuned.method().train(&model, &data)?;
/// # Ok(()) }
/// ```
///
/// # Guarantee
/// With [public data](Self::public), all steps look at these alone: the tuning costs the private
/// data nothing, if the public data are public. Without them, steps 1 and 2 train on the private
/// data without noise, so no epsilon covers what was chosen, and the badge says so. Steps 3 and 4
/// are charged to the ledger, run by run.
#[derive(Clone, Debug)]
pub struct Tuning<M> {
    pub(super) method: M,
    pub(super) public: Option<Dataset>,
    pub(super) learning_rates: Vec<f64>,
    pub(super) clips: Vec<f64>,
    pub(super) factors: Vec<f64>,
    pub(super) around: Vec<f64>,
    pub(super) tolerance: f64,
    pub(super) jobs: usize,
}

impl<M: Method + Clone> Tuning<M> {
    /// Creates the tuning of this method, whose other settings stay as they are.
    pub fn new(method: M) -> Self {
        Self {
            method,
            public: None,
            learning_rates: vec![0.01, 0.03, 0.1, 0.3, 1.0],
            clips: vec![0.03, 0.1, 0.3, 1.0, 3.0, 10.0],
            factors: vec![0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0],
            around: vec![1.0 / 3.0, 1.0, 3.0],
            tolerance: 0.01,
            jobs: 1,
        }
    }

    /// Tunes on these data, which must be public, instead of the private ones. They need as many
    /// training examples as a batch has, and a test part. They may be drawn by code, from another
    /// source, or a part of the data whose owners have made it public and that is stored apart.
    pub fn public(self, data: &Dataset) -> Self {
        Self { public: Some(data.clone()), ..self }
    }

    /// Sets the learning rates of step 1, for the mean gradient without clipping; 0.01 to 1 by
    /// default.
    pub fn learning_rates(self, rates: impl IntoIterator<Item = f64>) -> Self {
        Self { learning_rates: rates.into_iter().collect(), ..self }
    }

    /// Sets the clip norms that step 2 tries; 0.03 to 10 by default.
    pub fn clips(self, clips: impl IntoIterator<Item = f64>) -> Self {
        Self { clips: clips.into_iter().collect(), ..self }
    }

    /// Sets the factors of step 3 on the rate of step 1; 0.1 to 10 by default.
    pub fn factors(self, factors: impl IntoIterator<Item = f64>) -> Self {
        Self { factors: factors.into_iter().collect(), ..self }
    }

    /// Sets the factors of step 4 on rate and clip norm; 1/3, 1 and 3 by default. `[1.0]` leaves
    /// the step out.
    pub fn around(self, factors: impl IntoIterator<Item = f64>) -> Self {
        Self { around: factors.into_iter().collect(), ..self }
    }

    /// Sets how much lower than without clipping the accuracy of a harmless clip norm may be:
    /// 0.01, one percentage point, by default.
    pub fn tolerance(self, accuracy: f64) -> Self {
        Self { tolerance: accuracy, ..self }
    }

    /// Trains up to this many runs of a step at once, as [`Experiment::jobs`]; one after the other
    /// by default.
    ///
    /// [`Experiment::jobs`]: crate::grid::Experiment::jobs
    pub fn jobs(self, jobs: usize) -> Self {
        Self { jobs, ..self }
    }

    /// Checks the values to try.
    ///
    /// # Errors
    /// `Setting` for an empty list, a value that is not positive or given twice, a tolerance
    /// outside [0, 1], and for a method without noise or with another kind of clipping.
    pub(super) fn check(&self) -> Result<()> {
        for (name, values) in [
            ("learning_rates", &self.learning_rates),
            ("clips", &self.clips),
            ("factors", &self.factors),
            ("around", &self.around),
        ] {
            positive_and_distinct(name, values)?;
        }
        if !(0.0..=1.0).contains(&self.tolerance) {
            let why = "the tolerance is a difference of accuracies and must be between 0 and 1";
            return Err(Error::setting("tolerance", self.tolerance, why).fix("use 0.01"));
        }
        let descriptor = self.method.descriptor();
        if !descriptor.adds_noise || !descriptor.takes_clip {
            let what = format!("tuning the clip norm of {}", descriptor.title);
            let why = "the method does not clip gradients to one norm and add noise";
            return Err(Error::new(ErrorKind::Setting, what, why).fix(
                "tune DpSgd or DpSsgd; for other private methods, PrivateSelection chooses the \
                 learning rate",
            ));
        }
        Ok(())
    }
}

fn positive_and_distinct(name: &str, values: &[f64]) -> Result<()> {
    if values.is_empty() {
        let why = "there are no values to try";
        return Err(Error::setting(name, "[]", why).fix("give at least one value"));
    }
    for (i, value) in values.iter().enumerate() {
        if !(value.is_finite() && *value > 0.0) {
            return Err(Error::setting(name, value, "must be a positive number")
                .fix("try values that differ by factors of 2 or 3"));
        }
        if values[..i].contains(value) {
            return Err(Error::setting(name, value, "the pair is given twice").fix("give it once"));
        }
    }
    Ok(())
}
