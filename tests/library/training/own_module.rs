//! Modules of the user's own: what their runs rest on, and that a stored one is shown again.

use super::*;
use epsilab::burn::{self, module::Module, prelude::*};
use epsilab::nn::{BatchTensor, Forward, Linear, LinearSpec, Tape};

#[derive(Module, Debug)]
struct Mine {
    body: Linear,
    head: Linear,
    bent: bool,
}

impl Forward for Mine {
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        let x = self.body.forward(BatchTensor::Flat(x.into_flat()), tape).into_flat();
        let x = if self.bent { x.tanh() } else { x };
        self.head.forward(BatchTensor::Flat(x), tape).into_flat()
    }
}

fn model(bent: bool, data: &Dataset) -> Result<Model> {
    let (body, head) = (Linear::new(LinearSpec::new(784, 8), 1)?, LinearSpec::new(8, 10));
    Model::custom("mine", Mine { body, head: Linear::new(head, 2)?, bent }, data)
}

#[test]
fn a_finished_run_is_shown_again_with_its_assumptions() -> Result<()> {
    if process::alone(this_test!()) {
        return Ok(());
    }
    let data = glyphs(31);
    let method = settings().steps(3);
    let run = method.train(&model(true, &data)?, &data)?;
    let spent = lab::ledger()?.epsilon(data.origin());
    let again = method.train(&model(true, &data)?, &data)?;
    assert!(!run.is_restored() && again.is_restored());
    assert_eq!(weights(&again), weights(&run));
    assert_eq!(again.model().predict(&data)?, run.model().predict(&data)?);
    assert_eq!(lab::ledger()?.epsilon(data.origin()), spent, "showing it again costs nothing");
    for run in [run, again] {
        let statement = run.statement().to_string();
        assert!(
            statement.contains("no example's output in the user's own module depends on"),
            "{statement}"
        );
    }
    Ok(())
}

#[test]
fn modules_that_differ_in_their_code_share_neither_noise_nor_run() -> Result<()> {
    let data = glyphs(32);
    let (clip, sigma, rate, batch) = (0.1, 50.0, 4.0, 250);
    let method = DpSgd::new().noise_multiplier(sigma).clip(clip).learning_rate(rate);
    let method = method.batch_size(batch).steps(1).seed(5);
    let model = [model(true, &data)?, model(false, &data)?];
    let run = [method.train(&model[0], &data)?, method.train(&model[1], &data)?];
    assert_ne!(run[0].record().id, run[1].record().id);
    assert!(!run[1].is_restored());
    // With shared noise the models would differ by their clipped sums alone, which are at most
    // as long as twice the batch's clip norms; with noise of their own by fifty times as much.
    let numbers = |run: &Run| -> Vec<f32> {
        run.model().network().values().into_iter().flat_map(|(_, values)| values).collect()
    };
    let (a, b) = (numbers(&run[0]), numbers(&run[1]));
    let apart = a.iter().zip(&b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
    let noise = rate * sigma * clip / batch as f64 * (2.0 * a.len() as f64).sqrt();
    assert!((apart / noise - 1.0).abs() < 0.2, "{apart} instead of about {noise}");
    assert!(2.0 * rate * clip < 0.2 * noise, "else the test could not tell");
    Ok(())
}
