//! Results of a tuning.

use std::fmt;

use crate::methods::{Method, PrivateSelection};
use crate::privacy::{Badge, Trials};
use crate::show::{Coverage, Figure, MimeBundle, Table, format};
use crate::{Error, ErrorKind, Result};

/// One run of a tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Learning rate.
    pub learning_rate: f64,
    /// Clip norm; `None` without clipping.
    pub clip: Option<f64>,
    /// Accuracy on the test part, in [0, 1]; `None` if training diverged.
    pub accuracy: Option<f64>,
}

/// One step of the procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct TuningStep {
    /// Description of what was searched.
    pub title: String,
    /// The runs, in the order in which they were made.
    pub trials: Vec<Trial>,
    /// Description of what was chosen.
    pub choice: String,
    /// Cost of the runs to the private data, in words.
    pub cost: String,
}

/// The result of a [`Tuning`](super::Tuning): the settings that were found, and how.
///
/// ```no_run
/// # use epsilab::prelude::*;
/// # fn tune(data: &Dataset, public: &Dataset) -> Result<()> {
/// let method = DpSgd::new().target(Epsilon(1.0), Delta(1e-5)).batch_size(2048).epochs(6);
/// let build = |data: &Dataset| models::papernot_cnn(data).seed(7).build();
/// let tuned = Tuning::new(method).public(public).run(build, data)?;
/// println!("learning rate {}, clip norm {}", tuned.learning_rate(), tuned.clip());
/// let run = tuned.method().train(&build(data)?, data)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TuningResult<M> {
    pub(super) method: M,
    pub(super) learning_rate: f64,
    pub(super) clip: f64,
    pub(super) steps: Vec<TuningStep>,
    pub(super) warnings: Vec<String>,
    pub(super) badge: Badge,
    pub(super) heat_map_figure: Option<Figure>,
    pub(super) data: String,
}

impl<M: Method + Clone + 'static> TuningResult<M> {
    /// Returns the method with the learning rate and the clip norm that were found.
    ///
    /// # Guarantee
    /// The statement of a run says that the choice of settings by looking at other runs is not
    /// covered. It does not repeat the [badge](Self::badge) of this tuning: without public data no
    /// epsilon covers what was learned about the data here.
    pub fn method(&self) -> M {
        let mut method = self.method.clone();
        method.settings_mut().learning_rate = Some(self.learning_rate);
        if let Some(private) = method.privacy_settings_mut() {
            private.set_clip(self.clip);
        }
        method
    }

    /// Creates a private selection around the settings found on public data. Its candidates have
    /// the learning rate that was found times each of these factors, and the same clip norm.
    ///
    /// # Guarantee
    /// As [`PrivateSelection`], if the public data are public.
    ///
    /// # Errors
    /// `Setting` for a tuning without public data: no epsilon covers candidates that were chosen on
    /// the private data without noise.
    pub fn select(
        &self,
        trials: Trials,
        factors: impl IntoIterator<Item = f64>,
    ) -> Result<PrivateSelection> {
        if let Badge::NoGuarantee(why) = &self.badge {
            let what = "a private selection around tuned settings";
            return Err(Error::new(ErrorKind::Setting, what, why.as_str()).fix(
                "tune on public data: Tuning::public; or give PrivateSelection learning rates that \
                 do not depend on the data",
            ));
        }
        let rates = factors.into_iter().map(|factor| factor * self.learning_rate);
        Ok(PrivateSelection::new(self.method(), trials).learning_rates(rates))
    }
}

impl<M> TuningResult<M> {
    /// Returns the learning rate that was found.
    pub fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    /// Returns the clip norm that was found.
    pub fn clip(&self) -> f64 {
        self.clip
    }

    /// Returns the steps of the procedure, with their runs and costs.
    pub fn steps(&self) -> &[TuningStep] {
        &self.steps
    }

    /// Returns the reasons to doubt the result: a best value at the end of what was tried, a clip
    /// norm that is not harmless.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the badge of a run with these settings: whether it has the guarantee that it
    /// states.
    pub fn badge(&self) -> &Badge {
        &self.badge
    }

    /// Returns the accuracies of the runs with noise over learning rate and clip norm (Kurakin et
    /// al., 2022, Figures 3 and 4); `None` if only one pair was tried.
    pub fn heat_map(&self) -> Option<&Figure> {
        self.heat_map_figure.as_ref()
    }

    /// Returns all runs and costs as a table.
    pub fn table(&self) -> Table {
        let caption = format!("Tuning on {}", self.data);
        let table = Table::new(["step", "learning rate", "clip norm", "accuracy"]).caption(caption);
        let rows = self.steps.iter().flat_map(|step| {
            step.trials.iter().enumerate().map(move |(i, trial)| {
                let title = if i == 0 { step.title.clone() } else { String::new() };
                let clip = trial.clip.map_or("none".into(), |clip| format::significant(clip, 3));
                let accuracy = trial.accuracy.map_or("diverged".into(), format::percent);
                [title, format::significant(trial.learning_rate, 3), clip, accuracy]
            })
        });
        rows.fold(table, |table, row| table.row(row))
    }

    /// Returns the settings that were found, with the costs, in words.
    fn summary_lines(&self) -> Vec<String> {
        let steps = self.steps.iter().map(|step| {
            let TuningStep { title, choice, cost, .. } = step;
            format!("{title}: {choice}. Cost: {cost}.")
        });
        let found = format!(
            "Found: learning rate {}, clip norm {}.",
            format::significant(self.learning_rate, 3),
            format::significant(self.clip, 3)
        );
        let doubts = self.warnings.iter().map(|warning| format!("Note: {warning}."));
        let badge = format!("Badge: {}.", self.badge);
        steps.chain([found]).chain(doubts).chain([badge]).collect()
    }

    /// Returns table, words and, as a figure of its own, the heat map.
    pub(crate) fn bundles(&self) -> Vec<MimeBundle> {
        let summary = self.summary_lines();
        let lines = summary.iter().map(|line| format!("<p>{}</p>", format::html_escape(line)));
        let html = format!("{}\n{}", self.table().html(), lines.collect::<Vec<_>>().join("\n"));
        let coverage = match self.badge {
            Badge::NoGuarantee(_) => Coverage::NotCovered,
            Badge::Proved | Badge::Conditional(_) => Coverage::TestPart,
        };
        let text = MimeBundle::text(self.to_string()).with_html(html);
        let all = std::iter::once(text).chain(self.heat_map_figure.as_ref().map(Figure::bundle));
        all.map(|bundle| bundle.with_coverage(coverage)).collect()
    }
}

impl<M> fmt::Display for TuningResult<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}", self.table().text(), self.summary_lines().join("\n"))
    }
}
