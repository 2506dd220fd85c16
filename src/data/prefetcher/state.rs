//! State of a reader: the requests that it has to gather, and the memory of gathered chunks.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ChunkRequest;
use crate::Result;

/// Number of gathered chunks that exist at the same time: one in use and one ahead of it.
const MAX_LIVE_CHUNKS: usize = 2;

pub(super) struct PrefetcherState<S> {
    /// The request in use, and the one that is expected next.
    pub(super) queue: VecDeque<QueuedRequest<S>>,
    /// Buffers of chunks that were released.
    pub(super) free_buffers: Vec<Vec<f32>>,
    /// Number of chunks that are gathered, being gathered or in use.
    pub(super) live_chunks: usize,
    /// Number of callers that wait for a chunk.
    pub(super) waiting_callers: usize,
    /// Number of the next request.
    pub(super) last_request_id: u64,
    pub(super) is_shut_down: bool,
    #[cfg(test)]
    pub(super) seen: Seen,
}

/// Counts of the chunks and examples that a reader has gathered so far.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Number of chunks.
    pub(crate) chunks: usize,
    /// Number of examples in all chunks, and in the largest.
    pub(crate) examples: usize,
    pub(crate) largest: usize,
    /// Largest number of chunks at the same time.
    pub(crate) alive: usize,
}

pub(super) struct QueuedRequest<S> {
    pub(super) request_id: u64,
    pub(super) request: Arc<ChunkRequest<S>>,
    /// Number of chunks whose gathering has begun.
    pub(super) started_chunks: usize,
    pub(super) ready_chunks: VecDeque<Result<Vec<f32>>>,
}

impl<S> QueuedRequest<S> {
    fn is_fully_started(&self) -> bool {
        self.started_chunks == self.request.chunks.len()
    }
}

impl<S> Default for PrefetcherState<S> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            free_buffers: Vec::new(),
            live_chunks: 0,
            waiting_callers: 0,
            last_request_id: 0,
            is_shut_down: false,
            #[cfg(test)]
            seen: Seen::default(),
        }
    }
}

impl<S> PrefetcherState<S> {
    pub(super) fn enqueue(&mut self, request: ChunkRequest<S>) -> QueuedRequest<S> {
        self.last_request_id += 1;
        let (request, done) = (Arc::new(request), VecDeque::new());
        QueuedRequest {
            request_id: self.last_request_id,
            request,
            started_chunks: 0,
            ready_chunks: done,
        }
    }

    /// Begins the next chunk to gather, if there is one and its memory is free.
    pub(super) fn start_next_chunk(&mut self) -> Option<(u64, Arc<ChunkRequest<S>>, usize)> {
        // A caller that keeps chunks of other requests while it waits must not block itself.
        let starved = self
            .queue
            .front()
            .is_some_and(|first| first.ready_chunks.is_empty() && !first.is_fully_started());
        if self.live_chunks >= MAX_LIVE_CHUNKS && !(self.waiting_callers > 0 && starved) {
            return None;
        }
        let queued = self.queue.iter_mut().find(|queued| !queued.is_fully_started())?;
        queued.started_chunks += 1;
        Some((queued.request_id, queued.request.clone(), queued.started_chunks - 1))
    }

    /// Returns a buffer for one more chunk.
    pub(super) fn acquire_buffer(&mut self) -> Vec<f32> {
        self.live_chunks += 1;
        #[cfg(test)]
        {
            self.seen.alive = self.seen.alive.max(self.live_chunks);
        }
        self.free_buffers.pop().unwrap_or_default()
    }

    /// Takes back the buffer of a chunk.
    pub(super) fn release(&mut self, buffer: Vec<f32>) {
        self.live_chunks -= 1;
        if self.free_buffers.len() < MAX_LIVE_CHUNKS && buffer.capacity() > 0 {
            self.free_buffers.push(buffer);
        }
    }

    pub(super) fn discard(&mut self, queued: QueuedRequest<S>) {
        queued.ready_chunks.into_iter().flatten().for_each(|buffer| self.release(buffer));
    }
}

#[cfg(test)]
impl Seen {
    pub(super) fn count(&mut self, examples: usize) {
        self.chunks += 1;
        self.examples += examples;
        self.largest = self.largest.max(examples);
    }
}
