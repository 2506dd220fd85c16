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
        "This training is (3, 1e-5)-differentially private. Whoever sees the trained model, \
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
fn a_count_beside_the_sum_is_told_with_the_noise_of_each() {
    let said = statement(&GuaranteeFacts { count_noise: Some(2.2), ..facts() });
    // (1.72^-2 - 4.4^-2)^(-1/2) = 1.8687
    assert!(said.contains("noise with 1.868 times that norm"), "{said}");
    let count = "with noise of standard deviation 2.2; sum and count together have noise \
                 multiplier 1.72.";
    assert!(said.contains(count), "{said}");
}

#[test]
fn a_guarantee_that_says_little_has_a_caveat() {
    let said = |epsilon, delta, examples| {
        let facts = GuaranteeFacts { epsilon, delta: Delta(delta), examples, ..facts() };
        let lines = statement(&facts);
        lines.lines().filter(|line| line.starts_with("Caveat: ")).map(str::to_owned).collect()
    };
    let none: Vec<String> = said(10.0, 1e-5, 60_000);
    assert_eq!(none, Vec::<String>::new());
    let weak: Vec<String> = said(12.3, 1e-5, 60_000);
    assert_eq!(
        weak,
        ["Caveat: epsilon 12.3 is a weak guarantee: an attacker's odds may grow by a factor of \
          e^epsilon."]
    );
    for epsilon in [10_000.0, 1e6] {
        let nothing: Vec<String> = said(epsilon, 1e-5, 60_000);
        assert!(
            nothing.len() == 1 && nothing[0].contains("guarantees nothing in practice"),
            "{nothing:?}"
        );
    }
    let both: Vec<String> = said(12.3, 0.01, 100);
    assert!(both.len() == 2 && both[1].contains("delta 0.01 is not below 1 / 100"), "{both:?}");
    assert!(said(3.0, 0.0099, 100).is_empty());
    // Without a guarantee there is nothing to qualify.
    let none = Badge::NoGuarantee("training used raw gradients".into());
    let said = statement(&GuaranteeFacts { epsilon: 1e6, badge: none, ..facts() });
    assert!(!said.contains("Caveat"), "{said}");
}

#[test]
fn no_more_noise_is_claimed_than_there_was() {
    let said = statement(&GuaranteeFacts { events: vec![poisson(1.7199, 879)], ..facts() });
    assert!(said.contains("1.719 times"), "{said}");
}

/// Returns the sentence on the mechanism, up to the accountant.
fn how_said(neighbouring: NeighbouringRelation, events: Vec<Event>) -> String {
    let said = statement(&GuaranteeFacts {
        neighbouring,
        events,
        clipping: "clipped to L2 norm 2".into(),
        ..facts()
    });
    said.lines().nth(1).unwrap().split(" Accountant:").next().unwrap().to_string()
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
        let said = how_said(NeighbouringRelation::ZeroOutOne, vec![event]);
        assert_eq!(said, format!("{expected}{CLIPPED}"));
    }
}

#[test]
fn a_schedule_is_told_as_one_kind_of_step_with_its_least_and_most_noise() {
    let events = (0..100).map(|i| poisson(2.0 - 0.01 * f64::from(i), 10)).collect();
    let said = how_said(NeighbouringRelation::AddOrRemoveOne, events);
    assert!(said.starts_with("How: 1,000 steps with Poisson sampling at"), "{said}");
    assert!(said.contains("noise with between 1.01 and 2 times that norm"), "{said}");
    let events = vec![poisson(1.5, 10), Event::Gaussian { noise_multiplier: 1.5, count: 2 }];
    let said = how_said(NeighbouringRelation::AddOrRemoveOne, events);
    assert!(said.contains("0.03413; then 2 steps on all examples. In each"), "{said}");
}

#[test]
fn every_neighbouring_relation_is_explained_beside_the_claim() {
    let claim = |neighbouring| {
        let said = statement(&GuaranteeFacts { neighbouring, ..facts() });
        said.lines().next().unwrap().to_string()
    };
    let replaced = claim(NeighbouringRelation::ReplaceOne);
    assert!(replaced.contains("(neighbours: replace one: any other example in its place)"));
    let zeroed = claim(NeighbouringRelation::ZeroOutOne);
    assert!(
        zeroed.contains("(neighbours: zero out one: its place stays, its gradient counts as zero)")
    );
    let said = how_said(NeighbouringRelation::ReplaceOne, vec![poisson(1.5, 1)]);
    assert!(
        said.ends_with(
            "to the sum. Replacing an example can move that sum by twice the norm; epsilon \
             counts it so."
        ),
        "{said}"
    );
    assert!(!how_said(NeighbouringRelation::ZeroOutOne, vec![poisson(1.5, 1)]).contains("twice"));
}

#[test]
fn a_known_bound_from_below_is_said_rounded_down() {
    let known = GuaranteeFacts { accountant: "pld".into(), lower_bound: Some(2.989_99), ..facts() };
    let said = statement(&known);
    assert!(
        said.contains(
            "Accountant: PLD (privacy loss distribution); no accounting of the same releases \
             can show less than epsilon = 2.989.\n"
        ),
        "{said}"
    );
    let badge = Badge::NoGuarantee("nothing holds".into());
    assert!(!statement(&GuaranteeFacts { badge, ..known }).contains("can show less"));
    assert!(!statement(&facts()).contains("can show less"));
}

#[test]
fn an_unaccountable_release_is_told_as_it_is() {
    let events = vec![Event::Unaccountable { why: "raw gradients".into() }];
    let said = how_said(NeighbouringRelation::AddOrRemoveOne, events);
    assert_eq!(said, "What was released: a release without a guarantee (raw gradients).");
}

#[test]
fn a_test_part_split_off_the_private_data_is_not_public() {
    let said = statement(&GuaranteeFacts { public_test: false, ..facts() });
    assert!(!said.contains("the test part, the model"), "{said}");
    assert!(said.contains("split off the private data.\nBadge"), "{said}");
}

#[test]
fn study_mode_suspends_the_guarantee_aloud() {
    let said = statement(&GuaranteeFacts { study_mode: true, ..facts() });
    assert!(said.contains("\nStudy mode: seeds were given"), "{said}");
    assert!(!statement(&facts()).contains("Study mode"));
}

#[test]
fn without_a_guarantee_no_epsilon_is_claimed() {
    let badge = Badge::NoGuarantee("the noise scale comes from the private batch".into());
    let broken = statement(&GuaranteeFacts { badge, ..facts() });
    assert!(broken.starts_with("Nothing is guaranteed: the noise scale"), "{broken}");
    let infinite = statement(&GuaranteeFacts { epsilon: f64::INFINITY, ..facts() });
    assert!(infinite.starts_with("Nothing is guaranteed: no finite epsilon"), "{infinite}");
    for said in [broken, infinite] {
        assert!(!said.contains("differentially private"), "{said}");
        // These lines qualify a guarantee, and there is none.
        for line in ["Accountant", "Treated as public", "Not covered by epsilon"] {
            assert!(!said.contains(line), "{line} is in:\n{said}");
        }
        assert!(said.contains("\nHow: 879 steps"), "{said}");
    }
}

#[test]
fn an_assumption_stands_in_the_claim_itself() {
    let badge = Badge::Conditional("shuffling is as private as Poisson sampling".into());
    let said = statement(&GuaranteeFacts { badge, ..facts() });
    let claim = said.lines().next().unwrap();
    assert!(claim.ends_with("assumption: shuffling is as private as Poisson sampling."));
    assert!(said.ends_with("Badge: assumption: shuffling is as private as Poisson sampling."));
}
