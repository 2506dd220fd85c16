//! How many examples at a time a GPU has room for: an estimate, and what became of it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

use burn::prelude::Device;

use super::Chunking;
use crate::nn::Parameter;
use crate::{Error, ErrorKind, Result};

/// Why a pass did not come to its end.
#[derive(Debug)]
pub(crate) enum ChunkError {
    /// There was not enough memory, in the words of the device.
    OutOfMemory(String),
    /// Anything else.
    Other(Error),
}

impl From<Error> for ChunkError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl ChunkError {
    /// What the device said, sorted: the texts are those of CubeCL 0.11.3, to which the lab is
    /// pinned, and of the drivers.
    pub(super) fn of(said: String) -> Self {
        const ROOM: [&str; 4] =
            ["out of device memory", "out-of-memory", "can't allocate", "out of memory"];
        let lower = said.to_lowercase();
        if ROOM.iter().any(|words| lower.contains(words)) {
            return Self::OutOfMemory(said);
        }
        let what = "the GPU could not do the work";
        Self::Other(Error::new(ErrorKind::Model, what, said).fix("train on the CPU"))
    }
}

/// For whom a number of examples was found out.
#[derive(PartialEq)]
pub(in crate::engine::tap) struct Work {
    /// The parameters of the network.
    pub(in crate::engine::tap) parameters: Vec<Parameter>,
    /// Copies of each example.
    pub(in crate::engine::tap) copies: usize,
    /// The device.
    pub(in crate::engine::tap) device: Device,
}

/// What is known of the work done last.
struct Known {
    work: Work,
    /// Examples at a time.
    chunk: usize,
    /// The most examples at a time that had room.
    proven: usize,
}

/// Remembers the number of examples at a time from step to step.
#[derive(Default)]
pub(in crate::engine::tap) struct ChunkSizer(Mutex<Option<Known>>);

impl std::fmt::Debug for ChunkSizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkSizer").finish_non_exhaustive()
    }
}

impl ChunkSizer {
    /// Makes something of `n` examples, as many at a time as there is room for: first `estimate`,
    /// half as many after each time that memory runs out. `attempt` is told how many, and whether
    /// to wait and look if it worked: only work that is new or clearly larger than what has worked
    /// before is looked at, for a host that waits leaves the GPU idle.
    ///
    /// # Errors
    /// If there is no room for one example, or as `estimate` and `attempt`.
    pub(in crate::engine::tap) fn run<T>(
        &self,
        work: Work,
        (chunking, n): (Chunking, usize),
        estimate: impl FnOnce() -> Result<usize>,
        mut attempt: impl FnMut(usize, bool) -> Result<T, ChunkError>,
    ) -> Result<T> {
        // Every call sets the state up anew: a panic elsewhere can't leave it half-changed.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = match state.take() {
            Some(known) if known.work == work => known,
            _ => Known { work, chunk: chunking.size(estimate()?.max(1)), proven: 0 },
        };
        let done = loop {
            let now = chunking.largest(n, known.chunk);
            // Poisson batches wobble: an eighth more is no news.
            let look = now > known.proven + known.proven / 8;
            match caught(|| attempt(known.chunk, look)) {
                Ok(done) => {
                    if look {
                        known.proven = now;
                    }
                    break Ok(done);
                }
                Err(ChunkError::OutOfMemory(_)) if now > 1 => {
                    known.chunk = chunking.size(now.div_ceil(2));
                    known.proven = 0;
                    // What the failed pass took is free, but may still be set aside.
                    known.work.device.memory_cleanup();
                }
                Err(ChunkError::OutOfMemory(said)) => break Err(no_room(&known.work, &said)),
                Err(ChunkError::Other(error)) => break Err(error),
            }
        };
        *state = Some(known);
        done
    }
}

/// Burn has no errors for most of its operations: where memory runs out in one of them it panics.
fn caught<T>(attempt: impl FnOnce() -> Result<T, ChunkError>) -> Result<T, ChunkError> {
    match catch_unwind(AssertUnwindSafe(attempt)) {
        Ok(done) => done,
        Err(panic) => match ChunkError::of(words(&*panic)) {
            room @ ChunkError::OutOfMemory(_) => Err(room),
            // No matter of memory: none of ours.
            ChunkError::Other(_) => resume_unwind(panic),
        },
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let fixed = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    fixed.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn no_room(work: &Work, said: &str) -> Error {
    let Work { parameters, copies, .. } = work;
    let numbers: usize = parameters.iter().map(Parameter::len).sum();
    let what = format!(
        "a model of {numbers} parameters in {} tensors, one example with {copies} copies at a time",
        parameters.len()
    );
    let said = said.lines().next().unwrap_or_default();
    let why = format!("that is more than the memory of the GPU holds ({said})");
    Error::new(ErrorKind::Model, what, why).fix(
        "close other programs that use the GPU, use a smaller model or fewer copies, or train on \
         the CPU",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(copies: usize) -> Work {
        Work { parameters: Vec::new(), copies, device: Device::flex() }
    }

    fn full() -> ChunkError {
        ChunkError::of("out of device memory allocating 4096 bytes".into())
    }

    #[test]
    fn examples_are_halved_until_there_is_room_and_then_nobody_looks() {
        let chunk_sizer = ChunkSizer::default();
        let mut seen = Vec::new();
        let mut step = |copies, n, estimate, room: usize| {
            seen.clear();
            let done = chunk_sizer.run(
                work(copies),
                (Chunking::Even, n),
                || Ok(estimate),
                |chunk, look| {
                    seen.push((chunk, look));
                    if chunk.min(n) <= room { Ok(chunk) } else { Err(full()) }
                },
            );
            (done.unwrap(), seen.clone())
        };
        assert_eq!(step(1, 100, 64, 20), (16, vec![(64, true), (32, true), (16, true)]));
        assert_eq!(step(1, 100, 64, 20), (16, vec![(16, false)]), "it is remembered");
        assert_eq!(step(1, 3, 64, 20), (16, vec![(16, false)]), "fewer are no news");
        // It fails all the same: looked at again.
        assert_eq!(step(1, 100, 64, 8), (8, vec![(16, false), (8, true)]));
        // Other work, another number.
        assert_eq!(step(2, 10, 64, 20), (64, vec![(64, true)]));
        assert_eq!(step(2, 11, 64, 20), (64, vec![(64, false)]), "about as many");
        assert_eq!(step(2, 16, 64, 20), (64, vec![(64, true)]), "clearly more");
        // Halving starts from what was tried, not from the estimate.
        assert_eq!(step(3, 10, 64, 5), (5, vec![(64, true), (5, true)]));
    }

    #[test]
    fn steady_passes_are_looked_at_once_whatever_the_batch() {
        let chunk_sizer = ChunkSizer::default();
        let step = |n: usize| {
            let mut looks = 0;
            let done = chunk_sizer.run(
                work(1),
                (Chunking::Fixed(100), n),
                || Ok(64),
                |size, look| {
                    looks += usize::from(look);
                    if size <= 30 { Ok(size) } else { Err(full()) }
                },
            );
            (done.unwrap(), looks)
        };
        // Two passes of 50 are too large, four of 25 are not.
        assert_eq!(step(90), (25, 2));
        for n in [3, 99, 140, 400] {
            assert_eq!(step(n), (25, 0), "{n}");
        }
    }

    #[test]
    fn an_example_too_large_is_an_error_that_says_what_to_do() {
        let chunk_sizer = ChunkSizer::default();
        let mut tried = Vec::new();
        let error = chunk_sizer.run(
            work(3),
            (Chunking::Even, 10),
            || Ok(8),
            |chunk, _| -> Result<(), ChunkError> {
                tried.push(chunk);
                Err(full())
            },
        );
        assert_eq!(tried, [8, 4, 2, 1]);
        let error = error.unwrap_err().to_string();
        for word in ["3 copies", "one example", "out of device memory", "train on the CPU"] {
            assert!(error.contains(word), "{word}: {error}");
        }
    }

    #[test]
    fn panics_about_memory_are_caught_and_others_are_not() {
        let chunk_sizer = ChunkSizer::default();
        let run = |words: &'static str| {
            let mut calls = 0;
            let done = catch_unwind(AssertUnwindSafe(|| {
                chunk_sizer.run(
                    work(1),
                    (Chunking::Even, 4),
                    || Ok(4),
                    |chunk, _| {
                        calls += 1;
                        if chunk > 2 { std::panic::panic_any(words) } else { Ok(chunk) }
                    },
                )
            }));
            (done.is_ok(), calls)
        };
        assert_eq!(run("index out of bounds"), (false, 1));
        assert_eq!(run("can't allocate buffer of size: 7"), (true, 2));
    }

    #[test]
    fn other_errors_come_through_at_once() {
        let chunk_sizer = ChunkSizer::default();
        let mut calls = 0;
        let error = chunk_sizer.run(
            work(1),
            (Chunking::Even, 4),
            || Ok(4),
            |_, _| -> Result<(), ChunkError> {
                calls += 1;
                Err(ChunkError::of("the device was poisoned".into()))
            },
        );
        assert!(error.unwrap_err().to_string().contains("poisoned"));
        assert_eq!(calls, 1);
        let wrong = || Err(Error::setting("x", 1, "wrong"));
        assert!(
            ChunkSizer::default().run(work(1), (Chunking::Even, 4), wrong, |_, _| Ok(())).is_err()
        );
    }
}
