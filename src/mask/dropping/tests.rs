use super::*;
use crate::data;
use crate::mask::RandomMask;
use crate::nn::{Model, models};

fn model() -> Model {
    let data = data::from_vecs(vec![0.5; 60], &[6], (0..10).map(|i| i % 2).collect(), 2).unwrap();
    models::mlp(&data, &[23, 11]).seed(5).build().unwrap()
}

/// The network with the parameters of a later step, with ties, zeros and one NaN per tensor.
fn at_step(network: &Network, step: usize) -> Network {
    let fill = |path: &str| {
        let n = network.parameters().into_iter().find(|p| p.path == path)?.len();
        let value = |i: usize| ((i * 31 + step * 17) % 13) as f32 - 6.0;
        let mut values: Vec<f32> = (0..n).map(value).collect();
        values[step % n] = f32::NAN;
        Some(values)
    };
    network.with_values(fill)
}

/// Whether no entry has been copied to the host.
fn is_only_on_device(weights: &CoordinateWeights) -> bool {
    weights.entries().iter().all(|e| format!("{:?}", e.values).ends_with("on a device"))
}

/// The device path runs on the CPU here: every rule, with and without a mask.
#[test]
fn device_and_host_select_the_same_coordinates() {
    let (model, gpu) = (model(), Device::flex());
    let mask = RandomMask::keep(0.6).seed(1).mask(&model).unwrap();
    let rules = [
        Dropping::random(0.5),
        Dropping::magnitude(DropRate::linear(0.2, 0.8)),
        Dropping::magnitude(0.9).include_1d(),
        Dropping::magnitude(0.0),
    ];
    for (mask, rule) in [None, Some(&mask)].into_iter().flat_map(|m| rules.map(|r| (m, r))) {
        let selector = || CoordinateSelector::new(mask, Some(rule), 8, [3; 32]);
        let (mut host, mut device) = (selector(), selector());
        let mut last: Option<Arc<CoordinateWeights>> = None;
        for step in 0..8 {
            let network = at_step(model.network(), step);
            let a = host.next_selection_on(None, &network).unwrap().unwrap();
            let b = device.next_selection_on(Some(&gpu), &network).unwrap().unwrap();
            let on_device = rule.rule == DroppingRule::Magnitude;
            assert!(!on_device || is_only_on_device(&b), "the selection was copied to the host");
            let has_device = |e: &Gradient| e.values.device().is_some();
            assert!(b.entries().iter().all(has_device), "{rule} was left on the host");
            assert_eq!(a.entries(), b.entries(), "{rule} in step {step}");
            assert!(
                (0..a.entries().len())
                    .all(|entry| a.is_zero_tensor(entry) == b.is_zero_tensor(entry))
            );
            let changes = rule.rate != DropRate::from(0.0);
            assert!(!changes || last.is_none_or(|last| last.entries() != b.entries()));
            last = Some(b);
        }
    }
}

#[test]
fn a_mask_without_dropping_is_copied_to_the_device_once() {
    let (model, gpu) = (model(), Device::flex());
    let mask = RandomMask::keep(0.6).seed(1).mask(&model).unwrap();
    let mut selector = CoordinateSelector::new(Some(&mask), None, 2, [3; 32]);
    let first = selector.next_selection_on(Some(&gpu), model.network()).unwrap().unwrap();
    let second = selector.next_selection_on(Some(&gpu), model.network()).unwrap().unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert!(first.entries().iter().all(|entry| entry.values.device() == Some(gpu.clone())));
    assert_eq!(first.entries(), mask.to_weights(model.network()).unwrap().entries());
    let nothing = CoordinateSelector::new(None, None, 2, [3; 32])
        .next_selection_on(Some(&gpu), model.network());
    assert!(nothing.unwrap().is_none());
}
