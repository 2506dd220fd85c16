//! Measurements as JSON and as a table.

use serde::Serialize;
use serde_json::{Map, Value};

use super::Case;
use super::times::{Spent, Times};
use super::variants::METHOD_VARIANTS;

/// Peak memory of steps above data and parameters, in MiB; `None` on a GPU and where the system
/// does not report it.
#[derive(Clone, Copy, Debug)]
pub struct PeakMemory {
    pub private: Option<f64>,
    pub nonprivate: Option<f64>,
}

/// Measurements of one model. Times are in seconds per step, memory in MiB.
#[derive(Clone, Debug, Serialize)]
pub struct BenchResult {
    model: &'static str,
    batch: usize,
    threads: usize,
    device: String,
    executor: &'static str,
    steps: usize,
    warmup: usize,
    parameters: usize,
    /// Medians and the samples they are taken from.
    nonprivate_s: f64,
    nonprivate_min_s: f64,
    nonprivate_max_s: f64,
    nonprivate_cpu_s: Option<f64>,
    private_s: f64,
    private_min_s: f64,
    private_max_s: f64,
    private_cpu_s: Option<f64>,
    /// private / non-private
    ratio: f64,
    /// Of private steps.
    examples_per_s: f64,
    /// Peak above data and parameters, which take `held_mb`.
    peak_mb: Option<f64>,
    nonprivate_peak_mb: Option<f64>,
    held_mb: f64,
    /// Of the last batch, before its step.
    loss: f64,
    nonprivate_loss: f64,
    #[serde(flatten)]
    variants: Option<VariantResults>,
}

/// Medians of the variants of the private step. Ratios are to the private step, in wall-clock time
/// and in CPU time of all threads.
#[derive(Clone, Debug, Serialize)]
struct VariantResults {
    masked_rate: Option<f64>,
    /// `NAME_s`, `NAME_ratio` and `NAME_cpu_ratio` of each variant.
    #[serde(flatten)]
    each: Map<String, Value>,
    #[serde(skip)]
    ratios: Vec<(String, f64)>,
}

impl VariantResults {
    fn new(masked_rate: Option<f64>, private: &Spent, variants: &[Spent]) -> Self {
        let private_s = median(&private.seconds);
        let (mut each, mut ratios) = (Map::new(), Vec::new());
        for variant in variants {
            let name = &variant.name;
            let seconds = median(&variant.seconds);
            let cpu = (!private.cpu_seconds.is_empty() && !variant.cpu_seconds.is_empty())
                .then(|| median(&variant.cpu_seconds) / median(&private.cpu_seconds));
            each.insert(format!("{name}_s"), seconds.into());
            each.insert(format!("{name}_ratio"), (seconds / private_s).into());
            each.insert(format!("{name}_cpu_ratio"), cpu.into());
            ratios.push((column(name), seconds / private_s));
        }
        // What a step with clips costs beside one without privacy that trains the same layers.
        let seconds_of = |name: &str| each.get(&format!("{name}_s")).and_then(Value::as_f64);
        if let [Some(plain), Some(clipped)] = METHOD_VARIANTS.map(seconds_of) {
            each.insert(OVER_NONPRIVATE.into(), (clipped / plain).into());
            ratios.push((column(OVER_NONPRIVATE), clipped / plain));
        }
        Self { masked_rate, each, ratios }
    }
}

/// The ratio of a step of backpropagation clipping to one without privacy.
const OVER_NONPRIVATE: &str = "clipping_over_nonprivate";

/// Heading of the column of a variant.
fn column(name: &str) -> String {
    name.trim_start_matches("drop_").replace('_', "-")
}

impl BenchResult {
    pub fn new(case: &Case<'_>, times: &Times, peaks: PeakMemory) -> Self {
        let [plain, private] =
            [&times.nonprivate, &times.private].map(|spent| TimeStats::of(&spent.seconds));
        let cpu =
            |spent: &Spent| (!spent.cpu_seconds.is_empty()).then(|| median(&spent.cpu_seconds));
        Self {
            model: case.entry.name,
            batch: case.batch,
            threads: case.threads,
            device: times.device.clone(),
            executor: case.executor.name(),
            steps: case.steps,
            warmup: case.warmup,
            parameters: times.parameters,
            nonprivate_s: plain.median,
            nonprivate_min_s: plain.min,
            nonprivate_max_s: plain.max,
            nonprivate_cpu_s: cpu(&times.nonprivate),
            private_s: private.median,
            private_min_s: private.min,
            private_max_s: private.max,
            private_cpu_s: cpu(&times.private),
            ratio: private.median / plain.median,
            examples_per_s: case.batch as f64 / private.median,
            peak_mb: peaks.private,
            nonprivate_peak_mb: peaks.nonprivate,
            held_mb: times.held_mb,
            loss: times.private.loss,
            nonprivate_loss: times.nonprivate.loss,
            variants: (!case.variants.is_empty()).then(|| {
                VariantResults::new(case.variants.masked, &times.private, &times.variants)
            }),
        }
    }

    /// Row of the table.
    pub fn row(&self, cases: &[Case<'_>]) -> String {
        let memory = self.peak_mb.map_or("unknown".into(), |mb| format!("{mb:.0}"));
        let row = format!(
            "{:<width$}  {:>6}  {:>7}  {:>14}  {:>10}  {:>5.2}  {:>10.0}  {:>7}",
            self.model,
            self.batch,
            self.threads,
            milliseconds(self.nonprivate_s),
            milliseconds(self.private_s),
            self.ratio,
            self.examples_per_s,
            memory,
            width = width(cases),
        );
        let ratios = self.variants.iter().flat_map(|variants| &variants.ratios);
        ratios.fold(row, |row, (name, ratio)| {
            format!("{row}  {ratio:>width$.2}", width = column_width(name))
        })
    }
}

/// Width of the column of a variant.
fn column_width(name: &str) -> usize {
    name.len().max(6)
}

/// Heading of the table.
pub fn heading(cases: &[Case<'_>]) -> String {
    let heading = format!(
        "{:<width$}  {:>6}  {:>7}  {:>14}  {:>10}  {:>5}  {:>10}  {:>7}",
        "model",
        "batch",
        "threads",
        "non-private ms",
        "private ms",
        "ratio",
        "examples/s",
        "MiB",
        width = width(cases),
    );
    let variants = &cases[0].variants;
    let over = variants.method.as_ref().map(|_| OVER_NONPRIVATE.to_owned());
    variants.names().iter().chain(&over).map(|name| column(name)).fold(heading, |heading, name| {
        format!("{heading}  {name:>width$}", width = column_width(&name))
    })
}

/// Explanation of the columns.
pub fn legend(cases: &[Case<'_>]) -> String {
    let case = &cases[0];
    let masked = case.variants.masked.map_or(String::new(), |rate| {
        format!(
            "masked, random, smallest: {:.0} % of each weight tensor left out, by a mask, at \
             random in every step,\nor the smallest parameters. ",
            100.0 * rate
        )
    });
    let variants =
        if case.variants.is_empty() { "" } else { "Variants: ratios to the private step.\n" };
    format!(
        "{masked}{variants}Medians of {} steps in turn after {} to warm up; examples/s and MiB are \
         those of private steps, MiB the peak over\ndata and parameters. Data are made up. How it \
         is measured: book/src/evidence/performance.md",
        case.steps, case.warmup
    )
}

/// A JSON list with one object per model.
pub fn json(all: &[BenchResult]) -> String {
    serde_json::json!(all).to_string()
}

fn width(cases: &[Case<'_>]) -> usize {
    cases.iter().map(|case| case.entry.name.len()).max().unwrap_or(0)
}

fn milliseconds(seconds: f64) -> String {
    let ms = 1e3 * seconds;
    if ms < 100.0 { format!("{ms:.2}") } else { format!("{ms:.0}") }
}

struct TimeStats {
    median: f64,
    min: f64,
    max: f64,
}

impl TimeStats {
    fn of(values: &[f64]) -> Self {
        Self {
            median: median(values),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// The median.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use epsilab::device::DeviceSpec;

    use super::super::step::ExecutorChoice;
    use super::super::variants::VariantArgs;
    use super::super::zoo::ZOO;
    use super::*;

    #[test]
    fn the_middle_of_even_and_odd_numbers_of_steps() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 9.0, 2.0]), 3.0);
        assert_eq!(median(&[5.0]), 5.0);
    }

    #[test]
    fn results_have_headings_and_the_ratio_of_private_to_non_private() {
        let case = Case {
            entry: &ZOO[0],
            device: DeviceSpec::Cpu,
            batch: 256,
            threads: 2,
            steps: 3,
            warmup: 0,
            executor: ExecutorChoice::Auto,
            variants: &VariantArgs::default(),
        };
        let spent = |name: &str, seconds: [f64; 3]| Spent {
            name: name.into(),
            seconds: seconds.to_vec(),
            cpu_seconds: vec![],
            loss: 2.3,
        };
        let times = Times {
            device: "cpu".into(),
            parameters: 26_010,
            held_mb: 3.0,
            private: spent("private", [0.030, 0.025, 0.9]),
            nonprivate: spent("nonprivate", [0.020, 0.010, 0.090]),
            variants: vec![],
        };
        let figures =
            BenchResult::new(&case, &times, PeakMemory { private: None, nonprivate: Some(9.0) });
        assert!((figures.ratio - 1.5).abs() < 1e-12);
        assert_eq!((figures.nonprivate_min_s, figures.nonprivate_max_s), (0.010, 0.090));
        assert!((figures.examples_per_s - 256.0 / 0.030).abs() < 1e-6);
        let (row, head) = (figures.row(&[case]), heading(&[case]));
        assert_eq!(row.len(), head.len());
        let words: Vec<&str> = row.split_whitespace().collect();
        let expected = ["papernot_cnn", "256", "2", "20.00", "30.00", "1.50", "8533", "unknown"];
        assert_eq!(words, expected);
        let json: serde_json::Value = serde_json::from_str(&json(&[figures])).unwrap();
        assert_eq!(json[0]["nonprivate_peak_mb"], 9.0);
        assert!(json[0]["peak_mb"].is_null());
    }
}
