//! Gaussian noise: each unit computes a block of 32 normal values from three ChaCha blocks, as on
//! the CPU.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::super::Noise;
use super::super::stream::{BLOCK, CHUNK};
use super::chacha::{self, BLOCK_LEN, Seed, SeedLaunch};
use super::normal::pair;
use super::{ABS_MASK, CUBE_UNITS, alloc, cube_shape, grid};

/// Double rounds of ChaCha20.
const DOUBLE_ROUNDS: u32 = 10;

/// ChaCha blocks per block of normal values: two for the radii and one for the angles.
const CHACHA_BLOCKS: usize = 3;

/// Units per cube, which together compute one chunk.
const CHUNK_UNITS: usize = CHUNK / BLOCK;

/// The stride between the values of two units in shared memory: odd, to avoid bank conflicts.
const SHARED_STRIDE: usize = BLOCK + 1;

/// Each cube computes the noise of one chunk and adds it to the values.
#[cube(launch)]
fn add_chunk(
    values: &[f32],
    selected: &[u32],
    out: &mut [u32],
    seed: &Seed,
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
        #[unroll]
        for i in 0..8usize {
            let lane = half * 8 + i;
            pair(
                radii[2 * i],
                radii[2 * i + 1],
                angles[lane],
                &mut normals,
                unit * SHARED_STRIDE + lane,
            );
        }
    }
    sync_cube();
    // Coalesced access: neighbouring units read and write neighbouring values.
    for i in 0..BLOCK {
        let in_chunk = i * CHUNK_UNITS + unit;
        let at = CUBE_POS * CHUNK + in_chunk;
        if at < out.len() {
            let noise = std * normals[(in_chunk / BLOCK) * SHARED_STRIDE + in_chunk % BLOCK];
            let noised = u32::reinterpret(values[at] + noise);
            if masked {
                out[at] = select(selected[at] & ABS_MASK == 0, 0u32, noised);
            } else {
                out[at] = noised;
            }
        }
    }
}

/// Each unit writes one ChaCha block.
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

/// Each unit computes one pair of normal values.
#[cube(launch)]
fn transform(bits: &[u32], out: &mut [f32]) {
    if ABSOLUTE_POS * 2 < out.len() {
        let lane = ABSOLUTE_POS % BLOCK_LEN;
        let block = ABSOLUTE_POS / BLOCK_LEN;
        let from = block * (CHACHA_BLOCKS * BLOCK_LEN);
        let angle = bits[from + 2 * BLOCK_LEN + lane];
        pair(bits[from + 2 * lane], bits[from + 2 * lane + 1], angle, out, block * BLOCK + lane);
    }
}

/// The ChaCha state at the first chunk of this noise.
fn seed(noise: &Noise) -> SeedLaunch {
    let key = noise.stream.seed.as_chunks::<4>().0;
    let key = std::array::from_fn(|i| u32::from_le_bytes(key[i]));
    let chunk_blocks = (CHUNK_UNITS * CHACHA_BLOCKS) as u64;
    chacha::seed(key, noise.first_chunk.wrapping_mul(chunk_blocks), noise.stream.step)
}

/// See [`add_noise`](super::super::add_noise).
pub(super) fn add_noise(
    values: CubeTensor,
    selected: Option<CubeTensor>,
    noise: Noise,
) -> CubeTensor {
    let n = values.meta.num_elements();
    let out = alloc(&values, [n], DType::F32);
    let masked = selected.is_some();
    let selected = selected.unwrap_or_else(|| values.clone());
    add_chunk::launch(
        &out.client,
        grid(n.div_ceil(CHUNK)),
        CubeDim::new_1d(CHUNK_UNITS as u32),
        values.into_buffer_arg(),
        selected.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        seed(&noise),
        noise.std as f32,
        masked,
    );
    out
}

/// See [`random_bits`](super::super::random_bits). `on` determines the device.
pub(super) fn random_bits(on: &CubeTensor, noise: Noise, blocks: usize) -> CubeTensor {
    let out = alloc(on, [blocks * CHACHA_BLOCKS * BLOCK_LEN], DType::I32);
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
pub(super) fn normals(bits: CubeTensor) -> CubeTensor {
    let values = bits.meta.num_elements() / (CHACHA_BLOCKS * BLOCK_LEN) * BLOCK;
    let out = alloc(&bits, [values], DType::F32);
    let (bits, cubes) = (bits.into_buffer_arg(), (values / 2).div_ceil(CUBE_UNITS));
    transform::launch(&out.client, grid(cubes), cube_shape(), bits, out.clone().into_buffer_arg());
    out
}
