//! One test for each row of the shared file of reference values.
//!
//! The rows come from other accountants, from 50-digit arithmetic and from papers, each with its
//! own tolerance. Without the shared folder every test reports that it was skipped and passes.

mod shared;

use std::sync::OnceLock;

use epsilab::privacy::{
    Accountant, Conversion, Delta, Epsilon, Event, Gdp, GdpClt, Neighbouring, OrderList, Pld, Rdp,
    SamplingRate, gdp, noise_multiplier_for, tcdp, zcdp,
};
use serde_json::Value;

/// Declares one test per row and the list of rows.
macro_rules! rows {
    ($($test:ident = $id:literal,)*) => {
        const ROWS: &[&str] = &[$($id),*];
        $(
            #[test]
            fn $test() {
                check($id);
            }
        )*
    };
}

rows! {
    pld_001 = "pld-001",
    pld_003 = "pld-003",
    pld_004 = "pld-004",
    pld_006 = "pld-006",
    pld_007 = "pld-007",
    pld_009 = "pld-009",
    pld_010 = "pld-010",
    pld_012 = "pld-012",
    pld_013 = "pld-013",
    pld_015 = "pld-015",
    pld_016 = "pld-016",
    pld_018 = "pld-018",
    pld_r01 = "pld-r01",
    pld_r03 = "pld-r03",
    het_pld_linear = "het-pld-linear",
    het_pld_step = "het-pld-step",
    het_pld_mix = "het-pld-mix",
    het_rdp_linear = "het-rdp-linear",
    het_rdp_step = "het-rdp-step",
    het_rdp_exp = "het-rdp-exp",
    rdp_001 = "rdp-001",
    rdp_002 = "rdp-002",
    rdp_004 = "rdp-004",
    rdp_005 = "rdp-005",
    rdp_007 = "rdp-007",
    rdp_008 = "rdp-008",
    rdp_010 = "rdp-010",
    rdp_011 = "rdp-011",
    rdp_013 = "rdp-013",
    rdp_014 = "rdp-014",
    rdp_016 = "rdp-016",
    rdp_017 = "rdp-017",
    rdp_019 = "rdp-019",
    rdp_020 = "rdp-020",
    seed1_t4a = "seed1-t4a",
    seed1_t4b = "seed1-t4b",
    seed1_t5d = "seed1-t5d",
    seed1_t9a = "seed1-t9a",
    seed1_t9c = "seed1-t9c",
    seed1_t9d = "seed1-t9d",
    seed1_t9f = "seed1-t9f",
    seed1_t9g = "seed1-t9g",
    op_rdp_a = "op-rdp-a",
    op_rdp_b = "op-rdp-b",
    op_rdp_d = "op-rdp-d",
    op_rdp_e = "op-rdp-e",
    op_rdp_g = "op-rdp-g",
    op_rdp_h = "op-rdp-h",
    op_rdp_j = "op-rdp-j",
    seed1_t5a = "seed1-t5a",
    seed1_t5c = "seed1-t5c",
    rdpda_01 = "rdpda-01",
    rdpda_03 = "rdpda-03",
    rdpda_04 = "rdpda-04",
    swor_01 = "swor-01",
    swor_02 = "swor-02",
    rdpo_01 = "rdpo-01",
    rdpo_03 = "rdpo-03",
    rdpo_04 = "rdpo-04",
    rdpo_06 = "rdpo-06",
    rdpo_07 = "rdpo-07",
    rdpo_09 = "rdpo-09",
    rdpo_10 = "rdpo-10",
    rdpo_12 = "rdpo-12",
    gauss_01 = "gauss-01",
    gauss_03 = "gauss-03",
    gauss_04 = "gauss-04",
    gauss_06 = "gauss-06",
    zcdp_01 = "zcdp-01",
    zcdp_03 = "zcdp-03",
    zcdp_04 = "zcdp-04",
    zcdp_06 = "zcdp-06",
    tcdp_sec10_linear = "tcdp-sec10-linear",
    tcdp_sec10_step = "tcdp-sec10-step",
    tcdp_sec10_exp = "tcdp-sec10-exp",
    tcdp_adp_cifar10 = "tcdp-adp-cifar10",
    tcdp_adp_cifar100 = "tcdp-adp-cifar100",
    gdpclt_01 = "gdpclt-01",
    gdpclt_03 = "gdpclt-03",
    gdpclt_04 = "gdpclt-04",
    op_gdp_a = "op-gdp-a",
    op_gdp_b = "op-gdp-b",
    inv_pld_01 = "inv-pld-01",
    inv_pld_03 = "inv-pld-03",
    inv_pld_04 = "inv-pld-04",
    inv_pld_06 = "inv-pld-06",
    inv_rdp_01 = "inv-rdp-01",
    inv_rdp_03 = "inv-rdp-03",
    inv_rdp_04 = "inv-rdp-04",
    inv_rdp_06 = "inv-rdp-06",
    op_prv_a = "op-prv-a",
    op_prv_c = "op-prv-c",
    op_prv_d = "op-prv-d",
    op_prv_i = "op-prv-i",
    op_gdpu_a = "op-gdpu-a",
    op_gdpu_c = "op-gdpu-c",
    prv_a = "prv-a",
    prv_c = "prv-c",
    prv_d = "prv-d",
    prv_i = "prv-i",
    prv_k = "prv-k",
    trunc_01 = "trunc-01",
    gauss_add_remove = "gauss-add_remove",
    gauss_replace_one = "gauss-replace_one",
    pld_019 = "pld-019",
}

#[test]
fn every_row_of_the_file_has_a_test() {
    let Some(goldens) = goldens() else { return };
    let ids: Vec<&str> = rows_of(goldens).map(|row| row["id"].as_str().expect("an id")).collect();
    assert_eq!(ROWS, ids);
}

#[test]
fn every_tolerance_is_narrow_enough_to_reject_a_wrong_value() {
    let Some(goldens) = goldens() else { return };
    for row in rows_of(goldens) {
        for (what, Interval { low, high }) in intervals_of(row) {
            let width = if row["id"] == "pld-018" { 2.0 } else { 0.11 };
            assert!(high - low <= width * high + 0.005, "{} {what}: {low} to {high}", row["id"]);
        }
    }
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

/// The interval in which a value must lie.
struct Interval {
    low: f64,
    high: f64,
}

fn check(id: &str) {
    let Some(goldens) = goldens() else { return };
    let row = rows_of(goldens).find(|row| row["id"] == id).unwrap_or_else(|| {
        panic!("the reference file has no row {id}");
    });
    let (ours, intervals) = (values_of(row), intervals_of(row));
    assert_eq!(ours.len(), intervals.len(), "{id}: one expectation per value");
    for ((what, value), (_, Interval { low, high })) in ours.into_iter().zip(intervals) {
        println!("{id} {what}: {value} in {low} to {high}");
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
            vec![("divergence", rdp_of(row).rdp_at(&events_of(row)[0], order).unwrap())]
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
                (gdp::delta_of(mu, number(&row["expected"]["eps"])) / delta() - 1.0).abs() < 1e-8
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
            let claim = tcdp::auto_dp_sgd_as_published(tcdp::AutoDpSgd {
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

fn neighbouring_of(row: &Value) -> Neighbouring {
    // The CLT for uniform samples is under replace-one, whatever the row states.
    if row["accountant"] == "gdp_clt_uniform" {
        return Neighbouring::ReplaceOne;
    }
    match row["inputs"]["neighboring"].as_str() {
        Some("add_remove") => Neighbouring::AddOrRemoveOne,
        Some("replace_one") => Neighbouring::ReplaceOne,
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

/// The golden file, read once, or `None` if the test is skipped without it.
#[track_caller]
fn goldens() -> Option<&'static Value> {
    const FILE: &str = "goldens/accounting.json";
    static GOLDENS: OnceLock<Value> = OnceLock::new();
    shared::path(FILE)?;
    Some(GOLDENS.get_or_init(|| shared::json(FILE).expect("the file was there a moment ago")))
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
