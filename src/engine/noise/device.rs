//! Noise for values on a GPU.

use burn::prelude::*;
use rayon::prelude::*;

use super::{CHUNK, GaussianNoise, Stream, Weights};
use crate::device::kernels::{self, Noise};

impl GaussianNoise {
    /// Adds the noise of the chunks from `first` on to `values`, on their device. With `selected`,
    /// weights and the index of their entry, only coordinates of non-zero weight get noise.
    ///
    /// # Guarantee
    /// Coordinates of weight zero are exactly zero, whatever they were.
    pub(super) fn noised(
        &self,
        values: Tensor<1>,
        first: u64,
        std: f64,
        selected: Option<(&Weights, usize)>,
    ) -> Tensor<1> {
        if selected.is_some_and(|(weights, entry)| weights.is_zero(entry)) {
            return values.zeros_like();
        }
        let device = values.device();
        let selected = selected.map(|(all, entry)| all.entries()[entry].values.tensor(&device));
        if !self.secure {
            let stream = Stream { seed: self.seed, step: self.step };
            return kernels::add_noise(
                values,
                Noise { stream, first_chunk: first, std },
                selected.as_ref(),
            );
        }
        let mut drawn = vec![0.0; values.dims()[0]];
        let chunks = drawn.par_chunks_mut(CHUNK).enumerate();
        chunks.for_each(|(i, values)| self.add_chunk(std, (first + i as u64, values, None)));
        let shape = values.dims();
        let sum = values + Tensor::from_data(TensorData::new(drawn, shape), &device);
        match selected {
            None => sum,
            Some(selected) => sum.mask_fill(selected.equal_elem(0.0), 0.0),
        }
    }
}
