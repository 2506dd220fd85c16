use super::*;
use crate::data;
use crate::methods::{BackpropClip, DpSgd};

#[test]
fn candidates_are_all_pairs() {
    let data = data::glyphs_with(300, 30, 42).unwrap();
    let method = DpSgd::new().noise_multiplier(1.0).batch_size(30).steps(3);
    let selection = PrivateSelection::new(method, Trials::geometric(3.0));
    assert_eq!(selection.plan(&data).unwrap().selection().unwrap().candidates().len(), 1);
    let selection = selection.learning_rates([0.1, 1.0, 10.0]).clips([0.1, 1.0]);
    let plan = selection.plan(&data).unwrap();
    let pairs: Vec<_> = plan
        .selection()
        .unwrap()
        .candidates()
        .iter()
        .map(|plan| (plan.privacy().unwrap().clip.clone(), plan.learning_rate()))
        .collect();
    assert_eq!(pairs.len(), 6);
    assert!((1..6).all(|i| !pairs[..i].contains(&pairs[i])), "{pairs:?}");
    assert!(selection.to_string().contains("6 candidates"), "{selection}");
    let other =
        PrivateSelection::new(BackpropClip::new().noise_multiplier(1.0), Trials::geometric(3.0));
    assert!(other.clone().learning_rates([0.1]).plan(&data).is_ok());
    let rule = DpSgd::new().noise_multiplier(1.0).clip_rule(crate::engine::ClipRule::auto_s(1.0));
    let rule = PrivateSelection::new(rule, Trials::geometric(3.0));
    assert!(rule.clone().learning_rates([0.1]).plan(&data).is_ok());
    let error = rule.clips([0.1]).plan(&data).unwrap_err().to_string();
    assert!(error.contains("flat clipping"), "{error}");
    assert!(other.clips([0.1]).plan(&data).is_err(), "it has no clip norm");
}
