//! Figure of the coordinates that the steps of a run selected.

use crate::show::{Coverage, Figure, figures, run_coverage};
use crate::train::Run;
use crate::{Error, ErrorKind, Result};

impl Run {
    /// Draws which coordinates the steps selected over time: [`figures::selection_log`] of
    /// [`selection_log`](Self::selection_log).
    ///
    /// # Guarantee
    /// The choice of coordinates follows from releases of the run and from randomness, so the
    /// figure is covered by the guarantee of the run. That of a run without a guarantee, or in
    /// study mode, is not covered.
    ///
    /// # Errors
    /// `MissingData` if the run dropped no gradients. What a mask keeps is drawn by
    /// [`figures::kept`].
    pub fn selections(&self) -> Result<Figure> {
        let log = self.selection_log().ok_or_else(|| {
            let why = "the run dropped no gradients, so every step updates the same coordinates";
            let fix = "train with `.drop_gradients(..)`; `figures::kept(&mask)` draws a mask";
            Error::new(ErrorKind::MissingData, "selections of a run", why).fix(fix)
        })?;
        // No example of the test part is read.
        let reveals = match run_coverage(self.record()) {
            Coverage::TestPart => Coverage::Covered,
            other => other,
        };
        Ok(figures::selection_log(&log).coverage(reveals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{self, Dataset};
    use crate::mask::Dropping;
    use crate::methods::{DpSsgd, NonPrivate, Plan};
    use crate::nn::models;
    use crate::privacy::{Delta, Epsilon};
    use crate::store::open_ledger;
    use crate::train::{NoopObserver, fit};

    fn trained(plan: &Plan, data: &Dataset) -> Result<Run> {
        let folder = tempfile::tempdir().unwrap();
        let ledger = open_ledger(&folder.path().join(format!("{}.jsonl", data.origin())))?;
        fit(
            "selected",
            plan,
            &models::linear(data).seed(1).build()?,
            data,
            &ledger,
            &mut NoopObserver,
        )
    }

    #[test]
    fn the_figure_states_what_the_run_reveals_and_a_dense_run_has_none() -> Result<()> {
        let public = data::glyphs_with(40, 10, 5)?;
        let (x, y) = (public.train().features_flat().to_vec(), public.train().labels().to_vec());
        let private_data = data::from_vecs(x, public.shape(), y, 10)?.split(0.7, 1)?;
        let dropping = Dropping::random(0.5);
        let dp = DpSsgd::new().target(Epsilon(3.0), Delta(1e-3)).batch_size(10).steps(4);
        let dp = dp.drop_gradients(dropping);
        let raw = NonPrivate::new().batch_size(10).steps(4);
        let cases = [
            (dp.plan(&public)?, &public, Coverage::Public),
            (dp.plan(&private_data)?, &private_data, Coverage::Covered),
            (dp.clone().seed(1).plan(&private_data)?, &private_data, Coverage::NotCovered),
            (
                raw.clone().drop_gradients(dropping).plan(&private_data)?,
                &private_data,
                Coverage::NotCovered,
            ),
        ];
        for (i, (plan, data, expected)) in cases.iter().enumerate() {
            assert_eq!(trained(plan, data)?.selections()?.bundle().coverage, *expected, "case {i}");
        }
        let refused = trained(&raw.plan(&public)?, &public)?.selections().unwrap_err().to_string();
        assert!(refused.contains("drop_gradients"), "{refused}");
        Ok(())
    }
}
