//! Noise for values on a GPU.

use burn::prelude::*;
use rayon::prelude::*;

use super::{CoordinateWeights, GaussianNoise, NORMALS_PER_CHUNK, NoiseStream};
use crate::device::kernels::{self, NoiseParams};

impl GaussianNoise {
    /// Adds the noise of the chunks from `first` on to `values`, on their device. If `selected`
    /// gives weights and the index of their entry, only coordinates of non-zero weight get noise.
    ///
    /// # Guarantee
    /// Coordinates of weight zero are exactly zero, whatever they were.
    pub(super) fn add_on_device(
        &self,
        values: Tensor<1>,
        first: u64,
        std: f64,
        selected: Option<(&CoordinateWeights, usize)>,
    ) -> Tensor<1> {
        if selected.is_some_and(|(weights, entry)| weights.is_zero_tensor(entry)) {
            return values.zeros_like();
        }
        let device = values.device();
        let selected = selected.map(|(all, entry)| all.entries()[entry].values.to_tensor(&device));
        if !self.secure {
            let stream = NoiseStream { seed: self.seed, step: self.step };
            return kernels::add_noise(
                values,
                NoiseParams { stream, first_chunk: first, std },
                selected.as_ref(),
            );
        }
        let mut drawn = vec![0.0; values.dims()[0]];
        let chunks = drawn.par_chunks_mut(NORMALS_PER_CHUNK).enumerate();
        chunks.for_each(|(i, values)| self.add_chunk(std, (first + i as u64, values, None)));
        let shape = values.dims();
        let sum = values + Tensor::from_data(TensorData::new(drawn, shape), &device);
        match selected {
            None => sum,
            Some(selected) => sum.mask_fill(selected.equal_elem(0.0), 0.0),
        }
    }
}
