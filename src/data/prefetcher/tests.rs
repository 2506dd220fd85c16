use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;

/// Source whose features are the positions. Position 13 can't be read, 99 panics, 77 waits until it
/// may continue.
struct Counted {
    begun: AtomicUsize,
    go: Mutex<mpsc::Receiver<()>>,
}

fn counted() -> (Arc<Counted>, mpsc::Sender<()>) {
    let (sender, receiver) = mpsc::channel();
    let counted = Counted { begun: AtomicUsize::new(0), go: Mutex::new(receiver) };
    (Arc::new(counted), sender)
}

impl Gather for Counted {
    fn gather(&self, positions: &[usize], _: Copies, into: &mut Vec<f32>) -> Result<()> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        for &position in positions {
            match position {
                13 => return Err(Error::setting("position", 13, "it can't be read")),
                99 => panic!("position 99"),
                77 => _ = self.go.lock().unwrap().recv(),
                _ => into.push(position as f32),
            }
        }
        Ok(())
    }
}

fn reader() -> Arc<Prefetcher<Counted>> {
    Arc::new(Prefetcher::start().unwrap())
}

fn request(source: &Arc<Counted>, chunks: &[&[usize]]) -> ChunkRequest<Counted> {
    let examples = Some(chunks.concat());
    let mut end = 0;
    let mut piece = |chunk: &&[usize]| {
        let piece = end..end + chunk.len();
        end = piece.end;
        vec![piece]
    };
    let chunks = chunks.iter().map(&mut piece).collect();
    ChunkRequest { source: source.clone(), copies: Copies::Plain, examples, chunks }
}

fn all(chunks: Chunks<Counted>) -> Vec<Result<Vec<f32>>> {
    chunks.map(|chunk| chunk.map(|chunk| chunk.to_vec())).collect()
}

/// Waits until a number of chunks is begun, and a little longer for one too many.
fn settled(source: &Counted, begun: usize) -> usize {
    for _ in 0..120_000 {
        if source.begun.load(Ordering::SeqCst) >= begun {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(40));
    source.begun.load(Ordering::SeqCst)
}

#[test]
fn chunks_come_in_order_with_errors_and_panics_in_their_places() {
    let (reader, (source, _go)) = (reader(), counted());
    for _ in 0..2 {
        let chunks = [&[1, 2][..], &[3], &[4, 13], &[99], &[], &[5, 6]];
        let got = all(reader.request_chunks(request(&source, &chunks), None));
        assert_eq!((&got[0], &got[1]), (&Ok(vec![1.0, 2.0]), &Ok(vec![3.0])));
        assert!(got[2].as_ref().unwrap_err().to_string().starts_with("position = 13"));
        assert!(got[3].as_ref().unwrap_err().to_string().contains("panicked"));
        assert_eq!(got[4..], [Ok(vec![]), Ok(vec![5.0, 6.0])]);
    }
}

#[test]
fn the_time_of_waiting_is_counted() {
    let (reader, (source, go)) = (reader(), counted());
    let mut chunks = reader.request_chunks(request(&source, &[&[1], &[77]]), None);
    drop(chunks.next());
    let before = reader.wait_time();
    let shared = reader.shared.clone();
    let late = std::thread::spawn(move || {
        while shared.lock().waiting_callers == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        drop(go);
    });
    let start = Instant::now();
    drop(chunks.next());
    let longest = start.elapsed();
    late.join().unwrap();
    let waited = reader.wait_time() - before;
    assert!((Duration::from_millis(20)..=longest).contains(&waited), "{waited:?} of {longest:?}");
}

/// Source that gathers in the threads of the pool, and counts the threads.
struct Parallel(Mutex<std::collections::BTreeSet<Option<usize>>>);

impl Gather for Parallel {
    fn gather(&self, positions: &[usize], _: Copies, into: &mut Vec<f32>) -> Result<()> {
        use rayon::prelude::*;
        into.resize(positions.len(), 0.0);
        into.par_iter_mut().zip(positions).for_each(|(into, &position)| {
            self.0.lock().unwrap().insert(rayon::current_thread_index());
            std::thread::sleep(Duration::from_millis(1));
            *into = (position as f32).sqrt();
        });
        Ok(())
    }
}

#[test]
fn chunks_do_not_depend_on_the_number_of_threads() {
    let gathered = |threads| {
        let reader = Arc::new(Prefetcher::with_threads(threads).unwrap());
        let source = Arc::new(Parallel(Mutex::default()));
        let chunks = vec![vec![0..40], vec![40..41], vec![41..90]];
        let (source_, copies, examples) = (source.clone(), Copies::Plain, None);
        let request = ChunkRequest { source: source_, copies, examples, chunks };
        let all: Vec<Vec<f32>> =
            reader.request_chunks(request, None).map(|chunk| chunk.unwrap().to_vec()).collect();
        let seen = source.0.lock().unwrap().clone();
        (all, seen)
    };
    let (one, seen) = gathered(1);
    assert_eq!(seen, [Some(0)].into());
    let (four, seen) = gathered(4);
    assert!(seen.len() > 1 && !seen.contains(&None), "{seen:?}");
    assert_eq!((one[0].len(), one[1][0]), (40, 40f32.sqrt()));
    assert_eq!(one, four);
}

#[test]
fn two_chunks_exist_at_a_time_and_the_second_is_prefetched() {
    let (reader, (source, _go)) = (reader(), counted());
    let mut chunks = reader.request_chunks(request(&source, &[&[1], &[2], &[3], &[4], &[5]]), None);
    assert_eq!(settled(&source, 2), 2);
    let first = chunks.next().unwrap().unwrap();
    assert_eq!(settled(&source, 2), 2, "one in use, one ahead");
    drop(first);
    assert_eq!(settled(&source, 3), 3);
    let mut second = chunks.next().unwrap().unwrap();
    assert_eq!((second.take(), settled(&source, 3)), (vec![2.0], 3), "being uploaded");
    drop(second);
    assert_eq!(settled(&source, 4), 4);
    assert_eq!(all(chunks).len(), 3);
    let seen = reader.seen();
    assert_eq!((seen.chunks, seen.examples, seen.largest, seen.alive), (5, 5, 1, 2));
}

#[test]
fn the_next_request_is_begun_and_found_again() {
    let (reader, (source, _go), (later, _go_on)) = (reader(), counted(), counted());
    let next = || request(&later, &[&[4], &[5], &[6]]);
    let chunks = reader.request_chunks(request(&source, &[&[1], &[2]]), Some(next()));
    assert_eq!(all(chunks), [Ok(vec![1.0]), Ok(vec![2.0])]);
    assert_eq!(settled(&later, 2), 2, "as far as there is memory");
    assert_eq!(all(reader.request_chunks(next(), None)).len(), 3);
    assert_eq!(settled(&later, 3), 3, "each chunk once");

    // A request that was not expected takes its place.
    let _ = all(reader.request_chunks(request(&source, &[&[1]]), Some(next())));
    assert_eq!(settled(&later, 5), 5);
    let got = all(reader.request_chunks(request(&later, &[&[4, 5], &[6]]), None));
    assert_eq!(got, [Ok(vec![4.0, 5.0]), Ok(vec![6.0])]);
    assert_eq!(reader.seen().alive, 2);
}

#[test]
fn requests_at_the_same_time_do_not_block_each_other() {
    let (reader, (source, _go)) = (reader(), counted());
    let mut requests: Vec<Chunks<Counted>> = Vec::new();
    let mut kept = Vec::new();
    for i in 0..4 {
        let mut chunks = reader.request_chunks(request(&source, &[&[i], &[i + 1], &[i + 2]]), None);
        kept.push(chunks.next().unwrap().unwrap());
        requests.push(chunks);
    }
    for (i, chunks) in requests.into_iter().enumerate() {
        let rest = all(chunks);
        assert_eq!(rest, [Ok(vec![(i + 1) as f32]), Ok(vec![(i + 2) as f32])]);
    }
    drop(kept);
    assert_eq!(reader.shared.lock().live_chunks, 0);
}

#[test]
fn dropping_chunks_cancels_them_and_dropping_the_reader_ends_the_thread() {
    let (reader, (source, go)) = (reader(), counted());
    let mut chunks = reader.request_chunks(request(&source, &[&[1], &[77], &[3], &[4]]), None);
    let first = chunks.next().unwrap().unwrap();
    assert_eq!(settled(&source, 2), 2);
    drop(chunks);
    drop(first);
    // The chunk that is being read is released after the drop has begun; none is begun after it.
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(go);
    });
    drop(reader);
    late.join().unwrap();
    assert_eq!(source.begun.load(Ordering::SeqCst), 2);
    assert_eq!(Arc::strong_count(&source), 1, "the thread has ended");
}

#[test]
fn a_chunk_may_outlive_the_reader() {
    let (reader, (source, _go)) = (reader(), counted());
    let mut chunks = reader.request_chunks(request(&source, &[&[1], &[2], &[3]]), None);
    let first = chunks.next().unwrap().unwrap();
    drop((chunks, reader));
    assert_eq!(*first, [1.0]);
}
