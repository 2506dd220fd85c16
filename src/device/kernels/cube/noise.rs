//! Normal noise: a unit makes a block of values from three blocks of the stream, as the CPU does.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::super::Noise;
use super::super::stream::{BLOCK, CHUNK};
use super::chacha::{self, Seed, SeedLaunch, WORDS};
use super::normal::pair;
use super::{SIZE, UNITS, alloc, grid, units};

/// Double rounds of ChaCha20.
const DOUBLE_ROUNDS: u32 = 10;

/// Blocks of the stream that a block of values takes: two for its radii, one for its angles.
const THREE: usize = 3;

/// Units of a cube: together they make one piece.
const TEAM: usize = CHUNK / BLOCK;

/// How far apart the units' values lie in shared memory: odd, so that they are in other banks.
const APART: usize = BLOCK + 1;

/// Each cube makes the values of one piece and adds them to the numbers.
#[cube(launch)]
fn add(
    values: &[f32],
    selected: &[u32],
    out: &mut [u32],
    seed: &Seed,
    std: f32,
    #[comptime] masked: bool,
) {
    let unit = UNIT_POS as usize;
    let mut drawn = Shared::<[f32]>::new_slice(comptime!(TEAM * APART));
    let first = u32::cast_from(ABSOLUTE_POS) * 3;
    let angles = chacha::block(&chacha::start(seed, first + 2), DOUBLE_ROUNDS);
    #[unroll]
    for half in 0..2usize {
        let radii = chacha::block(&chacha::start(seed, first + half as u32), DOUBLE_ROUNDS);
        #[unroll]
        for i in 0..8usize {
            let lane = half * 8 + i;
            pair(radii[2 * i], radii[2 * i + 1], angles[lane], &mut drawn, unit * APART + lane);
        }
    }
    sync_cube();
    // Neighbours read and write neighbours.
    for i in 0..BLOCK {
        let here = i * TEAM + unit;
        let at = CUBE_POS * CHUNK + here;
        if at < out.len() {
            let noise = std * drawn[(here / BLOCK) * APART + here % BLOCK];
            let noised = u32::reinterpret(values[at] + noise);
            if masked {
                out[at] = select(selected[at] & SIZE == 0, 0u32, noised);
            } else {
                out[at] = noised;
            }
        }
    }
}

/// Each unit writes one block of the stream.
#[cube(launch)]
fn write(out: &mut [u32], seed: &Seed) {
    if ABSOLUTE_POS * WORDS < out.len() {
        let start = chacha::start(seed, u32::cast_from(ABSOLUTE_POS));
        let words = chacha::block(&start, DOUBLE_ROUNDS);
        #[unroll]
        for i in 0..WORDS {
            out[ABSOLUTE_POS * WORDS + i] = words[i];
        }
    }
}

/// Each unit makes one pair of values of words.
#[cube(launch)]
fn transform(words: &[u32], out: &mut [f32]) {
    if ABSOLUTE_POS * 2 < out.len() {
        let lane = ABSOLUTE_POS % WORDS;
        let block = ABSOLUTE_POS / WORDS;
        let from = block * (THREE * WORDS);
        let angle = words[from + 2 * WORDS + lane];
        pair(words[from + 2 * lane], words[from + 2 * lane + 1], angle, out, block * BLOCK + lane);
    }
}

/// The stream from this noise's first piece on.
fn seed(noise: &Noise) -> SeedLaunch {
    let key = noise.stream.seed.as_chunks::<4>().0;
    let key = std::array::from_fn(|i| u32::from_le_bytes(key[i]));
    let blocks = (TEAM * THREE) as u64;
    chacha::seed(key, noise.first.wrapping_mul(blocks), noise.stream.step)
}

/// `values` + std · noise; exactly zero where nothing is selected.
pub(super) fn noised(values: CubeTensor, selected: Option<CubeTensor>, noise: Noise) -> CubeTensor {
    let n = values.meta.num_elements();
    let out = alloc(&values, [n], DType::F32);
    let masked = selected.is_some();
    let selected = selected.unwrap_or_else(|| values.clone());
    add::launch(
        &out.client,
        grid(n.div_ceil(CHUNK)),
        CubeDim::new_1d(TEAM as u32),
        values.into_buffer_arg(),
        selected.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        seed(&noise),
        noise.std as f32,
        masked,
    );
    out
}

/// The words of so many blocks of values.
pub(super) fn random_bits(place: &CubeTensor, noise: Noise, blocks: usize) -> CubeTensor {
    let out = room(place, [blocks * THREE * WORDS], DType::I32);
    let cubes = (blocks * THREE).div_ceil(UNITS);
    write::launch(&out.client, grid(cubes), units(), out.clone().into_buffer_arg(), seed(&noise));
    out
}

/// The values of these words.
pub(super) fn normals(words: CubeTensor) -> CubeTensor {
    let values = words.meta.num_elements() / (THREE * WORDS) * BLOCK;
    let out = alloc(&words, [values], DType::F32);
    let (words, cubes) = (words.into_buffer_arg(), (values / 2).div_ceil(UNITS));
    transform::launch(&out.client, grid(cubes), units(), words, out.clone().into_buffer_arg());
    out
}
