//! Scaling batch size and noise together.

use super::Plan;
use crate::methods::Scaled;
use crate::methods::settings::step_count;
use crate::privacy::digits::{RoundedNearest, RoundedUp, format_count, pluralise};
use crate::{Error, ErrorKind, Result};

impl Plan {
    /// Returns the plan with `k` times the batch size, the noise multiplier and the epochs
    /// (Kurakin et al., 2022, section 3.4, Table 5 and Figure 2).
    ///
    /// Number of steps, learning rate, schedules and clip norm stay as they are, and so does the
    /// signal-to-noise ratio of a step: k times as many examples have k times the noise, and their
    /// sum is divided by a k times larger batch size. Epsilon falls, towards that of all examples
    /// in every step. A run computes k times as many per-example gradients. The batch size is
    /// rounded to a whole number, and the others are multiplied by the same factor. A target
    /// epsilon is given up, because the noise is decided. The noise on the counts of
    /// [`QuantileDpSgd`](crate::methods::QuantileDpSgd) is multiplied too, and a mask by
    /// [`DpSnip`](crate::mask::DpSnip) costs what it did.
    ///
    /// ```
    /// use epsilab::data::Population;
    /// use epsilab::methods::recipes;
    /// # fn main() -> epsilab::Result<()> {
    /// let small = recipes::imagenet_from_scratch().plan()?;
    /// let large = small.scale(16)?;
    /// println!("{large}"); // what was changed, and epsilon before and after
    /// assert_eq!(large.plan().expected_batch_size(), 16_384);
    /// assert_eq!(large.plan().steps(), small.steps());
    /// # Ok(()) }
    /// ```
    ///
    /// # Guarantee
    /// That of the method with the new settings. The event is made from the scaled plan, with its
    /// own sampling rate and noise multiplier.
    ///
    /// # Errors
    /// `Setting` if `k` is not a positive number, if the batch would be empty or larger than the
    /// data, and for a schedule that counts epochs: an epoch has 1/k as many steps in the scaled
    /// plan, so the schedule would be another one.
    pub fn scale(&self, k: impl Into<f64>) -> Result<Scaled<Self>> {
        let scaled = self.scaled_by(k.into())?;
        let same = scaled.expected_batch_size() == self.expected_batch_size();
        let changes = if same { Vec::new() } else { self.describe_changes(&scaled) };
        Ok(Scaled { scaled, changes })
    }

    /// Returns the scaled plan alone.
    ///
    /// # Errors
    /// As [`scale`](Self::scale).
    pub(crate) fn scaled_by(&self, k: f64) -> Result<Self> {
        self.check_no_epoch_schedules()?;
        let before = self.expected_batch_size() as f64;
        let batch = (k * before).round();
        if !(k.is_finite() && batch >= 1.0) {
            let why = format!(
                "the factor on the batch size {before} must be positive and give a valid batch size"
            );
            return Err(Error::setting("k", k, why).fix("use a positive number such as 4"));
        }
        if let Some(selection) = &self.selection {
            let scaled = selection.candidates().iter().map(|candidate| candidate.scaled_by(k));
            return Self::best_of(selection.trials(), scaled.collect::<Result<_>>()?);
        }
        let mut plan = self.clone();
        if batch == before {
            return Ok(plan);
        }
        // Exactly the factor of the batch, so that noise over batch size is the same.
        let k = batch / before;
        let settings = &mut plan.settings;
        settings.expected_batch_size = batch as usize;
        settings.epochs *= k;
        if step_count(settings, self.examples)? != self.steps {
            settings.steps = Some(self.steps);
        }
        if let Some(privacy) = &mut plan.privacy {
            privacy.noise_multiplier *= k;
            privacy.target = None;
            if let Some(quantile) = &mut privacy.quantile {
                quantile.count_noise *= k;
            }
        }
        plan.check()?;
        plan.stages()?;
        Ok(plan)
    }

    fn check_no_epoch_schedules(&self) -> Result<()> {
        let rate = &self.settings.learning_rate_schedule;
        let of_privacy = self.privacy.iter().flat_map(|privacy| {
            let (noise, clip) = (&privacy.noise_schedule, &privacy.clip_schedule);
            [
                (noise.is_epoch_based(), "noise_schedule", noise.to_string()),
                (clip.is_epoch_based(), "clip_schedule", clip.to_string()),
            ]
        });
        let of_rate = (rate.is_epoch_based(), "learning_rate_schedule", rate.to_string());
        let mut schedules = of_privacy.chain([of_rate]);
        let Some((_, name, schedule)) = schedules.find(|(is_epoch_based, ..)| *is_epoch_based)
        else {
            return Ok(());
        };
        let why = "the schedule counts epochs, and with batches k times as large an epoch has 1/k \
                   as many steps, so the schedule would change";
        Err(Error::new(ErrorKind::Setting, format!("scaling {name} = {schedule}"), why)
            .fix("use a schedule over the run, such as cosine or decay:0.5, or make a new plan"))
    }

    /// Describes the changes that another plan makes.
    fn describe_changes(&self, scaled: &Self) -> Vec<String> {
        let batches = [scaled, self].map(|plan| format_count(plan.expected_batch_size()));
        let k =
            RoundedNearest(scaled.expected_batch_size() as f64 / self.expected_batch_size() as f64);
        let mut changes = vec![format!("batch size {} instead of {}", batches[0], batches[1])];
        if let (Some(now), Some(before)) = (&scaled.privacy, &self.privacy) {
            let [now, before] =
                [now, before].map(|privacy| RoundedNearest(privacy.noise_multiplier));
            changes.push(format!(
                "noise multiplier {now} instead of {before}: the same noise in the mean gradient"
            ));
        }
        let epochs = [scaled, self].map(|plan| match plan.settings.steps {
            None => RoundedNearest(plan.settings.epochs),
            Some(_) => RoundedNearest(plan.epochs()),
        });
        changes.push(format!(
            "{} epochs instead of {} in the same {}: {k} times as many per-example gradients",
            epochs[0],
            epochs[1],
            pluralise(self.steps, "step"),
        ));
        // A plan without a finite epsilon can be scaled as well.
        let epsilon = |plan: &Self| plan.epsilon_after(plan.steps).ok().flatten();
        if let (Some(now), Some(before), Some(privacy)) =
            (epsilon(scaled), epsilon(self), &self.privacy)
        {
            let (now, before, delta) = (RoundedUp(now), RoundedUp(before), privacy.delta);
            changes.push(format!("epsilon {now} instead of {before} at delta {delta}"));
        }
        changes.push(format!("learning rate {} as before", self.learning_rate));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Population;
    use crate::mask::DpSnip;
    use crate::methods::{AdaptiveDpSgd, DpSgd, DpSsgd, NonPrivate, QuantileDpSgd, methods};
    use crate::optim::LearningRate;
    use crate::privacy::{
        ClipSchedule, Delta, Epsilon, Event, NeighbouringRelation, NoiseSchedule, Rdp,
    };

    fn population() -> Population {
        Population::with_size(60_000)
    }

    fn private() -> DpSgd {
        DpSgd::new().noise_multiplier(0.5).batch_size(256).epochs(3.0)
    }

    #[test]
    fn scaling_keeps_steps_and_noise_over_batch_and_lowers_epsilon() -> Result<()> {
        let plan = private().plan_for(&population())?;
        let mut last = f64::INFINITY;
        for k in [0.5, 1.0, 1.7, 2.0, 16.0, 200.0] {
            let scaled = plan.scale(k)?.plan();
            assert_eq!(scaled.steps(), plan.steps());
            assert_eq!(scaled.learning_rate(), plan.learning_rate());
            assert!((scaled.epochs() / plan.epochs() / k - 1.0).abs() < 0.01);
            let noise = |plan: &Plan| {
                plan.privacy().unwrap().noise_multiplier / plan.expected_batch_size() as f64
            };
            assert!((noise(&scaled) / noise(&plan) - 1.0).abs() < 1e-12, "{k}");
            let epsilon = scaled.epsilon_after(scaled.steps())?.unwrap();
            assert!(epsilon < last, "{epsilon} at {k}, {last} before");
            last = epsilon;
            let event = Event::PoissonGaussian {
                sampling_rate: (256.0 * k).round() / 60_000.0,
                noise_multiplier: 0.5 * (256.0 * k).round() / 256.0,
                steps: plan.steps(),
            };
            let cost = |event: Event| Rdp::default().epsilon(&[event], Delta(1e-5));
            let (ours, theirs) = (cost(scaled.event())?.epsilon, cost(event)?.epsilon);
            assert!((ours / theirs - 1.0).abs() < 1e-9, "{ours} for {theirs}");
        }
        Ok(())
    }

    #[test]
    fn the_description_of_a_scaled_plan_lists_its_changes() -> Result<()> {
        let plan = private().target_of_three().plan_for(&population())?;
        let scaled = plan.scale(4)?;
        let text = scaled.to_string();
        for words in [
            "batch size 1,024 instead of 256",
            "12 epochs instead of 3 in the same 704 steps: 4 times as many per-example gradients",
            "instead of 3 at delta 1e-5",
            "learning rate 0.4 as before",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!(scaled.plan().privacy().unwrap().target, None);
        let same = plan.scale(1.001)?;
        assert!(same.changes().is_empty() && same.plan() == plan);
        let plain = NonPrivate::new().batch_size(100).epochs(2.0).plan_for(&population())?;
        let text = plain.scale(3)?.to_string();
        assert!(text.contains("batch size 300") && !text.contains("epsilon"), "{text}");
        Ok(())
    }

    #[test]
    fn every_method_is_scaled_and_every_release_of_a_step_with_it() -> Result<()> {
        for mut method in methods() {
            let settings = method.settings_mut();
            settings.expected_batch_size = 600;
            settings.epochs = 2.0;
            settings.learning_rate_schedule = LearningRate::Constant;
            if let Some(private) = method.privacy_settings_mut() {
                private.set_noise_multiplier(1.5);
                private.noise_schedule = NoiseSchedule::constant();
                private.clip_schedule = ClipSchedule::constant();
            }
            if method.descriptor().name == "soft-clip" {
                continue; // has a schedule of epochs
            }
            let plan = method.plan_for(&population())?;
            let scaled = plan.scale(10)?.plan();
            assert_eq!((scaled.steps(), scaled.expected_batch_size()), (200, 6_000));
            assert_eq!(scaled.has_guarantee(), plan.has_guarantee(), "{method:?}");
        }
        let plan = QuantileDpSgd::new().noise_multiplier(1.0).count_noise(9.0).batch_size(256);
        let plan = plan.plan_for(&population())?;
        let of_sum = |plan: &Plan| {
            let privacy = plan.privacy().unwrap();
            privacy.quantile.unwrap().sum_noise_multiplier(privacy.noise_multiplier).unwrap()
        };
        let scaled = plan.scale(8)?.plan();
        assert!((of_sum(&scaled) / of_sum(&plan) - 8.0).abs() < 1e-12);
        assert_eq!(scaled.privacy().unwrap().quantile.unwrap().count_noise, 72.0);
        // A mask is a release of its own, about all examples.
        let plan = DpSsgd::new().target(Epsilon(3.0), Delta(1e-5)).pre_prune(DpSnip::prune(0.5));
        let plan = plan.plan_for(&population())?;
        let mask = |plan: &Plan| plan.releases_by_role_after(plan.steps()).mask;
        assert_eq!(mask(&plan.scale(4)?.plan()), mask(&plan));
        // Without sampling, an epoch is a release and there are k times as many.
        let plan =
            private().disjoint_batches(NeighbouringRelation::ZeroOutOne).plan_for(&population())?;
        // 705 steps in epochs of 59.
        assert!(plan.scale(4)?.to_string().contains("11.95 epochs instead of 3"));
        Ok(())
    }

    #[test]
    fn impossible_factors_and_schedules_of_epochs_are_refused() -> Result<()> {
        let plan = private().plan_for(&population())?;
        for k in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-3, 1e300] {
            let error = plan.scale(k).unwrap_err();
            assert!(error.kind() == ErrorKind::Setting && !error.advice().is_empty(), "{error}");
        }
        let error = plan.scale(235).unwrap_err();
        assert!(error.to_string().contains("batch_size = 60160"), "{error}");
        let schedules: [DpSgd; 3] = [
            private().noise_schedule(NoiseSchedule::linear(0.9)),
            private().clip_schedule(ClipSchedule::step(0.9, 2)),
            private().learning_rate_schedule(LearningRate::Step { every: 1.0, gamma: 0.1 }),
        ];
        for method in schedules {
            let error = method.plan_for(&population())?.scale(2).unwrap_err();
            assert!(error.to_string().contains("counts epochs"), "{error}");
        }
        let adaptive = AdaptiveDpSgd::new().noise_multiplier(1.0).plan_for(&population())?;
        assert!(adaptive.scale(2).is_err());
        let over_the_run = private()
            .noise_schedule(NoiseSchedule::decay(0.5))
            .learning_rate_schedule(LearningRate::Cosine { end_factor: 0.0 });
        let plan = over_the_run.plan_for(&population())?;
        let (stages, scaled) = (plan.stages()?.unwrap(), plan.scale(2)?.plan().stages()?.unwrap());
        for step in [0, 100, 703] {
            let ratio = scaled.at(step).noise_multiplier / stages.at(step).noise_multiplier;
            assert!((ratio - 2.0).abs() < 1e-9);
        }
        Ok(())
    }

    impl DpSgd {
        /// Returns the same with a target of epsilon 3 in place of the noise multiplier.
        fn target_of_three(mut self) -> Self {
            self.private.noise_multiplier = None;
            self.target(Epsilon(3.0), Delta(1e-5))
        }
    }
}
