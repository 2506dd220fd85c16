use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Uniform in ±1/2.
fn unit(rng: &mut ChaCha8Rng) -> f32 {
    (rng.next_u32() >> 8) as f32 / (1 << 24) as f32 - 0.5
}

/// Gradients that are nearly all constant, or nearly all along the weights, which the projection
/// removes. Their rounding errors have the same sign in many terms.
#[test]
fn norms_after_a_projection_are_accurate_or_discarded() {
    const ACCURACY: f64 = 1e-4;
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let (patch, outputs) = (576, 16);
    let mut rule = ConvStandardisation::new(VarianceGuard::Add(1e-6), false, 1, patch, outputs);
    let mut weight: Vec<f32> = (0..patch * outputs).map(|_| unit(&mut rng)).collect();
    rule.load(&mut weight, &[]);
    let (mut kept, mut discarded, mut worst) = (0, 0, 0.0f64);
    for round in 0..600 {
        let rest = 10f32.powf(-2.5 + 2.5 * (round / 2) as f32 / 300.0);
        let (constant, along) =
            if round % 2 == 0 { (0.6 + unit(&mut rng), 0.0) } else { (0.0, 24.0) };
        let gamma: Vec<f32> =
            rule.unit.iter().map(|u| constant + along * u + rest * unit(&mut rng)).collect();
        let mut columns = ColumnStats::new(outputs);
        gamma.chunks(256 * outputs).enumerate().for_each(|(i, rows)| {
            rule.accumulate_stats(&mut columns, i * 256 * outputs, rows);
        });
        let mut right = 0.0;
        for o in 0..outputs {
            let column = |all: &[f32]| -> Vec<f64> {
                all.iter().skip(o).step_by(outputs).map(|&v| f64::from(v)).collect()
            };
            let (gamma, unit) = (column(&gamma), column(&rule.unit));
            let mean = gamma.iter().sum::<f64>() / patch as f64;
            let dot: f64 = gamma.iter().zip(&unit).map(|(g, u)| g * u).sum();
            let scale = f64::from(rule.gain[o]) * f64::from(rule.inverse[o]);
            let each = gamma.iter().zip(&unit).map(|(g, u)| scale * (g - mean - u * dot));
            right += each.map(|v| v * v).sum::<f64>();
        }
        match rule.squared_norm_from_stats(0, &columns) {
            Some(found) => {
                kept += 1;
                worst = worst.max((found.sqrt() / right.sqrt() - 1.0).abs());
            }
            None => discarded += 1,
        }
    }
    assert!(kept > 100 && discarded > 100, "{kept} kept, {discarded} discarded");
    assert!(worst < ACCURACY, "{worst:e}");
}
