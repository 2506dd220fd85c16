use super::*;
use crate::ErrorKind;
use crate::show::layout::tests::collisions;

const PRUNE: [f64; 6] = [0.0, 0.3, 0.5, 0.7, 0.8, 0.9];
const DROP: [f64; 4] = [0.0, 0.3, 0.5, 0.8];

/// Returns a grid with three seeds per case that scatter by a fifth of a point; `effect` is what a
/// case has on top.
fn grid(effect: impl Fn(f64, f64) -> f64) -> GridFigure {
    let mut cells = Vec::new();
    for (p, &pre_prune) in PRUNE.iter().enumerate() {
        for (d, &drop) in DROP.iter().enumerate() {
            let noise = |s: usize| 0.002 * (((p * 31 + d * 17 + s * 7) % 11) as f64 / 5.0 - 1.0);
            let accuracy = (0..3).map(|s| 0.95 + effect(pre_prune, drop) + noise(s)).collect();
            cells.push(GridCell { pre_prune, drop, accuracy });
        }
    }
    GridFigure { title: "MNIST at epsilon 3".into(), note: "papernot_cnn, 3 seeds".into(), cells }
}

#[test]
fn differences_within_the_noise_of_seeds_are_not_marked_and_large_ones_are() {
    let marks =
        |grid: &GridFigure| accuracy_heat_map(grid).unwrap().text().matches(", marked").count();
    // Below one standard error for every case.
    assert_eq!(marks(&grid(|_, _| 0.0)), 0);
    let svg = accuracy_heat_map(&grid(|_, _| 0.0)).unwrap().svg();
    assert!(!svg.contains("0.0455") && svg.contains("chance alone"));
    let real = grid(|prune, _| if prune == 0.9 { -0.05 } else { 0.0 });
    assert_eq!(marks(&real), DROP.len());
    let svg = accuracy_heat_map(&real).unwrap().svg();
    assert_eq!(svg.matches("<polygon").count(), DROP.len());
    // One seed says nothing about noise, and without the first case there is nothing to compare.
    let mut single = real.clone();
    single.cells.iter_mut().for_each(|cell| cell.accuracy.truncate(1));
    assert_eq!(marks(&single), 0);
    let mut open = real;
    open.cells.remove(0);
    assert_eq!(marks(&open), 0);
    assert!(accuracy_heat_map(&open).unwrap().text().contains("Nothing is marked"));
}

#[test]
fn heat_maps_side_by_side_share_rates_and_shades() {
    let slice = |epsilon: &str, cells: Vec<GridCell>| (epsilon.to_owned(), cells);
    let strict = grid(|prune, _| if prune == 0.9 { -0.05 } else { 0.0 });
    // The other one lacks a rate, which leaves an empty cell.
    let loose: Vec<GridCell> =
        grid(|_, _| 0.03).cells.into_iter().filter(|cell| cell.pre_prune != 0.7).collect();
    let grids = GridSlices {
        title: "By epsilon".into(),
        note: "n".into(),
        setting: "epsilon".into(),
        slices: vec![slice("1", strict.cells), slice("8", loose)],
    };
    let figure = accuracy_heat_maps(&grids).unwrap();
    let text = figure.text();
    assert_eq!(text.matches(", marked").count(), DROP.len(), "compared within a map: {text}");
    assert_eq!(figure.table().csv().lines().count(), 1 + 24 + 20);
    assert!(figure.svg().contains("\nepsilon 1\n") && figure.svg().contains("\nepsilon 8\n"));
    assert_eq!(collisions(figure.scene()), Vec::<String>::new());
    let spec = figure.bundle().vega_lite.unwrap();
    let rows = spec["data"]["values"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 24, "the same cells in every map");
    let darkest = |slice: u64| {
        let slice_rows = rows.iter().filter(|row| row["slice"] == slice);
        slice_rows.filter_map(|row| row["ground"].as_str()).map(str::to_owned).min().unwrap()
    };
    assert!(darkest(1) < darkest(0), "accuracies of 98 % are darker than those of 95 %");
    let mut twice = grids.clone();
    twice.slices[1].0 = "1".into();
    let error = accuracy_heat_maps(&twice).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Setting && error.to_string().contains("epsilon 1"),
        "{error}"
    );
    assert!(accuracy_heat_maps(&GridSlices::default()).is_err());
}

#[test]
fn the_numbers_of_a_cell_are_mean_and_deviation() {
    let cell = |pre_prune: f64, accuracy: &[f64]| GridCell {
        pre_prune,
        drop: 0.0,
        accuracy: accuracy.to_vec(),
    };
    let cells =
        vec![cell(0.0, &[0.9500, 0.9512, 0.9524]), cell(0.5, &[0.9, f64::NAN]), cell(0.7, &[])];
    let grid = GridFigure { cells, ..GridFigure::default() };
    let (map, lines) = (accuracy_heat_map(&grid).unwrap(), accuracy_lines(&grid).unwrap());
    for text in [map.text(), lines.text()] {
        assert!(text.contains("95.12 ± 0.12"), "{text}");
        assert!(text.contains("90.00"), "{text}");
    }
    assert!(map.svg().contains("\n95.12\n") && map.svg().contains("± 0.12"));
    let points = lines.panels()[0].all_series()[0].points();
    assert_eq!((points.len(), points[1]), (2, (50.0, 0.9)));
}

#[test]
fn figures_of_grids_are_whole_small_and_the_same_each_time() {
    let one = GridCell { pre_prune: 0.25, drop: 0.0, accuracy: vec![0.5] };
    let large: Vec<GridCell> = (0..400)
        .map(|i| GridCell {
            pre_prune: f64::from(i % 20) / 20.0,
            drop: f64::from(i / 20) / 20.0,
            accuracy: vec![0.9 + f64::from(i % 7) * 0.01, 0.91],
        })
        .collect();
    let grids = [
        ("grid", grid(|prune, drop| -0.3 * prune.powi(6) - 0.02 * drop * drop)),
        ("grid_flat", grid(|_, _| 0.0)),
        ("grid_one", GridFigure { cells: vec![one], ..GridFigure::default() }),
        ("grid_large", GridFigure { cells: large, ..GridFigure::default() }),
    ];
    for (name, grid) in grids {
        let (map, lines) = (accuracy_heat_map(&grid).unwrap(), accuracy_lines(&grid).unwrap());
        let found = collisions(map.scene());
        assert!(found.is_empty(), "{name}: {found:?}");
        assert_eq!(map.svg(), accuracy_heat_map(&grid).unwrap().svg());
        assert_eq!(map.png(), accuracy_heat_map(&grid).unwrap().png());
        assert!(map.svg().len() < 250_000, "{name}: {}", map.svg().len());
        assert!(lines.svg().len() < 200_000, "{name}: {}", lines.svg().len());
    }
}

#[test]
fn invalid_grids_are_refused() {
    let cell = |pre_prune, drop, accuracy| GridCell { pre_prune, drop, accuracy: vec![accuracy] };
    for cells in [
        vec![],
        vec![cell(1.0, 0.0, 0.5)],
        vec![cell(0.0, f64::NAN, 0.5)],
        vec![cell(0.0, 0.0, 95.1)],
        vec![cell(0.0, 0.5, 0.5), cell(0.0, 0.5, 0.6)],
    ] {
        let grid = GridFigure { cells, ..GridFigure::default() };
        assert_eq!(accuracy_heat_map(&grid).unwrap_err().kind(), ErrorKind::Setting);
        assert_eq!(accuracy_lines(&grid).unwrap_err().kind(), ErrorKind::Setting);
    }
}
