//! Memory and waiting of training on images that stay in their files:
//! `cargo run --example large_image_set -- 20000 300` (images and steps; the defaults are 2000 and
//! 100). A third argument `shards` packs the images into tar shards.
//!
//! Colour images of 64x64 pixels are drawn by code and written as JPEG files to a temporary folder.
//! ResNet-18 is trained on them privately at 32x32 pixels. `EPSILAB_PROFILE=tiny` is a quick test.
//! Memory is reported on Linux only.

use std::fs::{self, File};
use std::io::Cursor;
use std::path::Path;
use std::time::Instant;

use epsilab::prelude::*;
use epsilab::privacy::Ledger;
use epsilab::train::{Observer, Progress, fit};
use image::codecs::jpeg::JpegEncoder;
use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};

/// Pixels along each side of the files.
const SIDE: u32 = 64;
/// Expected number of examples in a batch.
const BATCH: usize = 32;
/// Images in a shard.
const IMAGES_PER_SHARD: usize = 1000;

fn main() -> Result<()> {
    let tiny = std::env::var("EPSILAB_PROFILE").is_ok_and(|profile| profile == "tiny");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: usize| {
        arguments.get(at).and_then(|argument| argument.parse().ok()).unwrap_or(usual)
    };
    let (images, steps) = if tiny { (200, 4) } else { (number(0, 2000), number(1, 100)) };
    let shards = arguments.iter().any(|argument| argument == "shards");

    let folder = tempfile::tempdir().map_err(|e| Error::io("a temporary folder", &e))?;
    let clock = Instant::now();
    write(folder.path(), images, shards).map_err(|e| Error::io("writing images", &e))?;
    println!("{images} JPEG images written in {:.1} s", clock.elapsed().as_secs_f64());

    let (clock, options) = (Instant::now(), ImageOptions::size(32));
    let data = if shards {
        data::tar_shards(folder.path(), &options)?
    } else {
        data::image_folder(folder.path(), &options)?
    };
    println!("{data}, checked in {:.1} s", clock.elapsed().as_secs_f64());

    let model = models::resnet18(&data).seed(1).build()?;
    let batch = if tiny { 8 } else { BATCH };
    let plan = DpSgd::new().noise_multiplier(1.0).batch_size(batch).steps(steps as u64);
    let plan = plan.plan(&data)?;
    let mut memory = MemoryObserver::default();
    let run = fit("large-image-set", &plan, &model, &data, &Ledger::in_memory(), &mut memory)?;
    memory.report();
    let share = run.record().waiting_fraction().unwrap_or_default();
    println!(
        "{:.1} s of training, {:.2} % of it waiting for files",
        run.record().seconds,
        100.0 * share
    );
    Ok(())
}

/// Resident memory after each step.
#[derive(Default)]
struct MemoryObserver {
    mebibytes: Vec<f64>,
}

impl Observer for MemoryObserver {
    fn on_step(&mut self, progress: &Progress<'_>) {
        self.mebibytes.extend(resident());
        if progress.step.is_multiple_of(20) {
            let now = self.mebibytes.last().copied().unwrap_or(f64::NAN);
            println!("step {}: {now:.1} MiB, {:.1} s", progress.step, progress.seconds);
        }
    }
}

impl MemoryObserver {
    /// Says how memory changed from step 100 to the last.
    fn report(&self) {
        let Some(from) = self.mebibytes.get(99..).filter(|later| !later.is_empty()) else { return };
        let (least, most) = from
            .iter()
            .fold((f64::MAX, 0.0f64), |(least, most), &now| (least.min(now), most.max(now)));
        println!(
            "resident memory from step 100 to step {}: {least:.1} to {most:.1} MiB ({:+.1} % at \
             the last step)",
            self.mebibytes.len(),
            100.0 * (from[from.len() - 1] / from[0] - 1.0)
        );
    }
}

/// Resident memory in MiB.
fn resident() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1024.0)
}

/// Writes images to class folders, or packs them into shards with their labels.
fn write(folder: &Path, images: usize, shards: bool) -> std::io::Result<()> {
    let mut shard = None;
    for first in (0..images).step_by(IMAGES_PER_SHARD) {
        let count = IMAGES_PER_SHARD.min(images - first);
        let drawn = data::patterns_with(count, 1, first as u64).map_err(std::io::Error::other)?;
        if shards {
            let file = File::create(folder.join(format!("{first:06}.tar")))?;
            shard = Some(tar::Builder::new(file));
        }
        for i in 0..count {
            let (bytes, label) = (jpeg(drawn.train().features(i))?, drawn.train().label(i));
            let key = format!("{:06}", first + i);
            match &mut shard {
                Some(shard) => {
                    append(shard, &format!("{key}.jpg"), &bytes)?;
                    append(shard, &format!("{key}.cls"), label.to_string().as_bytes())?;
                }
                None => {
                    let class = folder.join(label.to_string());
                    fs::create_dir_all(&class)?;
                    fs::write(class.join(format!("{key}.jpg")), bytes)?;
                }
            }
        }
        if let Some(mut shard) = shard.take() {
            shard.finish()?;
        }
    }
    Ok(())
}

fn append(shard: &mut tar::Builder<File>, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    shard.append_data(&mut header, name, bytes)
}

/// An image of 32x32 pixels, `[3, 32, 32]` from -1 to 1, as a larger JPEG file.
fn jpeg(features: &[f32]) -> std::io::Result<Vec<u8>> {
    let byte = |at: usize| ((features[at] + 1.0) * 127.5).clamp(0.0, 255.0) as u8;
    let image = RgbImage::from_fn(32, 32, |x, y| {
        let at = (y * 32 + x) as usize;
        Rgb([byte(at), byte(1024 + at), byte(2048 + at)])
    });
    let image = imageops::resize(&image, SIDE, SIDE, FilterType::CatmullRom);
    let mut out = Cursor::new(Vec::new());
    let encoder = JpegEncoder::new_with_quality(&mut out, 90);
    image.write_with_encoder(encoder).map_err(std::io::Error::other)?;
    Ok(out.into_inner())
}
