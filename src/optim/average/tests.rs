use super::*;
use crate::nn::{LayerSpec, LinearSpec};

fn network(number: u32) -> Network {
    let specs = [LayerSpec::Linear(LinearSpec::new(300, 3))];
    let value = |i: usize| ((i as f32 + 1.0) * (number as f32 + 0.5)).sin();
    let fill = |_: &str, shape: &[usize], _| (0..shape.iter().product()).map(value).collect();
    Network::build(&[300], &specs, fill).unwrap()
}

fn to_vecs(arrays: &[DeviceArray]) -> Vec<f32> {
    arrays.iter().flat_map(|array| array.to_vec()).collect()
}

#[test]
fn an_average_on_a_device_is_that_of_the_host() {
    let (mut on_host, mut on_device) = (copy(&network(0)), copy(&network(0)));
    for number in 1..50 {
        let keep = 1.0 - 1.0 / f64::from(number);
        mix(&mut on_host, network(number).tensors(), keep);
        mix_on_device(Mix { keep }, &mut on_device, network(number).tensors());
    }
    let unseen = |array: &DeviceArray| format!("{array:?}").ends_with("on a device");
    assert!(on_device.iter().all(unseen) && !on_host.iter().any(unseen));
    let pairs = to_vecs(&on_host).into_iter().zip(to_vecs(&on_device));
    let far = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far < 1e-6, "{far}");
    // The mean of all, in f64.
    let all: Vec<_> = (1..50).map(|number| to_vecs(&copy(&network(number)))).collect();
    for (i, mean) in to_vecs(&on_host).into_iter().enumerate() {
        let expected = all.iter().map(|values| f64::from(values[i])).sum::<f64>() / 49.0;
        assert!((f64::from(mean) - expected).abs() < 1e-6, "{i}: {mean} is not {expected}");
    }
}

#[test]
fn observing_leaves_the_networks_as_they_are() {
    let (first, second) = (network(0), network(1));
    for average in [Average::ema(), Average::Uniform, Average::Last { steps: 2 }] {
        let mut state = AverageState::new(average, &first).unwrap();
        state.observe(&second).unwrap();
        let mean = state.network();
        assert_eq!(to_vecs(&copy(&first)), to_vecs(&copy(&network(0))));
        assert_eq!(to_vecs(&copy(&second)), to_vecs(&copy(&network(1))));
        state.observe(&network(2)).unwrap();
        assert_ne!(to_vecs(&copy(&mean)), to_vecs(&copy(&state.network())), "{average}");
    }
    let other = Network::build(&[2], &[LayerSpec::Linear(LinearSpec::new(2, 3))], |_, shape, _| {
        vec![0.0; shape.iter().product()]
    });
    let mut state = AverageState::new(Average::ema(), &first).unwrap();
    assert_eq!(state.observe(&other.unwrap()).unwrap_err().kind(), ErrorKind::Model);
    assert_eq!(state.steps(), 0);
}
