//! Windows of examples of a batch that are gathered together.

use std::ops::Range;

use crate::data::prefetcher::ChunkRanges;

/// Window: a piece of each of several segments, gathered together and summed in parallel.
pub(super) struct GatherWindow {
    /// The examples of each segment, in the order of the segments.
    pub(super) ranges: ChunkRanges,
    /// Whether these are the last pieces of their segments.
    pub(super) is_last: bool,
}

impl GatherWindow {
    /// Returns the range of each piece in the chunk that contains all pieces, one after the other.
    pub(super) fn range_offsets(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let offset = |piece: &Range<usize>| {
            end += piece.len();
            end - piece.len()..end
        };
        self.ranges.iter().map(offset).collect()
    }
}

/// Returns windows over `n` examples in segments of `segment` examples, each summed in chunks of
/// `chunk`.
///
/// A window holds about `capacity` examples, but at least one chunk for each of `workers`. Each
/// segment is divided at multiples of `chunk`, so its chunks are the same for all windows.
pub(super) fn plan_windows(
    n: usize,
    [segment, chunk]: [usize; 2],
    capacity: usize,
    workers: usize,
) -> Vec<GatherWindow> {
    let count = n.div_ceil(segment);
    let (together, piece) = if n <= capacity {
        (count.max(1), segment)
    } else {
        let together = workers.clamp(1, count);
        (together, (capacity / together / chunk * chunk).max(chunk))
    };
    let mut windows = Vec::new();
    for first in (0..count).step_by(together) {
        let segments = first..count.min(first + together);
        for start in (0..segment).step_by(piece) {
            let part = |index: usize| {
                let end = n.min((index + 1) * segment).min(index * segment + start + piece);
                (index * segment + start).min(end)..end
            };
            let pieces = segments.clone().map(part).collect();
            windows.push(GatherWindow { ranges: pieces, is_last: start + piece >= segment });
        }
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_divide_every_segment_at_multiples_of_the_chunk() {
        for (n, segment, chunk) in [(0, 8, 2), (5, 8, 64), (100, 8, 3), (1000, 63, 7), (64, 8, 8)] {
            for capacity in [1, 10, 77, usize::MAX] {
                for workers in [1, 2, 5, 40] {
                    check(n, [segment, chunk], capacity, workers);
                }
            }
        }
    }

    fn check(n: usize, [segment, chunk]: [usize; 2], capacity: usize, workers: usize) {
        let windows = plan_windows(n, [segment, chunk], capacity, workers);
        let mut segments = vec![Vec::new(); n.div_ceil(segment)];
        for window in &windows {
            let examples: Vec<usize> = window.ranges.iter().cloned().flatten().collect();
            assert!(examples.len() <= capacity.max(workers * chunk), "{}", examples.len());
            let pieces = window.ranges.iter().zip(window.range_offsets());
            for (piece, offset) in pieces.filter(|(piece, _)| !piece.is_empty()) {
                assert!((piece.start % segment).is_multiple_of(chunk));
                assert_eq!(examples[offset], piece.clone().collect::<Vec<_>>());
                let segment_pieces = &mut segments[piece.start / segment];
                segment_pieces.extend(piece.clone());
                let len =
                    n.min((piece.start / segment + 1) * segment) - piece.start / segment * segment;
                assert!(segment_pieces.len() == len || !window.is_last);
            }
        }
        let ends = windows.iter().filter(|window| window.is_last).map(|window| window.ranges.len());
        assert_eq!(ends.sum::<usize>(), segments.len(), "each segment ends once");
        let all: Vec<usize> = (0..n).collect();
        assert_eq!(segments, all.chunks(segment).map(<[usize]>::to_vec).collect::<Vec<_>>());
        if n <= capacity {
            assert!(windows.len() <= 1, "one window");
        }
    }
}
