//! Peak memory of private steps on large batches of images:
//! `cargo run --example large_batches -- 65536` (the batch size; the default is 4096).
//!
//! The data set is the same for every batch size: synthetic images of the shape of CIFAR-10, in
//! memory (768 MiB). `-- 65536 2` makes two augmented copies of each image, which are gathered in
//! chunks by a thread. `EPSILAB_PROFILE=tiny` is a quick test. Memory is reported on Linux only.

use std::fs;
use std::time::Instant;

use epsilab::data::Augment;
use epsilab::engine::{AutoExecutor, ClipRule, Executor};
use epsilab::methods::DataLoader;
use epsilab::prelude::*;

const STEPS: u64 = 3;
/// Numbers of one image, 3 x 32 x 32.
const IMAGE_VALUES: usize = 3072;

fn main() -> Result<()> {
    let tiny = std::env::var("EPSILAB_PROFILE").is_ok_and(|profile| profile == "tiny");
    let images = if tiny { 256 } else { 65_536 };
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().ok());
    let batch_size = arguments.next().flatten().unwrap_or(4096).min(images);
    let copies = arguments.next().flatten().unwrap_or(1);

    let features =
        (0..images * IMAGE_VALUES).map(|i| (i * 7919 % 1009) as f32 / 504.0 - 1.0).collect();
    let labels = (0..images as u32).map(|i| i % 10).collect();
    let data = data::from_vecs(features, &[3, 32, 32], labels, 10)?;
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let mut settings = DpSgd::new().noise_multiplier(1.0).batch_size(batch_size).steps(STEPS);
    if copies > 1 {
        settings = settings.augment(Augment::new().copies(copies).flip().crop(4));
    }
    let mut batches = DataLoader::new(&settings.plan(&data)?, data.train(), [1; 32], [2; 32])?;

    let (executor, clip) = (AutoExecutor::default(), ClipRule::flat(1.0));
    // From here on, the peak is that of the steps. Linux resets it on writing a 5.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let (before, clock) = (memory_mib("VmRSS:"), Instant::now());
    for _ in 0..STEPS {
        let batch = batches.draw()?;
        executor.clipped_sum(model.network(), &batch, &clip)?;
    }
    let seconds = clock.elapsed().as_secs_f64() / STEPS as f64;
    println!("{batch_size} images in {copies} copies: {seconds:.2} s per step");
    if let (Some(before), Some(peak)) = (before, memory_mib("VmHWM:")) {
        println!("peak {peak:.1} MiB, of which the steps took {:.1} MiB", peak - before);
    }
    Ok(())
}

/// A size that Linux reports of this process, in MiB.
fn memory_mib(field: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1024.0)
}
