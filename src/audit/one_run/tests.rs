use super::*;
use crate::audit::Verdict;
use crate::data::{self, Augment, Dataset};
use crate::methods::{DpSgd, NonPrivate, Plan};
use crate::nn::{Model, models};
use crate::privacy::{Delta, Epsilon};

/// Creates 100 examples of 200 features in 4 classes.
fn small() -> (Dataset, Model) {
    let x = (0..100 * 200).map(|i| ((i * 37 % 23) as f32 - 11.0) / 11.0).collect();
    let data = data::from_vecs(x, &[200], (0..100).map(|i| i % 4).collect(), 4).unwrap();
    let model = models::linear(&data).seed(1).build().unwrap();
    (data, model)
}

fn plan(data: &Dataset, epsilon: f64, batch: usize) -> Plan {
    let method = DpSgd::new().target(Epsilon(epsilon), Delta(1e-5)).batch_size(batch).steps(10);
    method.learning_rate(0.01).plan(data).unwrap()
}

#[test]
fn one_run_bounds_the_epsilon_of_a_right_run_from_below_and_refutes_a_wrong_one() {
    let (data, model) = small();
    let right = plan(&data, 8.0, 100);
    let report = right.audit(&model, &data).unwrap();
    println!("{report}");
    assert_eq!((report.canaries, report.guesses), (200, 50));
    assert_eq!(report.verdict, Verdict::Consistent, "{report}");
    assert!(report.lower_bound > 1.0 && report.lower_bound < 8.0, "{report}");
    // The noise of epsilon 8 under the claim of epsilon 1.
    let claim = OneRunAudit::for_plan(&plan(&data, 1.0, 100));
    let report = claim.with_mechanism(move |seed| right.mechanism(seed)).run(&model, &data);
    let report = report.unwrap();
    println!("{report}");
    assert_eq!(report.verdict, Verdict::Refuted, "{report}");
    assert!(!report.public_data && report.to_string().contains("not covered"), "{report}");
    assert!((report.compared_epsilon - 1.0).abs() < 0.01 && report.why.is_none());
}

#[test]
fn rare_sampling_is_inconclusive() {
    let (data, model) = small();
    let public = data.assumed_public();
    let report = plan(&public, 2.0, 5).audit(&model, &public).unwrap();
    assert_eq!(report.verdict, Verdict::Inconclusive, "{report}");
    assert!(report.public_data && !report.to_string().contains("not covered"), "{report}");
}

#[test]
fn audits_that_cannot_run_are_refused() {
    let (data, model) = small();
    let plan = plan(&data, 2.0, 50);
    for (audit, name) in [
        (OneRunAudit::for_plan(&plan).canaries(1), "canaries"),
        (OneRunAudit::for_plan(&plan).canaries(201), "canaries"),
        (OneRunAudit::for_plan(&plan).guesses(201), "guesses"),
        (
            OneRunAudit::for_plan(&NonPrivate::new().batch_size(10).plan(&data).unwrap()),
            "Non-private",
        ),
    ] {
        let error = audit.run(&model, &data).unwrap_err().to_string();
        assert!(error.to_lowercase().contains(&name.to_lowercase()), "{name}: {error}");
    }
    let texts = data::sentences_with(40, 0, 1).unwrap();
    let bilstm = models::bilstm(&texts, texts.vocabulary().unwrap().len(), 4, 4).build().unwrap();
    let plan = DpSgd::new().noise_multiplier(1.0).batch_size(10).plan(&texts).unwrap();
    assert!(plan.audit(&bilstm, &texts).unwrap_err().to_string().contains("texts"));
    let images = data::from_vecs(vec![0.0; 10 * 64], &[1, 8, 8], vec![0; 10], 2).unwrap();
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(5).augment(Augment::default());
    let plan = method.plan(&images).unwrap();
    let linear = models::linear(&images).build().unwrap();
    assert!(plan.audit(&linear, &images).unwrap_err().to_string().contains("augmentation"));
}
