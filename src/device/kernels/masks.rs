//! Dropout masks: the same on every device.

/// The dropout masks of one layer in one step.
#[derive(Clone, Copy)]
pub struct Masks {
    seed: u64,
    layer: u64,
    /// Random words below this are dropped.
    pub(super) dropped: u32,
    /// What the others become, so that the mean is kept.
    pub(super) kept: f32,
}

impl Masks {
    pub(super) fn new(seed: u64, layer: usize, rate: f64) -> Self {
        // 32 bits: the share of dropped values is right to 2e-10.
        let dropped = (rate * (u64::from(u32::MAX) + 1) as f64) as u32;
        Self { seed, layer: layer as u64, dropped, kept: (1.0 / (1.0 - rate)) as f32 }
    }

    /// The ChaCha8 key of one copy of one example, by words: each has a stream of its own.
    pub(super) fn key(&self, id: u32, copy: u32) -> [u32; 8] {
        let mut key = *b"........ dropout ......... masks";
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[16..24].copy_from_slice(&self.layer.to_le_bytes());
        let words = key.as_chunks::<4>().0;
        let mut words: [u32; 8] = std::array::from_fn(|i| u32::from_le_bytes(words[i]));
        (words[2], words[3]) = (id, copy);
        words
    }
}
