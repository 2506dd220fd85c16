use super::*;
use crate::ErrorKind;

fn stage(steps: u64, noise_multiplier: f64, clip_scale: f64) -> Stage {
    Stage { steps, noise_multiplier, clip_scale }
}

fn scheduled(noise: &str, clip: &str, q: f64, steps: u64) -> Result<Stages> {
    let (noise, clip) = (noise.parse()?, clip.parse()?);
    Stages::from_schedules(&noise, &clip, NoiseMultiplier(2.0), SamplingRate(q), steps)
}

#[test]
fn neighbouring_equal_stages_are_one() {
    let stages = Stages::new(vec![
        stage(3, 1.0, 1.0),
        stage(4, 1.0, 1.0),
        stage(5, 1.0, 0.5),
        stage(1, 2.0, 0.5),
        stage(2, 1.0, 1.0),
    ])
    .unwrap();
    let merged = [stage(7, 1.0, 1.0), stage(5, 1.0, 0.5), stage(1, 2.0, 0.5), stage(2, 1.0, 1.0)];
    assert_eq!((stages.as_slice(), stages.steps()), (&merged[..], 15));
    // Every step, and the last stage beyond the end.
    let mut steps = (0..17).map(|step| stages.at(step));
    for (expected, steps_of) in merged.into_iter().zip([7, 5, 1, 4]) {
        assert!(steps.by_ref().take(steps_of).all(|stage| stage == expected));
    }
}

#[test]
fn tables_out_of_range_are_rejected_also_when_read() {
    for bad in [
        vec![],
        vec![stage(0, 1.0, 1.0)],
        vec![stage(1, 0.0, 1.0)],
        vec![stage(1, f64::NAN, 1.0)],
        vec![stage(1, 1.0, 0.0)],
        vec![stage(1, 1.0, f64::INFINITY)],
        vec![stage(u64::MAX, 1.0, 1.0), stage(1, 2.0, 1.0)],
    ] {
        assert_eq!(Stages::new(bad).unwrap_err().kind(), ErrorKind::Setting);
    }
    assert!(scheduled("constant", "constant", 0.1, 0).is_err());
    assert!(scheduled("constant", "constant", 0.0, 9).is_err());
    assert!(scheduled("constant", "exp:100", 0.5, 99).is_err(), "the clip norm underflows");
    for json in ["[]", r#"[{"steps":0,"noise_multiplier":1.0}]"#, r#"[{"noise_multiplier":1.0}]"#] {
        assert!(serde_json::from_str::<Stages>(json).is_err(), "{json}");
    }
    let stages = Stages::new(vec![stage(7, 1.5, 1.0), stage(5, 1.0, 0.5)]).unwrap();
    let json = serde_json::to_string(&stages).unwrap();
    assert_eq!(
        json,
        r#"[{"steps":7,"noise_multiplier":1.5},{"steps":5,"noise_multiplier":1.0,"clip_scale":0.5}]"#
    );
    assert_eq!(serde_json::from_str::<Stages>(&json).unwrap(), stages);
}

/// 8 epochs of 60,000 examples in batches of 1024: 469 steps. Counting ceil(1 / q) = 59 steps in
/// every epoch would give 472.
#[test]
fn a_schedule_has_the_steps_of_the_run() {
    let q = 1024.0 / 60_000.0;
    let steps = TrainingLength::Epochs(8.0).steps(SamplingRate(q)).unwrap();
    let stages = scheduled("linear:0.81", "constant", q, steps).unwrap();
    assert_eq!((steps, stages.steps(), stages.as_slice().len()), (469, 469, 8));
    for (epoch, stage) in stages.as_slice().iter().enumerate() {
        assert!((stage.noise_multiplier - 2.0 * 0.9f64.powi(epoch as i32)).abs() < 1e-12);
    }
    let lengths: Vec<u64> = stages.as_slice().iter().map(|stage| stage.steps).collect();
    assert_eq!(lengths, [59, 59, 58, 59, 58, 59, 59, 58]);
}

/// In integers: step t of batches of B of N examples is in epoch floor(t B / N).
#[test]
fn every_step_is_in_the_epoch_of_its_first_example() {
    for (examples, batch, steps) in
        [(60_000, 1024, 500), (10, 1, 55), (3, 3, 7), (7, 5, 40), (49, 7, 100), (1000, 999, 50)]
    {
        let q = batch as f64 / examples as f64;
        // Another multiplier in every epoch.
        let stages = scheduled("piecewise:1x1", "linear:0.5", q, steps).unwrap();
        for step in 0..steps {
            let epoch = step * batch / examples;
            let found = -stages.at(step).clip_scale.log2();
            assert!((found - epoch as f64).abs() < 1e-9, "{examples} {batch} {step}: {found}");
        }
    }
}

#[test]
fn a_decay_changes_in_every_step_and_epochs_go_on_beside_it() {
    let stages = scheduled("decay:0.25", "step:0.5:2", 0.1, 40).unwrap();
    assert_eq!(stages.as_slice().len(), 40);
    for step in 0..40 {
        let Stage { noise_multiplier, clip_scale, .. } = stages.at(step);
        assert!((noise_multiplier - 2.0 * 0.25f64.powf(step as f64 / 40.0)).abs() < 1e-12);
        assert_eq!(clip_scale, if step < 20 { 1.0 } else { 0.5 });
    }
    assert!(scheduled("decay:0.25", "constant", 0.1, 200_000).is_err(), "too many changes");
    // Constant settings never need to be counted, an endless epoch never ends.
    assert!(scheduled("constant", "constant", 1e-300, u64::MAX).unwrap().is_constant());
    assert!(scheduled("linear:0.5", "constant", 1e-300, 1 << 53).unwrap().is_constant());
}

#[test]
fn the_event_of_constant_noise_is_the_plain_one() {
    let (rate, q) = (SamplingRate(0.01), 0.01);
    let constant = Stages::constant(NoiseMultiplier(1.1), 100).unwrap();
    for steps in [0, 1, 99, 100] {
        assert_eq!(constant.event(rate, steps), Event::poisson(q, 1.1, steps));
    }
    assert_eq!(constant.event(rate, 500), Event::poisson(q, 1.1, 100));
    // The clip norm is not part of the privacy loss.
    let clipped = scheduled("constant", "decay:0.5", q, 100).unwrap();
    assert!(!clipped.is_constant() && clipped.as_slice().len() == 100);
    assert_eq!(clipped.event(rate, 7), Event::poisson(q, 2.0, 7));
}

#[test]
fn the_event_of_every_prefix_is_a_reduced_plan() {
    let rate = SamplingRate(0.25);
    let stages = Stages::new(vec![
        stage(3, 1.0, 1.0),
        stage(1, 1.0, 0.5),
        stage(2, 2.0, 0.5),
        stage(2, 1.0, 1.0),
    ])
    .unwrap();
    let plan = stages.event(rate, 8);
    let part = |sigma, steps| Event::poisson(0.25, sigma, steps);
    assert_eq!(plan, Event::Composed { events: vec![part(1.0, 4), part(2.0, 2), part(1.0, 2)] });
    assert_eq!(stages.event(rate, 0), Event::Composed { events: vec![] });
    assert_eq!(stages.event(rate, 4), Event::Composed { events: vec![part(1.0, 4)] });
    for steps in 0..=8 {
        let taken = stages.event(rate, steps);
        assert_eq!(taken.release_count(), steps);
        assert_eq!(plan.reduced_to(&taken).unwrap(), taken, "{steps} steps");
        // A prefix covers no more steps than it says.
        assert!(steps == 8 || taken.reduced_to(&plan).is_err());
    }
    let noisier = stages.scaled(1.5).unwrap().event(rate, 4);
    assert!(plan.reduced_to(&noisier).is_err(), "other noise than planned");
}

#[test]
fn a_pass_over_disjoint_batches_counts_once_with_its_least_noise() {
    let part = |noise_multiplier, epochs| Event::ShuffledEpochs { noise_multiplier, epochs };
    let constant = Stages::constant(NoiseMultiplier(1.5), 10).unwrap();
    for (steps, epochs) in [(0, 0), (1, 1), (4, 1), (5, 2), (10, 3), (99, 3)] {
        assert_eq!(constant.shuffled_event(4, steps), part(1.5, epochs), "{steps} steps");
    }
    // Passes of four steps: the least noise is 1 in the first, 2 in the second, 0.5 in the third.
    let table = [stage(3, 3.0, 1.0), stage(2, 1.0, 1.0), stage(4, 2.0, 0.5), stage(1, 0.5, 1.0)];
    let mut table = table.to_vec();
    table[1].steps = 1;
    let stages = Stages::new(table).unwrap();
    let whole = stages.shuffled_event(4, 9);
    assert_eq!(whole, Event::Composed { events: vec![part(1.0, 1), part(2.0, 1), part(0.5, 1)] });
    for steps in 0..=9 {
        let taken = stages.shuffled_event(4, steps);
        assert_eq!(taken.release_count(), steps.div_ceil(4));
        assert_eq!(whole.reduced_to(&taken).unwrap(), taken, "{steps} steps");
    }
    // The mean of the noise in a pass, or that of its last step, would be too much.
    assert_ne!(stages.shuffled_event(4, 4), part(2.5, 1));
}

#[test]
fn scaling_the_relative_table_gives_the_scheduled_one() {
    let (noise, clip) = ("linear:0.9".parse().unwrap(), "exp:0.1".parse().unwrap());
    let at = |initial| {
        Stages::from_schedules(&noise, &clip, NoiseMultiplier(initial), SamplingRate(0.1), 95)
            .unwrap()
    };
    for sigma in [0.3, 1.0 / 3.0, 17.7] {
        assert_eq!(at(1.0).scaled(sigma).unwrap(), at(sigma));
    }
    assert!(at(1.0).scaled(0.0).is_err() && at(1.0).scaled(f64::NAN).is_err());
}

#[test]
fn texts_are_short() {
    let constant = Stages::constant(NoiseMultiplier(1.1), 1469).unwrap();
    assert_eq!(constant.to_string(), "1,469 steps, noise multiplier 1.1");
    let stages = scheduled("decay:0.5", "decay:0.25", 0.1, 1000).unwrap();
    assert_eq!(
        stages.to_string(),
        "1,000 steps in 1,000 stages, noise multiplier from 2 to 1, clip scale from 1 to 0.2503"
    );
    let table = stages.table();
    assert_eq!(table.lines().count(), 12, "{table}");
    assert!(table.contains("… 990 stages"), "{table}");
    let lines: Vec<&str> = table.lines().map(str::trim).collect();
    assert!(lines[1].starts_with("1 ") && lines[11].starts_with("1000 "), "{table}");
    let few = Stages::new(vec![stage(59, 1.5, 1.0), stage(1, 1.0, 0.5)]).unwrap().table();
    assert!(few.contains("1–59") && few.lines().count() == 3, "{few}");
}
