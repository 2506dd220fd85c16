//! Gradient dropping: number, uniformity and schedule of the selected coordinates.

use epsilab::data;
use epsilab::engine::{CoordinateWeights, Gradients};
use epsilab::mask::{CoordinateSelector, DroppingRule};
use epsilab::nn::{LayerSpec, LinearSpec, Network};
use epsilab::prelude::*;

fn model(seed: u64) -> Model {
    let data = data::from_vecs(vec![0.5; 70], &[7], (0..10).map(|i| i % 2).collect(), 2).unwrap();
    models::mlp(&data, &[11, 5]).seed(seed).build().unwrap()
}

fn flags(selected: &CoordinateWeights, entry: usize) -> Vec<bool> {
    selected.entries()[entry].values.iter().map(|&w| w == 1.0).collect()
}

fn count(flags: &[bool]) -> usize {
    flags.iter().filter(|&&flag| flag).count()
}

#[test]
fn every_tensor_drops_exactly_the_rate_of_its_kept_coordinates() -> Result<()> {
    let model = model(1);
    let mask = RandomMask::keep(0.6).seed(4).mask(&model)?;
    for rule in [DroppingRule::Random, DroppingRule::Magnitude] {
        for rate in [0.0, 0.3, 0.5, 0.99] {
            let dropping = Dropping { rule, rate: rate.into(), include_1d: false };
            let mut selector = CoordinateSelector::new(Some(&mask), Some(dropping), 5, [3; 32]);
            for _ in 0..5 {
                let selected = selector.next_selection(model.network())?.unwrap();
                for (index, entry) in selected.entries().iter().enumerate() {
                    let flags = flags(&selected, index);
                    let Some(kept) = mask.get(&entry.path) else {
                        assert_eq!(count(&flags), flags.len(), "biases are not dropped");
                        continue;
                    };
                    let candidates = kept.kept_count();
                    let dropped = ((rate * candidates as f64 + 1e-9) as usize).min(candidates - 1);
                    assert_eq!(
                        count(&flags),
                        candidates - dropped,
                        "{rule:?} {rate} {}",
                        entry.path
                    );
                    assert!(flags.iter().zip(&kept.kept).all(|(&s, &kept)| kept || !s));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn random_dropping_is_uniform_and_new_in_every_step() -> Result<()> {
    let model = model(1);
    let steps = 4000;
    let mut selector = CoordinateSelector::new(None, Some(Dropping::random(0.3)), steps, [5; 32]);
    let entry = 0;
    let n = model.network().parameters()[entry].len();
    let mut counts = vec![0u32; n];
    let mut pair_count = 0u32;
    let mut last = Vec::new();
    for step in 0..steps {
        let flags = flags(&selector.next_selection(model.network())?.unwrap(), entry);
        assert!(
            step == 0 || flags != last,
            "step {step} repeats the selection of the previous step"
        );
        flags.iter().zip(&mut counts).filter(|(flag, _)| **flag).for_each(|(_, n)| *n += 1);
        pair_count += u32::from(flags[0] && flags[1]);
        last = flags;
    }
    let kept = (n - (0.3 * n as f64 + 1e-9) as usize) as f64;
    let fraction = kept / n as f64;
    let expected = fraction * steps as f64;
    // The variance of a coordinate's count. The flags of a step have a fixed sum, which makes the
    // expected chi-squared statistic n - 1.
    let variance = steps as f64 * fraction * (1.0 - fraction) * n as f64 / (n - 1) as f64;
    let chi_square: f64 =
        counts.iter().map(|&n| (f64::from(n) - expected).powi(2)).sum::<f64>() / variance;
    let degrees = (n - 1) as f64;
    assert!((chi_square - degrees).abs() < 4.5 * (2.0 * degrees).sqrt(), "{chi_square}");
    // A uniform subset contains a given pair with probability kept (kept - 1) / (n (n - 1)).
    let pair = kept * (kept - 1.0) / (n as f64 * (n - 1) as f64);
    let std = (steps as f64 * pair * (1.0 - pair)).sqrt();
    assert!((f64::from(pair_count) - steps as f64 * pair).abs() < 4.0 * std);
    // Dropping blocks of neighbouring coordinates would be detected.
    assert!((steps as f64 * fraction - steps as f64 * pair).abs() > 4.0 * std);
    Ok(())
}

#[test]
fn rates_follow_the_schedule_and_seeds_repeat_the_selection() -> Result<()> {
    let model = model(1);
    let dropping = Dropping::random(DropRate::linear(0.0, 0.8));
    let select = |seed: u8| -> Result<Vec<Vec<bool>>> {
        let mut selector = CoordinateSelector::new(None, Some(dropping), 9, [seed; 32]);
        (0..9).map(|_| Ok(flags(&selector.next_selection(model.network())?.unwrap(), 0))).collect()
    };
    let (first, again, other) = (select(1)?, select(1)?, select(2)?);
    assert_eq!(first, again);
    assert_ne!(first, other);
    let n = first[0].len();
    for (step, flags) in first.iter().enumerate() {
        let dropped = (0.1 * step as f64 * n as f64 + 1e-9) as usize;
        assert_eq!(count(flags), n - dropped, "step {step}");
    }
    Ok(())
}

#[test]
fn magnitude_selection_follows_the_parameters_and_drops_ties_by_index() -> Result<()> {
    let model = model(1);
    let select = |values: &dyn Fn(usize) -> f32| -> Result<Vec<bool>> {
        let specs = [LayerSpec::Linear(LinearSpec::new(4, 2))];
        let network = Network::build(&[4], &specs, |_, shape, _| {
            (0..shape.iter().product()).map(values).collect()
        })?;
        let rule = Some(Dropping::magnitude(0.5));
        Ok(flags(
            &CoordinateSelector::new(None, rule, 1, [0; 32]).next_selection(&network)?.unwrap(),
            0,
        ))
    };
    assert_eq!(select(&|_| -1.0)?, [false, false, false, false, true, true, true, true]);
    let mixed = [0.5, -3.0, 0.0, 2.0, -0.1, 0.2, -9.0, 1.0];
    assert_eq!(select(&|i| mixed[i])?, [false, true, false, true, false, false, true, true]);
    // Without mask and dropping, everything is selected and no weights are made.
    assert!(
        CoordinateSelector::new(None, None, 1, [0; 32]).next_selection(model.network())?.is_none()
    );
    let mask = RandomMask::keep(0.5).seed(1).mask(&model)?;
    let mut always = CoordinateSelector::new(Some(&mask), None, 2, [0; 32]);
    let (a, b) = (
        always.next_selection(model.network())?.unwrap(),
        always.next_selection(model.network())?.unwrap(),
    );
    assert_eq!(a.entries(), b.entries());
    assert_eq!(a.entries().len(), Gradients::zeros_like(model.network()).entries.len());
    Ok(())
}
