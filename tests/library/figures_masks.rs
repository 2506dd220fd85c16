//! The figures of masks and grids from outside, on models as people build them.

use epsilab::mask::{
    CoordinateSelector, Dropping, MagnitudeMask, RandomMask, SelectionLog, SignalNoise,
    SignalSettings,
};
use epsilab::prelude::*;
use epsilab::show::{NOT_COVERED, with_capture};

/// Elements and attributes that GitHub keeps, nothing that loads or runs anything.
fn check_svg(svg: &str) {
    let allowed = ["svg", "rect", "path", "polyline", "polygon", "circle", "text"];
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or("");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closing tags match");
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap_or("");
        assert!(allowed.contains(&name), "{name}");
        assert!(!tag.contains("href") && !tag.contains("url(") && !tag.contains("style="), "{tag}");
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn size(png: &[u8]) -> (u32, u32) {
    let reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().expect("a PNG");
    (reader.info().width, reader.info().height)
}

#[test]
fn figures_of_a_residual_network_stay_small_and_list_every_tensor() -> Result<()> {
    let data = data::patterns_with(2, 0, 1)?;
    let model = models::resnet18(&data).seed(1).build()?;
    let mask = MagnitudeMask::keep(0.2).mask(&model)?;
    let whole = MagnitudeMask::keep(0.2).include_1d().mask(&model)?;
    assert!(mask.tensors().len() > 15 && whole.tensors().len() > 50);
    for (name, figure) in [
        ("saliency", figures::saliency(&mask)?),
        ("saliency, all", figures::saliency(&whole)?),
        ("kept", figures::kept(&mask)),
        ("kept, all", figures::kept(&whole)),
        ("tiles", figures::tiles(&mask, None)?),
        ("tiles of the model", figures::tiles(&mask, &model)?),
    ] {
        let svg = figure.svg();
        check_svg(&svg);
        assert!(svg.len() < 200_000, "{name}: {} bytes", svg.len());
        let (width, height) = size(&figure.png());
        assert!(width <= 1700 && height <= 3400, "{name}: {width} x {height}");
        let text = figure.text();
        let all = if name.ends_with("all") { &whole } else { &mask };
        assert!(all.tensors().iter().all(|tensor| text.contains(&tensor.path)), "{name}");
        println!("{name}: svg {} png {}", svg.len(), figure.png().len());
    }
    Ok(())
}

#[test]
fn a_mask_is_displayed_with_its_scores_or_with_what_it_keeps() -> Result<()> {
    let data = data::glyphs_with(2, 0, 1)?;
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let scored = MagnitudeMask::keep(0.3).mask(&model)?;
    let random = RandomMask::keep(0.3).seed(1).mask(&model)?;
    let saliency = scored.saliency().expect("scores").clone();
    let overlap = scored.overlap(&random)?;
    let shown = with_capture(|| {
        scored.show();
        random.evcxr_display();
        saliency.show();
        overlap.show();
    });
    for (bundle, word) in shown.iter().zip(["Saliencies and what is kept", "Kept in each tensor"]) {
        assert!(bundle.svg.as_ref().is_some_and(|svg| svg.contains(word)), "{bundle}");
        assert!(bundle.png.is_some(), "{bundle}");
    }
    assert!(shown[0].text.starts_with(&scored.to_string()));
    assert!(shown[1].text.starts_with(&random.to_string()));
    for tensor in random.tensors() {
        let share = format!("{:.1} %", 100.0 * tensor.density());
        let line = shown[1].text.lines().find(|line| line.starts_with(&tensor.path));
        assert!(line.is_some_and(|line| line.ends_with(&share)), "{}", shown[1]);
    }
    assert!(shown[2].text.contains("Saliencies: magnitude") && shown[2].svg.is_some());
    assert!(shown[3].text.contains("Jaccard") && shown[3].svg.is_none());
    assert!(
        shown.iter().all(|bundle| !bundle.text.contains(NOT_COVERED)),
        "nothing is private here"
    );
    Ok(())
}

#[test]
fn signal_against_noise_is_measured_and_marked() -> Result<()> {
    let data = data::glyphs_with(60, 0, 1)?;
    let model = models::papernot_cnn(&data).seed(1).build()?;
    let mask = MagnitudeMask::keep(0.2).mask(&model)?;
    let settings = SignalSettings {
        clip: 0.1,
        noise_multiplier: 1.0,
        expected_batch_size: 16,
        batches: 3,
        seed: 1,
    };
    let signal = SignalNoise::measure(&model, &data, settings, Some(&mask), None)?;
    let point = signal.points[0];
    let free = model.num_parameters() - mask.len();
    assert_eq!(point.selected, mask.kept_count() + free);
    assert!((point.noise - 0.1 * (point.selected as f64).sqrt()).abs() < 1e-9);
    let shown = with_capture(|| signal.show());
    assert!(shown[0].text.contains(NOT_COVERED), "{}", shown[0]);
    check_svg(shown[0].svg.as_ref().expect("an SVG"));
    // Values beside the names are the means that the note and the table have.
    let chart = figures::signal_and_noise(&signal);
    let (selected, all) = signal.ratios();
    for ratio in [selected, all] {
        let ratio = epsilab::show::format::significant(ratio, 3);
        assert!(chart.svg().contains(&format!("\n{ratio}\n")), "{ratio}: {chart}");
    }
    assert!(chart.text().contains("means"), "{chart}");
    // Batches are independent: no line joins their three points.
    let lines = |svg: String| -> Vec<usize> {
        let lines = svg.split("<polyline").skip(1).filter_map(|line| {
            let points = line.split("points=\"").nth(1)?.split('"').next()?;
            Some(points.split_whitespace().count())
        });
        lines.collect()
    };
    assert!(lines(chart.svg()).iter().all(|points| *points == 2), "{:?}", lines(chart.svg()));
    Ok(())
}

#[test]
fn random_and_magnitude_dropping_leave_different_traces() -> Result<()> {
    let data = data::glyphs_with(2, 0, 1)?;
    let model = models::mlp(&data, &[16]).seed(1).build()?;
    let trace = |dropping: Dropping| -> Result<SelectionLog> {
        let mut selector = CoordinateSelector::new(None, Some(dropping), 64, [3; 32]);
        let mut log = SelectionLog::new(64);
        for step in 0..64 {
            if let Some(selected) = selector.next_selection(model.network())? {
                log.record(step, &selected);
            }
        }
        Ok(log)
    };
    let (random, magnitude) = (trace(Dropping::random(0.5))?, trace(Dropping::magnitude(0.5))?);
    let figures = [figures::selection_log(&random), figures::selection_log(&magnitude)];
    for figure in &figures {
        check_svg(&figure.svg());
        assert!(figure.svg().len() < 200_000, "{}", figure.svg().len());
        assert!(figure.text().contains("50.0 % of the weights selected"), "{figure}");
    }
    // Bands are few long boxes, noise is many short ones.
    let boxes = |at: usize| figures[at].svg().matches('z').count();
    assert!(boxes(0) > 4 * boxes(1), "{} and {}", boxes(0), boxes(1));
    Ok(())
}

#[test]
fn a_grid_is_a_heat_map_and_lines() -> Result<()> {
    let cell = |pre_prune: f64, drop: f64, mean: f64| figures::GridCell {
        pre_prune,
        drop,
        accuracy: vec![mean - 0.002, mean, mean + 0.002],
    };
    let grid = figures::GridFigure {
        title: "MNIST at epsilon 3".into(),
        note: "three seeds".into(),
        cells: vec![
            cell(0.0, 0.0, 0.9512),
            cell(0.5, 0.0, 0.9515),
            cell(0.9, 0.0, 0.91),
            cell(0.0, 0.5, 0.9509),
            cell(0.5, 0.5, 0.9540),
        ],
    };
    let map = figures::accuracy_heat_map(&grid)?;
    check_svg(&map.svg());
    let text = map.text();
    assert!(text.contains("95.12 ± 0.20") && text.contains("three seeds"), "{text}");
    assert_eq!(
        text.matches(", marked").count(),
        1,
        "only the collapse is more than noise:\n{text}"
    );
    let lines = figures::accuracy_lines(&grid)?;
    check_svg(&lines.svg());
    assert_eq!(lines.panels()[0].all_series().len(), 2);
    assert!(lines.text().contains("91.00 ± 0.20"), "{lines}");
    Ok(())
}
