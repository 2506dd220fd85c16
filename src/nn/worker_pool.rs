//! Parallel jobs whose results are consumed in order.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Error, ErrorKind, Result};

thread_local! {
    /// Whether this thread belongs to one of the pools.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Single-threaded Rayon pools that are not in use.
///
/// Burn's operations run parallel work in the pool of the calling thread. A pool of one thread
/// keeps a job from waiting for another job, or from stealing its work while it holds a lock of
/// the autodiff graph.
static IDLE_POOLS: Mutex<Vec<ThreadPool>> = Mutex::new(Vec::new());

/// Pools that belong to one call. Runs of a grid that are trained at the same time take pools of
/// their own, as many as each may use threads, and give them back.
struct PoolLease(Vec<ThreadPool>);

impl PoolLease {
    /// Takes this many pools, and starts new ones where too few are free.
    fn acquire(count: usize) -> Result<Self> {
        let mut taken = {
            let mut free = IDLE_POOLS.lock().unwrap_or_else(PoisonError::into_inner);
            let rest = free.len().saturating_sub(count);
            Self(free.split_off(rest))
        };
        while taken.0.len() < count {
            taken.0.push(start()?);
        }
        Ok(taken)
    }
}

impl Drop for PoolLease {
    fn drop(&mut self) {
        IDLE_POOLS.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.0);
    }
}

fn start() -> Result<ThreadPool> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .thread_name(|_| "epsilab-worker".to_owned())
        .start_handler(|_| IS_WORKER.set(true))
        .build();
    pool.map_err(|e| {
        Error::new(ErrorKind::Io, "the worker threads could not be started", e.to_string())
            .fix("close other programs, or set RAYON_NUM_THREADS=1")
    })
}

/// Returns the number of jobs that run at the same time: the threads of the pool that the caller
/// runs in.
pub(crate) fn worker_count() -> usize {
    rayon::current_num_threads()
}

/// Runs `job(0)`, ..., `job(jobs - 1)` on the worker threads and passes the results to `consume`
/// on the calling thread, in this order for any number of threads.
///
/// Results that arrive early are kept until it is their turn. A job that calls this function runs
/// its own jobs itself, one after the other.
///
/// # Errors
/// If the worker threads can't be started.
pub(crate) fn run_in_order<T: Send>(
    jobs: usize,
    job: impl Fn(usize) -> T + Sync,
    mut consume: impl FnMut(usize, T),
) -> Result<()> {
    if IS_WORKER.get() {
        (0..jobs).for_each(|index| consume(index, job(index)));
        return Ok(());
    }
    let pools = PoolLease::acquire(worker_count().min(jobs))?;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for pool in &pools.0 {
            let (sender, next, job) = (sender.clone(), &next, &job);
            scope.spawn(move || {
                pool.install(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        if index >= jobs || sender.send((index, job(index))).is_err() {
                            break;
                        }
                    }
                });
            });
        }
        drop(sender);
        let mut pending = std::collections::BTreeMap::new();
        let mut next_index = 0;
        for (index, result) in receiver {
            pending.insert(index, result);
            while let Some(result) = pending.remove(&next_index) {
                consume(next_index, result);
                next_index += 1;
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_is_consumed_once_and_in_order() {
        let mut seen = Vec::new();
        run_in_order(100, |i| i * i, |i, square| seen.push((i, square))).unwrap();
        assert_eq!(seen, (0..100).map(|i| (i, i * i)).collect::<Vec<_>>());
    }

    #[test]
    fn jobs_within_jobs_are_done_by_their_own_worker() {
        let mut seen = Vec::new();
        let inner = |i: usize| {
            let mut sum = 0;
            run_in_order(10, |j| i * j, |_, product| sum += product).unwrap();
            sum
        };
        run_in_order(20, inner, |_, sum| seen.push(sum)).unwrap();
        assert_eq!(seen, (0..20).map(|i| 45 * i).collect::<Vec<_>>());
    }

    #[test]
    fn zero_jobs_consume_nothing() {
        run_in_order(0, |_| (), |_, ()| panic!("no result to consume")).unwrap();
    }
}
