//! Labelled examples: one part (training or test) of a data set.

use std::fmt;
use std::sync::Arc;

use super::digest::count;

/// Labelled examples, all of one shape. Cheap to clone and to [`take`](Self::take) from: the
/// numbers are shared.
///
/// Features are `f32`, row-major (`[channels, height, width]` for images); labels are class
/// numbers from 0.
#[derive(Clone)]
pub struct Examples {
    shape: Arc<[usize]>,
    len: usize,
    features: Arc<Vec<f32>>,
    labels: Arc<Vec<u32>>,
}

impl Examples {
    /// Examples from parts that were checked before: `features.len()` is the number of labels
    /// times the product of `shape`.
    pub(super) fn new(shape: &[usize], features: Vec<f32>, labels: Vec<u32>) -> Self {
        debug_assert_eq!(features.len(), labels.len() * shape.iter().product::<usize>());
        Self {
            shape: shape.into(),
            len: labels.len(),
            features: Arc::new(features),
            labels: Arc::new(labels),
        }
    }

    /// How many examples there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The shape of one example, for instance `[1, 28, 28]`.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The features of example `i`: as many as the product of [`shape`](Self::shape).
    ///
    /// # Panics
    /// As a slice does, if `i` is not below [`len`](Self::len).
    pub fn features(&self, i: usize) -> &[f32] {
        let size = self.size();
        &self.features_flat()[i * size..(i + 1) * size]
    }

    /// The label of example `i`.
    ///
    /// # Panics
    /// As a slice does, if `i` is not below [`len`](Self::len).
    pub fn label(&self, i: usize) -> usize {
        self.labels()[i] as usize
    }

    /// All labels, in order.
    pub fn labels(&self) -> &[u32] {
        &self.labels[..self.len]
    }

    /// All features, example after example: `[len, shape…]` row-major.
    pub fn features_flat(&self) -> &[f32] {
        &self.features[..self.len * self.size()]
    }

    /// The first `n` examples, or all if there are fewer.
    pub fn take(&self, n: usize) -> Self {
        Self { len: n.min(self.len), ..self.clone() }
    }

    /// The examples at these positions, copied in this order. Positions come from the library.
    pub(super) fn select(&self, positions: &[u32]) -> Self {
        let mut features = Vec::with_capacity(positions.len() * self.size());
        let mut labels = Vec::with_capacity(positions.len());
        for &i in positions {
            features.extend_from_slice(self.features(i as usize));
            labels.push(self.labels()[i as usize]);
        }
        Self::new(&self.shape, features, labels)
    }

    /// The same labels with every feature replaced by `f` of it.
    pub(super) fn map(&self, f: impl Fn(f32) -> f32) -> Self {
        let features = self.features_flat().iter().map(|&x| f(x)).collect();
        Self::new(&self.shape, features, self.labels().to_vec())
    }

    /// Numbers in one example.
    fn size(&self) -> usize {
        self.shape.iter().product()
    }
}

/// `60,000 examples of shape 1x28x28`.
impl fmt::Display for Examples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.len == 1 { "example" } else { "examples" };
        write!(f, "{} {noun} of shape {}", count(self.len), shape_text(&self.shape))
    }
}

/// The same text as `Display`: nobody wants to read millions of pixels.
impl fmt::Debug for Examples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `1x28x28`.
pub(super) fn shape_text(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Examples {
        Examples::new(&[2], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0], vec![0, 1, 0])
    }

    #[test]
    fn taking_shortens_every_view_alike() {
        let two = three().take(2);
        assert_eq!((two.len(), two.labels()), (2, &[0, 1][..]));
        assert_eq!(two.features_flat(), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(three().take(9).len(), 3);
        assert!(three().take(0).is_empty());
    }

    #[test]
    fn selecting_keeps_features_with_their_labels() {
        let picked = three().select(&[2, 1]);
        assert_eq!(picked.features(0), [4.0, 5.0]);
        assert_eq!(picked.features(1), [2.0, 3.0]);
        assert_eq!((picked.label(0), picked.label(1)), (0, 1));
    }

    #[test]
    fn the_text_says_how_many_and_of_which_shape() {
        assert_eq!(three().to_string(), "3 examples of shape 2");
        assert_eq!(format!("{:?}", three().take(1)), "1 example of shape 2");
    }
}
