use super::*;
use crate::data;
use crate::privacy::{Delta, Rdp};

#[test]
fn no_accountant_gives_a_number_to_training_without_privacy() {
    let data = data::from_vecs(vec![0.5; 40], &[2], (0..20).map(|i| i % 2).collect(), 2).unwrap();
    let plan = NonPrivate::new().batch_size(4).plan(&data).unwrap();
    assert!(plan.privacy().is_none());
    let refused = Rdp::default().epsilon(&[plan.event()], Delta(1e-5)).unwrap_err();
    assert!(refused.to_string().contains("raw gradients"), "{refused}");
}
