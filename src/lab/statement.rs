//! The guarantee of a run in words.

use crate::Result;
use crate::engine::ClipRule;
use crate::mask::Mask;
use crate::methods::{Plan, Privacy};
use crate::privacy::digits::{Readable, pluralise};
use crate::privacy::{
    Accountant, AttackBounds, Badge, Delta, Event, GuaranteeFacts, NeighbouringRelation,
    PrivacyCost, TightestAccountant, statement,
};
use crate::show::format;
use crate::train::{Run, RunRecord, checkpoint, start};
use std::fmt;

/// The guarantee of a run in words, with its assumptions and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement(String);

impl Run {
    /// Returns the guarantee of everything that this run released, in words.
    pub fn statement(&self) -> Statement {
        Statement::for_run(self.record(), self.mask().as_ref())
    }

    /// Returns the bounds on attacks on one training example by the releases of this run: the
    /// success of the best attacker.
    ///
    /// # Errors
    /// Kind `Accounting` without privacy: then nothing is bounded.
    pub fn meaning(&self) -> Result<AttackBounds> {
        // Without privacy the release itself is refused, for any delta.
        let delta = self.plan().privacy().map_or(Delta(1e-5), |privacy| privacy.delta);
        let relation = self.plan().neighbouring();
        Ok(AttackBounds::with_neighbouring(relation, &self.record().events(), delta)?)
    }
}

/// Describes the trials that this run is the best of.
fn describe_selection(plan: &Plan) -> Option<String> {
    let selection = plan.selection()?;
    let candidates = pluralise(selection.candidates().len(), "candidate");
    Some(format!(
        "Private selection: this is the best of a random number of trials ({}), each of one of \
         {candidates} drawn at random; epsilon is for all trials together (Papernot and \
         Steinke, 2022). It holds if nobody learns how many there were, for instance from the \
         time they took, and if the test examples that compared them are public.",
        selection.trials()
    ))
}

/// Describes which coordinates were trained, and the release that chose them.
fn describe_coordinates(
    record: &RunRecord,
    mask: Option<&Mask>,
    released: &[Event],
) -> Option<String> {
    let sparsity = record.plan.sparsity()?;
    let trained = mask.map_or("all are trained".to_owned(), |mask| {
        let (kept, all) =
            (format::format_count(mask.kept_count()), format::format_count(mask.len()));
        let others = if mask.is_zeroing() { "set to zero" } else { "left as they were" };
        let how = &mask.origin().method;
        format!("{kept} of {all} weights are trained, the others {others} ({how})")
    });
    let mut text = format!("Coordinates: {trained}");
    if let Some(dropping) = sparsity.dropping {
        text += &format!("; every step leaves out {dropping}");
    }
    text.push('.');
    let private = !matches!(record.badge(mask), Badge::NoGuarantee(_));
    if !released.is_empty() && private {
        let events = released.iter().map(Event::to_string).collect::<Vec<_>>().join("; then ");
        text += &format!(
            " Choosing the mask was a separate release on all training examples, counted in \
             epsilon: {events}."
        );
    }
    if private {
        text.push_str(
            " Norm, clipping and noise are restricted to the selected coordinates. The accounting \
             of the steps assumes that the selection depends on the data only through releases \
             that are counted (see the badge).",
        );
    }
    Some(text)
}

/// Returns whether an example can contribute exactly the bound that the noise is for. Where it
/// can't, a better bound could show less than the accounting of the events.
fn reaches_bound(clip: &ClipRule) -> bool {
    !matches!(clip, ClipRule::AutoS { .. } | ClipRule::Backprop(_) | ClipRule::Unbounded { .. })
}

/// Returns how each example's gradient is bounded by the clip rule.
fn describe_bound(privacy: &Privacy) -> String {
    let norm = Readable(privacy.clip.sensitivity(NeighbouringRelation::AddOrRemoveOne));
    let bound = match &privacy.clip {
        _ if privacy.quantile.is_some() => format!(
            "clipped to an L2 norm that starts at {norm} and follows noisy counts of the gradients \
             that are not clipped"
        ),
        ClipRule::AutoS { gamma, .. } => format!(
            "rescaled to an L2 norm below {norm} (AUTO-S: its own norm n becomes \
             {norm} n / (n + {}))",
            Readable(*gamma)
        ),
        ClipRule::Normalised { gamma, .. } => format!(
            "rescaled to an L2 norm of at most {norm} (normalised: its own norm n becomes \
             {norm} n / max(n, {}))",
            Readable(*gamma)
        ),
        ClipRule::PerLayer { .. } => {
            format!("clipped layer by layer, with equal bounds, to L2 norm {norm} in all")
        }
        ClipRule::PerLayerGiven { max_grad_norms } => format!(
            "clipped layer by layer, to L2 norms {}, and {norm} in all",
            max_grad_norms.iter().map(|n| Readable(*n).to_string()).collect::<Vec<_>>().join(", ")
        ),
        ClipRule::Backprop(clip) => format!(
            "bounded layer by layer while it is computed ({clip}; prediction clips the inputs \
             too), so that in units of the layers' own bounds its norm over all layers is at most \
             the root of their number"
        ),
        ClipRule::Unbounded { scale } => {
            format!("multiplied by {scale}, which bounds nothing")
        }
        _ => format!("clipped to L2 norm {norm}"),
    };
    if privacy.clip_schedule.is_constant() {
        bound
    } else {
        format!(
            "{bound} (times a public factor that changes with the steps, {})",
            privacy.clip_schedule
        )
    }
}

/// Returns the tightest accountant's answer if it equals the recorded epsilon, otherwise the
/// recorded epsilon alone.
fn recompute_spent(
    epsilon: f64,
    relation: NeighbouringRelation,
    events: &[Event],
    delta: Delta,
) -> PrivacyCost {
    let same = |spent: &PrivacyCost| (spent.epsilon - epsilon).abs() <= 1e-6 * epsilon;
    let found =
        TightestAccountant::with_neighbouring(relation).epsilon(events, delta).ok().filter(same);
    found.unwrap_or_else(|| PrivacyCost::new(epsilon, "as recorded with the run"))
}

impl Statement {
    /// States the guarantee of everything that a run released, which was trained with `mask`.
    pub(super) fn for_run(record: &RunRecord, mask: Option<&Mask>) -> Self {
        let plan = &record.plan;
        let Some(privacy) = plan.privacy() else {
            return Self(format!(
                "Nothing is guaranteed: this model was trained on the raw gradients of {} of {} \
                 and may reveal any of them.",
                pluralise(plan.examples(), "training example"),
                record.data
            ));
        };
        let epsilon = record.epsilon.unwrap_or(f64::INFINITY);
        let relation = plan.neighbouring();
        let spent = recompute_spent(epsilon, relation, &record.events(), privacy.delta);
        let released = &record.released;
        let of_mask: Vec<Event> = released.before.iter().chain(&released.mask).cloned().collect();
        let last = match &released.training {
            Event::PrivateSelection { event, .. } => event,
            other => other,
        };
        // How each example's gradient is bounded, if the method has words of its own.
        let method_bound =
            plan.descriptor().ok().and_then(|descriptor| (descriptor.bound_description)(plan));
        let start =
            [describe_selection(plan), start::describe(record), checkpoint::describe(record)];
        let start: Vec<String> = start.into_iter().flatten().collect();
        let guarantee = statement(&GuaranteeFacts {
            epsilon,
            lower_bound: spent
                .lower_bound
                .filter(|_| method_bound.is_none() && reaches_bound(&privacy.clip)),
            delta: privacy.delta,
            accountant: spent.accountant,
            neighbouring: relation,
            unit: "one training example".into(),
            events: vec![last.clone()],
            initialisation: (!start.is_empty()).then(|| start.join("\n")),
            coordinates: describe_coordinates(record, mask, &of_mask),
            clipping: method_bound.unwrap_or_else(|| describe_bound(privacy)),
            count_noise: privacy.quantile.map(|quantile| quantile.count_noise),
            examples: plan.examples(),
            public_test: record.public_test,
            study_mode: plan.seed().is_some(),
            badge: record.badge(mask),
            not_covered: GuaranteeFacts::default_exclusions(),
        });
        let claim = record.published_claim().map(|claim| {
            format!(
                "\n\nThe paper claims ~~{claim}~~. The formula is not valid: no proof supports it \
                 for this method (see book/src/evidence/published_claims.md)."
            )
        });
        Self(guarantee + &claim.unwrap_or_default())
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data;
    use crate::methods::{DpSgd, QuantileDpSgd};
    use crate::nn::models;
    use crate::privacy::Ledger;
    use crate::train::{NoopObserver, fit};

    /// Returns the statement of a run on a few generated digits.
    fn statement_text(plan: impl Fn(&data::Dataset) -> Result<Plan>) -> Result<String> {
        let data = data::glyphs_with(60, 10, 7)?;
        let model = models::linear(&data).seed(1).build()?;
        let run =
            fit("run", &plan(&data)?, &model, &data, &Ledger::in_memory(), &mut NoopObserver)?;
        Ok(run.statement().to_string())
    }

    #[test]
    fn a_lower_bound_is_stated_only_where_an_example_can_reach_the_bound() -> Result<()> {
        let method = || DpSgd::new().noise_multiplier(2.0).batch_size(20).steps(2);
        let lower = "no accounting of the same releases can show less";
        for clip in [ClipRule::flat(1.0), ClipRule::normalised(1.0), ClipRule::per_layer(1.0)] {
            let text = statement_text(|data| method().clip_rule(clip.clone()).plan(data))?;
            assert!(text.contains(lower), "{clip}: {text}");
        }
        // Its contributions are shorter than the bound.
        let text = statement_text(|data| method().clip_rule(ClipRule::auto_s(1.0)).plan(data))?;
        assert!(!text.contains(lower), "{text}");
        Ok(())
    }

    #[test]
    fn quantile_clipping_states_the_noise_of_sum_and_count() -> Result<()> {
        let text = statement_text(|data| {
            let method = QuantileDpSgd::new().noise_multiplier(2.0).count_noise(1.5);
            method.batch_size(20).steps(2).plan(data)
        })?;
        // (2^-2 - 3^-2)^(-1/2) = 2.6833
        for words in ["noise with 2.683 times that norm", "deviation 1.5;", "noise multiplier 2."] {
            assert!(text.contains(words), "{words}: {text}");
        }
        Ok(())
    }
}
