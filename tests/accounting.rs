//! The accountant against known values: built-in ones, and the shared golden rows where they are.

use std::path::PathBuf;

use epsilab::ErrorKind;
use epsilab::privacy::{
    Delta, Epsilon, Event, OrderList, Rdp, SamplingRate, Spent, noise_multiplier_for,
};
use proptest::prelude::*;
use serde_json::Value;

fn training(sampling_rate: f64, noise_multiplier: f64, steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate, noise_multiplier, steps }
}

fn epsilon(q: f64, sigma: f64, steps: u64, delta: f64) -> f64 {
    spent(q, sigma, steps, delta).epsilon
}

fn spent(q: f64, sigma: f64, steps: u64, delta: f64) -> Spent {
    Rdp::default().epsilon(&[training(q, sigma, steps)], Delta(delta)).unwrap()
}

#[track_caller]
fn assert_close(value: f64, expected: f64, relative: f64) {
    let far = (value - expected).abs();
    assert!(far <= relative * expected.abs(), "{value} is not {expected} within {relative}");
}

#[test]
fn one_step_without_sampling_has_the_analytic_divergence() {
    let rdp = Rdp::default();
    for order in [1.25, 2.0, 8.0, 63.0] {
        let value = rdp.rdp_at(&training(1.0, 2.0, 1), order).unwrap();
        assert_close(value, order / (2.0 * 2.0 * 2.0), 1e-14);
    }
}

#[test]
fn known_training_runs_cost_what_is_known() {
    // Opacus 1.6 and an independent quadrature; its list of orders.
    let rdp = Rdp::with_orders(OrderList::opacus_default());
    for (q, sigma, steps, delta, expected, order) in [
        (0.01, 1.0, 1000, 1e-5, 2.101_365_27, 7.8),
        (256.0 / 60_000.0, 1.1, 3516, 1e-5, 1.281_300_02, 12.0),
        (0.5, 2.0, 500, 1e-5, 43.316_852_49, 1.8),
        (0.001, 0.3, 1000, 1e-5, 22.113_084_77, 1.6),
    ] {
        let spent = rdp.epsilon(&[training(q, sigma, steps)], Delta(delta)).unwrap();
        assert_close(spent.epsilon, expected, 1e-6);
        assert_eq!(spent.order, order);
    }
}

#[test]
fn the_longer_production_list_is_never_worse_and_has_no_visible_floor() {
    for (q, sigma, steps) in [(0.01, 1.0, 1000), (1e-4, 50.0, 100_000), (0.5, 2.0, 500)] {
        let short = Rdp::with_orders(OrderList::opacus_default());
        let short = short.epsilon(&[training(q, sigma, steps)], Delta(1e-10)).unwrap();
        assert!(epsilon(q, sigma, steps, 1e-10) <= short.epsilon);
    }
    // The short list reports .2886 here, its floor.
    assert!(epsilon(1e-4, 50.0, 100_000, 1e-10) < 0.01);
}

#[test]
fn dropping_the_signs_of_the_fractional_series_is_rejected() {
    let value = Rdp::default().rdp_at(&training(0.01, 0.5, 1), 1.25).unwrap();
    assert_close(value, 0.001_897_7, 1e-4);
    let signs_dropped = 0.002_201;
    assert!(value < 0.9 * signs_dropped, "{value}");
}

#[test]
fn extremes_give_a_value_or_a_typed_error() {
    for q in [1e-6, 1e-3, 0.5, 0.999_999, 1.0] {
        for sigma in [1e-200, 1e-6, 0.003, 0.1, 1.0, 100.0, 1e6] {
            for steps in [1, 1000, 1_000_000, u64::MAX] {
                for delta in [1e-300, 1e-15, 1e-5, 0.999] {
                    match Rdp::default().epsilon(&[training(q, sigma, steps)], Delta(delta)) {
                        Ok(spent) => assert!(spent.epsilon >= 0.0 && spent.epsilon.is_finite()),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Accounting),
                    }
                }
            }
        }
    }
}

#[test]
fn calibration_answers_over_the_whole_range_or_says_why_not() {
    for target in [1e-6, 0.01, 3.0, 1e6, 1e9] {
        for (q, steps) in [(1e-6, 1), (0.034, 879), (1.0, 1_000_000)] {
            for delta in [1e-15, 1e-5] {
                let rdp = Rdp::default();
                match noise_multiplier_for(
                    Epsilon(target),
                    Delta(delta),
                    SamplingRate(q),
                    steps,
                    &rdp,
                ) {
                    Ok(found) => {
                        let sigma = found.noise_multiplier.0;
                        assert!(epsilon(q, sigma, steps, delta) <= target, "{found}");
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Accounting);
                        assert!(target <= rdp.floor(Delta(delta)).unwrap(), "{error}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_default_epsilon_takes_under_fifty_milliseconds() {
    // The slowest kind: little privacy loss, so that every order is looked at.
    for (q, sigma, steps) in [(0.01, 1.1, 10_000), (1e-6, 100.0, 1000), (0.5, 100.0, 1)] {
        let fastest = (0..5)
            .map(|_| {
                let start = std::time::Instant::now();
                epsilon(q, sigma, steps, 1e-5);
                start.elapsed()
            })
            .min()
            .unwrap();
        assert!(fastest.as_millis() < 50, "q {q} sigma {sigma}: {fastest:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..Default::default() })]

    #[test]
    fn epsilon_falls_with_noise_and_delta_and_rises_with_steps_and_rate(
        ln_q in (1e-6f64).ln()..0.0,
        ln_sigma in (0.1f64).ln()..(100.0f64).ln(),
        ln_steps in 0.0..(1e6f64).ln(),
        ln_delta in (1e-15f64).ln()..(0.1f64).ln(),
        factor in 1.001f64..3.0,
    ) {
        let (q, sigma) = (ln_q.exp().min(1.0), ln_sigma.exp());
        let (steps, delta) = (ln_steps.exp() as u64, ln_delta.exp());
        let here = epsilon(q, sigma, steps, delta);
        prop_assert!(here >= 0.0 && here.is_finite());
        let slack = here * (1.0 + 1e-9);
        prop_assert!(epsilon(q, sigma * factor, steps, delta) <= slack, "noise");
        prop_assert!(epsilon(q, sigma, steps, (delta * factor).min(0.5)) <= slack, "delta");
        let more = epsilon(q, sigma, steps + (steps as f64 * factor) as u64, delta);
        prop_assert!(more * (1.0 + 1e-9) >= here, "steps");
        prop_assert!(epsilon((q * factor).min(1.0), sigma, steps, delta) * (1.0 + 1e-9) >= here, "rate");
    }
}

/// The golden rows, or `None` (with a word on why) where the shared folder is absent.
fn goldens() -> Option<Value> {
    let shared = std::env::var_os("EPSILAB_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = shared.join("goldens/accounting.json");
    if !path.exists() {
        println!("skipped: {} is not there (set EPSILAB_SHARED to its folder)", path.display());
        return None;
    }
    let text = std::fs::read_to_string(&path).expect("the golden file can be read");
    Some(serde_json::from_str(&text).expect("the golden file is JSON"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(number).collect()
}

fn accountant_of(row: &Value) -> Rdp {
    Rdp::with_orders(match &row["inputs"]["orders"] {
        Value::String(name) => name.parse().expect("a known order list"),
        orders => OrderList::custom(&numbers(orders)).expect("orders above 1"),
    })
}

fn events_of(row: &Value) -> Vec<Event> {
    let schedule = row["inputs"]["schedule"].as_array().expect("a schedule");
    schedule
        .iter()
        .map(|entry| {
            let steps = entry["steps"].as_u64().expect("a number of steps");
            training(number(&entry["q"]), number(&entry["sigma"]), steps)
        })
        .collect()
}

/// What we compute for a row, and what is expected of it; `None` for other accountants.
fn ours_and_theirs(row: &Value) -> Option<(f64, f64)> {
    let inputs = &row["inputs"];
    let expected = &row["expected"];
    let delta = || Delta(number(&inputs["delta"]));
    Some(match row["accountant"].as_str()? {
        "rdp" | "rdp_upper" => {
            let spent = accountant_of(row).epsilon(&events_of(row), delta()).unwrap();
            (spent.epsilon, number(&expected["eps"]))
        }
        "rdp_order" => {
            let value =
                Rdp::default().rdp_at(&events_of(row)[0], number(&inputs["order"])).unwrap();
            (value, number(&expected["rdp"]))
        }
        "rdp_inverse" => {
            let entry = &inputs["schedule"][0];
            let found = noise_multiplier_for(
                Epsilon(number(&inputs["target_eps"])),
                delta(),
                SamplingRate(number(&entry["q"])),
                entry["steps"].as_u64().expect("a number of steps"),
                &accountant_of(row),
            )
            .unwrap();
            (found.noise_multiplier.0, number(&expected["sigma"]))
        }
        _ => return None,
    })
}

#[test]
fn every_golden_row_of_the_rdp_accountant_holds() {
    let Some(goldens) = goldens() else { return };
    let mut failures = Vec::new();
    let mut matched = 0;
    for row in goldens["rows"].as_array().expect("rows") {
        let Some((ours, theirs)) = ours_and_theirs(row) else { continue };
        matched += 1;
        let tolerance = &row["tolerance"];
        let rel = tolerance["rel"].as_f64().unwrap_or(0.0);
        let abs = tolerance["abs"].as_f64().unwrap_or(0.0);
        let above_bound = tolerance["one_sided"].is_string() && ours > theirs * (1.0 + 1e-6);
        let holds = (ours - theirs).abs() <= abs.max(rel * theirs.abs()) && !above_bound;
        let off = ours / theirs - 1.0;
        let id = row["id"].as_str().unwrap_or("?");
        println!("{id:16} ours {ours:<22e} theirs {theirs:<22e} off {off:+.1e}");
        if !holds {
            failures.push(format!("{id}: ours {ours}, theirs {theirs}, tolerance {tolerance}"));
        }
    }
    assert!(failures.is_empty(), "{} rows off:\n{}", failures.len(), failures.join("\n"));
    assert!(matched > 0, "no row of the golden file was for the RDP accountant");
    println!("{matched} rows hold");
}

#[test]
fn the_named_order_lists_are_those_of_the_goldens() {
    let Some(goldens) = goldens() else { return };
    let lists = goldens["order_lists"].as_object().expect("order lists");
    assert!(!lists.is_empty());
    for (name, orders) in lists {
        let ours: OrderList = name.parse().unwrap();
        assert_eq!(ours.as_slice(), numbers(orders), "{name}");
    }
}
