//! Measurements as JSON and as a table.

use serde::Serialize;

use super::Case;
use super::child::Measured;
use super::masked::{Spent, Steps};

/// Measurements of one model. Times are in seconds per step, memory in MiB.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
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
    masked: Option<Masked>,
}

/// Medians of steps on a part of the coordinates. Ratios are to the private step on all coordinates
/// in the same process (`full_s`), in wall-clock time and in CPU time of all threads.
#[derive(Clone, Debug, Serialize)]
struct Masked {
    masked_rate: f64,
    full_s: f64,
    masked_s: f64,
    masked_ratio: f64,
    masked_cpu_ratio: Option<f64>,
    drop_random_s: f64,
    drop_random_ratio: f64,
    drop_random_cpu_ratio: Option<f64>,
    drop_smallest_s: f64,
    drop_smallest_ratio: f64,
    drop_smallest_cpu_ratio: Option<f64>,
}

impl Masked {
    fn new(rate: f64, steps: &Steps) -> Self {
        let cpu = |spent: &Spent| {
            let (full, all) = (&steps.full.cpu_seconds, &spent.cpu_seconds);
            (!full.is_empty() && !all.is_empty()).then(|| median(all) / median(full))
        };
        let seconds = |spent: &Spent| median(&spent.seconds);
        let Steps { full, masked, random, smallest } = steps;
        Self {
            masked_rate: rate,
            full_s: seconds(full),
            masked_s: seconds(masked),
            masked_ratio: seconds(masked) / seconds(full),
            masked_cpu_ratio: cpu(masked),
            drop_random_s: seconds(random),
            drop_random_ratio: seconds(random) / seconds(full),
            drop_random_cpu_ratio: cpu(random),
            drop_smallest_s: seconds(smallest),
            drop_smallest_ratio: seconds(smallest) / seconds(full),
            drop_smallest_cpu_ratio: cpu(smallest),
        }
    }
}

impl Figures {
    pub fn new(case: &Case, without: &Measured, with: &Measured, masked: Option<&Steps>) -> Self {
        let (plain, private) = (Spread::of(&without.seconds), Spread::of(&with.seconds));
        let cpu = |m: &Measured| (!m.cpu_seconds.is_empty()).then(|| median(&m.cpu_seconds));
        Self {
            model: case.entry.name,
            batch: case.batch,
            threads: case.threads,
            device: with.device.clone(),
            executor: case.executor.name(),
            steps: case.steps,
            warmup: case.warmup,
            parameters: with.parameters,
            nonprivate_s: plain.median,
            nonprivate_min_s: plain.min,
            nonprivate_max_s: plain.max,
            nonprivate_cpu_s: cpu(without),
            private_s: private.median,
            private_min_s: private.min,
            private_max_s: private.max,
            private_cpu_s: cpu(with),
            ratio: private.median / plain.median,
            examples_per_s: case.batch as f64 / private.median,
            peak_mb: with.peak_mb,
            nonprivate_peak_mb: without.peak_mb,
            held_mb: with.held_mb,
            loss: with.loss,
            nonprivate_loss: without.loss,
            masked: case.masked.zip(masked).map(|(rate, steps)| Masked::new(rate, steps)),
        }
    }

    /// Row of the table.
    pub fn row(&self, cases: &[Case]) -> String {
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
        let Some(masked) = &self.masked else { return row };
        format!(
            "{row}  {:>9}  {:>6.2}  {:>6.2}  {:>8.2}",
            milliseconds(masked.masked_s),
            masked.masked_ratio,
            masked.drop_random_ratio,
            masked.drop_smallest_ratio,
        )
    }
}

/// Heading of the table.
pub fn heading(cases: &[Case]) -> String {
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
    match cases[0].masked {
        None => heading,
        Some(_) => {
            format!(
                "{heading}  {:>9}  {:>6}  {:>6}  {:>8}",
                "masked ms", "ratio", "random", "smallest"
            )
        }
    }
}

/// Explanation of the columns.
pub fn legend(cases: &[Case]) -> String {
    let case = &cases[0];
    let masked = case.masked.map_or(String::new(), |rate| {
        format!(
            "Masked: {:.0} % of each weight tensor left out, by a mask (ms and ratio), anew in every step \
             at random,\nor those of the smallest parameters. Ratios to the private step on all \
             coordinates, measured in turn\nwith them in one process.\n",
            100.0 * rate
        )
    });
    format!(
        "{masked}Medians of {} steps after {} to warm up; examples/s and MiB are those of private steps, \
         MiB the peak over\ndata and parameters. Data are made up. How it is measured: \
         docs/performance.md",
        case.steps, case.warmup
    )
}

/// A JSON list with one object per model.
pub fn json(all: &[Figures]) -> String {
    serde_json::json!(all).to_string()
}

fn width(cases: &[Case]) -> usize {
    cases.iter().map(|case| case.entry.name.len()).max().unwrap_or(0)
}

fn milliseconds(seconds: f64) -> String {
    let ms = 1e3 * seconds;
    if ms < 100.0 { format!("{ms:.2}") } else { format!("{ms:.0}") }
}

struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        Self {
            median: median(values),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// The median.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use epsilab::device::DeviceSpec;

    use super::super::step::ExecutorChoice;
    use super::super::zoo::ZOO;
    use super::*;

    #[test]
    fn the_middle_of_even_and_odd_numbers_of_steps() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 9.0, 2.0]), 3.0);
        assert_eq!(median(&[5.0]), 5.0);
    }

    #[test]
    fn rows_stand_under_their_heading_and_say_private_over_non_private() {
        let case = Case {
            entry: &ZOO[0],
            place: DeviceSpec::Cpu,
            batch: 256,
            threads: 2,
            steps: 3,
            warmup: 0,
            executor: ExecutorChoice::Auto,
            masked: None,
        };
        let measured = |seconds: [f64; 3], mb| Measured {
            seconds: seconds.to_vec(),
            cpu_seconds: vec![],
            peak_mb: mb,
            held_mb: 3.0,
            parameters: 26_010,
            device: "cpu".into(),
            loss: 2.3,
        };
        let plain = measured([0.020, 0.010, 0.090], Some(9.0));
        let private = measured([0.030, 0.025, 0.9], None);
        let figures = Figures::new(&case, &plain, &private, None);
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
