//! Search for a chunk size that fits into GPU memory: starts from an estimate and halves it when
//! memory runs out.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

use burn::prelude::Device;

use super::Chunking;
use crate::device::{device_error, is_out_of_memory, panic_text};
use crate::nn::Parameter;
use crate::{Error, ErrorKind, Result};

/// Failure of an attempt at a chunk size.
#[derive(Debug)]
pub(crate) enum ChunkError {
    /// Out of memory, with the message of the device.
    OutOfMemory(String),
    /// Any other error.
    Other(Error),
}

impl From<Error> for ChunkError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl ChunkError {
    /// Classifies an error message of the device.
    pub(super) fn from_message(message: String) -> Self {
        if is_out_of_memory(&message) {
            Self::OutOfMemory(message)
        } else {
            Self::Other(device_error(&"the GPU", &message))
        }
    }
}

/// Key of a chunk size: the settings that it depends on. A different key starts from a new
/// estimate.
#[derive(PartialEq)]
pub(in crate::engine::tap) struct ChunkKey {
    /// Parameters of the network.
    pub(in crate::engine::tap) parameters: Vec<Parameter>,
    /// Augmentation multiplicity.
    pub(in crate::engine::tap) copies: usize,
    /// Device of the network.
    pub(in crate::engine::tap) device: Device,
}

/// Chunk size in use for the latest key.
struct Calibrated {
    key: ChunkKey,
    /// Number of examples per chunk.
    chunk: usize,
    /// Largest chunk that is known to fit.
    verified: usize,
}

/// Sizer that finds a chunk size that fits into memory and remembers it between calls.
#[derive(Default)]
pub(in crate::engine::tap) struct ChunkSizer(Mutex<Option<Calibrated>>);

impl std::fmt::Debug for ChunkSizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkSizer").finish_non_exhaustive()
    }
}

impl ChunkSizer {
    /// Runs `attempt` on a batch of `n` examples, with the chunk size of `estimate` at first and
    /// half of it after each time that memory runs out.
    ///
    /// `attempt` receives the chunk size and whether to wait for the result and check it. That is
    /// necessary only for a new key, or for a chunk clearly larger than those that have worked
    /// before: while the host waits, the GPU is idle.
    ///
    /// # Errors
    /// If one example does not fit into memory, or as `estimate` and `attempt`.
    pub(in crate::engine::tap) fn run<T>(
        &self,
        key: ChunkKey,
        (chunking, n): (Chunking, usize),
        estimate: impl FnOnce() -> Result<usize>,
        mut attempt: impl FnMut(usize, bool) -> Result<T, ChunkError>,
    ) -> Result<T> {
        // A call that panics leaves `None`, which starts from a new estimate, so a poisoned lock is
        // harmless.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut calibrated = match state.take() {
            Some(calibrated) if calibrated.key == key => calibrated,
            _ => Calibrated { key, chunk: chunking.chunk_size(estimate()?.max(1)), verified: 0 },
        };
        let result = loop {
            let size = chunking.max_padded_size(n, calibrated.chunk);
            // Poisson batch sizes fluctuate: up to an eighth more is not checked again.
            let verify = size > calibrated.verified + calibrated.verified / 8;
            match catch_out_of_memory(|| attempt(calibrated.chunk, verify)) {
                Ok(result) => {
                    if verify {
                        calibrated.verified = size;
                    }
                    break Ok(result);
                }
                Err(ChunkError::OutOfMemory(_)) if size > 1 => {
                    calibrated.chunk = chunking.chunk_size(size.div_ceil(2));
                    calibrated.verified = 0;
                    // The memory of the failed attempt is free but may still be reserved by the
                    // pool.
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

/// Turns out-of-memory panics into errors. Most operations of Burn panic when they can't allocate.
fn catch_out_of_memory<T>(
    attempt: impl FnOnce() -> Result<T, ChunkError>,
) -> Result<T, ChunkError> {
    match catch_unwind(AssertUnwindSafe(attempt)) {
        Ok(result) => result,
        Err(panic) => {
            match ChunkError::from_message(panic_text(&*panic).unwrap_or_default().to_owned()) {
                error @ ChunkError::OutOfMemory(_) => Err(error),
                // Not about memory: pass the panic on.
                ChunkError::Other(_) => resume_unwind(panic),
            }
        }
    }
}

fn out_of_memory_error(key: &ChunkKey, message: &str) -> Error {
    let ChunkKey { parameters, copies, .. } = key;
    let elements: usize = parameters.iter().map(Parameter::len).sum();
    let what = format!(
        "a model of {elements} parameters in {} tensors, for one example with {copies} copies",
        parameters.len()
    );
    let message = message.lines().next().unwrap_or_default();
    let why = format!("one example does not fit into the memory of the GPU ({message})");
    Error::new(ErrorKind::Device, what, why).fix(
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
        assert_eq!(step(1, 100, 64, 20), (16, vec![(16, false)]), "the size is remembered");
        assert_eq!(step(1, 3, 64, 20), (16, vec![(16, false)]), "smaller batches are not verified");
        // A chunk that was verified fails later: the size is halved and verified again.
        assert_eq!(step(1, 100, 64, 8), (8, vec![(16, false), (8, true)]));
        // A new key starts from a new estimate.
        assert_eq!(step(2, 10, 64, 20), (64, vec![(64, true)]));
        assert_eq!(step(2, 11, 64, 20), (64, vec![(64, false)]), "within an eighth: not verified");
        assert_eq!(step(2, 16, 64, 20), (64, vec![(64, true)]), "clearly larger: verified");
        // Halving starts from the size that was tried, not from the estimate.
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
        // Two chunks of 50 do not fit, four of 25 do.
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
