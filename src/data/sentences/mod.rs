//! Synthetic sentences: a text data set without a download.

mod words;

use rand::Rng;
use rayon::prelude::*;

use super::dataset::Dataset;
use super::drawn::{Part, below, chance, check_counts, pick, stream};
use super::examples::Examples;
use super::text::Vocabulary;
use crate::Result;
use words::{ENDS, Kind, OPENINGS, TOPICS, Topic};

/// Token ids per example; longer sentences are truncated.
const LENGTH: usize = 24;

/// Synthetic English sentences on four topics: 8,000 for training and 2,000 for testing, 24 words
/// each.
///
/// Templates are filled with words of the topics, with noise: 10 % of these words are of a random
/// topic, and one in twenty of all words is missing. Half of the sentences mention two topics, and
/// only the order of the words says which one is the label (`not that the rain fell but our soup
/// boiled`): a bag-of-words model stays below 75 %, a sequence model can exceed 94 %. Token ids are
/// those of a list of these words ([`Dataset::vocabulary`]). They contain nobody's data.
///
/// # Errors
/// None for these sizes; the signature is that of the other data sets.
pub fn sentences() -> Result<Dataset> {
    sentences_with(8_000, 2_000, 0)
}

/// [`sentences`] with the given numbers of examples and seed.
///
/// Equal seeds give equal sentences on every machine and with any number of threads. A smaller data
/// set is a prefix of a larger one.
///
/// # Errors
/// No training examples, or more than 32-bit indices allow.
pub fn sentences_with(train: usize, test: usize, seed: u64) -> Result<Dataset> {
    check_counts(train, test, LENGTH)?;
    let vocabulary = Vocabulary::of_words(words::all())?;
    let source = format!(
        "Sentences put together by code from seed {seed}: no download, nobody's private data."
    );
    let names = TOPICS.iter().map(|topic| topic.name.to_owned()).collect();
    let (train, test) =
        (part(&vocabulary, train, seed, Part::Train), part(&vocabulary, test, seed, Part::Test));
    Ok(Dataset::new("sentences", source, names, train, test).with_vocabulary(vocabulary))
}

fn part(vocabulary: &Vocabulary, len: usize, seed: u64, part: Part) -> Examples {
    let mut features = vec![Vocabulary::PAD as f32; len * LENGTH];
    let labels = (features.par_chunks_mut(LENGTH).enumerate())
        .map(|(i, into)| {
            let mut rng = stream(b"epsilab phrase 1", seed, part, i as u64);
            let topic = below(&mut rng, TOPICS.len());
            let ids = vocabulary.ids(&sentence(&mut rng, topic));
            into.iter_mut().zip(ids).for_each(|(x, id)| *x = id as f32);
            topic as u32
        })
        .collect();
    Examples::new(&[LENGTH], features, labels)
}

/// A sentence about a topic.
fn sentence(rng: &mut impl Rng, topic: usize) -> String {
    let other = (topic + 1 + below(rng, TOPICS.len() - 1)) % TOPICS.len();
    let mut words = Vec::new();
    if chance(rng, 0.6) {
        words.push(pick(rng, OPENINGS));
    }
    // Both halves of a contrast have the same form: counting words can't tell them apart.
    match below(rng, 8) {
        0..2 => clause(rng, topic, &mut words),
        2..4 => {
            clause(rng, topic, &mut words);
            words.push(pick(rng, &["and", "while", "because", "before"]));
            clause(rng, topic, &mut words);
        }
        4 => {
            words.push("not that");
            clause(rng, other, &mut words);
            words.push("but");
            clause(rng, topic, &mut words);
        }
        5 => {
            words.push("it was never about how");
            clause(rng, other, &mut words);
            words.push("it was about how");
            clause(rng, topic, &mut words);
        }
        6 => {
            clause(rng, topic, &mut words);
            words.push("rather than that");
            clause(rng, other, &mut words);
        }
        _ => {
            clause(rng, topic, &mut words);
            words.push("never mind that");
            clause(rng, other, &mut words);
        }
    }
    if chance(rng, 0.5) {
        words.push(pick(rng, ENDS));
    }
    let words = words.join(" ");
    let kept: Vec<&str> = words.split(' ').filter(|_| !chance(rng, 0.05)).collect();
    kept.join(" ")
}

/// `the heavy rain fell`.
fn clause(rng: &mut impl Rng, topic: usize, words: &mut Vec<&'static str>) {
    words.push(pick(rng, &["the", "a", "that", "some", "their", "our"]));
    if chance(rng, 0.5) {
        words.push(word(rng, topic, |topic| topic.like));
    }
    words.push(word(rng, topic, |topic| topic.things));
    words.push(word(rng, topic, |topic| topic.deeds));
}

/// A word of the topic, now and then of any.
fn word(rng: &mut impl Rng, topic: usize, kind: fn(&Topic) -> Kind) -> &'static str {
    let topic = if chance(rng, 0.1) { below(rng, TOPICS.len()) } else { topic };
    pick(rng, kind(&TOPICS[topic]))
}

#[cfg(test)]
mod tests;
