//! What a reader has to gather, and the memory of what it has gathered.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Request;
use crate::Result;

/// Number of gathered chunks that exist at the same time: one in use and one ahead of it.
const ALIVE: usize = 2;

pub(super) struct State<S> {
    /// The request in use, and the one that is expected next.
    pub(super) queue: VecDeque<Queued<S>>,
    /// Buffers of chunks that were released.
    pub(super) spare: Vec<Vec<f32>>,
    /// Number of chunks that are gathered, being gathered or in use.
    pub(super) alive: usize,
    /// Number of callers that wait for a chunk.
    pub(super) waiting: usize,
    /// Number of the next request.
    pub(super) number: u64,
    pub(super) ended: bool,
    #[cfg(test)]
    pub(super) seen: Seen,
}

/// What a reader has gathered so far.
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

pub(super) struct Queued<S> {
    pub(super) number: u64,
    pub(super) request: Arc<Request<S>>,
    /// Number of chunks whose gathering has begun.
    pub(super) begun: usize,
    pub(super) done: VecDeque<Result<Vec<f32>>>,
}

impl<S> Queued<S> {
    fn is_begun(&self) -> bool {
        self.begun == self.request.chunks.len()
    }
}

impl<S> Default for State<S> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            spare: Vec::new(),
            alive: 0,
            waiting: 0,
            number: 0,
            ended: false,
            #[cfg(test)]
            seen: Seen::default(),
        }
    }
}

impl<S> State<S> {
    pub(super) fn number(&mut self, request: Request<S>) -> Queued<S> {
        self.number += 1;
        let (request, done) = (Arc::new(request), VecDeque::new());
        Queued { number: self.number, request, begun: 0, done }
    }

    /// The next chunk to gather, if there is one and its memory is free.
    pub(super) fn begin(&mut self) -> Option<(u64, Arc<Request<S>>, usize)> {
        // A caller that keeps chunks of other requests while it waits must not block itself.
        let starved =
            self.queue.front().is_some_and(|first| first.done.is_empty() && !first.is_begun());
        if self.alive >= ALIVE && !(self.waiting > 0 && starved) {
            return None;
        }
        let queued = self.queue.iter_mut().find(|queued| !queued.is_begun())?;
        queued.begun += 1;
        Some((queued.number, queued.request.clone(), queued.begun - 1))
    }

    /// A buffer for one more chunk.
    pub(super) fn buffer(&mut self) -> Vec<f32> {
        self.alive += 1;
        #[cfg(test)]
        {
            self.seen.alive = self.seen.alive.max(self.alive);
        }
        self.spare.pop().unwrap_or_default()
    }

    /// Takes back the buffer of a chunk.
    pub(super) fn release(&mut self, buffer: Vec<f32>) {
        self.alive -= 1;
        if self.spare.len() < ALIVE && buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
    }

    pub(super) fn discard(&mut self, queued: Queued<S>) {
        queued.done.into_iter().flatten().for_each(|buffer| self.release(buffer));
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
