//! Previews of plans.

use crate::data::Dataset;
use crate::engine::ClipRule;
use crate::mask::Sparsity;
use crate::methods::Plan;
use crate::optim::LearningRate;
use crate::privacy::digits::{RoundedDown, RoundedNearest, RoundedUp};
use crate::privacy::{
    Delta, PrivacyCost, TightestAccountant, caveats, compare_accountants, group_epsilon,
};
use crate::show::{Coverage, MimeBundle, Table, format};
use crate::store::RunStore;
use crate::{Error, ErrorKind, Result};
use std::fmt;

/// The settings, cost and warnings of a plan. Nothing is trained or spent.
#[derive(Clone, Debug)]
pub struct Preview {
    rows: Rows,
    warnings: Vec<String>,
    /// Note for the owner of the data. It reveals something of the examples, so redaction removes
    /// it.
    private_note: Option<String>,
}

impl Preview {
    /// Previews the settings, cost and warnings of a plan, without the ledger of its data.
    pub(super) fn without_ledger(plan: &Plan) -> Result<Self> {
        Self::described(plan, true)
    }

    /// Previews the settings and the cost of a plan, for a report: without the device, which would
    /// be that of this machine, and without the seed, which is left out where the plan is.
    pub(super) fn settings(plan: &Plan) -> Result<Self> {
        Self::described(&plan.without_seed(), false)
    }

    fn described(plan: &Plan, with_device: bool) -> Result<Self> {
        let mut rows = Rows::new();
        add(&mut rows, "method", plan.method());
        add(&mut rows, "training examples (public)", format::format_count(plan.examples()));
        let batch = format::format_count(plan.expected_batch_size());
        if plan.sampling().is_poisson() {
            let rate = RoundedNearest(plan.sampling_rate());
            add(&mut rows, "batch, expected", format!("{batch} (sampling rate {rate})"));
        } else {
            add(&mut rows, "batch", format!("{batch}, {}", plan.sampling()));
        }
        let steps = format::pluralise(plan.steps(), "step");
        add(&mut rows, "steps", format!("{steps} ({:.1} epochs)", plan.epochs()));
        let (optimizer, rate) = (plan.settings().optimizer, plan.learning_rate());
        add(&mut rows, "optimizer", format!("{optimizer}, learning rate {rate}"));
        if let Some(selection) = plan.selection() {
            let candidates = format::pluralise(selection.candidates().len(), "candidate");
            let description = format!(
                "the best of a random number of trials ({}) of {candidates}; this is the first \
                 candidate, and epsilon is for all trials together",
                selection.trials()
            );
            add(&mut rows, "private selection", description);
        }
        post_processing(plan, &mut rows);
        let mut warnings = Vec::new();
        if with_device {
            match plan.resolve_device() {
                Ok(device) => add(&mut rows, "device", device.describe()),
                Err(error) => warnings.push(format!("training will be refused: {error}")),
            }
        }
        add_if_some(&mut rows, "augmentation", plan.settings().augment);
        let freezing = Some(plan.freezing()).filter(|freezing| !freezing.is_empty());
        add_if_some(&mut rows, "parameters", freezing);
        if let Some(sparsity) = plan.sparsity() {
            coordinates(sparsity, &mut rows, &mut warnings)?;
        }
        if let Some(privacy) = plan.privacy() {
            let sigma = privacy.noise_multiplier;
            let of_sum = match &privacy.quantile {
                Some(quantile) => quantile.sum_noise_multiplier(sigma)?,
                None => sigma,
            };
            let noise = privacy.clip.noise_std(of_sum);
            let describe_bound = plan.descriptor()?.bound_description;
            add(
                &mut rows,
                "clip",
                describe_bound(plan).unwrap_or_else(|| privacy.clip.to_string()),
            );
            add_if_some(&mut rows, "clip norm", privacy.quantile.as_ref());
            // As events and statements write it: never more noise than there is.
            add(&mut rows, "noise multiplier", RoundedDown(privacy.noise_multiplier));
            let in_words = if matches!(privacy.clip, ClipRule::Backprop(_)) {
                "on each layer's sum, times its bound and the root of the number of layers"
                    .to_owned()
            } else if noise.is_finite() {
                let on_mean = noise / plan.expected_batch_size() as f64;
                format!("{noise:.3} on the sum, {on_mean:.2e} on the mean")
            } else {
                "in proportion to the batch's mean threshold".to_owned()
            };
            add(&mut rows, "noise per coordinate", in_words);
            if let Some(stages) = plan.stages()?.filter(|stages| !stages.is_constant()) {
                let (noise, clip) = (&privacy.noise_schedule, &privacy.clip_schedule);
                add(&mut rows, "schedules", format!("noise {noise}, clip norm {clip}"));
                add(&mut rows, "stages", stages);
            }
            if let Some(spent) = plan.spent_after(plan.steps())? {
                epsilon_rows(plan, &spent, privacy.delta, &mut rows);
                warnings.extend(caveats(spent.epsilon, privacy.delta, plan.examples()));
            } else {
                add(&mut rows, "epsilon", "infinite: nothing is guaranteed");
                let why = plan.not_covered_reason().unwrap_or_default();
                warnings.push(format!("this voids the guarantee: {why}"));
            }
            if plan.expected_batch_size() < 64 {
                warnings.push(
                    "in small batches the noise dominates: a larger batch is often better".into(),
                );
            }
        } else {
            add(&mut rows, "epsilon", "infinite: no privacy");
        }
        if let Some(seed) = plan.seed() {
            warnings.push(format!("seed {seed} is fixed: study mode, not for release"));
        }
        Ok(Self { rows, warnings, private_note: None })
    }

    /// Previews a plan with what the ledger of its data has on record in this project.
    pub(crate) fn with_ledger(plan: &Plan, store: &RunStore, data: &Dataset) -> Result<Self> {
        let mut preview = Self::without_ledger(plan)?;
        preview.private_note = repeated_rows(plan, data)?;
        let (rows, warnings) = (&mut preview.rows, &mut preview.warnings);
        add(rows, "ledger", store.describe_ledger(data)?);
        if let Some(ledger) = store.existing_ledger(data)? {
            let after = ledger.budget_status_after(&plan.event(), plan.neighbouring());
            match after.map_err(Error::from) {
                Ok(None) => {}
                Ok(Some(after)) => {
                    let usage = format!("then {}", after.usage());
                    add(rows, format!("budget {}", after.budget), usage);
                }
                // Training this plan would fail with this error.
                Err(error) if error.kind() == ErrorKind::Ledger => {
                    let message = error.to_string();
                    let message = message.lines().next().unwrap_or_default();
                    warnings.push(format!("over budget, training will be refused: {message}"));
                    warnings.push(format!("to stay within the budget: {}", error.advice()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(preview)
    }

    /// Warnings about the plan; may be empty.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the table, with the note that is for the owner of the data. What is left of it after
    /// redaction has no such note.
    pub(crate) fn bundle(&self) -> MimeBundle {
        let public = self.table();
        match &self.private_note {
            None => public.bundle(),
            Some(note) => {
                let complete = public.clone().row(["note", note]).coverage(Coverage::NotCovered);
                complete.bundle().with_covered_part(public.bundle())
            }
        }
    }

    /// Returns settings, cost and warnings as a table.
    pub fn table(&self) -> Table {
        let rows = self.rows.iter().map(|(name, value)| [name.as_str(), value]);
        let notes = self.warnings.iter().map(|warning| ["note", warning]);
        Table::new(["plan", ""]).rows(rows.chain(notes)).coverage(Coverage::Public)
    }
}

/// Names and values.
type Rows = Vec<(String, String)>;

fn add(rows: &mut Rows, name: impl Into<String>, value: impl ToString) {
    rows.push((name.into(), value.to_string()));
}

fn add_if_some(rows: &mut Rows, name: &str, value: Option<impl ToString>) {
    rows.extend(value.map(|value| (name.to_owned(), value.to_string())));
}

/// Number of equal rows from which the preview has a note for the owner of the data.
const MANY: usize = 10;

/// Returns the note that a row occurs many times in private data, with epsilon for all its copies.
fn repeated_rows(plan: &Plan, data: &Dataset) -> Result<Option<String>> {
    let Some(privacy) = plan.privacy().filter(|_| data.public().is_none()) else { return Ok(None) };
    let rows = data.train().most_repeated();
    if rows < MANY {
        return Ok(None);
    }
    let accountant = TightestAccountant::with_neighbouring(plan.neighbouring());
    let events = plan.releases_after(plan.steps());
    let group = group_epsilon(&accountant, &events, privacy.delta, rows).map_err(Error::from);
    let group = match group {
        Ok(epsilon) => format!("at most {} at delta {}", RoundedUp(epsilon), privacy.delta),
        Err(error) if error.kind() == ErrorKind::Accounting => "not known".to_owned(),
        Err(error) => return Err(error),
    };
    let rows = format::format_count(rows);
    Ok(Some(format!(
        "an example occurs {rows} times in the training part (for instance in oversampled \
         classes), and epsilon is for one occurrence: for all {rows} together it is {group}. \
         Include each person once where possible. This note reveals something about the examples: \
         do not publish it"
    )))
}

/// Adds the rows about what happens after the release.
fn post_processing(plan: &Plan, rows: &mut Rows) {
    let settings = plan.settings();
    let warm_up = settings.warm_up.map(|warm_up| format!("warm-up {warm_up}"));
    let schedule = &settings.learning_rate_schedule;
    let schedule = (*schedule != LearningRate::Constant).then(|| schedule.to_string());
    let rate: Vec<String> = warm_up.into_iter().chain(schedule).collect();
    add_if_some(rows, "learning rate", (!rate.is_empty()).then(|| rate.join(", then ")));
    add_if_some(rows, "weight decay", Some(plan.weight_decay()).filter(|decay| *decay > 0.0));
    add_if_some(rows, "average", plan.settings().average);
}

/// Adds the rows about coordinates: the mask, its release, and gradient dropping.
fn coordinates(sparsity: &Sparsity, rows: &mut Rows, warnings: &mut Vec<String>) -> Result<()> {
    add_if_some(rows, "pre-pruning", sparsity.pre_prune.as_ref());
    add_if_some(rows, "the mask releases", sparsity.mask_release()?);
    add_if_some(rows, "gradient dropping", sparsity.dropping);
    if sparsity.pre_prune.is_none() && sparsity.dropping.is_none() {
        warnings.push("nothing is pruned or dropped: this is plain training".into());
    }
    Ok(())
}

/// Adds the rows about epsilon, by the tightest accountant and by the others.
fn epsilon_rows(plan: &Plan, spent: &PrivacyCost, delta: Delta, rows: &mut Rows) {
    let epsilon = format!("{} ({})", format::eps(spent.epsilon), spent.accountant);
    add(rows, format!("epsilon at delta {}", format::delta(delta.0)), epsilon);
    let releases = plan.releases_after(plan.steps());
    let others = compare_accountants(&releases, delta, plan.neighbouring());
    let others = others.iter().filter(|result| result.accountant != spent.accountant);
    let results = others.filter_map(|result| {
        let epsilon = format::eps(result.cost.as_ref().ok()?.epsilon);
        let name = &result.accountant;
        let doubt = if result.approximate { " (approximate)" } else { "" };
        Some(format!("{name} {epsilon}{doubt}"))
    });
    add(rows, "by other accountants", results.collect::<Vec<_>>().join(", "));
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.bundle().text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{self, from_vecs};
    use crate::methods::{DpSgd, NonPrivate};
    use crate::show::MimeBundle;

    fn previewed(plan: &Plan, data: &Dataset) -> Result<(String, MimeBundle)> {
        let folder = tempfile::tempdir().unwrap();
        let preview = Preview::with_ledger(
            plan,
            &RunStore::open(folder.path().to_path_buf()).unwrap(),
            data,
        )?;
        Ok((preview.to_string(), preview.bundle()))
    }

    #[test]
    fn a_repeated_row_is_shown_to_the_owner_only() -> Result<()> {
        let with_copies = |copies: usize| {
            let x = (0..200).map(|i| if i < copies { 0.5 } else { i as f32 }).collect();
            from_vecs(x, &[1], vec![0; 200], 2)
        };
        let oversampled = with_copies(50)?;
        let plan =
            DpSgd::new().noise_multiplier(2.0).batch_size(20).steps(100).plan(&oversampled)?;
        let (text, bundle) = previewed(&plan, &oversampled)?;
        assert!(text.contains("occurs 50 times"), "{text}");
        assert_eq!(bundle.coverage, Coverage::NotCovered);
        let left = bundle.covered_part.expect("the public rows");
        assert!(!left.text.contains("50 times") && left.coverage == Coverage::Public);

        for (plan, data) in [
            (plan.clone(), with_copies(9)?),
            (plan, oversampled.assumed_public()),
            (NonPrivate::new().batch_size(20).steps(100).plan(&oversampled)?, oversampled),
        ] {
            let (text, bundle) = previewed(&plan, &data)?;
            assert!(!text.contains(" times in"), "{text}");
            assert_eq!((bundle.coverage, bundle.covered_part), (Coverage::Public, None));
        }
        Ok(())
    }

    #[test]
    fn the_note_has_the_epsilon_of_all_copies() -> Result<()> {
        let x = (0..1000).map(|i| if i < 12 { 0.5 } else { i as f32 }).collect();
        let data = from_vecs(x, &[1], vec![0; 1000], 2)?;
        let plan = DpSgd::new().noise_multiplier(8.0).batch_size(20).steps(100).plan(&data)?;
        let (events, delta) = (plan.releases_after(100), plan.privacy().unwrap().delta);
        let group = group_epsilon(&TightestAccountant::new(), &events, delta, 12)?;
        let (text, _) = previewed(&plan, &data)?;
        let expected = format!("for all 12 together it is at most {}", RoundedUp(group));
        assert!(text.replace('\n', " ").contains(&expected), "{expected} is not in:\n{text}");
        Ok(())
    }

    #[test]
    fn generated_examples_differ() -> Result<()> {
        assert_eq!(data::glyphs_with(100, 0, 1)?.train().most_repeated(), 1);
        Ok(())
    }
}
