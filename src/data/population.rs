//! Number of examples of a data set, which is all that a plan reads of it.

use super::Dataset;

/// The examples that a plan is made for: those of a data set, or a number of examples whose data
/// are elsewhere.
///
/// ```
/// use epsilab::data::Population;
/// use epsilab::methods::DpSgd;
/// use epsilab::privacy::{Delta, Epsilon};
/// # fn main() -> epsilab::Result<()> {
/// let imagenet = Population::with_size(1_281_167);
/// let method = DpSgd::new().target(Epsilon(10.0), Delta(1e-6)).batch_size(65_536).epochs(70);
/// let plan = method.plan_for(&imagenet)?;
/// assert_eq!(plan.steps(), 1_369);
/// println!("{plan}"); // sampling rate, noise multiplier, epsilon by each accountant
/// # Ok(()) }
/// ```
///
/// Of the data, epsilon depends on the number of examples only, so a plan for a population and one
/// for data of that size are equal. What depends on more than the number is checked when the plan
/// trains on data, before anything is charged: their number, whether they were [prepared from
/// private examples](Dataset::prepared_from_private_examples), and whether an augmentation applies
/// to their shape. A plan never depends on the number of classes.
///
/// # Guarantee
/// The number of examples is treated as public, as in every plan.
#[derive(Clone, Debug)]
pub struct Population {
    examples: usize,
    data: Option<Dataset>,
}

impl Population {
    /// Creates a population of this number of training examples.
    pub fn with_size(examples: usize) -> Self {
        Self { examples, data: None }
    }

    /// Returns the number of training examples.
    pub fn examples(&self) -> usize {
        self.examples
    }

    /// Returns the data, if they are here.
    pub fn data(&self) -> Option<&Dataset> {
        self.data.as_ref()
    }
}

/// The training part of the data.
impl From<&Dataset> for Population {
    fn from(data: &Dataset) -> Self {
        Self { examples: data.train().len(), data: Some(data.clone()) }
    }
}
