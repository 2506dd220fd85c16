//! Threads that gather the chunks of batches ahead of their use.

mod chunks;
mod state;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Error, ErrorKind, Result};
pub(crate) use chunks::Chunks;
use state::PrefetcherState;
#[cfg(test)]
pub(crate) use state::Seen;

/// Copies of each example that are gathered on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    /// All copies of each example.
    Augmented,
    /// Single copy of each example: the copies are made on a device.
    Plain,
}

/// Source of features that are gathered in chunks.
pub(crate) trait Gather: Send + Sync + 'static {
    /// Appends the features of the examples at these positions. May use all threads of the Rayon
    /// pool that it is called in; the result does not depend on their number.
    fn gather(&self, positions: &[usize], copies: Copies, into: &mut Vec<f32>) -> Result<()>;
}

/// The examples of one chunk: ranges of a list of examples.
pub(crate) type ChunkRanges = Vec<Range<usize>>;

/// The chunks of a batch, in the order of their use.
pub(crate) struct ChunkRequest<S> {
    pub(crate) source: Arc<S>,
    pub(crate) copies: Copies,
    /// The positions that the chunks list; `None` for all, in order.
    pub(crate) examples: Option<Vec<usize>>,
    pub(crate) chunks: Vec<ChunkRanges>,
}

impl<S> ChunkRequest<S> {
    /// Returns the positions of the examples of one chunk.
    pub(crate) fn positions(&self, chunk: usize) -> Vec<usize> {
        let all = self.chunks[chunk].iter().cloned().flatten();
        match &self.examples {
            None => all.collect(),
            Some(examples) => all.map(|i| examples[i]).collect(),
        }
    }
}

impl<S> PartialEq for ChunkRequest<S> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
            && self.copies == other.copies
            && self.examples == other.examples
            && self.chunks == other.chunks
    }
}

/// Thread that gathers chunks in the order of the requests, at most two ahead of their release.
/// Each chunk is gathered by a pool of threads, one per core. The pool is not that of the rest of
/// the program, where reading would wait until training has no work left. Dropping it ends the
/// threads after the chunk that is being gathered.
pub(crate) struct Prefetcher<S> {
    shared: Arc<Shared<S>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<S> {
    state: Mutex<PrefetcherState<S>>,
    changed: Condvar,
    pool: ThreadPool,
    /// Nanoseconds that callers waited for chunks.
    waited: AtomicU64,
}

impl<S: Gather> Prefetcher<S> {
    /// Starts the threads: as many as Rayon uses.
    ///
    /// # Errors
    /// If the operating system can't start a thread.
    pub(crate) fn start() -> Result<Self> {
        Self::with_threads(rayon::current_num_threads())
    }

    fn with_threads(threads: usize) -> Result<Self> {
        let failed = "the threads that read examples could not be started";
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("epsilab-read-{i}"))
            .build()
            .map_err(|e| Error::new(ErrorKind::Io, failed, e.to_string()))?;
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { state, changed, pool, waited: AtomicU64::new(0) });
        let worker = shared.clone();
        let thread = Builder::new()
            .name("epsilab-reader".to_owned())
            .spawn(move || worker.run())
            .map_err(|e| Error::io(failed, &e))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Returns the total time for which callers waited for chunks that were not gathered yet.
    pub(crate) fn wait_time(&self) -> Duration {
        Duration::from_nanos(self.shared.waited.load(Ordering::Relaxed))
    }

    /// Returns the chunks of `request`. Those of `next` are gathered after them, so that a later
    /// call with an equal request finds them ready. All other earlier requests are cancelled.
    pub(crate) fn request_chunks(
        self: &Arc<Self>,
        request: ChunkRequest<S>,
        next: Option<ChunkRequest<S>>,
    ) -> Chunks<S> {
        let mut state = self.shared.lock();
        let ready = state.queue.iter().position(|queued| *queued.request == request);
        let ready = ready.and_then(|i| state.queue.remove(i));
        while let Some(other) = state.queue.pop_front() {
            state.discard(other);
        }
        let queued = ready.unwrap_or_else(|| state.enqueue(request));
        let (number, request) = (queued.request_id, queued.request.clone());
        state.queue.push_back(queued);
        if let Some(next) = next {
            let next = state.enqueue(next);
            state.queue.push_back(next);
        }
        drop(state);
        self.shared.changed.notify_all();
        Chunks::new(self.clone(), number, request)
    }

    #[cfg(test)]
    pub(crate) fn seen(&self) -> Seen {
        self.shared.lock().seen
    }
}

impl<S> Drop for Prefetcher<S> {
    fn drop(&mut self) {
        self.shared.lock().is_shut_down = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

impl<S> Shared<S> {
    /// Locks the state; every change of it is complete before anything can panic, so a poisoned
    /// lock is harmless.
    fn lock(&self) -> MutexGuard<'_, PrefetcherState<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, PrefetcherState<S>>,
    ) -> MutexGuard<'a, PrefetcherState<S>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Gather> Shared<S> {
    /// Gathers chunks until the reader is dropped.
    fn run(&self) {
        let mut state = self.lock();
        while !state.is_shut_down {
            let Some((number, request, index)) = state.start_next_chunk() else {
                state = self.wait(state);
                continue;
            };
            let gathered;
            (gathered, state) = self.gather(state, &request, index);
            #[cfg(test)]
            state.seen.count(request.positions(index).len());
            match (state.queue.iter_mut().find(|queued| queued.request_id == number), gathered) {
                (Some(queued), gathered) => queued.ready_chunks.push_back(gathered),
                // The request was cancelled.
                (None, Ok(buffer)) => state.release(buffer),
                (None, Err(_)) => {}
            }
            self.changed.notify_all();
        }
    }

    /// Gathers one chunk, with the state unlocked meanwhile.
    fn gather<'a>(
        &'a self,
        mut state: MutexGuard<'a, PrefetcherState<S>>,
        request: &ChunkRequest<S>,
        index: usize,
    ) -> (Result<Vec<f32>>, MutexGuard<'a, PrefetcherState<S>>) {
        let mut buffer = state.acquire_buffer();
        drop(state);
        buffer.clear();
        let positions = request.positions(index);
        let gather = || request.source.gather(&positions, request.copies, &mut buffer);
        let gathered = catch_unwind(AssertUnwindSafe(|| self.pool.install(gather)));
        let mut state = self.lock();
        let gathered = gathered.unwrap_or_else(|_| {
            let what = "a thread that gathers examples panicked";
            Err(Error::new(ErrorKind::Io, what, "the batch is not complete")
                .fix("please report the text printed above: reading must never panic"))
        });
        if let Err(error) = gathered {
            state.release(buffer);
            return (Err(error), state);
        }
        (Ok(buffer), state)
    }
}

#[cfg(test)]
mod tests;
