use super::*;
use crate::data;
use crate::mask::RandomMask;
use crate::nn::{Model, models};

fn model() -> Model {
    let data = data::from_vecs(vec![0.5; 60], &[6], (0..10).map(|i| i % 2).collect(), 2).unwrap();
    models::mlp(&data, &[23, 11]).seed(5).build().unwrap()
}

/// The network of a later step: numbers with ties, zeros and one that is none.
fn moved(network: &Network, step: usize) -> Network {
    let numbers = |path: &str| {
        let n = network.parameters().into_iter().find(|p| p.path == path)?.len();
        let number = |i: usize| ((i * 31 + step * 17) % 13) as f32 - 6.0;
        let mut numbers: Vec<f32> = (0..n).map(number).collect();
        numbers[step % n] = f32::NAN;
        Some(numbers)
    };
    network.filled(numbers)
}

fn unseen(weights: &Weights) -> bool {
    weights.entries().iter().all(|e| format!("{:?}", e.values).ends_with("on a device"))
}

fn rising() -> Rate {
    Rate::linear(0.2, 0.8)
}

/// On the GPU, which here is the CPU, as on the host: every rule, with and without a mask.
#[test]
fn the_choice_on_a_gpu_is_that_of_the_host() {
    let (model, gpu) = (model(), Device::flex());
    let mask = RandomMask::keep(0.6).seed(1).mask(&model).unwrap();
    let rules = [
        Dropping::random(0.5),
        Dropping::magnitude(rising()),
        Dropping::magnitude(0.9).include_1d(),
        Dropping::magnitude(0.0),
    ];
    for (mask, rule) in [None, Some(&mask)].into_iter().flat_map(|m| rules.map(|r| (m, r))) {
        let selector = || Selector::new(mask, Some(rule), 8, [3; 32]);
        let (mut here, mut there) = (selector(), selector());
        let mut last: Option<Arc<Weights>> = None;
        for step in 0..8 {
            let network = moved(model.network(), step);
            let a = here.next_on(None, &network).unwrap().unwrap();
            let b = there.next_on(Some(&gpu), &network).unwrap().unwrap();
            let found = rule.rule == DroppingRule::Magnitude;
            assert!(!found || unseen(&b), "somebody looked at the choice");
            let lies_there = |e: &Gradient| e.values.device().is_some();
            assert!(b.entries().iter().all(lies_there), "{rule} was left on the host");
            assert_eq!(a.entries(), b.entries(), "{rule} in step {step}");
            assert!((0..a.entries().len()).all(|entry| a.is_zero(entry) == b.is_zero(entry)));
            let moves = rule.rate != Rate::from(0.0);
            assert!(!moves || last.is_none_or(|last| last.entries() != b.entries()));
            last = Some(b);
        }
    }
}

#[test]
fn a_mask_alone_is_brought_to_the_gpu_once() {
    let (model, gpu) = (model(), Device::flex());
    let mask = RandomMask::keep(0.6).seed(1).mask(&model).unwrap();
    let mut selector = Selector::new(Some(&mask), None, 2, [3; 32]);
    let first = selector.next_on(Some(&gpu), model.network()).unwrap().unwrap();
    let second = selector.next_on(Some(&gpu), model.network()).unwrap().unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert!(first.entries().iter().all(|entry| entry.values.device() == Some(gpu.clone())));
    assert_eq!(first.entries(), mask.weights(model.network()).unwrap().entries());
    let nothing = Selector::new(None, None, 2, [3; 32]).next_on(Some(&gpu), model.network());
    assert!(nothing.unwrap().is_none());
}
