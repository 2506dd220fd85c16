//! Overview of the library, and where to start: `lab::help()` lists tasks, cells and methods,
//! `lab::scaffold(name)` returns the code of a cell, and `lab::examples()` the notebooks. The code
//! itself is in `cells`.

mod cells;
#[cfg(test)]
mod tests;

pub use cells::scaffold;

use cells::CELLS;

use crate::methods::methods;
use crate::program;
use crate::show::format::html_escape;
use crate::show::{Coverage, MimeBundle, Table};
use std::fmt;

/// Code of a cell to start from: see [`scaffold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaffold {
    code: &'static str,
}

impl Scaffold {
    /// Returns the code, to copy into the next cell.
    pub fn code(&self) -> &str {
        self.code
    }

    pub(in crate::lab) fn bundle(&self) -> MimeBundle {
        let style = "margin:0;padding:8px;border:1px solid rgba(128,128,128,0.4)";
        let html = format!("<pre style=\"{style}\">{}</pre>", html_escape(self.code));
        MimeBundle::text(self.code).with_html(html)
    }
}

impl fmt::Display for Scaffold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code)
    }
}

/// Overview of the library by task, with the call to begin with: [`help`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guide(());

/// Tasks with the call to begin with, in the order of a project.
const TASKS: [(&str, &str); 23] = [
    ("data that need no file", "data::glyphs()?, data::patterns()?, data::sentences()?"),
    ("known data sets", "data::mnist()?, fashion_mnist, cifar10, cifar100, ag_news"),
    ("your own data", "data::image_folder, tar_shards, csv, from_vecs, text_csv, from_texts"),
    ("look at the examples", "data.show(), figures::examples(&data, 20)?"),
    ("a model", "models::papernot_cnn(&data).build()?, wide_resnet, resnet18, bilstm, mlp, ..."),
    ("your own model", "models::sequential(&data, layers![...]), Model::custom(...)"),
    ("is it computed right?", "model.check_gradients(&data)?"),
    ("what will it cost?", "method.preview(&data)?, figures::epsilon_vs_delta(&plan)?"),
    ("train", "method.train(&model, &data)?"),
    ("what is guaranteed?", "run.statement()"),
    ("look at a run", "run.show(), run.record(), run.curve()"),
    ("which coordinates it trained", "run.selections()?, figures::tiles(&mask, &model)?"),
    ("look at its predictions", "run.confusion_matrix(&data)?, run.predictions(&data)?.wrong()"),
    ("masks and saliencies", "Synflow::keep(0.3).mask(&model)?, RandomMask, DpSnip, MagnitudeMask"),
    ("settings, found privately", "Tuning::new(method).public(&drawn), PrivateSelection"),
    (
        "many runs in a table",
        "Grid::new(method).epsilon([1.0, 3.0]).seeds(3).run(&builder, &data)?",
    ),
    ("on a cluster", "grid.on(Slurm::new().partition(\"main\"))"),
    ("attack a method", "audit::by_name(\"dp-sgd\", &options)?.run()?"),
    ("what was spent", "lab::ledger()?, lab::budget(&data, epsilon, delta)?"),
    ("earlier runs", "lab::runs()?, lab::last_run()"),
    ("compare runs", "run.difference(&other), figures::compare_runs(&[(\"name\", &run)])?"),
    ("a report to keep", "run.report()?.save(\"report.html\")?"),
    ("keep a figure or its numbers", "figure.save(\"a.svg\")?, .table(), .save(\"a.csv\")?"),
];

/// Returns an overview of the library by task, and of the cells that [`scaffold`] writes.
pub fn help() -> Guide {
    Guide(())
}

impl Guide {
    /// Returns the tasks and the calls to begin with.
    pub(crate) fn tasks(&self) -> Table {
        Table::new(["task", "begin with"]).rows(TASKS.map(<[_; 2]>::from))
    }

    /// Returns the cells of [`scaffold`] as a table.
    pub(crate) fn cells(&self) -> Table {
        let rows = CELLS.iter().map(|cell| [cell.name, cell.about]);
        Table::new(["cell", "what it does"]).rows(rows).caption("lab::scaffold(\"...\")?")
    }

    /// Returns the methods with their summaries as a table.
    pub(crate) fn methods(&self) -> Table {
        let known = methods().into_iter().map(|method| method.descriptor());
        let rows = known.map(|known| [known.name, known.summary]);
        Table::new(["method", "what it is"]).rows(rows).caption("Methods")
    }

    fn tables(&self) -> [Table; 3] {
        [self.tasks(), self.methods(), self.cells()]
    }

    pub(in crate::lab) fn bundle(&self) -> MimeBundle {
        let html: Vec<String> = self.tables().iter().map(Table::html).collect();
        MimeBundle::text(self.to_string()).with_html(html.join("\n"))
    }
}

impl fmt::Display for Guide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [tasks, methods, cells] = self.tables().map(|table| table.text());
        write!(f, "{tasks}\n\n{methods}\n\n{cells}")
    }
}

/// The notebooks and what each is about. The command `notebooks` writes them to a folder.
const NOTEBOOKS: [(&str, &str); 12] = [
    ("01_first_private_model", "train, look, and read what is guaranteed"),
    ("02_what_does_epsilon_mean", "epsilon, delta, accountants, attacks"),
    ("03_masks_and_saliencies", "random, Synflow and DP-SNIP masks"),
    ("04_dp_ssgd", "pre-pruning and gradient dropping"),
    ("05_auto_dp_sgd", "a published method without a guarantee, and its sound variant"),
    ("06_backpropagation_clipping", "bounds on inputs and upstream gradients"),
    ("07_audit_it_yourself", "attacks that refute wrong claims"),
    ("08_five_lessons", "batch size, rate and clip norm, normalisation, width"),
    ("09_transfer_learning", "starting from a model that public data trained"),
    ("10_ablation_in_ten_minutes", "a folder of images, two masks, a grid, a report"),
    ("11_your_own_bound_audited", "a bound of your own, and what an audit can show"),
    ("12_grid_on_a_cluster", "submit to Slurm, continue, collect"),
];

/// Returns the notebooks of the course as a table.
pub fn examples() -> Table {
    let command = program::command("notebooks");
    let caption = format!("Notebooks: in notebooks/ of the project, or written by `{command}`");
    let table = Table::new(["notebook", "about"]).rows(NOTEBOOKS.map(<[_; 2]>::from));
    table.caption(caption).coverage(Coverage::Public)
}
