//! The PLD accountant compared with dp-accounting 0.6.0 (`tests/data/pld_reference.json`: relation,
//! events, delta, epsilon, and how it was computed).

use epsilab::privacy::{Accountant, Delta, Event, NeighbouringRelation, Pld};
use serde_json::Value;

#[test]
fn values_agree_with_dp_accounting_within_0_3_percent() {
    let text = include_str!("../data/pld_reference.json");
    let rows: Vec<Value> = serde_json::from_str(text).expect("a list");
    assert!(rows.len() >= 20);
    for row in rows {
        let relation: NeighbouringRelation =
            serde_json::from_value(row["relation"].clone()).expect("a relation");
        let events: Vec<Event> = serde_json::from_value(row["events"].clone()).expect("events");
        let (delta, theirs) = (row["delta"].as_f64().unwrap(), row["epsilon"].as_f64().unwrap());
        let ours = Pld::with_neighbouring(relation).epsilon(&events, Delta(delta)).unwrap();
        let lower = ours.lower_bound.unwrap();
        println!(
            "{theirs:<20} ours {lower} to {} ({relation}, {:.80})",
            ours.epsilon,
            row["events"].to_string()
        );
        // Their values are upper bounds on a grid of 1e-4 or finer.
        assert!(lower <= theirs && (ours.epsilon / theirs - 1.0).abs() < 3e-3, "{row}\n{ours:?}");
    }
}
