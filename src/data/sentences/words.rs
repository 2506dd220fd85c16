//! The words of the sentences, which are also the vocabulary. Any change shifts token ids, so it
//! needs a new name for the data set.

/// Words of one kind.
pub(super) type WordList = &'static [&'static str];

/// Words about a topic.
pub(super) struct Topic {
    pub(super) name: &'static str,
    pub(super) nouns: WordList,
    pub(super) verbs: WordList,
    pub(super) adjectives: WordList,
}

#[rustfmt::skip]
pub(super) const TOPICS: [Topic; 4] = [
    Topic {
        name: "weather",
        nouns: &["rain", "storm", "snow", "wind", "fog", "thunder", "frost", "sunshine", "cloud", "hail", "breeze", "drizzle"],
        verbs: &["fell", "blew", "froze", "melted", "cleared", "drifted", "howled", "flooded"],
        adjectives: &["icy", "stormy", "humid", "cloudy", "gusty", "mild", "frosty", "dry"],
    },
    Topic {
        name: "kitchen",
        nouns: &["soup", "bread", "recipe", "oven", "onion", "sauce", "cake", "spoon", "pepper", "dough", "salad", "kettle"],
        verbs: &["simmered", "baked", "boiled", "burned", "tasted", "cooled", "thickened", "sizzled"],
        adjectives: &["salty", "crisp", "sweet", "spicy", "roasted", "raw", "buttery", "sour"],
    },
    Topic {
        name: "music",
        nouns: &["violin", "choir", "drum", "melody", "concert", "guitar", "song", "orchestra", "piano", "chorus", "rhythm", "flute"],
        verbs: &["played", "sang", "echoed", "hummed", "rehearsed", "tuned", "swelled", "faded"],
        adjectives: &["loud", "tuneful", "acoustic", "rhythmic", "lively", "mellow", "famous", "offbeat"],
    },
    Topic {
        name: "travel",
        nouns: &["train", "passport", "suitcase", "airport", "ferry", "hotel", "map", "tourist", "bridge", "ticket", "harbour", "station"],
        verbs: &["departed", "arrived", "crossed", "boarded", "waited", "landed", "returned", "wandered"],
        adjectives: &["distant", "crowded", "foreign", "delayed", "scenic", "remote", "packed", "coastal"],
    },
];

#[rustfmt::skip]
pub(super) const OPENINGS: WordList = &[
    "yesterday", "people say that", "once again", "on monday", "we heard that", "in the evening",
    "to our surprise", "as always", "last year", "my friend wrote that", "for an hour", "at noon",
];

#[rustfmt::skip]
pub(super) const CLOSINGS: WordList = &[
    "as everyone expected", "without a word", "for the second time", "until late", "at last",
    "so they say", "more than ever", "all day long", "and nobody knew why", "in the end",
];

/// Words of the templates that stand in none of the lists above.
const GLUE: WordList = &[
    "the a that some their our and while because before",
    "not but it was never about how rather than mind",
];

/// Returns all words, to be numbered in this order.
pub(super) fn all_words() -> impl Iterator<Item = &'static str> {
    let topical =
        TOPICS.iter().flat_map(|topic| [topic.nouns, topic.verbs, topic.adjectives].concat());
    GLUE.iter().chain(OPENINGS).chain(CLOSINGS).copied().chain(topical)
}
