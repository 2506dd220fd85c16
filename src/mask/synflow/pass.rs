//! One pass: ones in, their way to the outputs, and what each weight has to do with the sum.

use super::flow::{Flow, Step, Tensor};
use super::product::{Matrix, product};
use crate::nn::Window;

impl Flow {
    /// R, the sum of all outputs for an example of ones.
    pub(super) fn total(&mut self) -> f64 {
        let mut pass = Pass { tensors: &mut self.tensors, seen: Vec::new(), room: Vec::new() };
        pass.forward(&self.steps, vec![1.0; self.inputs]).iter().sum()
    }

    /// Writes the scores, w ∂R/∂w, and returns R; NaN if a score is not finite.
    pub(super) fn score(&mut self) -> f64 {
        let mut pass = Pass { tensors: &mut self.tensors, seen: Vec::new(), room: Vec::new() };
        let outputs = pass.forward(&self.steps, vec![1.0; self.inputs]);
        pass.backward(&self.steps, vec![1.0; outputs.len()]);
        let mut finite = true;
        for tensor in &mut self.tensors {
            for (score, weight) in tensor.scores.iter_mut().zip(&tensor.weights) {
                *score *= weight;
                finite &= score.is_finite();
            }
        }
        if finite { outputs.iter().sum() } else { f64::NAN }
    }
}

struct Pass<'a> {
    tensors: &'a mut [Tensor],
    /// Inputs of the maps with weights, in the order of the forward pass.
    seen: Vec<Vec<f64>>,
    /// Scratch of the convolutions.
    room: Vec<f64>,
}

impl Pass<'_> {
    fn forward(&mut self, steps: &[Step], x: Vec<f64>) -> Vec<f64> {
        steps.iter().fold(x, |mut x, step| match step {
            Step::Linear { weight, inputs, outputs } => {
                let mut y = vec![0.0; x.len() / inputs * outputs];
                let weights = Matrix::new(&self.tensors[*weight].weights, *outputs);
                product(&mut y, Matrix::new(&x, *inputs), weights);
                self.seen.push(x);
                y
            }
            Step::Conv { weight, conv } => {
                let y = conv.forward(&self.tensors[*weight].weights, &x, &mut self.room);
                self.seen.push(x);
                y
            }
            Step::Pool { window, output } => {
                let mut y = vec![0.0; window.channels * output[0] * output[1]];
                let share = 1.0 / (window.kernel[0] * window.kernel[1]) as f64;
                each_pixel(window, *output, |from, to| y[to] += share * x[from]);
                y
            }
            Step::Mean { count, inner } => {
                let blocks = x.chunks_exact(count * inner);
                let mean = |block: &[f64], i: usize| {
                    block[i..].iter().step_by(*inner).sum::<f64>() / *count as f64
                };
                blocks.flat_map(|block| (0..*inner).map(move |i| mean(block, i))).collect()
            }
            Step::Repeat { times } => {
                x.iter().flat_map(|&value| std::iter::repeat_n(value, *times)).collect()
            }
            Step::Scale { factors, run } => {
                scale(&mut x, factors, *run);
                x
            }
            Step::Ones { outputs, .. } => vec![1.0; *outputs],
            Step::Residual { body, shortcut } => {
                let mut sum = self.forward(body, x.clone());
                let other = self.forward(shortcut, x);
                sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
                sum
            }
        })
    }

    /// Takes the gradient of R by the output of `steps` to the one by their input. Scores become
    /// gradients by the weights.
    fn backward(&mut self, steps: &[Step], gradient: Vec<f64>) -> Vec<f64> {
        steps.iter().rev().fold(gradient, |mut gradient, step| match step {
            Step::Linear { weight, inputs, outputs } => {
                let x = self.seen.pop().expect("one input per map with weights");
                let Tensor { weights, scores, .. } = &mut self.tensors[*weight];
                let mut back = vec![0.0; x.len()];
                let gradient = Matrix::new(&gradient, *outputs);
                product(scores, Matrix::new(&x, *inputs).transposed(), gradient);
                product(&mut back, gradient, Matrix::new(weights, *outputs).transposed());
                back
            }
            Step::Conv { weight, conv } => {
                let x = self.seen.pop().expect("one input per map with weights");
                conv.backward(&mut self.tensors[*weight], &x, &gradient, &mut self.room)
            }
            Step::Pool { window, output } => {
                let mut back = vec![0.0; window.image()];
                let share = 1.0 / (window.kernel[0] * window.kernel[1]) as f64;
                each_pixel(window, *output, |from, to| back[from] += share * gradient[to]);
                back
            }
            Step::Mean { count, inner } => {
                let blocks = gradient.chunks_exact(*inner);
                let share = |block: &[f64]| -> Vec<f64> {
                    block.iter().map(|value| value / *count as f64).collect()
                };
                blocks.flat_map(|block| share(block).repeat(*count)).collect()
            }
            Step::Repeat { times } => {
                gradient.chunks_exact(*times).map(|copies| copies.iter().sum()).collect()
            }
            Step::Scale { factors, run } => {
                scale(&mut gradient, factors, *run);
                gradient
            }
            Step::Ones { inputs, .. } => vec![0.0; *inputs],
            Step::Residual { body, shortcut } => {
                // The shortcut came last.
                let other = self.backward(shortcut, gradient.clone());
                let mut sum = self.backward(body, gradient);
                sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
                sum
            }
        })
    }
}

fn scale(x: &mut [f64], factors: &[f64], run: usize) {
    for (run, factor) in x.chunks_exact_mut(run).zip(factors.iter().cycle()) {
        run.iter_mut().for_each(|value| *value *= factor);
    }
}

/// Calls `pair` with every pixel under every window, and the output that belongs to the window.
fn each_pixel(window: &Window, output: [usize; 2], mut pair: impl FnMut(usize, usize)) {
    let Window { channels, size, kernel, stride, .. } = *window;
    let mut to = 0;
    for channel in 0..channels {
        for place in 0..output[0] * output[1] {
            let (top, left) = (place / output[1] * stride[0], place % output[1] * stride[1]);
            for y in top..top + kernel[0] {
                let line = (channel * size[0] + y) * size[1];
                (line + left..line + left + kernel[1]).for_each(|from| pair(from, to));
            }
            to += 1;
        }
    }
}
