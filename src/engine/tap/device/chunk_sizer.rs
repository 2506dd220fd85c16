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
    /// What the device message, sorted: the texts are those of CubeCL 0.11.3, to which the lab is
    /// pinned, and of the drivers.
    pub(super) fn from_message(message: String) -> Self {
        const OUT_OF_MEMORY_MESSAGES: [&str; 4] =
            ["out of device memory", "out-of-memory", "can't allocate", "out of memory"];
        let lower = message.to_lowercase();
        if OUT_OF_MEMORY_MESSAGES.iter().any(|part| lower.contains(part)) {
            return Self::OutOfMemory(message);
        }
        let what = "the GPU could not do the work";
        Self::Other(Error::new(ErrorKind::Model, what, message).fix("train on the CPU"))
    }
}

/// For whom a number of examples was found out.
#[derive(PartialEq)]
pub(in crate::engine::tap) struct ChunkKey {
    /// The parameters of the network.
    pub(in crate::engine::tap) parameters: Vec<Parameter>,
    /// Copies of each example.
    pub(in crate::engine::tap) copies: usize,
    /// The device.
    pub(in crate::engine::tap) device: Device,
}

/// What is calibrated of the key result last.
struct Calibrated {
    key: ChunkKey,
    /// Examples at a time.
    chunk: usize,
    /// The most examples at a time that had room.
    verified: usize,
}

/// Remembers the number of examples at a time from step to step.
#[derive(Default)]
pub(in crate::engine::tap) struct ChunkSizer(Mutex<Option<Calibrated>>);

impl std::fmt::Debug for ChunkSizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkSizer").finish_non_exhaustive()
    }
}

impl ChunkSizer {
    /// Makes something of `n` examples, as many at a time as there is room for: first `estimate`,
    /// half as many after each time that memory runs out. `attempt` is told how many, and whether
    /// to wait and verify if it worked: only key that is new or clearly larger than what has worked
    /// before is looked at, for a host that waits leaves the GPU idle.
    ///
    /// # Errors
    /// If there is no room for one example, or as `estimate` and `attempt`.
    pub(in crate::engine::tap) fn run<T>(
        &self,
        key: ChunkKey,
        (chunking, n): (Chunking, usize),
        estimate: impl FnOnce() -> Result<usize>,
        mut attempt: impl FnMut(usize, bool) -> Result<T, ChunkError>,
    ) -> Result<T> {
        // Every call sets the state up anew: a panic elsewhere can't leave it half-changed.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut calibrated = match state.take() {
            Some(calibrated) if calibrated.key == key => calibrated,
            _ => Calibrated { key, chunk: chunking.size(estimate()?.max(1)), verified: 0 },
        };
        let result = loop {
            let size = chunking.largest(n, calibrated.chunk);
            // Poisson batches wobble: an eighth more is no news.
            let verify = size > calibrated.verified + calibrated.verified / 8;
            match catch_out_of_memory(|| attempt(calibrated.chunk, verify)) {
                Ok(result) => {
                    if verify {
                        calibrated.verified = size;
                    }
                    break Ok(result);
                }
                Err(ChunkError::OutOfMemory(_)) if size > 1 => {
                    calibrated.chunk = chunking.size(size.div_ceil(2));
                    calibrated.verified = 0;
                    // What the failed pass took is free, but may still be set aside.
                    calibrated.key.device.memory_cleanup();
                }
                Err(ChunkError::OutOfMemory(message)) => {
                    break Err(out_of_memory_error(&calibrated.key, &message));
                }
                Err(ChunkError::Other(error)) => break Err(error),
            }
        };
        *state = Some(calibrated);
        result
    }
}

/// Burn has no errors for most of its operations: where memory runs out in one of them it panics.
fn catch_out_of_memory<T>(
    attempt: impl FnOnce() -> Result<T, ChunkError>,
) -> Result<T, ChunkError> {
    match catch_unwind(AssertUnwindSafe(attempt)) {
        Ok(result) => result,
        Err(panic) => match ChunkError::from_message(panic_message(&*panic)) {
            error @ ChunkError::OutOfMemory(_) => Err(error),
            // No matter of memory: none of ours.
            ChunkError::Other(_) => resume_unwind(panic),
        },
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let fixed = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    fixed.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn out_of_memory_error(key: &ChunkKey, message: &str) -> Error {
    let ChunkKey { parameters, copies, .. } = key;
    let elements: usize = parameters.iter().map(Parameter::len).sum();
    let what = format!(
        "a model of {elements} parameters in {} tensors, one example with {copies} copies at a time",
        parameters.len()
    );
    let message = message.lines().next().unwrap_or_default();
    let why = format!("that is more than the memory of the GPU holds ({message})");
    Error::new(ErrorKind::Model, what, why).fix(
        "close other programs that use the GPU, use a smaller model or fewer copies, or train on \
         the CPU",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(copies: usize) -> ChunkKey {
        ChunkKey { parameters: Vec::new(), copies, device: Device::flex() }
    }

    fn out_of_memory() -> ChunkError {
        ChunkError::from_message("out of device memory allocating 4096 bytes".into())
    }

    #[test]
    fn the_chunk_is_halved_until_it_fits_and_is_then_not_verified_again() {
        let chunk_sizer = ChunkSizer::default();
        let mut attempts = Vec::new();
        let mut step = |copies, n, estimate, fits: usize| {
            attempts.clear();
            let result = chunk_sizer.run(
                key(copies),
                (Chunking::Even, n),
                || Ok(estimate),
                |chunk, verify| {
                    attempts.push((chunk, verify));
                    if chunk.min(n) <= fits { Ok(chunk) } else { Err(out_of_memory()) }
                },
            );
            (result.unwrap(), attempts.clone())
        };
        assert_eq!(step(1, 100, 64, 20), (16, vec![(64, true), (32, true), (16, true)]));
        assert_eq!(step(1, 100, 64, 20), (16, vec![(16, false)]), "it is remembered");
        assert_eq!(step(1, 3, 64, 20), (16, vec![(16, false)]), "fewer are no news");
        // It fails all the same: looked at again.
        assert_eq!(step(1, 100, 64, 8), (8, vec![(16, false), (8, true)]));
        // Other key, another number.
        assert_eq!(step(2, 10, 64, 20), (64, vec![(64, true)]));
        assert_eq!(step(2, 11, 64, 20), (64, vec![(64, false)]), "about as many");
        assert_eq!(step(2, 16, 64, 20), (64, vec![(64, true)]), "clearly more");
        // Halving starts from what was tried, not from the estimate.
        assert_eq!(step(3, 10, 64, 5), (5, vec![(64, true), (5, true)]));
    }

    #[test]
    fn fixed_chunks_are_verified_once_for_all_batch_sizes() {
        let chunk_sizer = ChunkSizer::default();
        let step = |n: usize| {
            let mut verifications = 0;
            let result = chunk_sizer.run(
                key(1),
                (Chunking::Fixed(100), n),
                || Ok(64),
                |size, verify| {
                    verifications += usize::from(verify);
                    if size <= 30 { Ok(size) } else { Err(out_of_memory()) }
                },
            );
            (result.unwrap(), verifications)
        };
        // Two passes of 50 are too large, four of 25 are not.
        assert_eq!(step(90), (25, 2));
        for n in [3, 99, 140, 400] {
            assert_eq!(step(n), (25, 0), "{n}");
        }
    }

    #[test]
    fn an_example_that_does_not_fit_is_an_error() {
        let chunk_sizer = ChunkSizer::default();
        let mut tried = Vec::new();
        let error = chunk_sizer.run(
            key(3),
            (Chunking::Even, 10),
            || Ok(8),
            |chunk, _| -> Result<(), ChunkError> {
                tried.push(chunk);
                Err(out_of_memory())
            },
        );
        assert_eq!(tried, [8, 4, 2, 1]);
        let error = error.unwrap_err().to_string();
        for word in ["3 copies", "one example", "out of device memory", "train on the CPU"] {
            assert!(error.contains(word), "{word}: {error}");
        }
    }

    #[test]
    fn only_out_of_memory_panics_are_caught() {
        let chunk_sizer = ChunkSizer::default();
        let run = |message: &'static str| {
            let mut calls = 0;
            let result = catch_unwind(AssertUnwindSafe(|| {
                chunk_sizer.run(
                    key(1),
                    (Chunking::Even, 4),
                    || Ok(4),
                    |chunk, _| {
                        calls += 1;
                        if chunk > 2 { std::panic::panic_any(message) } else { Ok(chunk) }
                    },
                )
            }));
            (result.is_ok(), calls)
        };
        assert_eq!(run("index out of bounds"), (false, 1));
        assert_eq!(run("can't allocate buffer of size: 7"), (true, 2));
    }

    #[test]
    fn other_errors_are_returned_at_once() {
        let chunk_sizer = ChunkSizer::default();
        let mut calls = 0;
        let error = chunk_sizer.run(
            key(1),
            (Chunking::Even, 4),
            || Ok(4),
            |_, _| -> Result<(), ChunkError> {
                calls += 1;
                Err(ChunkError::from_message("the device was poisoned".into()))
            },
        );
        assert!(error.unwrap_err().to_string().contains("poisoned"));
        assert_eq!(calls, 1);
        let wrong = || Err(Error::setting("x", 1, "wrong"));
        assert!(
            ChunkSizer::default().run(key(1), (Chunking::Even, 4), wrong, |_, _| Ok(())).is_err()
        );
    }
}
