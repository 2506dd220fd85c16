//! The chunks of one request, as they are used.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{ChunkRequest, Gather, Prefetcher, Shared};
use crate::Result;

/// The chunks of one request, in order. Dropping it cancels the others.
pub(crate) struct Chunks<S: Gather> {
    reader: Arc<Prefetcher<S>>,
    request_id: u64,
    request: Arc<ChunkRequest<S>>,
    taken: usize,
}

impl<S: Gather> Chunks<S> {
    pub(super) fn new(
        reader: Arc<Prefetcher<S>>,
        number: u64,
        request: Arc<ChunkRequest<S>>,
    ) -> Self {
        Self { reader, request_id: number, request, taken: 0 }
    }

    /// Returns the request of these chunks.
    pub(crate) fn request(&self) -> Arc<ChunkRequest<S>> {
        self.request.clone()
    }
}

impl<S: Gather> Iterator for Chunks<S> {
    type Item = Result<GatheredChunk<S>>;

    /// Waits for the next chunk. Release the chunk before it first: only then is there memory for
    /// a chunk ahead.
    fn next(&mut self) -> Option<Self::Item> {
        if self.taken == self.request.chunks.len() {
            return None;
        }
        self.taken += 1;
        let (shared, start) = (&self.reader.shared, Instant::now());
        let mut state = shared.lock();
        let gathered = loop {
            match state.queue.iter_mut().find(|queued| queued.request_id == self.request_id) {
                Some(queued) => {
                    if let Some(gathered) = queued.ready_chunks.pop_front() {
                        break gathered;
                    }
                }
                // A later request has cancelled this one.
                None => {
                    let gathered;
                    (gathered, state) = shared.gather(state, &self.request, self.taken - 1);
                    break gathered;
                }
            }
            state.waiting_callers += 1;
            shared.changed.notify_all();
            state = shared.wait(state);
            state.waiting_callers -= 1;
        };
        drop(state);
        shared.waited.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Some(gathered.map(|features| GatheredChunk { features, shared: shared.clone() }))
    }
}

impl<S: Gather> Drop for Chunks<S> {
    fn drop(&mut self) {
        let mut state = self.reader.shared.lock();
        let index = state.queue.iter().position(|queued| queued.request_id == self.request_id);
        if let Some(queued) = index.and_then(|i| state.queue.remove(i)) {
            state.discard(queued);
        }
        drop(state);
        self.reader.shared.changed.notify_all();
    }
}

/// The features of one chunk. Dropping them makes room for the next but one.
pub(crate) struct GatheredChunk<S> {
    features: Vec<f32>,
    shared: Arc<Shared<S>>,
}

impl<S> GatheredChunk<S> {
    /// Takes the features out of the chunk. They count as a chunk until this is dropped.
    pub(crate) fn take(&mut self) -> Vec<f32> {
        std::mem::take(&mut self.features)
    }
}

impl<S> Deref for GatheredChunk<S> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.features
    }
}

impl<S> Drop for GatheredChunk<S> {
    fn drop(&mut self) {
        self.shared.lock().release(std::mem::take(&mut self.features));
        self.shared.changed.notify_all();
    }
}
