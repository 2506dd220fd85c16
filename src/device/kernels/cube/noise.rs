//! Gaussian noise: each unit computes a block of 32 normal values from three ChaCha blocks, as on
//! the CPU.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::super::NoiseParams;
use super::super::noise_stream::{CHUNK_PAIRS, NORMALS_PER_BLOCK, NORMALS_PER_CHUNK, TAIL_STREAM};
use super::box_muller::{is_in_tail, pair, tail_ratio};
use super::chacha::{self, BLOCK_LEN, Seed, SeedLaunch};
use super::{ABS_MASK, CUBE_UNITS, alloc, cube_shape, grid};

/// Double rounds of ChaCha20.
const DOUBLE_ROUNDS: u32 = 10;

/// ChaCha blocks per block of normal values: two for the radii and one for the angles.
const CHACHA_BLOCKS: usize = 3;

/// Units per cube, which together compute one chunk.
const CHUNK_UNITS: usize = NORMALS_PER_CHUNK / NORMALS_PER_BLOCK;

/// Pairs of normal values per block.
const LANES: usize = NORMALS_PER_BLOCK / 2;

/// Pairs whose radii are in one ChaCha block.
const HALF: usize = LANES / 2;

/// The stride between the values of two units in shared memory: odd, to avoid bank conflicts.
const SHARED_STRIDE: usize = NORMALS_PER_BLOCK + 1;

/// Computes the noise of one chunk in each cube and adds it to the values.
#[cube(launch)]
fn add_chunk(
    values: &[f32],
    selected: &[u32],
    out: &mut [u32],
    seed: &Seed,
    tail_seed: &Seed,
    std: f32,
    #[comptime] masked: bool,
) {
    let unit = UNIT_POS as usize;
    let mut normals = Shared::<[f32]>::new_slice(comptime!(CHUNK_UNITS * SHARED_STRIDE));
    let first_block = u32::cast_from(ABSOLUTE_POS) * 3;
    let angles = chacha::block(&chacha::initial_state(seed, first_block + 2), DOUBLE_ROUNDS);
    #[unroll]
    for half in 0..2usize {
        let radii =
            chacha::block(&chacha::initial_state(seed, first_block + half as u32), DOUBLE_ROUNDS);
        half_block(
            &radii,
            &angles,
            half,
            tail_seed,
            ABSOLUTE_POS,
            &mut normals,
            unit * SHARED_STRIDE,
        );
    }
    sync_cube();
    // Coalesced access: neighbouring units read and write neighbouring values.
    for i in 0..NORMALS_PER_BLOCK {
        let in_chunk = i * CHUNK_UNITS + unit;
        let at = CUBE_POS * NORMALS_PER_CHUNK + in_chunk;
        if at < out.len() {
            let noise = std
                * normals
                    [(in_chunk / NORMALS_PER_BLOCK) * SHARED_STRIDE + in_chunk % NORMALS_PER_BLOCK];
            let noised = u32::reinterpret(values[at] + noise);
            if masked {
                out[at] = select(selected[at] & ABS_MASK == 0, 0u32, noised);
            } else {
                out[at] = noised;
            }
        }
    }
}

/// Computes half the pairs of a block: sines to `out[at + lane]`, cosines to
/// `out[at + 16 + lane]`, for 8 lanes. `block` is the index of the block, by which radii in the
/// tail are extended.
#[cube]
fn half_block(
    radii: &Array<u32>,
    angles: &Array<u32>,
    #[comptime] half: usize,
    tail_seed: &Seed,
    block: usize,
    out: &mut [f32],
    at: usize,
) {
    // One bit for each pair in the tail.
    let mut in_tail = 0u32;
    #[unroll]
    for i in 0..HALF {
        let lane = half * HALF + i;
        pair(radii[2 * i], radii[2 * i + 1], angles[lane], out, at + lane);
        in_tail |= select(is_in_tail(radii[2 * i + 1]), comptime!(1u32 << i), 0u32);
    }
    while in_tail != 0 {
        let mut low = 0u32;
        let mut high = 0u32;
        let mut index = 0u32;
        #[unroll]
        for i in 0..HALF {
            let is_set = (in_tail >> i as u32) & 1 == 1;
            low = select(is_set, radii[2 * i], low);
            high = select(is_set, radii[2 * i + 1], high);
            index = select(is_set, i as u32, index);
        }
        let lane = half as u32 * HALF as u32 + index;
        let state = chacha::initial_state(tail_seed, u32::cast_from(block) * LANES as u32 + lane);
        let ratio = tail_ratio(low, high, &chacha::block(&state, DOUBLE_ROUNDS));
        out[at + lane as usize] *= ratio;
        out[at + LANES + lane as usize] *= ratio;
        in_tail ^= 1u32 << index;
    }
}

/// Writes one ChaCha block in each unit.
#[cube(launch)]
fn write_bits(out: &mut [u32], seed: &Seed) {
    if ABSOLUTE_POS * BLOCK_LEN < out.len() {
        let state = chacha::initial_state(seed, u32::cast_from(ABSOLUTE_POS));
        let bits = chacha::block(&state, DOUBLE_ROUNDS);
        #[unroll]
        for i in 0..BLOCK_LEN {
            out[ABSOLUTE_POS * BLOCK_LEN + i] = bits[i];
        }
    }
}

/// Computes one block of normal values in each unit.
#[cube(launch)]
fn transform(bits: &[u32], out: &mut [f32], tail_seed: &Seed) {
    if ABSOLUTE_POS * NORMALS_PER_BLOCK < out.len() {
        let from = ABSOLUTE_POS * (CHACHA_BLOCKS * BLOCK_LEN);
        let angles = read_block(bits, from + 2 * BLOCK_LEN);
        #[unroll]
        for half in 0..2usize {
            let radii = read_block(bits, from + half * BLOCK_LEN);
            half_block(
                &radii,
                &angles,
                half,
                tail_seed,
                ABSOLUTE_POS,
                out,
                ABSOLUTE_POS * NORMALS_PER_BLOCK,
            );
        }
    }
}

/// Returns 16 integers from `from` on.
#[cube]
fn read_block(bits: &[u32], from: usize) -> Array<u32> {
    let mut block = Array::<u32>::new(BLOCK_LEN);
    #[unroll]
    for i in 0..BLOCK_LEN {
        block[i] = bits[from + i];
    }
    block
}

/// Returns the ChaCha state at the first chunk of this noise.
fn seed(noise: &NoiseParams) -> SeedLaunch {
    let chunk_blocks = (CHUNK_UNITS * CHACHA_BLOCKS) as u64;
    let counter = noise.first_chunk.wrapping_mul(chunk_blocks);
    chacha::seed(key(noise), counter, noise.stream.step)
}

/// Returns the ChaCha state of the words that extend the first pair of this noise.
fn tail_seed(noise: &NoiseParams) -> SeedLaunch {
    let counter = noise.first_chunk.wrapping_mul(CHUNK_PAIRS);
    chacha::seed(key(noise), counter, noise.stream.step ^ TAIL_STREAM)
}

fn key(noise: &NoiseParams) -> [u32; 8] {
    let words = noise.stream.seed.as_chunks::<4>().0;
    std::array::from_fn(|i| u32::from_le_bytes(words[i]))
}

/// See [`add_noise`](super::super::add_noise).
pub(super) fn add_noise(
    values: CubeTensor,
    selected: Option<CubeTensor>,
    noise: NoiseParams,
) -> CubeTensor {
    let n = values.meta.num_elements();
    let out = alloc(&values, [n], DType::F32);
    let masked = selected.is_some();
    let selected = selected.unwrap_or_else(|| values.clone());
    add_chunk::launch(
        &out.client,
        grid(n.div_ceil(NORMALS_PER_CHUNK)),
        CubeDim::new_1d(CHUNK_UNITS as u32),
        values.into_buffer_arg(),
        selected.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        seed(&noise),
        tail_seed(&noise),
        noise.std as f32,
        masked,
    );
    out
}

/// See [`random_bits`](super::super::random_bits). `tensor` determines the device.
pub(super) fn random_bits(tensor: &CubeTensor, noise: NoiseParams, blocks: usize) -> CubeTensor {
    let out = alloc(tensor, [blocks * CHACHA_BLOCKS * BLOCK_LEN], DType::I32);
    let cubes = (blocks * CHACHA_BLOCKS).div_ceil(CUBE_UNITS);
    write_bits::launch(
        &out.client,
        grid(cubes),
        cube_shape(),
        out.clone().into_buffer_arg(),
        seed(&noise),
    );
    out
}

/// See [`normals`](super::super::normals).
pub(super) fn normals(bits: CubeTensor, noise: NoiseParams) -> CubeTensor {
    let values = bits.meta.num_elements() / (CHACHA_BLOCKS * BLOCK_LEN) * NORMALS_PER_BLOCK;
    let out = alloc(&bits, [values], DType::F32);
    transform::launch(
        &out.client,
        grid((values / NORMALS_PER_BLOCK).div_ceil(CUBE_UNITS)),
        cube_shape(),
        bits.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        tail_seed(&noise),
    );
    out
}
