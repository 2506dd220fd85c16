//! Code of notebook cells to start from. Each is an example in the documentation of [`scaffold`],
//! so that the documentation tests compile it.

use super::Scaffold;
use crate::{Error, ErrorKind, Result};

/// A cell with its name.
pub(super) struct Cell {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) code: &'static str,
}

macro_rules! cells {
    ($($name:literal, $about:literal, $code:literal;)*) => {
        pub(super) const CELLS: &[Cell] = &[
            $(Cell { name: $name, about: $about, code: $code }),*
        ];

        /// The code of a cell to start from, by name: a method (`"dp-ssgd"`), or a task (`"mask"`,
        /// `"images"`, `"grid"`). [`help`](super::help()) lists them. Cells other than `start` use
        /// the variables `data` and `model` of an earlier one.
        ///
        /// # Errors
        /// `Setting` with the names that there are, for another one.
        ///
        /// # Examples
        /// ```
        /// use epsilab::prelude::*;
        ///
        /// println!("{}", lab::scaffold("dp-ssgd")?);
        /// # Ok::<(), Error>(())
        /// ```
        ///
        /// All cells:
        ///
        $(
            #[doc = concat!(
                "`", $name, "`: ", $about, "\n```no_run\n\
                 # use epsilab::prelude::*;\n\
                 # fn cell(data: &Dataset, model: &Model) -> Result<()> {\n\
                 # let (data, model) = (data.clone(), model.clone());\n",
                $code,
                "\n# ;\n# Ok(())\n# }\n```"
            )]
        )*
        pub fn scaffold(name: &str) -> Result<Scaffold> {
            find(name)
        }
    };
}

fn find(name: &str) -> Result<Scaffold> {
    let normalised = name.trim().to_lowercase().replace([' ', '_'], "-");
    let found = CELLS.iter().find(|cell| cell.name == normalised);
    found.map(|cell| Scaffold { code: cell.code }).ok_or_else(|| {
        let names: Vec<&str> = CELLS.iter().map(|cell| cell.name).collect();
        Error::new(ErrorKind::Setting, format!("scaffold {name:?}"), "unknown cell")
            .fix(format!("choose one of {}", names.join(", ")))
    })
}

cells! {
    "start", "data and a model, the first cell of a notebook",
    r#"let data = data::mnist_or_glyphs()?; // MNIST if its files are there, else drawn digits
let model = models::papernot_cnn(&data).seed(7).build()?;
model.show()"#;

    "images", "your own images: a folder with a folder for each class",
    r#"let data = data::image_folder("photos", &ImageOptions::size(32))?.split(0.8, 1)?;
let model = models::simple_vgg(&data, &[16, 32], 1).seed(7).build()?;
model.show()"#;

    "table", "your own table of numbers",
    r#"let data = data::csv("table.csv", "label")?.split(0.8, 1)?;
let model = models::mlp(&data, &[64]).seed(7).build()?;
model.show()"#;

    "own-model", "a network of your own: a list of layers, checked against plain backward passes",
    r#"use epsilab::nn::{Conv2dSpec, Flatten, LinearSpec, MaxPool2dSpec, Relu};
let conv = Conv2dSpec::new(1, 16, 3).padding(1);
let layers = layers![conv, Relu, MaxPool2dSpec::new(4), Flatten, LinearSpec::new(784, 10)];
let model = models::sequential(&data, layers).build()?; // for images of 28x28
model.check_gradients(&data)?"#;

    "dp-sgd", "per-example clipping and Gaussian noise, to an epsilon",
    r#"let method = DpSgd::new()
    .target(Epsilon(3.0), Delta(1e-5))
    .clip(0.1)
    .learning_rate(4.0)
    .batch_size(1024)
    .epochs(5);
method.preview(&data)?.show(); // the cost, before anything is trained
let run = method.train(&model, &data)?;
run.statement()"#;

    "dp-ssgd", "a mask before training, and gradient dropping in every step",
    r#"let method = DpSsgd::new()
    .target(Epsilon(3.0), Delta(1e-5))
    .clip(0.1)
    .learning_rate(4.0)
    .batch_size(1024)
    .epochs(5)
    .pre_prune(Synflow::keep(0.5))
    .drop_gradients(Dropping::random(0.3));
method.preview(&data)?.show();
let run = method.train(&model, &data)?;
run.statement()"#;

    "adaptive-dp-sgd", "noise whose variance decays every epoch",
    r#"let method = AdaptiveDpSgd::new()
    .target(Epsilon(3.0), Delta(1e-5))
    .clip(0.1)
    .batch_size(1024)
    .epochs(5);
method.preview(&data)?.show();
let run = method.train(&model, &data)?;
run.statement()"#;

    "dynamic-dp-sgd", "noise and clip norm by a public schedule",
    r#"let method = DynamicDpSgd::new()
    .target(Epsilon(3.0), Delta(1e-5))
    .clip(0.1)
    .batch_size(1024)
    .epochs(5);
method.preview(&data)?.show();
let run = method.train(&model, &data)?;
run.statement()"#;

    "quantile", "a clip norm that follows a quantile of the norms, released with noise",
    r#"let method = QuantileDpSgd::new()
    .target(Epsilon(3.0), Delta(1e-5))
    .clip(0.1)
    .batch_size(1024)
    .epochs(5);
method.preview(&data)?.show();
let run = method.train(&model, &data)?;
run.statement()"#;

    "auto-dp-sgd", "Auto DP-SGD as published, which has no guarantee, and its sound variant",
    r#"let auto = AutoDpSgd::new()
    .noise_multiplier(1.0)
    .noise_schedule(NoiseSchedule::step(0.7, 1))
    .epochs(3);
let sound = auto.clone().sound(); // per-example bounds: a guarantee
sound.preview(&data)?.show();
let run = sound.train(&model, &data)?;
run.statement()"#;

    "backprop-clipping", "bounds on inputs and upstream gradients of each layer",
    r#"let method = BackpropClip::new()
    .input_clip(1.0)
    .gradient_clip(0.01)
    .target(Epsilon(3.0), Delta(1e-5))
    .batch_size(512)
    .epochs(5);
method.preview(&data)?.show();
let run = method.train(&model, &data)?;
run.statement()"#;

    "non-private", "the baseline without privacy",
    r#"let run = NonPrivate::new().batch_size(256).epochs(3).train(&model, &data)?;
run.show()"#;

    "mask", "masks by three criteria, their saliencies and overlap",
    r#"let synflow = Synflow::keep(0.3).mask(&model)?; // data-free
let random = RandomMask::keep(0.3).seed(1).mask(&model)?;
let snip = DpSnip::keep(0.3).epsilon_delta(Epsilon(0.5), Delta(1e-6)).mask(&model, &data)?; // charged to the ledger
synflow.show();
figures::overlap(&[("Synflow", &synflow), ("random", &random), ("DP-SNIP", &snip)])?.show();"#;

    "epsilon", "what a setting costs, by every accountant and for every delta",
    r#"let plan = DpSgd::new().noise_multiplier(1.1).batch_size(256).epochs(15).plan(&data)?;
figures::epsilon_vs_delta(&plan)?.show();
figures::accountant_comparison(&[plan.event()], Delta(1e-5))?.show();
privacy::attack_bounds(&[plan.event()], Delta(1e-5))?"#;

    "grid", "accuracies over pruning rates, dropping rates, epsilons and seeds",
    r#"let method = DpSsgd::new().clip(0.1).learning_rate(4.0).batch_size(512).epochs(2);
let grid = Grid::new(method)
    .masks(MaskKind::Synflow)
    .pre_prune([0.0, 0.5, 0.9])
    .drop_gradients(DroppingRule::Random, [0.0, 0.5])
    .epsilon([1.0, 3.0])
    .seeds(3);
let result = grid.run(&models::papernot_cnn(&data), &data)?; // stored: continues after a stop
result"#;

    "cluster", "the same grid on Slurm",
    r#"let method = DpSgd::new().clip(0.1).batch_size(512).epochs(2);
let grid = Grid::new(method).epsilon([1.0, 3.0]).seeds(5);
let slurm = Slurm::new().partition("main").time("01:00:00").cpus(2);
let result = grid.on(slurm).run(&models::papernot_cnn(&data), &data)?;
result"#;

    "tuning", "learning rate and clip norm, found on public data and used on private data",
    r#"fn build(data: &Dataset) -> Result<Model> {
    models::papernot_cnn(data).seed(7).build()
}
let method = DpSgd::new().target(Epsilon(1.0), Delta(1e-5)).batch_size(1024).epochs(3);
let drawn = data::drawn_digits(20_000, 2_000, 2)?; // drawn by code: no private data
let tuned = Tuning::new(method).public(&drawn).run(build, &data)?;
let run = tuned.method().train(&build(&data)?, &data)?;
run.statement()"#;

    "transfer", "private training from a model that public data trained",
    r#"let drawn = data::glyphs_with(12_000, 1_000, 9)?;
let initial = models::papernot_cnn(&drawn).seed(7).build()?;
let public = recipes::pretraining().epochs(4).train(&initial, &drawn)?;
let start = public.model().transfer(&data).build()?;
let method = DpSgd::new().target(Epsilon(1.0), Delta(1e-5)).clip(0.1).batch_size(1024).epochs(3);
let run = method.train(&start, &data)?;
run.statement()"#;

    "audit", "an attack on a method: does it reveal more than its epsilon allows?",
    r#"let options = audit::Options { trials: 2_000, ..audit::Options::default() };
let report = audit::by_name("dp-sgd", &options)?.run()?;
figures::attack_curves(&[&report])?.show();
report"#;

    "ledger", "what this project has spent on each data set, and a budget for it",
    r#"lab::ledger()?.show();
lab::budget(&data, Epsilon(10.0), Delta(1e-5))?"#;
}
