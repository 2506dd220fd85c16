//! Work on the host that begins before its result is asked for.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Builder, JoinHandle};

use crate::{Error, ErrorKind, Result};

/// A thread that does one job after another, in the order in which they were given. Results come
/// in that order too, an error in the place of its own job. Dropping it ends the thread, after the
/// job it is at.
pub(super) struct Ahead<Job, Done> {
    thread: Option<Running<Job, Done>>,
    /// Jobs given whose results were not taken yet. Whoever gives them bounds their number, and
    /// with it how many results wait in memory.
    under_way: usize,
}

struct Running<Job, Done> {
    jobs: Sender<Job>,
    done: Receiver<Done>,
    handle: JoinHandle<()>,
}

impl<Job: Send + 'static, Done: Send + 'static> Ahead<Job, Done> {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the operating system has no thread to give.
    pub(super) fn start(work: impl Fn(Job) -> Done + Send + 'static) -> Result<Self> {
        let (jobs, to_do) = mpsc::channel();
        let (finished, done) = mpsc::channel();
        // Ends when nobody gives jobs any more, or nobody wants what is done.
        let run = move || to_do.into_iter().all(|job| finished.send(work(job)).is_ok());
        let handle = Builder::new()
            .name("epsilab-ahead".to_owned())
            .spawn(move || _ = run())
            .map_err(|e| Error::io("the thread that reads examples could not be started", &e))?;
        Ok(Self { thread: Some(Running { jobs, done, handle }), under_way: 0 })
    }

    /// How many results are to come.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Gives the thread one more job. If it has ended, [`take`](Self::take) says so.
    pub(super) fn give(&mut self, job: Job) {
        if let Some(running) = &self.thread {
            _ = running.jobs.send(job);
            self.under_way += 1;
        }
    }

    /// The result of the first job whose result was not taken yet; waits for it.
    ///
    /// # Errors
    /// If the thread has ended too early, which only a panic in a job does.
    pub(super) fn take(&mut self) -> Result<Done> {
        self.under_way = self.under_way.saturating_sub(1);
        self.thread.as_ref().and_then(|running| running.done.recv().ok()).ok_or_else(|| {
            let what = "the thread that reads examples ahead has ended";
            Error::new(ErrorKind::Io, what, "no further batch can be made")
                .fix("please report what was printed before: reading must never panic")
        })
    }
}

impl<Job, Done> Drop for Ahead<Job, Done> {
    fn drop(&mut self) {
        if let Some(Running { jobs, done, handle }) = self.thread.take() {
            // Both ends first: jobs that wait are not begun any more.
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
        let mut ahead = Ahead::start(odd).unwrap();
        (1..=4).for_each(|x| ahead.give(x));
        assert_eq!(ahead.under_way(), 4);
        let mut taken: Vec<_> = (0..3).map(|_| ahead.take().unwrap()).collect();
        ahead.give(5);
        taken.extend((0..2).map(|_| ahead.take().unwrap()));
        assert_eq!(taken, [Ok(1), Err(2), Ok(3), Err(4), Ok(5)]);
        assert_eq!(ahead.under_way(), 0);
    }

    #[test]
    fn the_work_begins_before_anybody_asks() {
        let (told, hears) = mpsc::channel();
        let mut ahead = Ahead::start(move |x: u32| told.send(x)).unwrap();
        ahead.give(7);
        let begun = hears.recv_timeout(std::time::Duration::from_secs(60));
        assert_eq!(begun, Ok(7), "nothing was taken yet");
        assert!(ahead.take().unwrap().is_ok());
    }

    #[test]
    fn dropping_it_ends_the_thread_and_leaves_waiting_jobs_undone() {
        let begun = Arc::new(AtomicUsize::new(0));
        let (go, wait) = mpsc::channel::<()>();
        let counter = begun.clone();
        let mut ahead = Ahead::start(move |_: u32| {
            counter.fetch_add(1, Ordering::SeqCst);
            _ = wait.recv();
        })
        .unwrap();
        (0..5).for_each(|job| ahead.give(job));
        go.send(()).unwrap();
        ahead.take().unwrap();
        // The second job is at work, or will be: let it go when the drop has begun.
        let late = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            drop(go);
        });
        drop(ahead);
        late.join().unwrap();
        // The thread's own count is given back: it has ended.
        assert_eq!(Arc::strong_count(&begun), 1);
        assert!(begun.load(Ordering::SeqCst) <= 2, "{begun:?} of 5 jobs were begun");
    }

    #[test]
    fn a_job_that_panics_is_an_error_and_no_waiting_for_ever() {
        let mut ahead = Ahead::start(|x: u32| if x == 2 { panic!("job {x}") } else { x }).unwrap();
        (1..=3).for_each(|x| ahead.give(x));
        assert_eq!(ahead.take(), Ok(1));
        for _ in 0..2 {
            let error = ahead.take().unwrap_err();
            assert!(error.to_string().contains("has ended"), "{error}");
        }
    }
}
