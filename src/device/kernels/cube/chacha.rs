//! The ChaCha block function (Bernstein, 2008), with the same output as `rand_chacha`.

use cubecl::prelude::*;

/// 32-bit integers per ChaCha block.
pub(super) const BLOCK_LEN: usize = 16;

/// Initial state of a block without its four constants: key, block counter and stream number.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Seed {
    k0: u32,
    k1: u32,
    k2: u32,
    k3: u32,
    k4: u32,
    k5: u32,
    k6: u32,
    k7: u32,
    counter_low: u32,
    counter_high: u32,
    stream_low: u32,
    stream_high: u32,
}

/// Returns the state for this key, block counter and stream number.
pub(super) fn seed(key: [u32; 8], counter: u64, stream: u64) -> SeedLaunch {
    let [k0, k1, k2, k3, k4, k5, k6, k7] = key;
    let low = |x: u64| x as u32;
    let high = |x: u64| (x >> 32) as u32;
    SeedLaunch::new(
        k0,
        k1,
        k2,
        k3,
        k4,
        k5,
        k6,
        k7,
        low(counter),
        high(counter),
        low(stream),
        high(stream),
    )
}

/// Returns the initial state of the block that is `offset` blocks after that of `seed`.
#[cube]
pub(super) fn initial_state(seed: &Seed, offset: u32) -> Array<u32> {
    let mut state = Array::<u32>::new(BLOCK_LEN);
    state[0] = 0x6170_7865u32;
    state[1] = 0x3320_646eu32;
    state[2] = 0x7962_2d32u32;
    state[3] = 0x6b20_6574u32;
    state[4] = seed.k0;
    state[5] = seed.k1;
    state[6] = seed.k2;
    state[7] = seed.k3;
    state[8] = seed.k4;
    state[9] = seed.k5;
    state[10] = seed.k6;
    state[11] = seed.k7;
    let low = seed.counter_low + offset;
    state[12] = low;
    state[13] = seed.counter_high + select(low < offset, 1u32, 0u32);
    state[14] = seed.stream_low;
    state[15] = seed.stream_high;
    state
}

#[cube]
fn rotate_left(x: u32, #[comptime] bits: u32) -> u32 {
    (x << bits) | (x >> comptime!(32 - bits))
}

/// Computes the ChaCha quarter round.
#[cube]
fn quarter_round(
    state: &mut Array<u32>,
    #[comptime] a: usize,
    #[comptime] b: usize,
    #[comptime] c: usize,
    #[comptime] d: usize,
) {
    state[a] += state[b];
    state[d] = rotate_left(state[d] ^ state[a], 16u32);
    state[c] += state[d];
    state[b] = rotate_left(state[b] ^ state[c], 12u32);
    state[a] += state[b];
    state[d] = rotate_left(state[d] ^ state[a], 8u32);
    state[c] += state[d];
    state[b] = rotate_left(state[b] ^ state[c], 7u32);
}

/// Computes the random bits of a block, after this many double rounds.
#[cube]
pub(super) fn block(initial: &Array<u32>, #[comptime] double_rounds: u32) -> Array<u32> {
    let mut state = Array::<u32>::new(BLOCK_LEN);
    #[unroll]
    for i in 0..BLOCK_LEN {
        state[i] = initial[i];
    }
    for _ in 0..double_rounds {
        quarter_round(&mut state, 0usize, 4usize, 8usize, 12usize);
        quarter_round(&mut state, 1usize, 5usize, 9usize, 13usize);
        quarter_round(&mut state, 2usize, 6usize, 10usize, 14usize);
        quarter_round(&mut state, 3usize, 7usize, 11usize, 15usize);
        quarter_round(&mut state, 0usize, 5usize, 10usize, 15usize);
        quarter_round(&mut state, 1usize, 6usize, 11usize, 12usize);
        quarter_round(&mut state, 2usize, 7usize, 8usize, 13usize);
        quarter_round(&mut state, 3usize, 4usize, 9usize, 14usize);
    }
    #[unroll]
    for i in 0..BLOCK_LEN {
        state[i] += initial[i];
    }
    state
}
