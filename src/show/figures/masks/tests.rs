use super::*;
use crate::data::glyphs_with;
use crate::mask::{
    CoordinateSelector, Dropping, MaskOrigin, PrivacyStatus, RandomMask, Saliency, SaliencyTensor,
    SelectionLog, SignalNoise, SignalPoint,
};
use crate::nn::{Model, models};
use crate::show::layout::tests::collisions;
use crate::show::{Figure, NOT_COVERED};

/// Returns numbers that look like scores: wide, with zeros.
fn scores(path: &str, shape: &[usize], scale: f64) -> SaliencyTensor {
    let n: usize = shape.iter().product();
    let one = |i: usize| {
        let u = ((i * 7919 + path.len() * 31) % 10_007) as f64 / 10_007.0;
        let v = ((i * 104_729) % 9973) as f64 / 9973.0;
        if v < 0.1 { 0.0 } else { scale * 10f64.powf(3.0 * u * v - 4.0) }
    };
    SaliencyTensor { path: path.into(), shape: shape.to_vec(), values: (0..n).map(one).collect() }
}

fn saliency_of(covered: PrivacyStatus, tensors: Vec<SaliencyTensor>) -> Saliency {
    Saliency::new("scores of a test", covered, tensors)
}

fn four(covered: PrivacyStatus) -> Saliency {
    let tensors = vec![
        scores("0.weight", &[16, 1, 8, 8], 1.0),
        scores("3.weight", &[32, 16, 4, 4], 0.1),
        scores("7.weight", &[512, 32], 0.03),
        scores("9.weight", &[32, 10], 10.0),
    ];
    saliency_of(covered, tensors)
}

fn not_private() -> PrivacyStatus {
    PrivacyStatus::NotPrivate("made from private examples without noise".into())
}

/// Returns sixty tensors with long names, as of a residual network.
fn many() -> Saliency {
    let tensors = (0..60).map(|i| {
        let name = format!("group{}.{}.body.conv{}.weight", 1 + i / 15, i % 15, i);
        scores(&name, &[4 + i, 3, 3, 3], 1.0 / (1 + i) as f64)
    });
    saliency_of(PrivacyStatus::DataFree, tensors.collect())
}

fn model() -> Model {
    let data = glyphs_with(2, 0, 1).unwrap();
    models::papernot_cnn(&data).seed(1).build().unwrap()
}

fn record(dropping: Dropping, steps: u64) -> SelectionLog {
    let model = model();
    let mask = RandomMask::prune(0.3).seed(1).mask(&model).unwrap();
    let mut selector = CoordinateSelector::new(Some(&mask), Some(dropping), steps, [7; 32]);
    let mut log = SelectionLog::new(steps);
    for step in 0..steps {
        log.record(step, &selector.next_selection(model.network()).unwrap().unwrap());
    }
    log
}

fn all_figures() -> Vec<(&'static str, Figure)> {
    let (four, many) = (four(PrivacyStatus::DataFree), many());
    let mask = four.keep(0.3).unwrap();
    let (thin, wide) = (four.keep(0.001).unwrap(), many.keep(0.05).unwrap());
    let random = RandomMask::prune(0.7).seed(1).mask(&model()).unwrap();
    let another = RandomMask::prune(0.5).seed(2).mask(&model()).unwrap();
    let raw = self::four(not_private()).keep(0.2).unwrap();
    let pair = [("random 70 %", &random), ("random 50 %", &another)];
    let long = "a name that is far too long for a column of this matrix by any measure";
    let three = [("scores", &mask), (long, &thin), ("SNIP without noise", &raw)];
    let one = saliency_of(PrivacyStatus::DataFree, vec![scores("0.weight", &[20, 10], 1.0)]);
    vec![
        ("saliency_mask", saliency(&mask).unwrap()),
        ("saliency_alone", saliency(&four).unwrap()),
        ("saliency_raw", saliency(&raw).unwrap()),
        ("saliency_many", saliency(&wide).unwrap()),
        ("saliency_one", saliency(&one.keep(0.5).unwrap()).unwrap()),
        ("kept", kept(&mask)),
        ("kept_thin", kept(&thin)),
        ("kept_many", kept(&wide)),
        ("tiles", tiles(&random, None).unwrap()),
        ("tiles_model", tiles(&random, &model()).unwrap()),
        ("tiles_many", tiles(&wide, None).unwrap()),
        ("overlap_two", overlap(&pair).unwrap()),
        ("overlap_three", overlap(&three).unwrap()),
        ("touched_random", selection_log(&record(Dropping::random(0.5), 40))),
        ("touched_magnitude", selection_log(&record(Dropping::magnitude(0.5), 40))),
        ("touched_short", selection_log(&record(Dropping::random(0.9), 3))),
        ("touched_nothing", selection_log(&SelectionLog::new(5))),
    ]
}

#[test]
fn no_text_of_a_figure_lies_on_another_and_every_form_is_there() {
    for (name, figure) in all_figures() {
        let found = collisions(figure.scene());
        assert!(found.is_empty(), "{name}: {found:?}");
        let (svg, png, text) = (figure.svg(), figure.png(), figure.text());
        assert!(svg.len() < 200_000, "{name}: {} bytes of SVG", svg.len());
        assert!(png.len() < 450_000, "{name}: {} bytes of PNG", png.len());
        assert!(text.starts_with(figure.title()) && text.lines().count() > 1, "{name}: {text}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        assert_eq!(svg, figure.clone().svg(), "{name}");
    }
    let again = |at: usize| all_figures().swap_remove(at).1;
    for at in [0, 8, 13] {
        assert_eq!(again(at).png(), again(at).png());
        assert_eq!(again(at).svg(), again(at).svg());
    }
}

#[test]
fn only_figures_that_are_not_covered_are_marked() {
    let says = |figure: &Figure| {
        let in_text = figure.text().contains(NOT_COVERED);
        assert_eq!(in_text, figure.svg().contains(NOT_COVERED), "{}", figure.text());
        in_text
    };
    let raw = four(not_private());
    let raw_mask = raw.keep(0.3).unwrap();
    let free_mask = four(PrivacyStatus::DataFree).keep(0.3).unwrap();
    // Flags of a private choice with no scores beside them.
    let bare =
        Mask::with_origin(raw_mask.tensors().to_vec(), MaskOrigin::new("raw", not_private()))
            .unwrap();
    assert!(says(&saliency(&raw).unwrap()) && says(&saliency_histograms(&raw)));
    for private in [&raw_mask, &bare, &bare.intersect(&free_mask).unwrap()] {
        assert!(says(&mask(private)) && says(&kept(private)));
        assert!(says(&tiles(private, None).unwrap()));
        assert!(says(&overlap(&[("a", private), ("b", &free_mask)]).unwrap()));
    }
    assert!(!says(&saliency(&free_mask).unwrap()) && !says(&kept(&free_mask)));
    assert!(!says(&tiles(&free_mask, None).unwrap()));
    assert!(!says(&overlap(&[("a", &free_mask), ("b", &free_mask)]).unwrap()));
    let user_mask = Mask::new(free_mask.tensors().to_vec()).unwrap();
    assert!(
        !says(&mask(&user_mask))
            && mask(&user_mask).text().contains("Costs nothing if it was chosen")
    );
    let chart = overlap_over_epsilon(&[(1.0, 0.3)], 0.2);
    assert!(chart.svg().contains(NOT_COVERED) && chart.text().contains(NOT_COVERED));
}

#[test]
fn the_text_of_saliencies_has_the_numbers_and_the_threshold_divides() {
    let mask = four(PrivacyStatus::DataFree).keep(0.3).unwrap();
    let figure = saliency(&mask).unwrap();
    let dropped = mask.saliency().unwrap().tensors().iter().zip(mask.tensors());
    let dropped = dropped.flat_map(|(scores, kept)| scores.values.iter().zip(&kept.kept));
    let cut = dropped.filter(|(_, kept)| !**kept).map(|(score, _)| *score).fold(0.0, f64::max);
    let expected =
        format!("the largest score dropped, {}", crate::show::format::significant(cut, 3));
    assert!(figure.text().contains(&expected), "{expected}\n{figure}");
    for (tensor, scores) in mask.tensors().iter().zip(mask.saliency().unwrap().tensors()) {
        let text = figure.text();
        let line = text.lines().find(|line| line.starts_with(&tensor.path)).unwrap();
        let zeros = scores.values.iter().filter(|v| **v == 0.0).count();
        let zeros = format::percent(zeros as f64 / scores.values.len() as f64);
        assert!(
            line.ends_with(&format!("  {zeros}  {}", format::percent(tensor.density()))),
            "{line}"
        );
        assert!(figure.svg().contains(&format!("{zeros} exactly zero")));
    }
    // The whole table, also of what is not drawn.
    let wide = many().keep(0.05).unwrap();
    let text = saliency(&wide).unwrap().text();
    assert!(text.contains("The 12 largest of 60 tensors"));
    assert!(wide.tensors().iter().all(|tensor| text.contains(&tensor.path)));
    // Flags that no threshold explains get no line.
    let mut flags: Vec<Vec<bool>> = mask.tensors().iter().map(|t| t.kept.clone()).collect();
    let low = flags[1].iter().position(|kept| !kept).unwrap();
    let high = flags[1].iter().position(|kept| *kept).unwrap();
    flags[1].swap(low, high);
    let odd = mask.saliency().unwrap().mask(flags, "odd".into()).unwrap();
    assert!(!saliency(&odd).unwrap().text().contains("largest score dropped"));
}

#[test]
fn odd_scores_are_drawn_without_trouble() {
    let tensor =
        |values: Vec<f64>| SaliencyTensor { path: "w".into(), shape: vec![values.len()], values };
    let cases = [
        vec![0.0; 8],
        vec![f64::NAN; 8],
        vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1.0],
        vec![5e-324, 1e-300, 1e300, f64::MAX],
        vec![2.0; 3],
        vec![1.0],
    ];
    for values in cases {
        let saliency = saliency_of(PrivacyStatus::DataFree, vec![tensor(values.clone())]);
        for figure in [saliency_histograms(&saliency), mask(&saliency.keep(0.5).unwrap())] {
            let svg = figure.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{values:?}");
            assert!(!figure.png().is_empty() && figure.text().contains("w "), "{values:?}");
            let found = collisions(figure.scene());
            assert!(found.is_empty(), "{values:?}: {found:?}");
        }
    }
    let zeros = saliency_of(PrivacyStatus::DataFree, vec![tensor(vec![0.0; 8])]);
    assert!(saliency_histograms(&zeros).svg().contains("no score above zero"));
    assert!(
        saliency_histograms(&saliency_of(PrivacyStatus::DataFree, vec![]))
            .svg()
            .starts_with("<svg")
    );
    let random = RandomMask::prune(0.5).seed(1).mask(&model()).unwrap();
    let error = saliency(&random).unwrap_err();
    assert!(error.to_string().contains("not made from scores"), "{error}");
}

#[test]
fn collapsed_tensors_are_named() {
    let thin = four(PrivacyStatus::DataFree).keep(0.001).unwrap();
    let collapsed: Vec<String> = (thin.tensors().iter().zip(super::mask_tensor_names(&thin)))
        .filter(|(tensor, _)| tensor.kept_count() == 1)
        .map(|(_, name)| name)
        .collect();
    assert!(!collapsed.is_empty());
    let figure = kept(&thin);
    let expected = format!("Only one coordinate is left in {}.", collapsed.join(", "));
    assert!(figure.text().contains(&expected), "{figure}");
    assert_eq!(figure.svg().matches("\none left\n").count(), collapsed.len());
    let text = figure.text();
    assert!(text.contains("0.006 %") && text.contains("16,384"), "{text}");
    let sound = kept(&four(PrivacyStatus::DataFree).keep(0.5).unwrap());
    assert!(!sound.svg().contains("one left") && !sound.text().contains("is left in"));
}

#[test]
fn overlaps_stand_beside_what_chance_would_give() {
    let model = model();
    let a = RandomMask::prune(0.5).seed(1).mask(&model).unwrap();
    let b = RandomMask::prune(0.8).seed(2).mask(&model).unwrap();
    let figure = overlap(&[("a", &a), ("b", &b)]).unwrap();
    // 0.5 · 0.2 / (0.7 - 0.1).
    assert!((chance_overlap(0.5, 0.2) - 1.0 / 6.0).abs() < 1e-12);
    let jaccard = a.jaccard(&b).unwrap();
    assert!((jaccard - 1.0 / 6.0).abs() < 0.01, "{jaccard}: random masks agree by chance");
    let line = format!("{}      0.167", format::fixed(jaccard, 3));
    assert!(figure.text().contains(&line), "{figure}");
    assert!(figure.svg().contains("chance 0.17") && figure.svg().contains("\n1.00\n"));
    assert_eq!((chance_overlap(0.0, 0.0), chance_overlap(1.0, 1.0)), (0.0, 1.0));
    assert!(overlap(&[("a", &a)]).is_err());
    let other = many().keep(0.5).unwrap();
    assert!(overlap(&[("a", &a), ("other", &other)]).is_err());
    let chart = overlap_over_epsilon(&[(f64::NAN, 0.1), (3.0, 0.25), (0.3, 0.21)], 0.2);
    assert!(chart.text().contains("by chance 0.20") && chart.text().contains("0.250"), "{chart}");
}

#[test]
fn tiles_are_those_of_the_mask_and_refuse_another_model() {
    let random = RandomMask::prune(0.7).seed(1).mask(&model()).unwrap();
    let (plain, weights) = (tiles(&random, None).unwrap(), tiles(&random, &model()).unwrap());
    assert!(plain.text().contains("16x1x8x8") && plain.text().contains("30.0 %"), "{plain}");
    assert_ne!(plain.svg(), weights.svg());
    assert!(weights.text().contains("mean |kept weight|"));
    let data = glyphs_with(2, 0, 1).unwrap();
    let other = models::linear(&data).seed(1).build().unwrap();
    assert!(tiles(&random, &other).is_err());
}

#[test]
fn records_of_dropping_count_the_selections() {
    let random = selection_log(&record(Dropping::random(0.5), 40));
    assert!(random.text().contains("35.0 % of the weights selected in a step"), "{random}");
    assert!(random.text().contains("over 40 of 40 steps"), "{random}");
    // A record from a broken file is no reason to fall.
    let mut broken = record(Dropping::random(0.5), 3);
    broken.tensors[0].fractions[1].pop();
    broken.tensors[1].fractions.clear();
    broken.tensors[2].fractions[0][0] = f32::NAN;
    broken.recorded.pop();
    assert!(selection_log(&broken).svg().starts_with("<svg"));
}

#[test]
fn signal_and_noise_are_not_covered_by_default() {
    let point = |step: u64| SignalPoint {
        step,
        signal: 0.5 + step as f64 * 0.01,
        noise: 10.0,
        selected: 100,
        signal_all: 0.8,
        noise_all: 20.0,
    };
    let mut signal = SignalNoise { points: (0..5).map(point).collect(), private: true };
    let chart = signal_and_noise(&signal);
    assert_eq!(chart.svg().matches(&format!("\n{NOT_COVERED}\n")).count(), 2);
    assert!(chart.text().contains("Signal over noise 0.0520 on the selected"), "{chart}");
    assert!(chart.text().contains("0.0400"), "{chart}");
    signal.private = false;
    assert!(!signal_and_noise(&signal).text().contains(NOT_COVERED));
    signal.points.clear();
    assert!(signal_and_noise(&signal).text().contains("no data yet"));
}
