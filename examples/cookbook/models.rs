use super::Chapter;
use epsilab::prelude::*;

pub const CHAPTER: Chapter = Chapter {
    title: "Models",
    source: include_str!("models.rs"),
    answers: &[
        ("... build a network of my own?", "own_network"),
        ("... know that the clipped gradients are right?", "prove"),
        ("... save and load a model?", "save_and_load"),
        ("... start from a public model?", "transfer"),
        ("... train only some layers?", "some_layers"),
        ("... get class probabilities?", "probabilities"),
        ("... see the filters of the first layer?", "filters"),
    ],
};

/// The layers are in `epsilab::nn`. A Burn module of your own: `Model::custom`.
fn own_network(data: Dataset) -> Result<()> {
    use epsilab::nn::{Conv2dSpec, Flatten, LinearSpec, MaxPool2dSpec, Relu};
    let conv = Conv2dSpec::new(1, 16, 3).padding(1);
    let layers = layers![conv, Relu, MaxPool2dSpec::new(4), Flatten, LinearSpec::new(784, 10)];
    let model = models::sequential(&data, layers).seed(7).build()?;
    println!("{}", model.summary());
    Ok(())
}

/// Compares the fast computation with one backward pass per example, on your model and data.
fn prove(model: Model, data: Dataset) -> Result<()> {
    println!("{}", model.check_gradients(&data)?);
    Ok(())
}

/// The file is safetensors, with the list of layers.
fn save_and_load(run: Run, data: Dataset) -> Result<()> {
    run.model().save("model.safetensors")?;
    let model = models::load("model.safetensors")?;
    println!("{:.2} %", 100.0 * model.accuracy(&data)?);
    Ok(())
}

/// The statement of a private run says what its start depends on.
fn transfer(data: Dataset) -> Result<()> {
    let drawn = data::glyphs_with(12_000, 1_000, 9)?;
    let initial = models::papernot_cnn(&drawn).seed(7).build()?;
    let public = recipes::pretraining().epochs(4).train(&initial, &drawn)?;
    let start = public.model().transfer(&data).build()?;
    println!("{}", start.summary());
    Ok(())
}

/// Frozen parameters get no gradient and no noise, so a step is cheaper.
fn some_layers(model: Model, data: Dataset) -> Result<()> {
    let method = DpSgd::new().target(Epsilon(1.0), Delta(1e-5)).clip(0.1).epochs(3);
    let run = method.train_only("head").train(&model, &data)?;
    println!("{run}");
    Ok(())
}

/// One row for each test example; for other examples, `predict_proba_examples`.
fn probabilities(run: Run, data: Dataset) -> Result<()> {
    let probabilities = run.model().predict_proba(&data)?;
    println!("{:?}", probabilities[0]);
    Ok(())
}

/// Those of a private run are covered by its epsilon.
fn filters(run: Run) -> Result<()> {
    run.filters()?.show();
    Ok(())
}
