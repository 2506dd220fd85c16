use super::*;

fn poisson(noise_multiplier: f64, steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate: 2048.0 / 60_000.0, noise_multiplier, steps }
}

fn facts() -> GuaranteeFacts {
    GuaranteeFacts {
        epsilon: 2.99941,
        delta: Delta(1e-5),
        lower_bound: None,
        accountant: "rdp".into(),
        neighbouring: NeighbouringRelation::AddOrRemoveOne,
        unit: "one training example".into(),
        events: vec![poisson(1.72, 879)],
        initialisation: None,
        coordinates: None,
        clipping: "clipped to L2 norm 0.1".into(),
        count_noise: None,
        examples: 60_000,
        public_test: true,
        study_mode: false,
        badge: Badge::Proved,
        not_covered: GuaranteeFacts::default_exclusions(),
    }
}

#[test]
fn the_statement_reads_word_for_word() {
    assert_eq!(
        statement(&facts()),
        "This training is (3, 1e-5)-differentially private. Anyone who sees the trained model, \
         and every model on the way to it, can tell two data sets that differ in one training \
         example (neighbours: add or remove one) apart only within epsilon = 3 and \
         delta = 1e-5.\n\
         How: 879 steps with Poisson sampling at sampling rate 0.03413. In each step the \
         gradient of every example is clipped to L2 norm 0.1, the clipped gradients are \
         summed, and Gaussian noise with 1.72 times that norm as standard deviation is added \
         to the sum. Accountant: RDP (Rényi differential privacy).\n\
         Treated as public: the data-set size (60,000 examples), the number and names of the \
         classes, how examples were prepared (their shape or image size, scaling, vocabulary), \
         the test part, the model's architecture and all settings.\n\
         Not covered by epsilon: the choice of settings by looking at other runs on the same \
         data; whatever was computed from the examples without noise and shown: training loss \
         and accuracy, gradient norms, saliencies, confusion tables, predictions, the examples \
         themselves; other runs on the same data (they add up in its ledger); the rounding of \
         sums and noise to 32-bit floating-point numbers.\n\
         Badge: proved."
    );
}

#[test]
fn the_statement_has_the_noise_of_the_sum_and_of_the_count() {
    let text = statement(&GuaranteeFacts { count_noise: Some(2.2), ..facts() });
    // (1.72^-2 - 4.4^-2)^(-1/2) = 1.8687
    assert!(text.contains("noise with 1.868 times that norm"), "{text}");
    let count = "with noise of standard deviation 2.2; sum and count together have noise \
                 multiplier 1.72.";
    assert!(text.contains(count), "{text}");
}

#[test]
fn a_guarantee_that_says_little_has_a_caveat() {
    let caveats = |epsilon, delta, examples| {
        let facts = GuaranteeFacts { epsilon, delta: Delta(delta), examples, ..facts() };
        let lines = statement(&facts);
        lines.lines().filter(|line| line.starts_with("Caveat: ")).map(str::to_owned).collect()
    };
    let none: Vec<String> = caveats(10.0, 1e-5, 60_000);
    assert_eq!(none, Vec::<String>::new());
    let weak: Vec<String> = caveats(12.3, 1e-5, 60_000);
    assert_eq!(
        weak,
        ["Caveat: epsilon 12.3 is a weak guarantee: an attacker's odds may grow by a factor of \
          e^epsilon."]
    );
    for epsilon in [10_000.0, 1e6] {
        let nothing: Vec<String> = caveats(epsilon, 1e-5, 60_000);
        assert!(
            nothing.len() == 1 && nothing[0].contains("guarantees nothing in practice"),
            "{nothing:?}"
        );
    }
    let both: Vec<String> = caveats(12.3, 0.01, 100);
    assert!(both.len() == 2 && both[1].contains("delta 0.01 is not below 1 / 100"), "{both:?}");
    assert!(caveats(3.0, 0.0099, 100).is_empty());
    // Without a guarantee there is nothing to qualify.
    let none = Badge::NoGuarantee("training used raw gradients".into());
    let caveats = statement(&GuaranteeFacts { epsilon: 1e6, badge: none, ..facts() });
    assert!(!caveats.contains("Caveat"), "{caveats}");
}

#[test]
fn no_more_noise_is_claimed_than_there_was() {
    let text = statement(&GuaranteeFacts { events: vec![poisson(1.7199, 879)], ..facts() });
    assert!(text.contains("1.719 times"), "{text}");
}

/// Returns the sentence on the mechanism, up to the accountant.
fn mechanism_text(neighbouring: NeighbouringRelation, events: Vec<Event>) -> String {
    let text = statement(&GuaranteeFacts {
        neighbouring,
        events,
        clipping: "clipped to L2 norm 2".into(),
        ..facts()
    });
    text.lines().nth(1).unwrap().split(" Accountant:").next().unwrap().to_string()
}

const CLIPPED: &str = " In each step the gradient of every example is clipped to L2 norm 2, \
                       the clipped gradients are summed, and Gaussian noise with 1.5 times \
                       that norm as standard deviation is added to the sum.";

#[test]
fn every_sampler_has_its_own_words() {
    let (examples, noise_multiplier) = (50_000, 1.5);
    let sampling_rate = 0.01;
    let cases = [
        (Event::Gaussian { noise_multiplier, count: 1 }, "How: 1 step on all examples."),
        (
            Event::TruncatedPoissonGaussian {
                examples,
                sampling_rate,
                batch_cap: 600,
                noise_multiplier,
                steps: 7,
            },
            "How: 7 steps with Poisson sampling at sampling rate 0.01; batches larger than 600 are \
             cut to a uniformly random subset of that size.",
        ),
        (
            Event::FixedSizeGaussian { examples, batch_size: 500, noise_multiplier, steps: 9 },
            "How: 9 steps on exactly 500 of 50,000 examples, drawn without replacement.",
        ),
        (
            Event::ShuffledEpochs { noise_multiplier, epochs: 3 },
            "How: 3 epochs over shuffled, disjoint batches, each counted as one release on \
             all examples (shuffling amplifies nothing).",
        ),
    ];
    for (event, expected) in cases {
        let text = mechanism_text(NeighbouringRelation::ZeroOutOne, vec![event]);
        assert_eq!(text, format!("{expected}{CLIPPED}"));
    }
}

#[test]
fn a_schedule_is_stated_as_one_kind_of_step_with_its_range_of_noise() {
    let events = (0..100).map(|i| poisson(2.0 - 0.01 * f64::from(i), 10)).collect();
    let text = mechanism_text(NeighbouringRelation::AddOrRemoveOne, events);
    assert!(text.starts_with("How: 1,000 steps with Poisson sampling at"), "{text}");
    assert!(text.contains("noise with between 1.01 and 2 times that norm"), "{text}");
    let events = vec![poisson(1.5, 10), Event::Gaussian { noise_multiplier: 1.5, count: 2 }];
    let text = mechanism_text(NeighbouringRelation::AddOrRemoveOne, events);
    assert!(text.contains("0.03413; then 2 steps on all examples. In each"), "{text}");
}

#[test]
fn every_neighbouring_relation_is_explained_beside_the_claim() {
    let claim = |neighbouring| {
        let text = statement(&GuaranteeFacts { neighbouring, ..facts() });
        text.lines().next().unwrap().to_string()
    };
    let replaced = claim(NeighbouringRelation::ReplaceOne);
    assert!(replaced.contains("(neighbours: replace one: any other example in its place)"));
    let zeroed = claim(NeighbouringRelation::ZeroOutOne);
    assert!(
        zeroed.contains("(neighbours: zero out one: its place stays, its gradient counts as zero)")
    );
    let text = mechanism_text(NeighbouringRelation::ReplaceOne, vec![poisson(1.5, 1)]);
    assert!(
        text.ends_with(
            "to the sum. Replacing an example can move that sum by twice the norm; epsilon \
             counts it so."
        ),
        "{text}"
    );
    assert!(
        !mechanism_text(NeighbouringRelation::ZeroOutOne, vec![poisson(1.5, 1)]).contains("twice")
    );
}

#[test]
fn a_known_lower_bound_is_stated_rounded_down() {
    let known = GuaranteeFacts { accountant: "pld".into(), lower_bound: Some(2.989_99), ..facts() };
    let text = statement(&known);
    assert!(
        text.contains(
            "Accountant: PLD (privacy loss distribution); no accounting of the same releases \
             can show less than epsilon = 2.989.\n"
        ),
        "{text}"
    );
    let badge = Badge::NoGuarantee("nothing holds".into());
    assert!(!statement(&GuaranteeFacts { badge, ..known }).contains("can show less"));
    assert!(!statement(&facts()).contains("can show less"));
}

#[test]
fn an_unaccountable_release_is_stated_without_a_guarantee() {
    let events = vec![Event::Unaccountable { why: "raw gradients".into() }];
    let text = mechanism_text(NeighbouringRelation::AddOrRemoveOne, events);
    assert_eq!(text, "What was released: a release without a guarantee (raw gradients).");
}

#[test]
fn a_test_part_split_off_the_private_data_is_not_public() {
    let text = statement(&GuaranteeFacts { public_test: false, ..facts() });
    assert!(!text.contains("the test part, the model"), "{text}");
    assert!(text.contains("split off the private data.\nBadge"), "{text}");
}

#[test]
fn study_mode_suspends_the_guarantee_aloud() {
    let text = statement(&GuaranteeFacts { study_mode: true, ..facts() });
    assert!(text.contains("\nStudy mode: seeds were given"), "{text}");
    assert!(!statement(&facts()).contains("Study mode"));
}

#[test]
fn without_a_guarantee_no_epsilon_is_claimed() {
    let badge = Badge::NoGuarantee("the noise scale comes from the private batch".into());
    let broken = statement(&GuaranteeFacts { badge, ..facts() });
    assert!(broken.starts_with("Nothing is guaranteed: the noise scale"), "{broken}");
    let infinite = statement(&GuaranteeFacts { epsilon: f64::INFINITY, ..facts() });
    assert!(infinite.starts_with("Nothing is guaranteed: no finite epsilon"), "{infinite}");
    for text in [broken, infinite] {
        assert!(!text.contains("differentially private"), "{text}");
        // These lines qualify a guarantee, and there is none.
        for line in ["Accountant", "Treated as public", "Not covered by epsilon"] {
            assert!(!text.contains(line), "{line} is in:\n{text}");
        }
        assert!(text.contains("\nHow: 879 steps"), "{text}");
    }
}

#[test]
fn an_assumption_stands_in_the_claim_itself() {
    let badge = Badge::Conditional("shuffling is as private as Poisson sampling".into());
    let text = statement(&GuaranteeFacts { badge, ..facts() });
    let claim = text.lines().next().unwrap();
    assert!(claim.ends_with("assumption: shuffling is as private as Poisson sampling."));
    assert!(text.ends_with("Badge: assumption: shuffling is as private as Poisson sampling."));
}
