//! Mapping between the network's parameter tensors and a layer's packed buffers.

/// Position and layout of one parameter tensor in a layer's buffer of small or of large parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParameterSlot {
    pub(super) is_small: bool,
    pub(super) offset: usize,
    pub(super) layout: PackedLayout,
}

/// Layout of a parameter tensor in a layer's buffer.
#[derive(Clone, Copy, Debug)]
pub(super) enum PackedLayout {
    /// Layout of the tensor itself, unchanged.
    Plain { len: usize },
    /// Convolution weights `[out, in, height, width]`, stored per group as a matrix
    /// `[height, width, in] x [out]` that multiplies channels-last patches.
    ConvKernel { groups: usize, out: usize, input: usize, area: usize },
    /// A matrix `[rows, columns]`, stored as columns of a matrix of width `width`.
    Columns { rows: usize, columns: usize, width: usize },
}

impl ParameterSlot {
    pub(super) fn small(offset: usize, len: usize) -> Self {
        Self { is_small: true, offset, layout: PackedLayout::Plain { len } }
    }

    pub(super) fn large(offset: usize, layout: PackedLayout) -> Self {
        Self { is_small: false, offset, layout }
    }

    /// Returns the number of elements of the tensor.
    pub(super) fn len(&self) -> usize {
        match self.layout {
            PackedLayout::Plain { len } => len,
            PackedLayout::ConvKernel { groups, out, input, area } => groups * out * input * area,
            PackedLayout::Columns { rows, columns, .. } => rows * columns,
        }
    }

    /// Copies the tensor into the layer's buffer.
    pub(super) fn pack(&self, tensor: &[f32], packed: &mut [f32]) {
        self.for_each_run(|t, o, n| match n {
            1 => packed[o] = tensor[t],
            _ => packed[o..o + n].copy_from_slice(&tensor[t..t + n]),
        });
    }

    /// Copies the layer's buffer back into the tensor.
    pub(super) fn unpack(&self, packed: &[f32], tensor: &mut [f32]) {
        self.for_each_run(|t, o, n| match n {
            1 => tensor[t] = packed[o],
            _ => tensor[t..t + n].copy_from_slice(&packed[o..o + n]),
        });
    }

    /// Calls `run` with tensor offset, buffer offset and length of every run of elements that is
    /// contiguous in both.
    #[inline(always)]
    fn for_each_run(&self, mut run: impl FnMut(usize, usize, usize)) {
        match self.layout {
            PackedLayout::Plain { len } => run(0, self.offset, len),
            PackedLayout::Columns { rows, columns, width } => {
                (0..rows).for_each(|r| run(r * columns, self.offset + r * width, columns));
            }
            PackedLayout::ConvKernel { groups, out, input, area } => {
                for group in 0..groups {
                    let start = group * out * input * area;
                    // Sixteen outputs at a time use whole cache lines on both sides.
                    for block in (0..out).step_by(16) {
                        for i in 0..input {
                            for a in 0..area {
                                for o in block..out.min(block + 16) {
                                    let packed = start + (a * input + i) * out + o;
                                    run(
                                        start + (o * input + i) * area + a,
                                        self.offset + packed,
                                        1,
                                    );
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
