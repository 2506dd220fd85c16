//! Checks of the specifications that need no Vega: data and encodings fit together, names are
//! unique, nothing is loaded.

use super::super::figures::{self, GridCell, GridFigure, GridSlices};
use super::super::{Chart, MimeBundle, Panel, RunSnapshot, Series, run_bundle};
use crate::engine::GradientNorms;
use crate::mask::{CoordinateSelector, Dropping, RandomMask, SelectionLog, Synflow};
use crate::nn::models;
use crate::privacy::{Delta, Event};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Returns one bundle of every kind that has a specification.
fn all_bundles() -> Vec<(&'static str, MimeBundle)> {
    static ALL: LazyLock<Vec<(&str, MimeBundle)>> = LazyLock::new(draw);
    ALL.clone()
}

/// Draws the bundles of [`all`].
fn draw() -> Vec<(&'static str, MimeBundle)> {
    let data = crate::data::glyphs_with(2, 0, 1).unwrap();
    let model = models::papernot_cnn(&data).seed(1).build().unwrap();
    let mask = Synflow::keep(0.3).mask(&model).unwrap();
    let other = RandomMask::keep(0.5).seed(1).mask(&model).unwrap();
    let training =
        Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier: 1.0, steps: 1000 };
    let wave = |n: u32| (0..n).map(|i| (f64::from(i), 0.5 + 0.2 * (f64::from(i)).sin()));
    let curve = RunSnapshot {
        loss: wave(500).collect(),
        test_accuracy: wave(20).collect(),
        epsilon: wave(20).collect(),
        target_epsilon: Some(3.0),
        total_steps: 500.0,
        private: true,
        ..RunSnapshot::default()
    };
    let odd = Series::line("odd", [(0.0, f64::NAN), (1.0, -1.0), (2.0, 3.0)]);
    let bars = Series::line("bars", [(0.0, 1.0), (2.0, 2.0)]).errors([0.1, 0.2]);
    let bars = bars.tooltips(["seed 1".to_owned(), "seed 2".to_owned()]);
    let cells =
        [0.0, 0.5].map(|pre_prune| GridCell { pre_prune, drop: 0.0, accuracy: vec![0.9, 0.92] });
    let slices = ["1", "8"].map(|epsilon| (epsilon.to_owned(), cells.to_vec())).to_vec();
    let slices =
        GridSlices { title: "g".into(), note: "n".into(), setting: "epsilon".into(), slices };
    let band = Series::line("band", [(0.0, 1.0), (1.0, 2.0)]).band([0.1, 0.0]);
    let mut log = SelectionLog::new(5);
    let mut selector = CoordinateSelector::new(None, Some(Dropping::random(0.5)), 5, [7; 32]);
    for step in 0..4 {
        log.record(step, &selector.next_selection(model.network()).unwrap().unwrap());
    }
    let grid = GridFigure { title: "g".into(), note: "n".into(), cells: cells.to_vec() };
    let norms = GradientNorms { norms: vec![0.1, 1.0, 10.0], clip: Some(2.0), private: true };
    vec![
        ("delta", figures::epsilon_vs_delta(std::slice::from_ref(&training)).unwrap().bundle()),
        ("steps", figures::epsilon_over_steps(&training, Delta(1e-5)).unwrap().bundle()),
        ("run", run_bundle("run", &curve, true)),
        ("odd", Chart::new("odd").panel(Panel::new("y").log().series(odd).series(bars)).bundle()),
        ("nothing", Chart::new("nothing").bundle()),
        ("band", Chart::new("band").panel(Panel::new("y").series(band)).bundle()),
        ("grids", figures::accuracy_heat_maps(&slices).unwrap().bundle()),
        ("tiles", figures::tiles(&mask, &model).unwrap().bundle()),
        ("mask", figures::tiles(&mask, None).unwrap().bundle()),
        ("selections", figures::selection_log(&log).bundle()),
        ("kept", figures::kept(&other).bundle()),
        ("saliency", figures::saliency(&mask).unwrap().bundle()),
        ("overlap", figures::overlap(&[("a", &mask), ("a", &other)]).unwrap().bundle()),
        ("grid", figures::accuracy_heat_map(&grid).unwrap().bundle()),
        ("lines", figures::accuracy_lines(&grid).unwrap().bundle()),
        ("norms", figures::gradient_norm_histogram(&norms).bundle()),
        (
            "claims",
            figures::epsilon_claims([figures::EpsilonClaim::new("a").claimed(1.0).audited(2.0)])
                .unwrap()
                .bundle(),
        ),
    ]
}

/// Calls `see` with every object in a value.
fn walk<'a>(value: &'a Value, see: &mut impl FnMut(&'a Value)) {
    see(value);
    match value {
        Value::Array(all) => all.iter().for_each(|value| walk(value, see)),
        Value::Object(all) => all.values().for_each(|value| walk(value, see)),
        _ => {}
    }
}

#[test]
fn specifications_load_nothing_and_name_each_parameter_once() {
    for (name, bundle) in all_bundles() {
        let spec = bundle.vega_lite.unwrap_or_else(|| panic!("{name} has no specification"));
        assert!(spec["$schema"].as_str().is_some_and(|s| s.ends_with("/vega-lite/v5.json")));
        let (mut names, mut count) = (BTreeSet::new(), 0);
        walk(&spec, &mut |value| {
            for banned in ["url", "href"] {
                assert!(value.get(banned).is_none(), "{name}: {banned}");
            }
            for parameter in value["params"].as_array().into_iter().flatten() {
                names.insert(parameter["name"].as_str().expect("a name"));
                count += 1;
            }
        });
        assert_eq!(names.len(), count, "{name}: {names:?}");
        assert!(spec.to_string().len() < 150_000, "{name}: {}", spec.to_string().len());
    }
}

#[test]
fn the_wheel_zooms_only_with_a_key_as_a_line_explains() {
    let mut charts = 0;
    for (name, bundle) in all_bundles() {
        let spec = bundle.vega_lite.expect("a specification");
        let mut zooms = 0;
        walk(&spec, &mut |value| {
            if value["bind"] == "scales" {
                let events = value["select"]["zoom"].as_str().unwrap_or_default();
                assert_eq!(events, "wheel![event.ctrlKey || event.metaKey]", "{name}");
                zooms += 1;
            }
        });
        let subtitle = spec["title"]["subtitle"].to_string();
        assert_eq!(subtitle.contains("double-click to reset"), zooms > 0, "{name}: {subtitle}");
        charts += usize::from(zooms > 0);
    }
    assert!(charts >= 6, "{charts}");
}

#[test]
fn every_field_of_an_encoding_is_in_the_data_or_computed() {
    for (name, bundle) in all_bundles() {
        let spec = bundle.vega_lite.expect("a specification");
        let mut fields = BTreeSet::new();
        walk(&spec, &mut |value| {
            for row in value["values"].as_array().into_iter().flatten() {
                fields.extend(row.as_object().into_iter().flatten().map(|(key, _)| key.as_str()));
            }
            fields.extend(value["as"].as_str());
        });
        walk(&spec, &mut |value| {
            if let Some(field) = value["field"].as_str() {
                let no_data = spec["data"]["values"].as_array().is_some_and(Vec::is_empty);
                assert!(fields.contains(field) || no_data, "{name}: no field {field}");
            }
        });
    }
}

#[test]
fn points_carry_the_rounded_value_and_what_they_stand_for() {
    let bundle_of =
        |kind: &str| all_bundles().into_iter().find(|(name, _)| *name == kind).unwrap().1;
    let spec = bundle_of("odd").vega_lite.unwrap();
    let rows = spec["data"]["values"].as_array().unwrap();
    // The negative value does not fit on the logarithmic axis, and NaN is a gap.
    assert_eq!(rows.iter().filter(|row| row["series"] == "odd").count(), 1, "{rows:?}");
    let second = &rows[2];
    assert_eq!((&second["about"], &second["value"]), (&"seed 2".into(), &"2.00 ± 0.20".into()));
    assert_eq!((second["low"].as_f64(), second["high"].as_f64()), (Some(1.8), Some(2.2)));
    // Epsilons are rounded up, also in tooltips.
    let panel = Panel::new("epsilon").epsilon().series(Series::line("e", [(0.0, 1.00001)]));
    let spec = Chart::new("e").panel(panel).vega_lite();
    assert_eq!(spec["data"]["values"][0]["value"], crate::show::format::eps(1.00001));
    assert_ne!(spec["data"]["values"][0]["value"], "1.000");
}

#[test]
fn the_slider_of_a_saliency_counts_zeros_and_starts_at_the_threshold() {
    let spec = all_bundles()
        .into_iter()
        .find(|(name, _)| *name == "saliency")
        .unwrap()
        .1
        .vega_lite
        .unwrap();
    let mut total = 0;
    for row in spec["data"]["values"].as_array().unwrap() {
        total += row["count"].as_u64().unwrap();
    }
    let data = crate::data::glyphs_with(2, 0, 1).unwrap();
    let model = models::papernot_cnn(&data).seed(1).build().unwrap();
    let mask = Synflow::keep(0.3).mask(&model).unwrap();
    assert_eq!(total, mask.len() as u64);
    let start = spec["params"][1]["value"].as_u64().unwrap() as i64;
    let kept: u64 = spec["data"]["values"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["bin"].as_i64().unwrap() >= start)
        .map(|row| row["count"].as_u64().unwrap())
        .sum();
    let share = kept as f64 / total as f64;
    assert!((share - 0.3).abs() < 0.1, "at first the slider keeps {share}, the mask 0.3");
}

#[test]
fn tiles_have_the_levels_of_the_drawing_and_places_inside_it() {
    let bundle_of =
        |kind: &str| all_bundles().into_iter().find(|(name, _)| *name == kind).unwrap().1;
    let data = crate::data::glyphs_with(2, 0, 1).unwrap();
    let model = models::papernot_cnn(&data).seed(1).build().unwrap();
    let mask = Synflow::keep(0.3).mask(&model).unwrap();
    let kept = &mask.tensors()[0].kept;
    let spec = bundle_of("mask").vega_lite.unwrap();
    let value = |name: &str| {
        let all = spec["params"].as_array().unwrap();
        all.iter().find(|parameter| parameter["name"] == name).unwrap()["value"].clone()
    };
    // Outputs across, as many of 16 as fit; 1 input down; kernels of 8 x 8.
    let rows = spec["concat"][0]["data"]["values"].as_array().unwrap();
    let rows: Vec<&str> = rows.iter().map(|row| row["digits"].as_str().unwrap()).collect();
    assert!(rows.len() == 8 && rows[0].len() >= 64 && rows[0].len().is_multiple_of(8), "{rows:?}");
    for (row, digits) in rows.iter().enumerate() {
        for (column, digit) in digits.chars().enumerate() {
            let index = (column / 8 * 8 + row) * 8 + column % 8;
            assert_eq!(digit != '0', kept[index], "row {row}, column {column}");
        }
    }
    let names: Vec<String> = serde_json::from_value(value("names")).unwrap();
    assert_eq!((names[0].as_str(), names.last().unwrap().as_str()), ("dropped", "kept"));
    for (spec, name) in [(&spec, "across_0"), (&spec, "down_0")] {
        let all = spec["params"].as_array().unwrap();
        let value = &all.iter().find(|parameter| parameter["name"] == name).unwrap()["value"];
        let ends: Vec<(f64, f64)> = serde_json::from_value(value.clone()).unwrap();
        let side = if name == "across_0" { "width" } else { "height" };
        assert_eq!(spec["concat"][0][side].as_f64(), Some(ends.last().unwrap().1));
        assert!(ends.windows(2).all(|w| w[0].1 <= w[1].0), "{ends:?}");
    }
}

#[test]
fn a_slider_chooses_among_heat_maps_of_the_same_cells() {
    let bundle_of =
        |kind: &str| all_bundles().into_iter().find(|(name, _)| *name == kind).unwrap().1;
    let spec = bundle_of("grids").vega_lite.unwrap();
    let rows = spec["data"]["values"].as_array().unwrap();
    let in_slice = |slice: u64| rows.iter().filter(|row| row["slice"] == slice).count();
    assert_eq!((rows.len(), in_slice(0), in_slice(1)), (4, 2, 2));
    assert_eq!(spec["params"][0]["value"], serde_json::json!(["epsilon 1", "epsilon 8"]));
    assert_eq!(spec["params"][1]["bind"]["max"], 1);
}
