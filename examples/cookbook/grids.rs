use super::Chapter;
use epsilab::prelude::*;

pub const CHAPTER: Chapter = Chapter {
    title: "Many runs",
    source: include_str!("grids.rs"),
    answers: &[
        ("... compare settings with repeats?", "grid"),
        ("... send a grid to a cluster?", "cluster"),
        ("... find the learning rate on public data?", "tuning"),
        ("... choose the best of several runs privately?", "selection"),
        ("... see accuracy against epsilon?", "pareto"),
    ],
};

/// Runs are stored: the same cell continues after a stop and trains nothing twice.
/// `result.with_baseline(0)?` adds the differences to the first case, over the same seeds.
fn grid(data: Dataset) -> Result<()> {
    let method = DpSsgd::new().clip(0.1).learning_rate(4.0).batch_size(512).epochs(2);
    let grid = Grid::new(method).masks(MaskKind::Synflow).pre_prune([0.0, 0.5, 0.9]);
    let result = grid.epsilon([1.0, 3.0]).seeds(3).run(&models::papernot_cnn(&data), &data)?;
    result.show();
    result.save_csv("grid.csv")?;
    Ok(())
}

/// All runs are charged before the first job; see [clusters](cluster.md).
fn cluster(data: Dataset) -> Result<()> {
    let method = DpSgd::new().clip(0.1).batch_size(512).epochs(2);
    let grid = Grid::new(method).epsilon([1.0, 3.0]).seeds(5);
    let slurm = Slurm::new().partition("main").time("01:00:00").cpus(2);
    grid.on(slurm).run(&models::papernot_cnn(&data), &data)?.show();
    Ok(())
}

/// Free, because the search reads public data only.
fn tuning(data: Dataset) -> Result<()> {
    fn build(data: &Dataset) -> Result<Model> {
        models::papernot_cnn(data).seed(7).build()
    }
    let method = DpSgd::new().target(Epsilon(1.0), Delta(1e-5)).batch_size(1024).epochs(3);
    let drawn = data::drawn_digits(20_000, 2_000, 2)?;
    let tuned = Tuning::new(method).public(&drawn).run(build, &data)?;
    println!("{}", tuned.method().train(&build(&data)?, &data)?);
    Ok(())
}

/// The number of trials is random, and only one is shown: that costs far less than showing all.
fn selection(model: Model, data: Dataset) -> Result<()> {
    let method = DpSgd::new().noise_multiplier(4.0).delta(Delta(1e-5)).clip(0.1).epochs(2);
    let plans = [1.0, 2.0, 4.0].map(|rate| method.clone().learning_rate(rate).plan(&data));
    let plans = plans.into_iter().collect::<Result<Vec<Plan>>>()?;
    let best = Plan::best_of(Trials::geometric(4.0), plans)?;
    println!("{}", best.preview(&data)?);
    println!("{}", best.train(&model, &data)?);
    Ok(())
}

/// Choosing a run by its test accuracy overfits to the test part; the note of the figure says so.
fn pareto() -> Result<()> {
    figures::pareto(&lab::runs()?.points("MNIST"))?.show();
    Ok(())
}
