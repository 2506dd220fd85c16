//! Jobs on all cores, their results taken in order.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Error, ErrorKind, Result};

/// One pool of a single thread per core. Burn's operations ask the pool they run in for helpers:
/// here there are none, so jobs neither wait for one another nor steal one another's work while
/// they hold a lock of the autodiff graph.
fn pools() -> Result<&'static [ThreadPool]> {
    static POOLS: OnceLock<std::result::Result<Vec<ThreadPool>, String>> = OnceLock::new();
    let pools = POOLS.get_or_init(|| {
        (0..rayon::current_num_threads())
            .map(|i| {
                ThreadPoolBuilder::new()
                    .num_threads(1)
                    .thread_name(move |_| format!("epsilab-{i}"))
                    .build()
                    .map_err(|e| e.to_string())
            })
            .collect()
    });
    pools.as_deref().map_err(|e| {
        Error::new(ErrorKind::Io, "the worker threads could not be started", e.clone())
            .fix("close other programs, or set RAYON_NUM_THREADS=1")
    })
}

/// Runs `job(0)`, ..., `job(jobs - 1)` on the workers and hands the results to `take` in that
/// order, whatever the number of threads; few results wait at any time.
pub(crate) fn in_order<T: Send>(
    jobs: usize,
    job: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(usize, T),
) -> Result<()> {
    let pools = pools()?;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for pool in pools.iter().take(jobs) {
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
        let mut early = std::collections::BTreeMap::new();
        let mut turn = 0;
        for (index, result) in receiver {
            early.insert(index, result);
            while let Some(result) = early.remove(&turn) {
                take(turn, result);
                turn += 1;
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_none_is_lost() {
        let mut seen = Vec::new();
        in_order(100, |i| i * i, |i, square| seen.push((i, square))).unwrap();
        assert_eq!(seen, (0..100).map(|i| (i, i * i)).collect::<Vec<_>>());
    }

    #[test]
    fn no_jobs_are_no_work() {
        in_order(0, |_| (), |_, ()| panic!("there is nothing to take")).unwrap();
    }
}
