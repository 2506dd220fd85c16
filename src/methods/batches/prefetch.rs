//! Host work that starts before its result is needed.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Builder, JoinHandle};

use crate::{Error, ErrorKind, Result};

/// A worker thread that runs jobs in the order of their submission and returns their results in the
/// same order. Dropping it ends the thread after the job that is running.
pub(super) struct Prefetcher<Job, Done> {
    thread: Option<Running<Job, Done>>,
    /// Number of jobs whose results were not received yet. The caller bounds it, and with it the
    /// memory of the results.
    in_flight: usize,
}

struct Running<Job, Done> {
    jobs: Sender<Job>,
    done: Receiver<Done>,
    handle: JoinHandle<()>,
}

impl<Job: Send + 'static, Done: Send + 'static> Prefetcher<Job, Done> {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the operating system can't start a thread.
    pub(super) fn start(work: impl Fn(Job) -> Done + Send + 'static) -> Result<Self> {
        let (jobs, to_do) = mpsc::channel();
        let (finished, done) = mpsc::channel();
        // Ends when the job sender or the result receiver is dropped.
        let run = move || to_do.into_iter().all(|job| finished.send(work(job)).is_ok());
        let handle = Builder::new()
            .name("epsilab-prefetch".to_owned())
            .spawn(move || _ = run())
            .map_err(|e| Error::io("the thread that reads examples could not be started", &e))?;
        Ok(Self { thread: Some(Running { jobs, done, handle }), in_flight: 0 })
    }

    /// Number of jobs whose results were not received yet.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Submits a job. If the thread has ended, [`receive`](Self::receive) returns the error.
    pub(super) fn submit(&mut self, job: Job) {
        if let Some(running) = &self.thread {
            _ = running.jobs.send(job);
            self.in_flight += 1;
        }
    }

    /// Waits for the result of the oldest job whose result was not received yet.
    ///
    /// # Errors
    /// If a job panicked, which ends the thread.
    pub(super) fn receive(&mut self) -> Result<Done> {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.thread.as_ref().and_then(|running| running.done.recv().ok()).ok_or_else(|| {
            let what = "the thread that prefetches examples has ended";
            Error::new(ErrorKind::Io, what, "no further batch can be made")
                .fix("please report what was printed before: reading must never panic")
        })
    }
}

impl<Job, Done> Drop for Prefetcher<Job, Done> {
    fn drop(&mut self) {
        if let Some(Running { jobs, done, handle }) = self.thread.take() {
            // Dropping both channel ends first keeps the thread from starting queued jobs.
            drop((jobs, done));
            _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_come_in_order_with_errors_in_their_places() {
        let odd = |x: u32| if x % 2 == 1 { Ok(x) } else { Err(x) };
        let mut prefetcher = Prefetcher::start(odd).unwrap();
        (1..=4).for_each(|x| prefetcher.submit(x));
        assert_eq!(prefetcher.in_flight(), 4);
        let mut taken: Vec<_> = (0..3).map(|_| prefetcher.receive().unwrap()).collect();
        prefetcher.submit(5);
        taken.extend((0..2).map(|_| prefetcher.receive().unwrap()));
        assert_eq!(taken, [Ok(1), Err(2), Ok(3), Err(4), Ok(5)]);
        assert_eq!(prefetcher.in_flight(), 0);
    }

    #[test]
    fn work_starts_before_its_result_is_received() {
        let (sender, receiver) = mpsc::channel();
        let mut prefetcher = Prefetcher::start(move |x: u32| sender.send(x)).unwrap();
        prefetcher.submit(7);
        let begun = receiver.recv_timeout(std::time::Duration::from_secs(60));
        assert_eq!(begun, Ok(7), "no result was received yet");
        assert!(prefetcher.receive().unwrap().is_ok());
    }

    #[test]
    fn dropping_it_ends_the_thread_without_running_queued_jobs() {
        let begun = Arc::new(AtomicUsize::new(0));
        let (go, wait) = mpsc::channel::<()>();
        let counter = begun.clone();
        let mut prefetcher = Prefetcher::start(move |_: u32| {
            counter.fetch_add(1, Ordering::SeqCst);
            _ = wait.recv();
        })
        .unwrap();
        (0..5).for_each(|job| prefetcher.submit(job));
        go.send(()).unwrap();
        prefetcher.receive().unwrap();
        // The second job is running, or will be: release it after the drop has begun.
        let late = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            drop(go);
        });
        drop(prefetcher);
        late.join().unwrap();
        // The thread dropped its own reference: it has ended.
        assert_eq!(Arc::strong_count(&begun), 1);
        assert!(begun.load(Ordering::SeqCst) <= 2, "{begun:?} of 5 jobs were begun");
    }

    #[test]
    fn a_panic_in_a_job_is_an_error_and_does_not_block() {
        let mut prefetcher =
            Prefetcher::start(|x: u32| if x == 2 { panic!("job {x}") } else { x }).unwrap();
        (1..=3).for_each(|x| prefetcher.submit(x));
        assert_eq!(prefetcher.receive(), Ok(1));
        for _ in 0..2 {
            let error = prefetcher.receive().unwrap_err();
            assert!(error.to_string().contains("has ended"), "{error}");
        }
    }
}
