//! [`AxisOrder`]: the order of the axes of weights in a file.

use burn::prelude::*;

use super::parameter_location::{LayerKind, ParameterLocation};
use crate::device::host;

/// The order of the axes of weights in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisOrder {
    /// Order of the lab: linear weights `[inputs, outputs]`, convolutions
    /// `[out, in, height, width]`.
    Native,
    /// Order of PyTorch: linear weights `[outputs, inputs]`, or `[outputs, inputs, 1, 1]` where
    /// the last layer is a 1 x 1 convolution; convolutions `[out, in, height, width]`.
    PyTorch,
    /// Order of JAX and TensorFlow: linear weights `[inputs, outputs]`, convolutions
    /// `[height, width, in, out]`.
    Jax,
}

impl AxisOrder {
    /// Returns for each axis in the file the axis of the parameter; empty if they are the same.
    fn permutation(self, location: &ParameterLocation) -> &'static [usize] {
        match (self, location.kind, location.shape.len()) {
            (Self::PyTorch, LayerKind::Linear, 2) => &[1, 0],
            (Self::Jax, LayerKind::Conv, 4) => &[2, 3, 1, 0],
            _ => &[],
        }
    }

    /// Returns the shape in the file.
    pub(super) fn shape_in_file(self, location: &ParameterLocation) -> Vec<usize> {
        match self.permutation(location) {
            [] => location.shape.clone(),
            order => order.iter().map(|&axis| location.shape[axis]).collect(),
        }
    }

    /// Returns whether a tensor of this shape fits the parameter.
    pub(super) fn fits(self, location: &ParameterLocation, shape: &[usize]) -> bool {
        let expected = self.shape_in_file(location);
        let as_convolution =
            self == Self::PyTorch && location.kind == LayerKind::Linear && expected.len() == 2;
        shape == expected || as_convolution && shape == [expected[0], expected[1], 1, 1]
    }

    /// Converts values in the file's order, row-major, to that of the parameter.
    pub(super) fn to_native_order(
        self,
        location: &ParameterLocation,
        values: Vec<f32>,
    ) -> Vec<f32> {
        let order = self.permutation(location);
        if order.is_empty() {
            return values;
        }
        // Both with sides of 1 before the others.
        let (mut in_file, mut axes, first) = ([1; 4], [0, 1, 2, 3], 4 - order.len());
        for (i, &axis) in order.iter().enumerate() {
            in_file[first + i] = location.shape[axis];
            axes[first + axis] = first + i;
        }
        let tensor = Tensor::<4>::from_data(TensorData::new(values, in_file), &Device::flex());
        host::tensor_to_vec(tensor.permute(axes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(kind: LayerKind, shape: &[usize]) -> ParameterLocation {
        ParameterLocation {
            kind,
            ..ParameterLocation::from_path("weight".to_owned(), shape.to_vec())
        }
    }

    #[test]
    fn linear_weights_of_pytorch_are_transposed() {
        let linear = place(LayerKind::Linear, &[3, 2]);
        assert_eq!(AxisOrder::PyTorch.shape_in_file(&linear), [2, 3]);
        let values: Vec<f32> = (0..6).map(|i| i as f32).collect();
        assert_eq!(
            AxisOrder::PyTorch.to_native_order(&linear, values.clone()),
            [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
        );
        assert_eq!(AxisOrder::Jax.to_native_order(&linear, values.clone()), values);
        for (shape, fits) in [(vec![2, 3], true), (vec![2, 3, 1, 1], true), (vec![3, 2], false)] {
            assert_eq!(AxisOrder::PyTorch.fits(&linear, &shape), fits, "{shape:?}");
        }
        assert!(
            !AxisOrder::Native.fits(&linear, &[2, 3])
                && !AxisOrder::Jax.fits(&linear, &[3, 2, 1, 1])
        );
    }

    #[test]
    fn convolutions_of_jax_begin_with_the_kernel() {
        let conv = place(LayerKind::Conv, &[2, 3, 4, 5]);
        assert_eq!(AxisOrder::Jax.shape_in_file(&conv), [4, 5, 3, 2]);
        let values: Vec<f32> = (0..120).map(|i| i as f32).collect();
        let turned = AxisOrder::Jax.to_native_order(&conv, values.clone());
        for (out, input, y, x) in [(0, 0, 0, 0), (1, 2, 3, 4), (1, 0, 2, 1), (0, 2, 1, 3)] {
            let (native, file) =
                (((out * 3 + input) * 4 + y) * 5 + x, ((y * 5 + x) * 3 + input) * 2 + out);
            assert_eq!(turned[native], values[file]);
        }
        assert_eq!(AxisOrder::PyTorch.to_native_order(&conv, values.clone()), values);
    }
}
