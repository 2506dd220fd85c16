//! `bench --roofline`: each model's share of what this machine could do at most, layer by layer.

use std::time::{Duration, Instant};

use epsilab::engine::{ClipRule, FusedExecutor, LayerProfile, Limits};
use epsilab::{Error, Result};
use serde::{Deserialize, Serialize};

use super::child;
use super::figures::median;
use super::step::{CLIP, Mode, Training};
use super::{Case, data};
use crate::stdout;

/// Layers below this part of the layers' time share a row.
const SMALL: f64 = 0.01;

/// The roofline of one model. Times are wall-clock milliseconds per step: what all threads took
/// together, divided by their number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Roofline {
    model: String,
    batch: usize,
    threads: usize,
    /// Examples that a thread takes through all layers together, and the size of their buffers.
    chunk: usize,
    buffer_mb: f64,
    /// f32 multiply-adds per second (two operations each) of the registers and of the matrix
    /// product, in units of 1e9 operations.
    peak_gflops: f64,
    product_gflops: f64,
    /// Of buffers of `buffer_mb` per thread, in units of 1e9 bytes per second.
    bandwidth_gb: f64,
    /// Median of whole private and non-private steps.
    private_ms: f64,
    nonprivate_ms: f64,
    /// The shortest time of the layers, without norms and noise.
    limit_ms: f64,
    layers: Vec<Layer>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Layer {
    path: String,
    what: String,
    /// Multiplications of one forward pass of an example by the usual algorithm.
    multiplications: usize,
    /// Multiplications of forward and backward pass by the algorithms used.
    multiplications_done: usize,
    limit_ms: f64,
    forward_ms: f64,
    backward_ms: f64,
    norms_ms: f64,
    sums_ms: f64,
}

impl Layer {
    fn new(layer: &LayerProfile, case: &Case<'_>, limits: &Limits) -> Self {
        let per_step = |time: Duration| milliseconds(time) / (case.steps * case.threads) as f64;
        Self {
            path: layer.path.clone(),
            what: layer.description.clone(),
            multiplications: layer.multiplications,
            multiplications_done: layer.work.multiplications,
            limit_ms: milliseconds(limits.shortest_time(&layer.work, case.batch)),
            forward_ms: per_step(layer.forward),
            backward_ms: per_step(layer.backward),
            norms_ms: per_step(layer.norms),
            sums_ms: per_step(layer.sums),
        }
    }

    fn total(&self) -> f64 {
        self.forward_ms + self.backward_ms + self.norms_ms + self.sums_ms
    }

    /// Adds the times of another layer.
    fn add(&mut self, other: &Self) {
        self.limit_ms += other.limit_ms;
        self.forward_ms += other.forward_ms;
        self.backward_ms += other.backward_ms;
        self.norms_ms += other.norms_ms;
        self.sums_ms += other.sums_ms;
    }

    fn sum_of<'a>(what: String, layers: impl Iterator<Item = &'a Self>) -> Self {
        let [limit_ms, forward_ms, backward_ms, norms_ms, sums_ms] = [0.0; 5];
        let (multiplications, multiplications_done) = (0, 0);
        let path = String::new();
        let mut sum = Self {
            path,
            what,
            multiplications,
            multiplications_done,
            limit_ms,
            forward_ms,
            backward_ms,
            norms_ms,
            sums_ms,
        };
        layers.for_each(|layer| sum.add(layer));
        sum
    }

    fn cells(&self) -> [String; 8] {
        let ms = |time: f64| format!("{time:.2}");
        let share = if self.total() > 0.0 { 100.0 * self.limit_ms / self.total() } else { 0.0 };
        let name = match self.path.is_empty() {
            true => self.what.clone(),
            false => format!("{}: {}", self.path, self.what),
        };
        let times = [self.forward_ms, self.backward_ms, self.norms_ms, self.sums_ms];
        let [forward, backward, norms, sums] = times.map(ms);
        let (total, limit) = (ms(self.total()), ms(self.limit_ms));
        [name, forward, backward, norms, sums, total, limit, format!("{share:.0} %")]
    }
}

/// Measures and prints the rooflines of all cases.
///
/// # Errors
/// `Setting` for another device than the CPU; errors of the measured steps.
pub fn run(cases: &[Case<'_>], json: bool) -> Result<()> {
    if let Some(case) = cases.iter().find(|case| case.place != epsilab::device::DeviceSpec::Cpu) {
        let why = "the limits that are measured are those of the CPU";
        return Err(Error::setting("--device", case.place, why)
            .fix("leave out --device, or leave out --roofline"));
    }
    let mut all = Vec::new();
    for case in cases {
        let found: Roofline = child::ask(case, Mode::Roofline)?;
        if !json {
            stdout::print(&found.text())?;
        }
        all.push(found);
    }
    if json {
        return stdout::print(&serde_json::json!(all).to_string());
    }
    stdout::print(LEGEND)
}

const LEGEND: &str = "\
Milliseconds of wall-clock time per step. The limit of a layer is the longer of two times: of its \
multiplications,\nby the algorithms used, at the peak rate of the processor; and of reading and \
writing its inputs, outputs,\nparameters and their gradients once, at the measured bandwidth. It \
contains no norms, noise, activations and\ntransforms. Layers below 1 % share a row. How it is \
measured: docs/performance.md";

/// Measures one model in this process.
pub fn measure(case: &Case<'_>) -> Result<Roofline> {
    let model = case.entry.model()?;
    let pool = data::pool(case.entry, case.batch)?;
    let rule = ClipRule::flat(CLIP);
    let mut whole = Vec::new();
    for private in [true, false] {
        let rule = private.then(|| rule.clone());
        let mechanism = case.executor.mechanism(rule, case.batch)?;
        let mut training = Training::new(model.network(), mechanism);
        let mut seconds = Vec::new();
        for i in 0..case.warmup + case.steps {
            let start = Instant::now();
            drop(training.step(&pool[i % pool.len()])?);
            if i >= case.warmup {
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        whole.push(1e3 * median(&seconds));
    }
    let executor = FusedExecutor::default();
    let profile = executor.profile(model.network(), &pool[0], &rule, case.steps)?;
    let limits = Limits::measure(case.threads, profile.buffer_bytes);
    Ok(Roofline {
        model: case.entry.name.to_owned(),
        batch: case.batch,
        threads: case.threads,
        chunk: profile.chunk,
        buffer_mb: profile.buffer_bytes as f64 / f64::from(1 << 20),
        peak_gflops: 2e-9 * limits.multiply_adds,
        product_gflops: 2e-9 * limits.products,
        bandwidth_gb: 1e-9 * limits.bandwidth,
        private_ms: whole[0],
        nonprivate_ms: whole[1],
        limit_ms: milliseconds(profile.limit(case.batch, &limits)),
        layers: profile.layers.iter().map(|layer| Layer::new(layer, case, &limits)).collect(),
    })
}

impl Roofline {
    /// A heading, the table of the layers as Markdown, and an empty line.
    fn text(&self) -> String {
        let heading = format!(
            "{}, batch {}, {} threads: private step {:.1} ms, non-private {:.1} ms, limit {:.1} ms ({:.0} % \
             of the private step)\n\
             peak {:.0} GFLOP/s, matrix product {:.0} GFLOP/s, {:.1} GB/s in buffers of {:.1} MiB a thread \
             (chunks of {})",
            self.model,
            self.batch,
            self.threads,
            self.private_ms,
            self.nonprivate_ms,
            self.limit_ms,
            100.0 * self.limit_ms / self.private_ms,
            self.peak_gflops,
            self.product_gflops,
            self.bandwidth_gb,
            self.buffer_mb,
            self.chunk,
        );
        let all = Layer::sum_of("all layers".into(), self.layers.iter());
        let is_small = |layer: &&Layer| layer.total() < SMALL * all.total();
        let small: Vec<&Layer> = self.layers.iter().filter(is_small).collect();
        let mut rows: Vec<[String; 8]> = vec![
            ["layer", "forward", "backward", "norms", "sums", "total", "limit", "share"]
                .map(String::from),
        ];
        rows.extend(self.layers.iter().filter(|layer| !is_small(layer)).map(Layer::cells));
        if !small.is_empty() {
            let name = format!("{} others", small.len());
            rows.push(Layer::sum_of(name, small.into_iter()).cells());
        }
        let rest = self.private_ms - all.total();
        rows.push(all.cells());
        let empty = String::new;
        rows.push([
            "noise, update, waiting".into(),
            empty(),
            empty(),
            empty(),
            empty(),
            format!("{rest:.2}"),
            empty(),
            empty(),
        ]);
        format!("{heading}\n\n{}", markdown(&rows))
    }
}

/// A Markdown table with aligned columns, numbers to the right. The first row is the heading.
fn markdown(rows: &[[String; 8]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..8).map(|column| width(column).unwrap_or(0).max(3)).collect();
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(i, (cell, &width))| match i {
            0 => format!(" {cell:<width$} "),
            _ => format!(" {cell:>width$} "),
        });
        format!("|{}|\n", cells.collect::<Vec<_>>().join("|"))
    };
    let rule = widths.iter().enumerate().map(|(i, &width)| match i {
        0 => "-".repeat(width + 2),
        _ => format!("{}:", "-".repeat(width + 1)),
    });
    let rule = format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    let mut lines = rows.iter().map(line);
    let heading = lines.next().unwrap_or_default();
    heading + &rule + &lines.collect::<String>()
}

fn milliseconds(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}
