//! Blocks of a ChaCha stream: the same words as `rand_chacha`.

use cubecl::prelude::*;

/// Words of a block.
pub(super) const WORDS: usize = 16;

/// The words a block is made of, but for the four that are the same for all.
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

/// This key, from this block of this stream on.
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

/// What a block is made of: `seed`'s, `further` blocks on.
#[cube]
pub(super) fn start(seed: &Seed, further: u32) -> Array<u32> {
    let mut start = Array::<u32>::new(WORDS);
    start[0] = 0x6170_7865u32;
    start[1] = 0x3320_646eu32;
    start[2] = 0x7962_2d32u32;
    start[3] = 0x6b20_6574u32;
    start[4] = seed.k0;
    start[5] = seed.k1;
    start[6] = seed.k2;
    start[7] = seed.k3;
    start[8] = seed.k4;
    start[9] = seed.k5;
    start[10] = seed.k6;
    start[11] = seed.k7;
    let low = seed.counter_low + further;
    start[12] = low;
    start[13] = seed.counter_high + select(low < further, 1u32, 0u32);
    start[14] = seed.stream_low;
    start[15] = seed.stream_high;
    start
}

#[cube]
fn rotate_left(x: u32, #[comptime] by: u32) -> u32 {
    (x << by) | (x >> comptime!(32 - by))
}

#[cube]
fn quarter(
    words: &mut Array<u32>,
    #[comptime] a: usize,
    #[comptime] b: usize,
    #[comptime] c: usize,
    #[comptime] d: usize,
) {
    words[a] += words[b];
    words[d] = rotate_left(words[d] ^ words[a], 16u32);
    words[c] += words[d];
    words[b] = rotate_left(words[b] ^ words[c], 12u32);
    words[a] += words[b];
    words[d] = rotate_left(words[d] ^ words[a], 8u32);
    words[c] += words[d];
    words[b] = rotate_left(words[b] ^ words[c], 7u32);
}

/// The block's random words, by this many double rounds.
#[cube]
pub(super) fn block(start: &Array<u32>, #[comptime] double_rounds: u32) -> Array<u32> {
    let mut words = Array::<u32>::new(WORDS);
    #[unroll]
    for i in 0..WORDS {
        words[i] = start[i];
    }
    for _ in 0..double_rounds {
        quarter(&mut words, 0usize, 4usize, 8usize, 12usize);
        quarter(&mut words, 1usize, 5usize, 9usize, 13usize);
        quarter(&mut words, 2usize, 6usize, 10usize, 14usize);
        quarter(&mut words, 3usize, 7usize, 11usize, 15usize);
        quarter(&mut words, 0usize, 5usize, 10usize, 15usize);
        quarter(&mut words, 1usize, 6usize, 11usize, 12usize);
        quarter(&mut words, 2usize, 7usize, 8usize, 13usize);
        quarter(&mut words, 3usize, 4usize, 9usize, 14usize);
    }
    #[unroll]
    for i in 0..WORDS {
        words[i] += start[i];
    }
    words
}
