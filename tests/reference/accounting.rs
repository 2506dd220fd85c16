//! One test for each row of the shared file of reference values.
//!
//! The rows come from other accountants, from 50-digit arithmetic and from papers, each with its
//! own tolerance.

use std::sync::OnceLock;

use epsilab::privacy::{
    Accountant, Conversion, Delta, Epsilon, Event, Gdp, GdpClt, NeighbouringRelation, OrderList,
    Pld, Rdp, SamplingRate, gdp, noise_multiplier_for, tcdp, zcdp,
};
use serde_json::Value;

use crate::support::files;

pub const FILE: &str = "goldens/accounting.json";

/// The rows of the file. Each is a test: row `pld-001` is the test `accounting::pld_001`.
pub const ROWS: &[&str] = &[
    "pld-001",
    "pld-003",
    "pld-004",
    "pld-006",
    "pld-007",
    "pld-009",
    "pld-010",
    "pld-012",
    "pld-013",
    "pld-015",
    "pld-016",
    "pld-018",
    "pld-r01",
    "pld-r03",
    "het-pld-linear",
    "het-pld-step",
    "het-pld-mix",
    "het-rdp-linear",
    "het-rdp-step",
    "het-rdp-exp",
    "rdp-001",
    "rdp-002",
    "rdp-004",
    "rdp-005",
    "rdp-007",
    "rdp-008",
    "rdp-010",
    "rdp-011",
    "rdp-013",
    "rdp-014",
    "rdp-016",
    "rdp-017",
    "rdp-019",
    "rdp-020",
    "seed1-t4a",
    "seed1-t4b",
    "seed1-t5d",
    "seed1-t9a",
    "seed1-t9c",
    "seed1-t9d",
    "seed1-t9f",
    "seed1-t9g",
    "op-rdp-a",
    "op-rdp-b",
    "op-rdp-d",
    "op-rdp-e",
    "op-rdp-g",
    "op-rdp-h",
    "op-rdp-j",
    "seed1-t5a",
    "seed1-t5c",
    "rdpda-01",
    "rdpda-03",
    "rdpda-04",
    "swor-01",
    "swor-02",
    "rdpo-01",
    "rdpo-03",
    "rdpo-04",
    "rdpo-06",
    "rdpo-07",
    "rdpo-09",
    "rdpo-10",
    "rdpo-12",
    "gauss-01",
    "gauss-03",
    "gauss-04",
    "gauss-06",
    "zcdp-01",
    "zcdp-03",
    "zcdp-04",
    "zcdp-06",
    "tcdp-sec10-linear",
    "tcdp-sec10-step",
    "tcdp-sec10-exp",
    "tcdp-adp-cifar10",
    "tcdp-adp-cifar100",
    "gdpclt-01",
    "gdpclt-03",
    "gdpclt-04",
    "op-gdp-a",
    "op-gdp-b",
    "inv-pld-01",
    "inv-pld-03",
    "inv-pld-04",
    "inv-pld-06",
    "inv-rdp-01",
    "inv-rdp-03",
    "inv-rdp-04",
    "inv-rdp-06",
    "op-prv-a",
    "op-prv-c",
    "op-prv-d",
    "op-prv-i",
    "op-gdpu-a",
    "op-gdpu-c",
    "prv-a",
    "prv-c",
    "prv-d",
    "prv-i",
    "prv-k",
    "trunc-01",
    "gauss-add_remove",
    "gauss-replace_one",
    "pld-019",
];

pub fn every_row_of_the_file_has_a_test() {
    let goldens = goldens();
    let ids: Vec<&str> = rows_of(goldens).map(|row| row["id"].as_str().expect("an id")).collect();
    assert_eq!(ROWS, ids);
}

pub fn every_tolerance_is_narrow_enough_to_reject_a_wrong_value() {
    let goldens = goldens();
    for row in rows_of(goldens) {
        for (what, Interval { low, high }) in intervals_of(row) {
            let width = if row["id"] == "pld-018" { 2.0 } else { 0.11 };
            assert!(high - low <= width * high + 0.005, "{} {what}: {low} to {high}", row["id"]);
        }
    }
}

pub fn the_named_order_lists_are_those_of_the_goldens() {
    let goldens = goldens();
    let lists = goldens["order_lists"].as_object().expect("order lists");
    assert!(!lists.is_empty());
    for (name, orders) in lists {
        let ours: OrderList = name.parse().unwrap();
        assert_eq!(ours.as_slice(), numbers(orders), "{name}");
    }
}

/// The interval in which a value must lie.
struct Interval {
    low: f64,
    high: f64,
}

/// Computes a row and compares it.
pub fn check(id: &str) {
    let goldens = goldens();
    let row = rows_of(goldens).find(|row| row["id"] == id).unwrap_or_else(|| {
        panic!("the reference file has no row {id}");
    });
    let (ours, intervals) = (values_of(row), intervals_of(row));
    assert_eq!(ours.len(), intervals.len(), "{id}: one expectation per value");
    for ((what, value), (_, Interval { low, high })) in ours.into_iter().zip(intervals) {
        say!("{id} {what}: {value} in {low} to {high}");
        assert!((low..=high).contains(&value), "{id} {what}: {value} not in {low} to {high}");
    }
}

/// The computed values of a row.
fn values_of(row: &Value) -> Vec<(&'static str, f64)> {
    let inputs = &row["inputs"];
    let delta = || number(&inputs["delta"]);
    let epsilon = |accountant: &dyn Accountant| {
        let spent = accountant.epsilon(&events_of(row), Delta(delta())).unwrap();
        let order = row["expected"]["order"].as_f64().filter(|_| row["accountant"] == "rdp");
        assert!(order.is_none_or(|order| order == spent.order), "{}: {spent}", row["id"]);
        ("epsilon", spent.epsilon)
    };
    match row["accountant"].as_str().expect("an accountant") {
        "rdp" | "rdp_upper" | "rdp_swor" => vec![epsilon(&rdp_of(row))],
        "rdp_order" => {
            let order = number(&inputs["order"]);
            vec![("divergence", rdp_of(row).divergence_at(&events_of(row)[0], order).unwrap())]
        }
        "rdp_inverse" => vec![("noise multiplier", noise_multiplier_of(row, &rdp_of(row)))],
        "pld_inverse" => {
            let pld = Pld::with_neighbouring(neighbouring_of(row));
            vec![("noise multiplier", noise_multiplier_of(row, &pld))]
        }
        "pld" | "prv" | "prv_upper" => vec![epsilon(&Pld::with_neighbouring(neighbouring_of(row)))],
        "gdp_exact" => {
            let accountant = Gdp::with_neighbouring(neighbouring_of(row));
            let mu = accountant.mu(&events_of(row)).unwrap();
            assert!(
                (gdp::delta_at_epsilon(mu, number(&row["expected"]["eps"])) / delta() - 1.0).abs()
                    < 1e-8
            );
            vec![epsilon(&accountant), ("mu", mu)]
        }
        "gdp_clt" | "gdp_clt_uniform" => {
            let accountant = GdpClt::with_neighbouring(neighbouring_of(row));
            vec![epsilon(&accountant), ("mu", accountant.mu(&events_of(row)).unwrap())]
        }
        "zcdp" => {
            let rho = number(&inputs["rho"]);
            vec![
                ("basic epsilon", zcdp::epsilon_basic(rho, delta())),
                ("improved epsilon", zcdp::epsilon_improved(rho, delta())),
            ]
        }
        "tcdp_seed_formula" => {
            let claim = tcdp::auto_dp_sgd_as_published(tcdp::AutoDpSgdInputs {
                examples: integer(&inputs["N"]),
                batch_size: integer(&inputs["batch"]),
                sensitivity: number(&inputs["clip"]),
                sigma0: number(&inputs["sigma0"]),
                // Used only for omega, which the rows do not contain.
                smallest_sigma: number(&inputs["sigma0"]),
                schedule_sum: number(&inputs["S"]),
                delta: delta(),
            })
            .unwrap();
            vec![("claimed epsilon", claim.epsilon_claimed), ("rho", claim.rho)]
        }
        other => panic!("a row for an unknown accountant: {other}"),
    }
}

/// The expected values of a row, in the order of [`values_of`].
fn intervals_of(row: &Value) -> Vec<(&'static str, Interval)> {
    let (expected, tolerance) = (&row["expected"], &row["tolerance"]);
    let rel = tolerance["rel"].as_f64().unwrap_or(0.0);
    let abs = tolerance["abs"].as_f64().unwrap_or(0.0);
    let around = |key: &'static str| {
        let value = number(&expected[key]);
        let off = abs.max(rel * value.abs());
        (key, Interval { low: value - off, high: value + off })
    };
    let between = |low: f64, high: f64| vec![("eps", Interval { low, high })];
    match row["accountant"].as_str().expect("an accountant") {
        "pld" if row["id"] == "pld-018" => {
            between(0.8 * number(&expected["eps_crosscheck"]), 1.05 * number(&expected["eps"]))
        }
        "pld" if expected["eps_crosscheck"].is_number() => {
            let high = number(&expected["eps"]) * (1.0 + rel) + abs;
            between(number(&expected["eps_crosscheck"]) - abs, high)
        }
        "prv" => {
            between(number(&expected["eps_lower"]) - 1e-3, number(&expected["eps_upper"]) + 1e-3)
        }
        "prv_upper" => {
            let eps = number(&expected["eps"]);
            between(eps * (1.0 - rel), eps + 0.02)
        }
        "rdp_upper" if tolerance["one_sided"].is_string() => {
            let eps = number(&expected["eps"]);
            between(eps * (1.0 - rel), eps * (1.0 + 1e-6))
        }
        "rdp_order" => vec![around("rdp")],
        "rdp_inverse" | "pld_inverse" => vec![around("sigma")],
        "gdp_exact" | "gdp_clt" | "gdp_clt_uniform" => vec![around("eps"), around("mu")],
        "zcdp" => vec![around("eps_basic"), around("eps_improved")],
        "tcdp_seed_formula" => vec![around("eps"), around("rho")],
        _ => vec![around("eps")],
    }
}

fn rdp_of(row: &Value) -> Rdp {
    let rdp = Rdp::with_neighbouring(neighbouring_of(row)).with_conversion(Conversion::Improved);
    match &row["inputs"]["orders"] {
        Value::Null => rdp,
        Value::String(name) => rdp.with_orders(name.parse().expect("a known order list")),
        orders => rdp.with_orders(OrderList::custom(&numbers(orders)).expect("orders above 1")),
    }
}

fn neighbouring_of(row: &Value) -> NeighbouringRelation {
    // The CLT for uniform samples is under replace-one, whatever the row states.
    if row["accountant"] == "gdp_clt_uniform" {
        return NeighbouringRelation::ReplaceOne;
    }
    match row["inputs"]["neighboring"].as_str() {
        Some("add_remove") => NeighbouringRelation::AddOrRemoveOne,
        Some("replace_one") => NeighbouringRelation::ReplaceOne,
        other => panic!("an unknown neighbouring relation: {other:?}"),
    }
}

fn events_of(row: &Value) -> Vec<Event> {
    let inputs = &row["inputs"];
    let event = |entry: &Value| {
        let (rate, sigma) = (number(&entry["q"]), number(&entry["sigma"]));
        let steps = integer(&entry["steps"]);
        match (row["accountant"].as_str(), inputs["mechanism"].as_str()) {
            // In these rows sigma is relative to the sensitivity under replace-one, which is twice
            // the bound on one contribution.
            (Some("rdp_swor"), _) => Event::FixedSizeGaussian {
                examples: integer(&inputs["n"]),
                batch_size: integer(&inputs["batch"]),
                noise_multiplier: 2.0 * sigma,
                steps,
            },
            (Some("gdp_clt_uniform"), _) => Event::FixedSizeGaussian {
                examples: 1_000_000,
                batch_size: (rate * 1e6).round() as u64,
                noise_multiplier: 2.0 * sigma,
                steps,
            },
            (_, Some("gaussian")) => Event::Gaussian { noise_multiplier: sigma, count: steps },
            (_, Some("poisson_subsampled_gaussian")) => {
                Event::PoissonGaussian { sampling_rate: rate, noise_multiplier: sigma, steps }
            }
            (_, Some("truncated_poisson_gaussian")) => Event::TruncatedPoissonGaussian {
                examples: integer(&inputs["n"]),
                sampling_rate: rate,
                batch_cap: integer(&inputs["batch_cap"]),
                noise_multiplier: sigma,
                steps,
            },
            other => panic!("an unknown mechanism: {other:?}"),
        }
    };
    inputs["schedule"].as_array().expect("a schedule").iter().map(event).collect()
}

fn noise_multiplier_of(row: &Value, accountant: &dyn Accountant) -> f64 {
    let (inputs, entry) = (&row["inputs"], &row["inputs"]["schedule"][0]);
    let found = noise_multiplier_for(
        Epsilon(number(&inputs["target_eps"])),
        Delta(number(&inputs["delta"])),
        SamplingRate(number(&entry["q"])),
        integer(&entry["steps"]),
        accountant,
    );
    found.unwrap().noise_multiplier.0
}

/// The contents of the file, read once.
fn goldens() -> &'static Value {
    static GOLDENS: OnceLock<Value> = OnceLock::new();
    GOLDENS.get_or_init(|| files::json(FILE))
}

fn rows_of(goldens: &Value) -> impl Iterator<Item = &Value> {
    goldens["rows"].as_array().expect("rows").iter()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn integer(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not an integer: {value}"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(number).collect()
}
