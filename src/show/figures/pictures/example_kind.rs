//! Kind of the examples of a data set: pictures, texts or rows of numbers.

use crate::Result;
use crate::data::{Dataset, Examples, Vocabulary};
use crate::show::bitmap::{Bitmap, downsample, range};

/// Largest number of values of all pictures of a figure together, which bounds its size.
const MAX_VALUES: usize = 124_000;
/// Longest side of a picture in pixels.
const MAX_SIDE: usize = 64;

/// Kind of the examples of a data set.
pub(in crate::show::figures) enum ExampleKind<'d> {
    /// Grey or coloured images `[channels, height, width]`.
    Images,
    /// Token ids of this vocabulary.
    Texts(&'d Vocabulary),
    /// Rows of numbers.
    Tabular,
}

impl<'d> ExampleKind<'d> {
    pub(in crate::show::figures) fn for_dataset(data: &'d Dataset) -> Self {
        match data.vocabulary() {
            Some(vocabulary) => Self::Texts(vocabulary),
            None if is_image_shape(data.shape()) => Self::Images,
            None => Self::Tabular,
        }
    }
}

/// Returns whether examples of this shape can be drawn as pictures.
pub(in crate::show::figures) fn is_image_shape(shape: &[usize]) -> bool {
    matches!(shape, [1 | 3, height, width] if *height > 1 && *width > 1)
}

/// Returns the pictures of these examples, which have to be images. Only these examples are read,
/// one after the other. Black and white are the lowest and the highest value of all of them,
/// because data sets are scaled differently.
///
/// # Errors
/// If a file can't be read or decoded, or has changed.
pub(in crate::show::figures) fn load_bitmaps(
    examples: &Examples,
    ids: &[u32],
) -> Result<Vec<Bitmap>> {
    let &[channels, height, width] = examples.shape() else { return Ok(Vec::new()) };
    let values = MAX_VALUES / (ids.len() * channels).max(1);
    let most = (values.isqrt()).clamp(8, MAX_SIDE);
    let mut all = Vec::with_capacity(ids.len());
    for &id in ids {
        let mut features = Vec::new();
        examples.gather(&[id], &mut features)?;
        all.push(downsample(features, [channels, height, width], most));
    }
    let values = all.iter().flat_map(|(values, _)| values).filter(|value| value.is_finite());
    let range = range(values);
    let bitmap = |(values, shape): &(Vec<f32>, _)| Bitmap::from_image(values, *shape, range);
    Ok(all.iter().map(bitmap).collect())
}
