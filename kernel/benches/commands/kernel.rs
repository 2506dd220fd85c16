//! `bench kernel`: how fast a Jupyter kernel starts and answers cells, measured as a front end sees
//! it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use epsilab::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::memory;
use super::results::median;
use crate::run::kernel_client::{self, ExecutionEnd, KernelClient};
use crate::run::outputs::OutputCollector;
use crate::run::stop_signal::StopSignal;
use crate::{prebuilt, stdout};

/// Measure how fast a Jupyter kernel starts and answers cells.
#[derive(clap::Args, Clone, Debug)]
pub struct KernelArgs {
    /// Measure the kernel of this kernel.json instead of this program
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
    /// Code to put before the first cell, such as `:dep epsilab = { path = "…" }` for evcxr's own
    /// kernel
    #[arg(long, value_name = "CODE", default_value = "")]
    pub before: String,
    /// Number of trivial cells, and of cells that call the lab
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub cells: usize,
    /// Print one JSON object on stdout and nothing else
    #[arg(long)]
    pub json: bool,
}

/// No cell of the benchmark takes so long, except the first one of a kernel that compiles the lab.
const LIMIT: Duration = Duration::from_secs(1800);

/// What was measured: seconds and MB.
struct Measured {
    kernel_info_s: f64,
    first_cell_s: f64,
    cells_s: Vec<f64>,
    lab_cells_s: Vec<f64>,
    rss_mb: Option<f64>,
}

/// Runs `bench kernel`.
///
/// # Errors
/// An unreadable kernelspec, a kernel that can't be started or ends, a cell that fails.
pub fn bench(args: &KernelArgs) -> Result<()> {
    if args.cells == 0 {
        return Err(Error::setting("--cells", 0, "there would be nothing to measure"));
    }
    let argv = args.spec.as_deref().map(read_argv).transpose()?;
    if argv.is_none() {
        // The time to build the lab is not that of a start.
        prebuilt::ensure_built(&mut prebuilt::terminal_progress())?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::io("starting the benchmark", &e))?;
    let measured = runtime.block_on(measure(argv.as_deref(), args))?;
    if args.json {
        stdout::print_line(&format!("{}\n", measured.json()))
    } else {
        stdout::print_line(&measured.table())
    }
}

/// The command of a `kernel.json`.
fn read_argv(spec: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(spec)
        .map_err(|e| Error::io(format!("reading {}", spec.display()), &e))?;
    let json: Value = serde_json::from_str(&text).unwrap_or_default();
    let words = json["argv"].as_array().map(Vec::as_slice).unwrap_or_default();
    let argv: Option<Vec<String>> =
        words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
    argv.filter(|argv| !argv.is_empty()).ok_or_else(|| {
        let what = format!("--spec = {}", spec.display());
        Error::new(ErrorKind::Setting, what, "the file has no command of a kernel (`argv`)").fix(
            "give the kernel.json of an installed kernel; `jupyter kernelspec list` names \
             their folders",
        )
    })
}

async fn measure(argv: Option<&[String]>, args: &KernelArgs) -> Result<Measured> {
    let here = std::env::current_dir().map_err(|e| Error::io("finding the current folder", &e))?;
    let kernel = match argv {
        Some(argv) => {
            let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
            KernelClient::start_program(&argv, &here, &[]).await?
        }
        None => KernelClient::start(&here, &[]).await?,
    };
    let mut client = Client { kernel, stop: StopSignal::listen() };
    let first = "use epsilab::prelude::*;\nlet data = data::glyphs_with(200, 50, 1)?;";
    client.run(format!("{}\n{first}", args.before).trim_start()).await?;
    let first_cell_s = client.kernel.elapsed().as_secs_f64();
    let mut cells_s = Vec::new();
    let mut lab_cells_s = Vec::new();
    for i in 0..args.cells {
        // Each is compiled: no two are alike.
        let (cell, lab_cell) = match i % 3 {
            0 => (
                format!("let n{i} = {i};"),
                format!("let model{i} = models::papernot_cnn(&data).seed({i}).build()?;"),
            ),
            1 => (format!("{i} + 1"), format!("data::glyphs_with(20, 5, {i})?")),
            _ => (
                format!("println!(\"{{}}\", {i});"),
                format!("let examples{i} = data.train().len() + {i};"),
            ),
        };
        cells_s.push(client.run(&cell).await?);
        lab_cells_s.push(client.run(&lab_cell).await?);
    }
    let kernel = client.kernel;
    let measured = Measured {
        kernel_info_s: kernel.time_to_first_reply.as_secs_f64(),
        first_cell_s,
        cells_s,
        lab_cells_s,
        rss_mb: kernel.process_id().and_then(memory::process_tree_mb),
    };
    kernel.shut_down().await;
    Ok(measured)
}

struct Client {
    kernel: KernelClient,
    stop: StopSignal,
}

impl Client {
    /// Runs a cell and returns the seconds until its reply and all its outputs have arrived.
    async fn run(&mut self, code: &str) -> Result<f64> {
        let began = Instant::now();
        let mut outputs = OutputCollector::new(1);
        let request = kernel_client::execute_request(code, false);
        let ended =
            self.kernel.execute(0, request, Some(LIMIT), &mut outputs, &mut self.stop).await?;
        let seconds = began.elapsed().as_secs_f64();
        let why = match (ended, outputs.error(0)) {
            (ExecutionEnd::Replied(_), None) => return Ok(seconds),
            (ExecutionEnd::Replied(_), Some(failure)) => failure.evalue.clone(),
            (ExecutionEnd::Interrupted, _) => "it was stopped".to_owned(),
            (ExecutionEnd::TimedOut, _) => format!("it ran longer than {} s", LIMIT.as_secs()),
        };
        let fix = "the cells need the lab: a kernel that does not have it gets it by --before";
        Err(Error::new(ErrorKind::Notebook, format!("the cell `{code}`"), why).fix(fix))
    }
}

impl Measured {
    fn json(&self) -> Value {
        json!({
            "kernel_info_s": self.kernel_info_s,
            "first_cell_s": self.first_cell_s,
            "cell_median_s": median(&self.cells_s),
            "lab_cell_median_s": median(&self.lab_cells_s),
            "cells_s": self.cells_s,
            "lab_cells_s": self.lab_cells_s,
            "rss_mb": self.rss_mb,
        })
    }

    fn table(&self) -> String {
        let memory = self.rss_mb.map_or("unknown".to_owned(), |mb| format!("{mb:.0} MB"));
        let cells = self.cells_s.len();
        format!(
            "start to the first answer       {:.2} s\n\
             start to the first lab cell     {:.2} s  (sent as soon as the kernel answers)\n\
             trivial cell, median of {cells:<3}     {:.2} s\n\
             lab cell, median of {cells:<3}         {:.2} s\n\
             memory of all its processes     {memory}\n",
            self.kernel_info_s,
            self.first_cell_s,
            median(&self.cells_s),
            median(&self.lab_cells_s),
        )
    }
}
