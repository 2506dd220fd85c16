//! `bench --roofline`: each model's share of what this machine could do at most, layer by layer.

use std::time::{Duration, Instant};

use epsilab::device::DeviceSpec;
use epsilab::engine::{CpuRoofline, LayerProfile};
use epsilab::show::Table;
use epsilab::{Error, Result};
use serde::{Deserialize, Serialize};

use super::child;
use super::step::{MeasureMode, ProfiledTraining, Training};
use super::{Case, data};
use crate::stdout;

/// Layers below this part of the layers' time share a row.
const SMALL: f64 = 0.01;

/// The roofline of one model. Times are means of wall-clock milliseconds per step; those of layers
/// are what all threads took together, divided by their number.
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
    /// Whole private and non-private steps.
    private_ms: f64,
    nonprivate_ms: f64,
    /// The part of a private step after the clipped sum.
    noise_and_update_ms: f64,
    /// The shortest time of the layers, without norms and noise.
    limit_ms: f64,
    layers: Vec<Layer>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
    fn new(layer: &LayerProfile, case: &Case<'_>, limits: &CpuRoofline) -> Self {
        let per_step = |time: Duration| milliseconds(time) / (case.steps * case.threads) as f64;
        Self {
            path: layer.path.clone(),
            what: layer.description.clone(),
            multiplications: layer.multiplications,
            multiplications_done: layer.work.multiplications,
            limit_ms: milliseconds(limits.min_time(&layer.work, case.batch)),
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

    fn summed<'a>(what: String, layers: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = Self { what, ..Self::default() };
        layers.for_each(|layer| sum.add(layer));
        sum
    }

    fn cells(&self) -> [String; 8] {
        let ms = |time: f64| format!("{time:.2}");
        let share = if self.total() > 0.0 { 100.0 * self.limit_ms / self.total() } else { 0.0 };
        let name = if self.path.is_empty() {
            self.what.clone()
        } else {
            format!("{}: {}", self.path, self.what)
        };
        let times = [self.forward_ms, self.backward_ms, self.norms_ms, self.sums_ms];
        let [forward, backward, norms, sums] = times.map(ms);
        let (total, limit) = (ms(self.total()), ms(self.limit_ms));
        [name, forward, backward, norms, sums, total, limit, format!("{share:.0}")]
    }
}

/// Measures and prints the rooflines of all cases.
///
/// # Errors
/// `Setting` for another device than the CPU; errors of the measured steps.
pub fn run(cases: &[Case<'_>], json: bool) -> Result<()> {
    if let Some(case) = cases.iter().find(|case| case.device != DeviceSpec::Cpu) {
        let why = "the limits that are measured are those of the CPU";
        return Err(Error::setting("--device", case.device, why)
            .fix("leave out --device, or leave out --roofline"));
    }
    let mut all = Vec::new();
    for case in cases {
        let found: Roofline = child::ask(case, MeasureMode::Roofline)?;
        if !json {
            stdout::print_line(&found.text())?;
        }
        all.push(found);
    }
    if json {
        return stdout::print_line(&serde_json::json!(all).to_string());
    }
    stdout::print_line(LEGEND)
}

const LEGEND: &str = "\
Means of wall-clock milliseconds per step. The limit of a layer is the longer of two times: of its \
multiplications,\nby the algorithms used, at the peak rate of the processor; and of reading and \
writing its inputs, outputs,\nparameters and their gradients once, at the measured bandwidth. It \
contains no norms, noise, activations and\ntransforms. Layers below 1 % share a row. How it is \
measured: book/src/evidence/performance.md";

/// Measures one model in this process. Private and non-private steps alternate, so that other load
/// affects both; the limits are measured before and after them.
pub fn measure(case: &Case<'_>) -> Result<Roofline> {
    let model = case.entry.model()?;
    let pool = data::pool(case.entry, case.batch)?;
    let mut private = ProfiledTraining::new(model.network(), case.batch)?;
    let without_privacy = case.executor.mechanism(None, case.batch)?;
    let mut nonprivate = Training::new(model.network(), without_privacy);
    // Also makes the buffers.
    let (mut profile, _) = private.step(&pool[0])?;
    let buffer_bytes = profile.buffer_bytes;
    for i in 0..case.warmup {
        private.step(&pool[i % pool.len()])?;
        drop(nonprivate.step(&pool[i % pool.len()])?);
    }
    let limits = CpuRoofline::measure(case.threads, buffer_bytes);
    let (mut noise_and_update, mut elapsed) = (Duration::ZERO, Duration::ZERO);
    for i in 0..case.steps {
        let batch = &pool[i % pool.len()];
        let (step, rest) = private.step(batch)?;
        match i {
            0 => profile = step,
            _ => profile.add(&step),
        }
        noise_and_update += rest;
        let start = Instant::now();
        drop(nonprivate.step(batch)?);
        elapsed += start.elapsed();
    }
    let limits = limits.fastest_of(CpuRoofline::measure(case.threads, buffer_bytes));
    let per_step = |time: Duration| milliseconds(time) / case.steps as f64;
    Ok(Roofline {
        model: case.entry.name.to_owned(),
        batch: case.batch,
        threads: case.threads,
        chunk: profile.chunk,
        buffer_mb: buffer_bytes as f64 / f64::from(1 << 20),
        peak_gflops: 2e-9 * limits.fma_rate,
        product_gflops: 2e-9 * limits.matmul_rate,
        bandwidth_gb: 1e-9 * limits.bandwidth,
        private_ms: per_step(profile.elapsed + noise_and_update),
        nonprivate_ms: per_step(elapsed),
        noise_and_update_ms: per_step(noise_and_update),
        limit_ms: milliseconds(profile.min_time(case.batch, &limits)),
        layers: profile.layers.iter().map(|layer| Layer::new(layer, case, &limits)).collect(),
    })
}

impl Roofline {
    /// A heading, the table of the layers, and an empty line.
    fn text(&self) -> String {
        format!("{}\n\n{}\n", self.heading(), self.table().text())
    }

    fn heading(&self) -> String {
        format!(
            "{}, batch {}, {} thread{}: private step {:.1} ms, non-private {:.1} ms, limit {:.1} \
             ms ({:.0} % of the private step)\n\
             peak {:.0} GFLOP/s, matrix product {:.0} GFLOP/s, {:.1} GB/s in buffers of {:.1} MiB a thread \
             (chunks of {})",
            self.model,
            self.batch,
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            self.private_ms,
            self.nonprivate_ms,
            self.limit_ms,
            100.0 * self.limit_ms / self.private_ms,
            self.peak_gflops,
            self.product_gflops,
            self.bandwidth_gb,
            self.buffer_mb,
            self.chunk,
        )
    }

    fn table(&self) -> Table {
        let all = Layer::summed("all layers".into(), self.layers.iter());
        let (small, large): (Vec<&Layer>, Vec<&Layer>) =
            self.layers.iter().partition(|layer| layer.total() < SMALL * all.total());
        let columns =
            ["layer", "forward", "backward", "norms", "sums", "total", "limit", "share, %"];
        let mut table = large.into_iter().map(Layer::cells).fold(Table::new(columns), Table::row);
        if !small.is_empty() {
            let name = match small.len() {
                1 => "1 other".to_owned(),
                n => format!("{n} others"),
            };
            table = table.row(Layer::summed(name, small.into_iter()).cells());
        }
        let outside = |what: &str, time: f64| {
            let mut cells = [const { String::new() }; 8];
            cells[0] = what.to_owned();
            cells[5] = format!("{time:.2}");
            cells
        };
        table
            .row(all.cells())
            .row(outside(
                "waiting, sums of threads",
                self.private_ms - self.noise_and_update_ms - all.total(),
            ))
            .row(outside("noise, update", self.noise_and_update_ms))
    }
}

fn milliseconds(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use epsilab::engine::LayerWork;

    use super::super::step::ExecutorChoice;
    use super::super::variants::VariantArgs;
    use super::super::zoo;
    use super::*;

    static NO_VARIANTS: VariantArgs =
        VariantArgs { masked: None, clip_rule: Vec::new(), method: None, train_only: None };

    fn layer(what: &str, forward: u64) -> Layer {
        let case = Case {
            entry: zoo::find("mlp").unwrap(),
            device: DeviceSpec::Cpu,
            batch: 50,
            threads: 2,
            steps: 5,
            warmup: 0,
            executor: ExecutorChoice::Auto,
            variants: &NO_VARIANTS,
        };
        let profile = LayerProfile {
            path: String::new(),
            description: what.into(),
            multiplications: 10,
            work: LayerWork { multiplications: 20, values: 0, parameters: 0 },
            forward: Duration::from_millis(forward),
            backward: Duration::from_millis(20),
            norms: Duration::ZERO,
            sums: Duration::from_millis(10),
        };
        let (multiply_adds, products, bandwidth) = (1e6, 1e6, 1e6);
        let limits = CpuRoofline {
            threads: 2,
            fma_rate: multiply_adds,
            matmul_rate: products,
            bandwidth,
            buffer_bytes: 1 << 16,
        };
        Layer::new(&profile, &case, &limits)
    }

    #[test]
    fn times_are_those_of_one_step_and_of_all_threads() {
        let layer = layer("linear", 100);
        // 5 steps on 2 threads; 50 examples with 20 of 1e6 multiplications a second each.
        assert_eq!((layer.forward_ms, layer.backward_ms, layer.sums_ms), (10.0, 2.0, 1.0));
        assert!((layer.limit_ms - 1.0).abs() < 1e-9);
        let expected = ["linear", "10.00", "2.00", "0.00", "1.00", "13.00", "1.00", "8"];
        assert_eq!(layer.cells(), expected);
    }

    #[test]
    fn small_layers_share_a_row_and_the_rows_add_up_to_the_step() {
        let mut roofline = Roofline {
            model: "mlp".into(),
            batch: 50,
            threads: 1,
            chunk: 8,
            buffer_mb: 1.0,
            peak_gflops: 2.0,
            product_gflops: 2.0,
            bandwidth_gb: 1.0,
            private_ms: 1100.0,
            nonprivate_ms: 900.0,
            noise_and_update_ms: 60.0,
            limit_ms: 3.0,
            layers: vec![layer("large", 10_000), layer("tiny", 1), layer("small", 40)],
        };
        let text = roofline.text();
        assert!(text.starts_with("mlp, batch 50, 1 thread: private"), "{text}");
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        let words = |name: &str| row(name).split_whitespace().rev().take(3).collect::<Vec<_>>();
        assert_eq!(words("all layers"), ["0", "3.00", "1013.10"], "{text}");
        assert_eq!(words("2 others"), ["20", "2.00", "10.10"], "{text}");
        assert!(!text.contains("tiny"), "{text}");
        assert!(row("waiting").ends_with("26.90") && row("noise").ends_with("60.00"), "{text}");
        roofline.layers.truncate(2);
        assert!(roofline.text().lines().any(|line| line.starts_with("1 other ")));
        roofline.layers.truncate(1);
        assert!(!roofline.text().contains("other"));
    }
}
