use super::*;
use crate::ErrorKind;

#[test]
fn words_are_runs_of_letters_and_digits_in_lower_case() {
    let cut = |text: &str| tokenize(text).collect::<Vec<_>>();
    assert_eq!(cut("  A-b, C3PO's  42! "), ["a", "b", "c3po", "s", "42"]);
    assert_eq!(cut("ÄRGER\tмир\u{2014}東京"), ["ärger", "мир", "東京"]);
    assert!(cut(" \n.,;").is_empty());
}

#[test]
fn hashing_needs_no_data_and_never_gives_padding() {
    // FNV-1a of "a" is 0xaf63dc4c8601ec8c and of "foobar" 0x85944171f73967e8, as published.
    let hashed = Vocabulary::hashed(1000).unwrap();
    let expected = [0xaf63_dc4c_8601_ec8c_u64, 0x8594_4171_f739_67e8].map(|h| 1 + (h % 999) as u32);
    assert_eq!(hashed.ids("A foobar"), expected);
    assert_eq!((hashed.len(), hashed.word(5)), (1000, None));
    let two = Vocabulary::hashed(2).unwrap();
    assert_eq!(two.ids("all words share a number"), [1; 5]);
    let many: Vec<u32> = (0..5000).flat_map(|i| hashed.ids(&i.to_string())).collect();
    assert!(many.iter().all(|id| (1..1000).contains(id)));
    let mut different = many.clone();
    different.sort_unstable();
    different.dedup();
    // 5,000 words on 999 numbers leave about 999 exp(-5) = 7 of them free.
    assert!(different.len() > 960, "{}", different.len());
    assert_eq!(hashed.text(&[expected[0] as f32, 0.0]), format!("#{}", expected[0]));
}

#[test]
fn lists_are_numbered_in_order_after_padding_and_unknown() {
    let list = Vocabulary::from_words(["Two words", "two", "more"]).unwrap();
    assert_eq!(list.len(), 5);
    assert_eq!(list.ids("more, words: two three"), [4, 3, 2, Vocabulary::UNKNOWN]);
    assert_eq!((list.word(2), list.word(5)), (Some("two"), None));
    assert_eq!(list.to_string(), "a list of 3 words");
}

#[test]
fn the_most_frequent_words_come_first_and_ties_by_the_alphabet() {
    let texts = ["b a b", "c B a d"];
    for build in
        [Vocabulary::from_public_text::<&str>, Vocabulary::from_private_text_not_covered::<&str>]
            as [fn([&'static str; 2], usize) -> Result<Vocabulary>; 2]
    {
        assert_eq!(build(texts, 3).unwrap().ids("a b c d"), [3, 2, 4, 1]);
    }
}

#[test]
fn impossible_vocabularies_are_refused() {
    for size in [0, 1, (1 << 24) + 1] {
        assert_eq!(Vocabulary::hashed(size).unwrap_err().kind(), ErrorKind::Setting);
    }
    let none: [&str; 0] = [];
    let error = Vocabulary::from_words(none).unwrap_err();
    assert!(error.to_string().contains("words = 0"), "{error}");
    assert!(Vocabulary::from_public_text(["a b"], 0).is_err());
}

#[test]
fn rows_are_cut_and_filled_up() {
    let list = Vocabulary::from_words(["a", "b", "c"]).unwrap();
    let options = TextOptions::default().length(3).vocabulary(list);
    let mut rows = vec![9.0];
    options.encode(["a b", "c a"].into_iter(), &mut rows);
    options.encode(["b"].into_iter(), &mut rows);
    options.encode([].into_iter(), &mut rows);
    assert_eq!(rows, [9.0, 2.0, 3.0, 4.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(options.to_string(), "3 words per text, a list of 3 words");
    assert!(options.clone().length(0).check().is_err() && options.check().is_ok());
    assert!(TextOptions::default().length(65_537).check().is_err());
}
