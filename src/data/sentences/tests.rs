use super::*;
use crate::ErrorKind;
use crate::data::Dataset;

/// Returns the accuracy on the test part of naive Bayes on word counts, with Laplace's correction.
fn counting_words(data: &Dataset) -> f64 {
    let (classes, words) = (data.classes(), data.vocabulary().unwrap().len());
    let bag =
        |x: &[f32]| x.iter().map(|&x| x as usize).filter(|&id| id > 0).collect::<Vec<usize>>();
    let mut counts = vec![vec![1.0f64; words]; classes];
    for i in 0..data.train().len() {
        for id in bag(data.train().features(i)) {
            counts[data.train().label(i)][id] += 1.0;
        }
    }
    let totals: Vec<f64> = counts.iter().map(|row| row.iter().sum()).collect();
    let right = (0..data.test().len()).filter(|&i| {
        let ids = bag(data.test().features(i));
        let score = |class: usize| -> f64 {
            ids.iter().map(|&id| (counts[class][id] / totals[class]).ln()).sum()
        };
        let best = (0..classes).max_by(|&a, &b| score(a).total_cmp(&score(b)));
        best == Some(data.test().label(i))
    });
    right.count() as f64 / data.test().len() as f64
}

/// Returns the topic of most words of the half that counts, by the marks of a contrast. Ties go to
/// the first topic.
fn reading_in_order(text: &str) -> usize {
    let counts_after = ["but", "it was about how", "was about how"];
    let counts_before = ["rather than", "never mind", "rather", "mind"];
    let mut half = text;
    if let Some(at) = counts_after.iter().find_map(|mark| text.find(mark)) {
        half = &text[at..];
    } else if let Some(at) = counts_before.iter().find_map(|mark| text.find(mark)) {
        half = &text[..at];
    }
    let votes: Vec<usize> = half.split(' ').filter_map(topic_of).collect();
    let votes_for = |topic: usize| votes.iter().filter(|&&vote| vote == topic).count();
    (0..TOPICS.len()).rev().max_by_key(|&topic| votes_for(topic)).unwrap()
}

fn topic_of(word: &str) -> Option<usize> {
    TOPICS.iter().position(|t| [t.nouns, t.verbs, t.adjectives].concat().contains(&word))
}

#[test]
fn counting_words_is_not_enough_but_reading_them_in_order_is() {
    let data = sentences().unwrap();
    let (vocabulary, test) = (data.vocabulary().unwrap(), data.test());
    let right = (0..test.len())
        .filter(|&i| reading_in_order(&vocabulary.text(test.features(i))) == test.label(i));
    let (counting, reading) = (counting_words(&data), right.count() as f64 / test.len() as f64);
    println!("naive Bayes {counting:.4}, reading in order {reading:.4}");
    assert!((0.6..0.75).contains(&counting), "{counting}");
    assert!(reading > 0.93, "{reading}");
}

#[test]
fn a_contrast_has_two_topics_and_its_order_determines_the_label() {
    let data = sentences_with(4000, 0, 1).unwrap();
    let vocabulary = data.vocabulary().unwrap();
    let (mut first, mut last, mut contrasts) = (0, 0, 0);
    for i in 0..data.train().len() {
        let text = vocabulary.text(data.train().features(i));
        if !text.contains("rather than that") {
            continue;
        }
        let topics: Vec<usize> = text.split(' ').filter_map(topic_of).collect();
        let (Some(a), Some(b)) = (topics.first(), topics.last()) else { continue };
        contrasts += 1;
        first += usize::from(*a == data.train().label(i));
        last += usize::from(*b == data.train().label(i));
    }
    // 90 % of words are of their topic, and 10 % of any of the four; 5 % of words are missing.
    assert!(contrasts > 300, "{contrasts}");
    assert!(first * 100 > contrasts * 80, "{first} of {contrasts}");
    assert!(last * 100 < contrasts * 15, "{last} of {contrasts}");
}

#[test]
fn sentences_fit_their_rows_and_their_vocabulary() {
    let data = sentences().unwrap();
    assert_eq!((data.train().len(), data.test().len()), (8_000, 2_000));
    assert_eq!((data.shape(), data.classes()), (&[24][..], 4));
    let x = data.train().features_flat();
    let unknown = Vocabulary::UNKNOWN as f32;
    assert!(x.iter().all(|&id| id != unknown && (id as usize) < data.vocabulary().unwrap().len()));
    let full = x.chunks(LENGTH).filter(|row| row[LENGTH - 1] != 0.0).count();
    assert!(full * 50 < data.train().len(), "{full} sentences fill their row");
    let mut counts = [0; 4];
    data.train().labels().iter().for_each(|&label| counts[label as usize] += 1);
    // 2,000 of each, standard deviation 39.
    assert!(counts.iter().all(|count| (1800..2200).contains(count)), "{counts:?}");
}

#[test]
fn fewer_sentences_are_the_first_of_more_whatever_the_threads() {
    let with = |threads, n| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| sentences_with(n, 10, 9)).unwrap()
    };
    let (few, more) = (with(1, 20), with(5, 64));
    let first = more.train().take(20);
    assert_eq!(few.train().features_flat(), first.features_flat());
    assert_eq!(few.train().labels(), first.labels());
    assert_ne!(few.train().features_flat()[..240], more.test().features_flat()[..240]);
    assert_ne!(few.hash(), sentences_with(20, 10, 8).unwrap().hash());
    assert_eq!(sentences_with(0, 1, 0).unwrap_err().kind(), ErrorKind::Setting);
}

/// The hash names the ledger: see the glyphs.
#[test]
fn the_sentences_of_a_seed_are_fixed_for_ever() {
    let data = sentences_with(100, 0, 0).unwrap();
    for i in 0..12 {
        let text = data.vocabulary().unwrap().text(data.train().features(i));
        println!("{}: {text}", data.class_names()[data.train().label(i)]);
    }
    assert_eq!(data.hash(), FIXED);
}

const FIXED: &str = "388bc54c23207aac90c09a959c3d31781861e8a16dc62aae2f1a32d8c57b3262";
