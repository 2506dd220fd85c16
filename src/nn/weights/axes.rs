//! [`Axes`]: the order of the axes of weights in a file.

use burn::prelude::*;

use super::place::{Kind, Place};
use crate::device::host;

/// The order of the axes of weights in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axes {
    /// As in the lab: linear weights `[inputs, outputs]`, convolutions `[out, in, height, width]`.
    Own,
    /// As in PyTorch: linear weights `[outputs, inputs]`, or `[outputs, inputs, 1, 1]` where the
    /// last layer is a 1 x 1 convolution; convolutions `[out, in, height, width]`.
    PyTorch,
    /// As in JAX and TensorFlow: linear weights `[inputs, outputs]`, convolutions
    /// `[height, width, in, out]`.
    Jax,
}

impl Axes {
    /// For each axis in the file, the axis of the parameter; empty if they are the same.
    fn order(self, place: &Place) -> &'static [usize] {
        match (self, place.kind, place.shape.len()) {
            (Self::PyTorch, Kind::Linear, 2) => &[1, 0],
            (Self::Jax, Kind::Conv, 4) => &[2, 3, 1, 0],
            _ => &[],
        }
    }

    /// The shape in the file.
    pub(super) fn shape_in_file(self, place: &Place) -> Vec<usize> {
        match self.order(place) {
            [] => place.shape.clone(),
            order => order.iter().map(|&axis| place.shape[axis]).collect(),
        }
    }

    /// Whether a tensor of this shape holds the parameter.
    pub(super) fn fits(self, place: &Place, shape: &[usize]) -> bool {
        let own = self.shape_in_file(place);
        let as_convolution = self == Self::PyTorch && place.kind == Kind::Linear && own.len() == 2;
        shape == own || as_convolution && shape == [own[0], own[1], 1, 1]
    }

    /// Values in the file's order, row-major, in that of the parameter.
    pub(super) fn turned(self, place: &Place, values: Vec<f32>) -> Vec<f32> {
        let order = self.order(place);
        if order.is_empty() {
            return values;
        }
        // Both with sides of 1 before the others.
        let (mut in_file, mut axes, first) = ([1; 4], [0, 1, 2, 3], 4 - order.len());
        for (i, &axis) in order.iter().enumerate() {
            in_file[first + i] = place.shape[axis];
            axes[first + axis] = first + i;
        }
        let tensor = Tensor::<4>::from_data(TensorData::new(values, in_file), &Device::flex());
        host::values(tensor.permute(axes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(kind: Kind, shape: &[usize]) -> Place {
        Place { kind, ..Place::of_path("weight".to_owned(), shape.to_vec()) }
    }

    #[test]
    fn linear_weights_of_pytorch_are_transposed() {
        let linear = place(Kind::Linear, &[3, 2]);
        assert_eq!(Axes::PyTorch.shape_in_file(&linear), [2, 3]);
        let values: Vec<f32> = (0..6).map(|i| i as f32).collect();
        assert_eq!(Axes::PyTorch.turned(&linear, values.clone()), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(Axes::Jax.turned(&linear, values.clone()), values);
        for (shape, fits) in [(vec![2, 3], true), (vec![2, 3, 1, 1], true), (vec![3, 2], false)] {
            assert_eq!(Axes::PyTorch.fits(&linear, &shape), fits, "{shape:?}");
        }
        assert!(!Axes::Own.fits(&linear, &[2, 3]) && !Axes::Jax.fits(&linear, &[3, 2, 1, 1]));
    }

    #[test]
    fn convolutions_of_jax_begin_with_the_kernel() {
        let conv = place(Kind::Conv, &[2, 3, 4, 5]);
        assert_eq!(Axes::Jax.shape_in_file(&conv), [4, 5, 3, 2]);
        let values: Vec<f32> = (0..120).map(|i| i as f32).collect();
        let turned = Axes::Jax.turned(&conv, values.clone());
        for (out, input, y, x) in [(0, 0, 0, 0), (1, 2, 3, 4), (1, 0, 2, 1), (0, 2, 1, 3)] {
            let (own, file) =
                (((out * 3 + input) * 4 + y) * 5 + x, ((y * 5 + x) * 3 + input) * 2 + out);
            assert_eq!(turned[own], values[file]);
        }
        assert_eq!(Axes::PyTorch.turned(&conv, values.clone()), values);
    }
}
