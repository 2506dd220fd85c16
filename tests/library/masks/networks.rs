//! Models and data for Synflow.

use epsilab::nn::Network;
use epsilab::prelude::*;

pub fn data(shape: &[usize], classes: usize) -> Dataset {
    let size: usize = shape.iter().product();
    let labels = (0..classes as u32).collect();
    data::from_vecs(vec![0.0; classes * size], shape, labels, classes).unwrap()
}

/// The model with changed parameters.
pub fn changed(model: &Model, change: impl Fn(&str, &mut Vec<f32>)) -> Model {
    let network = model.network();
    let mut values = network.values().into_iter();
    let fill = |path: &str, _: &[usize], _: usize| {
        let mut values = values.next().unwrap().1;
        change(path, &mut values);
        values
    };
    model.with_network(Network::build(network.input_shape(), network.specs(), fill).unwrap())
}
