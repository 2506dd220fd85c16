//! How time and memory grow with the size of the work: batches, models, threads, masks, the PLD
//! accountant, ledgers and stored runs.
//!
//! `cargo bench-scaling` measures everything and writes book/src/evidence/scaling.md between its
//! two comments; `cargo bench-scaling -- ledger store` prints only these parts and writes nothing.
//! Build the program (`cargo build -p epsilab-kernel --bin epsilab`) and leave the machine idle
//! first.

use std::process::Command;
use std::time::Instant;

use epsilab::lab::open_ledger;
use epsilab::prelude::*;
use epsilab::privacy::{
    Accountant, ClipSchedule, Entry, Event, NoiseMultiplier, NoiseSchedule, Pld, SamplingRate,
    Stages, TightestAccountant,
};
use epsilab::show::Table;
use epsilab::train::NoopObserver;
use serde_json::Value;

const BEGIN: &str = "<!-- measured: begin -->";
const END: &str = "<!-- measured: end -->";
const DELTA: Delta = Delta(1e-5);

/// Name, heading and measurement.
type Part = (&'static str, &'static str, fn() -> Result<Table>);

/// The parts of the page.
const PARTS: &[Part] = &[
    ("batch", "Batch size (`papernot_cnn`)", batch),
    ("width", "Width (batch 32)", || models(WIDTHS)),
    ("depth", "Depth (batch 32)", || models(DEPTHS)),
    ("threads", "Threads", threads),
    ("pruning", "Pruning rate (times relative to the full private step)", pruning),
    ("pld-steps", "PLD over steps (sampling rate 0.001, noise multiplier 1)", pld_steps),
    (
        "pld-stages",
        "PLD over stages (noise that falls to one half, sampling rate 0.01)",
        pld_stages,
    ),
    ("ledger", "Ledger", ledger),
    ("store", "Stored runs", store),
];

const WIDTHS: &[&str] =
    &["wide_resnet_16_1", "wide_resnet_16_2", "wide_resnet_16_4", "wide_resnet_16_8"];
const DEPTHS: &[&str] =
    &["wide_resnet_10_2", "wide_resnet_16_2", "wide_resnet_22_2", "wide_resnet_28_2"];

fn main() -> Result<()> {
    // The stored runs that are listed are those of a folder of their own.
    let home = folder()?;
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("EPSILAB_HOME", home.path()) };
    // Cargo adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let Some(word) = wanted.iter().find(|word| PARTS.iter().all(|(name, ..)| name != word)) {
        let names: Vec<&str> = PARTS.iter().map(|(name, ..)| *name).collect();
        return Err(Error::setting("the part", word, "there is no such part")
            .fix(format!("choose from {}", names.join(", "))));
    }
    // Before minutes of measurements: the page must have a place for them.
    let page = wanted.is_empty().then(Page::read).transpose()?;
    let mut text = String::new();
    for (name, heading, measure) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            let part = format!("### {heading}\n\n{}\n", measure()?.markdown());
            print!("{part}");
            text += &part;
        }
    }
    page.map_or(Ok(()), |page| page.write(&text))
}

fn table(columns: &[&str], rows: Vec<Vec<String>>) -> Table {
    rows.into_iter().fold(Table::new(columns.iter().copied()), Table::row)
}

fn number(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// What is before and after the figures.
struct Page {
    before: String,
    after: String,
}

impl Page {
    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/book/src/evidence/scaling.md");

    fn read() -> Result<Self> {
        let page = std::fs::read_to_string(Self::PATH).map_err(|e| Error::io(Self::PATH, &e))?;
        let ends = page.split_once(BEGIN).zip(page.split_once(END));
        let ends = ends.map(|((before, _), (_, after))| Self {
            before: before.to_owned(),
            after: after.to_owned(),
        });
        let why = "the comments between which the figures are written are missing";
        ends.ok_or_else(|| Error::new(ErrorKind::Io, Self::PATH, why).fix("restore the comments"))
    }

    fn write(&self, text: &str) -> Result<()> {
        let Self { before, after } = self;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let about = format!("{}, {cores} cores; {}.", processor(), today());
        let page = format!("{before}{BEGIN}\n\n{about}\n\n{text}{END}{after}");
        std::fs::write(Self::PATH, page).map_err(|e| Error::io(Self::PATH, &e))
    }
}

/// The date, where the system has a command for it.
fn today() -> String {
    let output = Command::new("date").arg("+%-d %B %Y").output().map(|output| output.stdout);
    String::from_utf8_lossy(&output.unwrap_or_default()).trim().to_owned()
}

/// The name of the processor, where Linux tells it.
fn processor() -> String {
    let all = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = all.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or("unknown processor".to_owned(), |(_, name)| name.trim().to_owned())
}

/// The JSON of `epsilab bench` with these words.
fn bench(words: &[&str]) -> Result<Value> {
    // This program is in a folder `deps` beside it.
    let program_path =
        std::env::current_exe().map_err(|e| Error::io("finding this program", &e))?;
    let program = program_path.ancestors().nth(2).unwrap_or(&program_path).join("epsilab");
    let output = Command::new(&program).arg("bench").arg("--json").args(words).output();
    let output = output.map_err(|e| {
        Error::io(program.display().to_string(), &e)
            .fix("cargo build -p epsilab-kernel --bin epsilab")
    })?;
    serde_json::from_slice::<Value>(&output.stdout).map(|mut all| all[0].take()).map_err(|_| {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Error::setting("epsilab bench", words.join(" "), stderr)
    })
}

fn of(figures: &Value, name: &str) -> f64 {
    figures[name].as_f64().unwrap_or(f64::NAN)
}

/// Milliseconds and MiB of a private and a non-private step.
fn step(words: &[&str]) -> Result<Value> {
    bench(&[words, &["--steps", "5", "--warmup", "2"]].concat())
}

fn batch() -> Result<Table> {
    let mut rows = Vec::new();
    for batch in [16, 64, 256, 1024, 4096, 16_384] {
        let found = step(&["--models", "papernot_cnn", "--batch", &batch.to_string()])?;
        rows.push(vec![
            batch.to_string(),
            number(1e3 * of(&found, "private_s")),
            number(1e6 * of(&found, "private_s") / f64::from(batch)),
            format!("{:.2}", of(&found, "ratio")),
            number(of(&found, "peak_mb")),
        ]);
    }
    let columns = &["batch", "private step, ms", "µs per example", "private / non-private", "MiB"];
    Ok(table(columns, rows))
}

fn models(names: &[&str]) -> Result<Table> {
    let mut rows = Vec::new();
    for name in names {
        let words = ["--models", name, "--batch", "32"];
        let found = step(&words)?;
        let more = ["--roofline", "--steps", "2", "--warmup", "1"];
        let roofline = bench(&[&words[..], &more].concat())?;
        let layers = roofline["layers"].as_array().cloned().unwrap_or_default();
        let multiplications: f64 = layers.iter().map(|layer| of(layer, "multiplications")).sum();
        // Forward pass, input gradient and weight gradient, of all examples.
        let giga = 3.0 * multiplications * of(&found, "batch") / 1e9;
        rows.push(vec![
            (*name).to_owned(),
            number(of(&found, "parameters") / 1e6),
            number(giga),
            number(1e3 * of(&found, "private_s")),
            number(1e3 * of(&found, "private_s") / giga),
            format!("{:.2}", of(&found, "ratio")),
            number(of(&found, "peak_mb")),
        ]);
    }
    let columns = &[
        "model",
        "parameters, 1e6",
        "multiplications, 1e9",
        "private step, ms",
        "ms per 1e9",
        "private / non-private",
        "MiB",
    ];
    Ok(table(columns, rows))
}

fn threads() -> Result<Table> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|n| *n < cores).collect();
    counts.push(cores);
    let mut rows = Vec::new();
    for (model, batch) in [("papernot_cnn", "1024"), ("simple_vgg", "256"), ("resnet18", "64")] {
        let mut alone = None;
        for threads in &counts {
            let threads = threads.to_string();
            let found = step(&["--models", model, "--batch", batch, "--threads", &threads])?;
            let seconds = of(&found, "private_s");
            let alone = *alone.get_or_insert(seconds);
            rows.push(vec![
                format!("{model}, {batch}"),
                threads,
                number(1e3 * seconds),
                format!("{:.2}", alone / seconds),
                number(of(&found, "peak_mb")),
            ]);
        }
    }
    let columns = &["model, batch", "threads", "private step, ms", "speed-up", "MiB"];
    Ok(table(columns, rows))
}

fn pruning() -> Result<Table> {
    let mut rows = Vec::new();
    for model in ["mlp", "simple_vgg"] {
        for rate in ["0", "0.5", "0.9", "0.99"] {
            let found = step(&["--models", model, "--masked", rate])?;
            let ratio = |name: &str| format!("{:.2}", of(&found, name));
            rows.push(vec![
                model.to_owned(),
                rate.to_owned(),
                number(1e3 * of(&found, "private_s")),
                ratio("masked_ratio"),
                ratio("drop_random_ratio"),
                ratio("drop_smallest_ratio"),
            ]);
        }
    }
    let columns = &["model", "left out", "full private step, ms", "mask", "random", "smallest"];
    Ok(table(columns, rows))
}

/// The result and the median of three measurements in milliseconds.
fn timed<T, E: Into<Error>>(
    mut work: impl FnMut() -> std::result::Result<T, E>,
) -> Result<(T, f64)> {
    let mut once = || {
        let start = Instant::now();
        let result = work().map_err(Into::into)?;
        Ok::<_, Error>((result, 1e3 * start.elapsed().as_secs_f64()))
    };
    let mut times = [once()?.1, once()?.1, 0.0];
    let (result, last) = once()?;
    times[2] = last;
    times.sort_by(f64::total_cmp);
    Ok((result, times[1]))
}

fn pld_steps() -> Result<Table> {
    let mut rows = Vec::new();
    for steps in [100, 1000, 10_000, 100_000, 1_000_000, 10_000_000] {
        let event = Event::PoissonGaussian { sampling_rate: 0.001, noise_multiplier: 1.0, steps };
        let (spent, ms) = timed(|| Pld::default().epsilon(std::slice::from_ref(&event), DELTA))?;
        rows.push(vec![steps.to_string(), number(ms), number(spent.epsilon)]);
    }
    let columns = &["steps", "PLD, ms", "epsilon at delta 1e-5"];
    Ok(table(columns, rows))
}

fn pld_stages() -> Result<Table> {
    let (noise, clip) = (NoiseSchedule::decay(0.5), ClipSchedule::constant());
    let rate = SamplingRate(0.01);
    let mut rows = Vec::new();
    for steps in [10, 100, 1000, 10_000, 100_000] {
        let stages = Stages::from_schedules(&noise, &clip, NoiseMultiplier(1.6), rate, steps)?;
        let event = stages.event(rate, steps);
        let (spent, ms) =
            timed(|| TightestAccountant::default().epsilon(std::slice::from_ref(&event), DELTA))?;
        rows.push(vec![steps.to_string(), number(ms), number(spent.epsilon)]);
    }
    let columns = &["stages of one step", "headline, ms", "epsilon at delta 1e-5"];
    Ok(table(columns, rows))
}

fn folder() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(|e| Error::io("a temporary folder", &e))
}

fn ledger() -> Result<Table> {
    let mut rows = Vec::new();
    for entries in [10, 100, 1000, 10_000, 100_000] {
        let folder = folder()?;
        let path = folder.path().join("data.jsonl");
        let event =
            Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.1, steps: 1000 };
        let all: Vec<Entry> =
            (0..entries).map(|run| Entry::planned(&format!("run-{run}"), "data", &event)).collect();
        let ledger = open_ledger(&path)?;
        let start = Instant::now();
        ledger.record_all(&all)?;
        let together = 1e3 * start.elapsed().as_secs_f64();
        let (runs, reading) = timed(|| open_ledger(&path).and_then(|ledger| Ok(ledger.runs()?)))?;
        assert_eq!(runs.len(), entries, "every run is read");
        let mut next = 0;
        let (_, one) = timed(|| {
            next += 1;
            ledger.begin_run(&format!("later-{next}"), &event)
        })?;
        let events = ledger.events()?;
        let (_, epsilon) = timed(|| TightestAccountant::default().epsilon(&events, DELTA))?;
        rows.push(vec![
            entries.to_string(),
            number(together),
            number(reading),
            number(one),
            number(epsilon),
        ]);
    }
    let columns = &[
        "entries",
        "written together, ms",
        "opened and read, ms",
        "one more, ms",
        "epsilon of all, ms",
    ];
    Ok(table(columns, rows))
}

fn store() -> Result<Table> {
    let mut rows = Vec::new();
    let data = data::glyphs()?;
    let model = models::papernot_cnn(&data).build()?;
    let plan = DpSgd::new().noise_multiplier(2.0).batch_size(64).steps(2).plan(&data)?;
    plan.train_with(&model, &data, &mut NoopObserver)?;
    let runs = lab::home().join("runs");
    let io = |e| Error::io("the runs of the store", &e);
    let only = std::fs::read_dir(&runs).map_err(io)?.flatten().map(|entry| entry.path()).next();
    let first = only.ok_or_else(|| io(std::io::ErrorKind::NotFound.into()))?;
    let mut made = 1;
    for count in [10, 100, 1000, 10_000] {
        // Copies of the record stand for other runs.
        for copy in made..count {
            let to = runs.join(format!("{copy:064x}"));
            std::fs::create_dir(&to).map_err(io)?;
            for file in ["settings.json", "curve.json", "result.json"] {
                std::fs::copy(first.join(file), to.join(file)).map_err(io)?;
            }
        }
        made = count;
        let (listed, ms) = timed(lab::runs)?;
        assert_eq!(listed.len(), count, "every run is listed");
        rows.push(vec![count.to_string(), number(ms), number(1e3 * ms / count as f64)]);
    }
    let columns = &["runs", "lab::runs(), ms", "µs per run"];
    Ok(table(columns, rows))
}
