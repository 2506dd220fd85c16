use super::*;
use crate::data::{self, Dataset};
use crate::methods::NonPrivate;
use crate::nn::models;
use crate::train::{NoopObserver, fit};

#[test]
fn separated_equal_and_known_scores() {
    let low: Vec<f64> = (0..100).map(f64::from).collect();
    let high: Vec<f64> = low.iter().map(|value| value + 200.0).collect();
    let apart = MembershipReport::new("test", &high, &low).unwrap();
    assert_eq!((apart.auc, apart.advantage), (1.0, 1.0));
    assert!(apart.advantage_interval.0 > 0.7 && apart.roc_curve.contains(&(0.0, 1.0)));
    let same = MembershipReport::new("test", &low, &low).unwrap();
    assert!((same.auc - 0.5).abs() < 1e-12 && same.auc_interval.0 < 0.5);
    assert!(same.advantage_interval.0 < 0.0 && same.advantage_interval.1 > 0.0);
    assert_eq!((same.roc_curve[0], *same.roc_curve.last().unwrap()), ((0.0, 0.0), (1.0, 1.0)));
    // Pairs: 4 > {1, 2, 3, 3.5}, 3 > {1, 2} and ties one, 2.5 > {1, 2}, 0 > {}: 8.5 of 16.
    let known =
        MembershipReport::new("test", &[4.0, 3.0, 2.5, 0.0], &[1.0, 2.0, 3.0, 3.5]).unwrap();
    assert!((known.auc - 8.5 / 16.0).abs() < 1e-12);
    assert!(MembershipReport::new("test", &low[..3], &low).is_err());
}

/// Creates random labels, which a model can only memorise.
fn memorised() -> Dataset {
    let value = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0;
    let x = (0..120 * 60).map(value).collect();
    let y = (0..120).map(|i| u32::from(value(i + 9_999) > 0.0)).collect();
    data::from_vecs(x, &[60], y, 2).unwrap()
}

fn trained_on(all: &Dataset, is_in: &[bool]) -> Model {
    let ids: Vec<u32> = (0..120).filter(|&i| is_in[i as usize]).collect();
    let mut features = Vec::new();
    all.train().gather(&ids, &mut features).unwrap();
    let labels: Vec<u32> = ids.iter().map(|&i| all.train().labels()[i as usize]).collect();
    let data = data::from_vecs(features, &[60], labels, 2).unwrap();
    let model = models::linear(&data).seed(1).build().unwrap();
    let method = NonPrivate::new().batch_size(ids.len()).steps(150).learning_rate(0.5).seed(1);
    let plan = method.plan(&data).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ledger =
        crate::store::RunStore::open(folder.path().to_path_buf()).unwrap().ledger(&data).unwrap();
    fit("audit", &plan, &model, &data, &ledger, &mut NoopObserver).unwrap().model()
}

#[test]
fn memorised_examples_are_recognised_and_an_untrained_model_shows_nothing() {
    let all = memorised();
    let first: Vec<bool> = (0..120).map(|i| i < 60).collect();
    let target = trained_on(&all, &first);
    let part = |from: u32| {
        let mut features = Vec::new();
        let ids: Vec<u32> = (from..from + 60).collect();
        all.train().gather(&ids, &mut features).unwrap();
        let labels = all.train().labels()[from as usize..from as usize + 60].to_vec();
        data::from_vecs(features, &[60], labels, 2).unwrap()
    };
    let (members, others) = (part(0), part(60));
    let found = loss_threshold_attack(&target, members.train(), others.train()).unwrap();
    assert!(found.auc_interval.0 > 0.6, "{found}");
    // Three random halves, and what each of them leaves out.
    let half = |i: u32, s: u32| (i * 7 + 3).wrapping_mul(2_654_435_761) >> (10 + s / 2) & 1;
    let shadows: Vec<ShadowModel> = (0..6)
        .map(|s| {
            let is_in: Vec<bool> = (0..120).map(|i| half(i, s) == s & 1).collect();
            ShadowModel { model: trained_on(&all, &is_in), is_member: is_in }
        })
        .collect();
    let by_ratio = lira_attack(&target, &shadows, members.train(), others.train()).unwrap();
    assert!(by_ratio.auc_interval.0 > 0.6, "{by_ratio}");
    let untrained = models::linear(&all).seed(1).build().unwrap();
    let nothing = loss_threshold_attack(&untrained, members.train(), others.train()).unwrap();
    assert!(nothing.auc_interval.0 < 0.5 && nothing.auc_interval.1 > 0.5, "{nothing}");
    assert!(lira_attack(&target, &shadows[..1], members.train(), others.train()).is_err());
}
