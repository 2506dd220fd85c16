//! One chunk of examples: forward, backward, norms, factors, weighted sum.

use super::plan::{Part, Plan};
use super::recorder::{Record, Recorder};
use crate::engine::ClipRule;
use crate::nn::host::values;
use crate::nn::kernels::product::{Matrix, Store, add_scaled, dot, product};
use crate::nn::loss::cross_entropy;
use crate::nn::{Network, Value};

/// The chunk's share of a pass.
pub(super) struct Chunk {
    /// Σ factor · gradient, laid out by the plan.
    pub(super) sum: Vec<f32>,
    pub(super) norms: Vec<f32>,
    pub(super) losses: Vec<f32>,
}

pub(super) fn run(
    network: &Network,
    plan: &Plan,
    features: Vec<f32>,
    labels: &[u32],
    rule: &ClipRule,
) -> Chunk {
    let n = labels.len();
    let mut tape = Recorder::default();
    let x = Value::new(features, n, network.input_shape(), &network.device());
    let losses = cross_entropy(network.forward(x, &mut tape), labels);
    // The sum, never the mean: each example's gradient must not know how many others there are.
    let grads = losses.clone().sum().backward();
    let losses = values(losses.inner());
    let records = tape.listen(grads);

    let mut sum = vec![0.0; plan.len()];
    let (mut norms, mut factors) = (Vec::with_capacity(n), Vec::with_capacity(n));
    let mut instance = vec![0.0; plan.instances];
    let mut patches = Vec::new();
    for i in 0..n {
        let mut square = 0f64;
        for (part, record) in plan.parts.iter().zip(&records) {
            square += part.make(i, n, record, &mut instance, &mut patches);
        }
        let norm = (square + f64::from(dot(&instance, &instance))).sqrt() as f32;
        let factor = rule.factor(norm);
        add_scaled(&mut sum[..plan.instances], factor, &instance);
        norms.push(norm);
        factors.push(factor);
    }
    for (part, record) in plan.parts.iter().zip(&records) {
        part.weighted_sum(&factors, record, &mut sum);
    }
    Chunk { sum, norms, losses }
}

/// In f64: a large input times a small gradient must not vanish in the square of either.
fn squares(values: &[f32]) -> f64 {
    values.iter().map(|&v| f64::from(v).powi(2)).sum()
}

/// Example `i`'s row of a row-major matrix of `n` rows.
fn row(values: &[f32], i: usize, n: usize) -> &[f32] {
    let width = values.len() / n;
    &values[i * width..(i + 1) * width]
}

impl Part {
    /// Example `i`: writes its instance, or returns the square of its norm where none is needed.
    fn make(
        &self,
        i: usize,
        n: usize,
        record: &Record,
        instance: &mut [f32],
        patches: &mut Vec<f32>,
    ) -> f64 {
        let input = row(record.input.slice(), i, n);
        let gradient = row(record.gradient.slice(), i, n);
        match self {
            // The gradient by the weight is the outer product of input and output gradient, the
            // one by the bias is the output gradient (Goodfellow 2015, arXiv:1510.01799).
            Self::Ghost { bias, .. } => {
                let bias = if bias.is_some() { 1.0 } else { 0.0 };
                (squares(input) + bias) * squares(gradient)
            }
            Self::Instance { window, channels, weight, bias } => {
                let positions = gradient.len() / channels;
                patches.resize(positions * window.patch(), 0.0);
                window.columns(input, patches);
                product(
                    &mut instance[weight.clone()],
                    Store::Replace,
                    Matrix::new(gradient, *channels, positions),
                    Matrix::new(patches, positions, window.patch()),
                );
                if let Some(bias) = bias {
                    let maps = gradient.chunks_exact(positions);
                    for (b, map) in instance[bias.clone()].iter_mut().zip(maps) {
                        *b = map.iter().sum();
                    }
                }
                0.0
            }
        }
    }

    /// Adds Σ factor · gradient over the chunk, for what was not instantiated.
    fn weighted_sum(&self, factors: &[f32], record: &Record, sum: &mut [f32]) {
        let Self::Ghost { inputs, outputs, weight, bias } = self else { return };
        let mut scaled = record.gradient.slice().to_vec();
        for (row, factor) in scaled.chunks_exact_mut(*outputs).zip(factors) {
            row.iter_mut().for_each(|g| *g *= factor);
        }
        let input = Matrix::new(record.input.slice(), factors.len(), *inputs);
        let gradient = Matrix::new(&scaled, factors.len(), *outputs);
        product(&mut sum[weight.clone()], Store::Add, input.transposed(), gradient);
        if let Some(bias) = bias {
            for row in scaled.chunks_exact(*outputs) {
                add_scaled(&mut sum[bias.clone()], 1.0, row);
            }
        }
    }
}
