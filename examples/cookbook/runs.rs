use super::Chapter;
use epsilab::prelude::*;

pub const CHAPTER: Chapter = Chapter {
    title: "Runs and figures",
    source: include_str!("runs.rs"),
    answers: &[
        ("... list earlier runs, and export them?", "list"),
        ("... train again although the run is stored?", "fresh"),
        ("... resume after the machine was stopped?", "checkpoints"),
        ("... compare two runs?", "compare"),
        ("... see which classes are confused?", "confusion"),
        ("... see the worst predictions?", "worst"),
        ("... write a report of a run or a grid?", "report"),
        ("... keep a figure or its numbers?", "save"),
        ("... draw a figure of my own?", "own_figure"),
    ],
};

/// CSV and JSON are read by pandas and polars.
fn list() -> Result<()> {
    let runs = lab::runs()?.sorted_by("accuracy")?;
    runs.show();
    runs.table().save("runs.csv")?;
    Ok(())
}

/// It spends again, too.
fn fresh(model: Model, data: Dataset) -> Result<()> {
    let method = DpSgd::new().target(Epsilon(1.0), Delta(1e-5)).clip(0.1).epochs(1);
    println!("{}", method.fresh().train(&model, &data)?);
    Ok(())
}

/// The same cell resumes from the last checkpoint. Nothing is charged twice.
fn checkpoints(model: Model, data: Dataset) -> Result<()> {
    let method = DpSgd::new().target(Epsilon(3.0), Delta(1e-5)).clip(0.1).epochs(40);
    println!("{}", method.checkpoint_every(500).train(&model, &data)?);
    Ok(())
}

/// Settings and results that differ, and the curves on common axes.
fn compare(dense: Run, sparse: Run) -> Result<()> {
    dense.difference(&sparse).show();
    figures::compare_runs(&[("dense", &dense), ("sparse", &sparse)])?.show();
    Ok(())
}

/// Rows are the true classes. Intervals are Wilson's, 95 %.
fn confusion(run: Run, data: Dataset) -> Result<()> {
    run.confusion_matrix(&data)?.show();
    run.class_accuracy(&data)?.show();
    Ok(())
}

/// Examples of the test part with truth, prediction and confidence.
fn worst(run: Run, data: Dataset) -> Result<()> {
    run.predictions(&data)?.wrong().worst(24).show();
    Ok(())
}

/// As `.html` (one page), `.md` or `.tex`. `report.covered()` leaves out what no epsilon covers.
fn report(run: Run) -> Result<()> {
    run.report()?.save("report.html")?;
    run.report()?.covered().save("public/report.md")?;
    Ok(())
}

/// The drawing as `.svg`, `.png` or `.vl.json` (Vega-Lite), the numbers as `.csv` or `.json`.
fn save(run: Run) -> Result<()> {
    let figure = figures::epsilon_vs_delta(&run)?;
    figure.save("epsilon.svg")?;
    figure.save("epsilon.csv")?;
    println!("{}", figure.table());
    Ok(())
}

/// The coverage says what the figure reveals; without it, redaction removes the figure.
fn own_figure() -> Result<()> {
    use epsilab::show::{Chart, Coverage, Panel, Series};
    let points: Vec<(f64, f64)> = (1..=20).map(|k| (f64::from(k), 1.0 / f64::from(k))).collect();
    let panel = Panel::new("noise over batch").series(Series::line("1 / batch", points));
    let chart = Chart::new("Larger batches, less noise").panel(panel).x_label("batch");
    chart.coverage(Coverage::Public).show();
    Ok(())
}
