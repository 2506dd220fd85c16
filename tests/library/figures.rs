//! The privacy figures from outside: what they draw is what the accountants say.

use epsilab::ErrorKind;
use epsilab::prelude::*;
use epsilab::privacy::{
    Accountant, Gdp, GdpClt, NeighbouringRelation, Pld, Rdp, SamplingRate, TightestAccountant,
    TradeOff, Zcdp, compare_accountants,
};
use epsilab::show::{Chart, Series};

const DELTA: Delta = Delta(1e-5);

fn training(noise_multiplier: f64, steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate: 0.01, noise_multiplier, steps }
}

fn lines(chart: &Chart) -> &[Series] {
    chart.panels()[0].all_series()
}

#[track_caller]
fn line<'a>(chart: &'a Chart, name: &str) -> &'a Series {
    let found = lines(chart).iter().find(|series| series.name().starts_with(name));
    found.unwrap_or_else(|| panic!("no line {name} in:\n{chart}"))
}

/// Every third point of the reported line is what the headline says of `event_at(x)`.
#[track_caller]
fn assert_reported(chart: &Chart, delta: Delta, event_at: impl Fn(f64) -> Event) {
    let points = line(chart, "reported").points();
    assert!(points.len() >= 25, "{} points", points.len());
    for &(x, y) in points.iter().step_by(3) {
        match TightestAccountant::new().epsilon(&[event_at(x)], delta) {
            Ok(spent) => assert_eq!(y, spent.epsilon, "at {x}"),
            Err(_) => assert_eq!(y, f64::INFINITY, "at {x}: no finite epsilon"),
        }
    }
}

#[test]
fn epsilon_over_delta_draws_the_values_of_every_accountant_that_supports_the_events() {
    let unsampled = Event::Gaussian { noise_multiplier: 4.0, count: 10 };
    for events in [[training(1.0, 1000)], [unsampled]] {
        let chart = figures::epsilon_vs_delta(&events).unwrap();
        let answers = compare_accountants(&events, DELTA, NeighbouringRelation::AddOrRemoveOne);
        let drawn = answers.iter().filter(|answer| answer.cost.is_ok()).count();
        assert_eq!(lines(&chart).len(), drawn, "{chart}");
        assert!(chart.text().contains("epsilon (add or remove one)"), "{chart}");
        assert!(drawn > 0);
        for answer in answers.iter().filter(|answer| answer.cost.is_ok()) {
            let (accountant, name): (Box<dyn Accountant>, &str) = match answer.accountant.as_str() {
                "pld" => (Box::new(Pld::default()), "PLD"),
                "rdp" => (Box::new(Rdp::default()), "RDP"),
                "gdp" => (Box::new(Gdp::default()), "GDP, exact"),
                "gdp_clt" => {
                    (Box::new(GdpClt::default()), "GDP CLT (approximate: may be below or above)")
                }
                _ => (Box::new(Zcdp::default()), "zCDP"),
            };
            let series = line(&chart, name);
            assert_eq!(series.is_approximate(), answer.approximate, "{name}");
            assert_eq!(series.is_approximate(), accountant.is_approximate(), "{name}");
            assert_eq!(series.points().len(), 33);
            for &(delta, epsilon) in series.points().iter().step_by(8) {
                let expected = accountant.epsilon(&events, Delta(delta)).map(|spent| spent.epsilon);
                let Ok(expected) = expected else { continue };
                // The distribution answers for many deltas at once, perhaps on another grid.
                let tolerance = if name == "PLD" { 5e-3 } else { 1e-12 };
                assert!(
                    (epsilon - expected).abs() <= tolerance * expected,
                    "{name} at {delta}: {epsilon}"
                );
            }
        }
        let svg = chart.svg();
        for tick in ["10⁻¹⁰", "10⁻⁵", "10⁻²"] {
            assert!(svg.contains(tick), "{tick}");
        }
    }
}

#[test]
fn a_drawn_epsilon_is_written_rounded_up() {
    let chart = figures::epsilon_vs_delta(&[training(1.0, 1000)]).unwrap();
    // 2.10137: rounded to the nearest it would be 2.101.
    let rdp = Rdp::default().epsilon(&[training(1.0, 1000)], DELTA).unwrap();
    assert!(rdp.epsilon > 2.1011 && rdp.epsilon < 2.1015);
    assert!(chart.text().contains("2.102") && chart.svg().contains("2.102"), "{chart}");
    assert!(!chart.text().contains("2.101 "));
    assert!(rdp.to_string().contains("epsilon 2.102"), "text has the same digits: {rdp}");
}

#[test]
fn the_delta_of_a_plan_or_of_the_caller_is_marked() -> epsilab::Result<()> {
    let data = data::glyphs_with(400, 0, 1)?;
    let delta = Delta(3e-4);
    let plan = DpSgd::new().target(Epsilon(3.0), delta).batch_size(40).steps(20).plan(&data)?;
    let events = [plan.event()];
    for chart in [figures::epsilon_vs_delta(&plan)?, figures::epsilon_vs_delta((&events, delta))?] {
        assert!(chart.text().contains("at delta = 3e-4"), "{chart}");
        let points = line(&chart, "PLD").points();
        let at = points.iter().find(|point| point.0 == delta.0).expect("a point at this delta");
        let expected = Pld::default().epsilon(&events, delta)?.epsilon;
        assert!((at.1 - expected).abs() < 5e-3 * expected, "{} and {expected}", at.1);
    }
    assert!(figures::epsilon_vs_delta(&events)?.text().contains("at delta = 1e-5"));
    Ok(())
}

#[test]
fn coinciding_curves_of_releases_without_sampling_have_a_note() {
    let chart = figures::epsilon_vs_delta(&[Event::Gaussian { noise_multiplier: 4.0, count: 10 }]);
    let chart = chart.unwrap();
    assert_eq!(line(&chart, "GDP").name(), "GDP, exact (within 1 % of PLD)");
}

#[test]
fn the_jump_of_rdp_at_zero_is_explained() {
    let chart = figures::epsilon_over_epochs(60_000, 600, 3.0, NoiseMultiplier(1.0), DELTA);
    for chart in [chart, figures::epsilon_over_steps(&training(1.0, 50), DELTA)] {
        let chart = chart.unwrap();
        let rdp = line(&chart, "RDP").points();
        assert!(rdp[0].1 == 0.0 && rdp[1].1 > 0.3, "{rdp:?}");
        assert!(chart.text().contains("RDP jumps at the first step"), "{chart}");
    }
}

#[test]
fn epsilon_over_steps_follows_every_part_of_a_run() {
    let chart = figures::epsilon_over_steps(&training(1.0, 1000), DELTA).unwrap();
    assert_reported(&chart, DELTA, |steps| training(1.0, steps as u64));
    let points = line(&chart, "reported").points();
    assert_eq!((points[0], points.last().unwrap().0), ((0.0, 0.0), 1000.0));
    assert!(points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1 + 1e-9));
    // Where the line bends most it has the most points.
    let below = |steps: f64| points.iter().filter(|p| p.0 <= steps).count();
    assert!(below(100.0) >= 14, "{} points in the first tenth", below(100.0));

    let parts =
        |a: u64, b: u64| Event::Composed { events: vec![training(1.0, a), training(0.7, b)] };
    let chart = figures::epsilon_over_steps(&parts(300, 100), DELTA).unwrap();
    assert!(chart.text().contains("2 parts, 400 noisy releases; the first: 300 steps"), "{chart}");
    assert_reported(&chart, DELTA, |steps| {
        let steps = steps as u64;
        parts(steps.min(300), steps.saturating_sub(300))
    });
}

#[test]
fn a_run_that_ends_without_a_guarantee_ends_at_infinity() {
    let open = Event::Unaccountable { why: "raw gradients".into() };
    let run = Event::Composed { events: vec![training(1.0, 10), open] };
    let chart = figures::epsilon_over_steps(&run, DELTA).unwrap();
    let points = line(&chart, "reported").points();
    assert!(points[points.len() - 2].1.is_finite() && points[points.len() - 1].1.is_infinite());
    assert!(chart.text().contains('∞'), "{chart}");
}

#[test]
fn the_figures_of_settings_show_the_values_of_the_accountants() {
    let noise = NoiseMultiplier(1.0);
    let poisson = |sampling_rate: f64, noise_multiplier: f64, steps: f64| Event::PoissonGaussian {
        sampling_rate,
        noise_multiplier,
        steps: steps as u64,
    };
    let chart = figures::epsilon_over_noise(SamplingRate(0.01), 500, DELTA).unwrap();
    assert_reported(&chart, DELTA, |sigma| poisson(0.01, sigma, 500.0));

    let chart = figures::epsilon_over_batch_size(60_000, 10.0, noise, DELTA).unwrap();
    let steps = |batch: f64| (10.0 * 60_000.0 / batch - 1e-9).ceil();
    assert_reported(&chart, DELTA, |batch| poisson(batch / 60_000.0, 1.0, steps(batch)));
    assert_eq!(line(&chart, "reported").points().last().unwrap().0, 60_000.0);

    let chart = figures::epsilon_over_epochs(60_000, 600, 30.0, noise, DELTA).unwrap();
    assert_reported(&chart, DELTA, |epochs| poisson(0.01, 1.0, (100.0 * epochs - 1e-9).ceil()));
}

#[test]
fn the_scaling_law_falls_and_then_flattens() {
    let law = || {
        figures::scaling_law(1_281_167, 1024, NoiseMultiplier(0.56), 12_512, Delta(1e-6)).unwrap()
    };
    let chart = law();
    assert_reported(&chart, Delta(1e-6), |batch| Event::PoissonGaussian {
        sampling_rate: batch / 1_281_167.0,
        noise_multiplier: 0.56 * batch / 1024.0,
        steps: 12_512,
    });
    let points = line(&chart, "reported").points();
    assert_eq!(points[0].0, 512.0, "from half the given batch on");
    assert!(points.len() > 45, "{} points", points.len());
    let at = |batch: f64| points.iter().find(|p| p.0 >= batch).unwrap().1;
    assert!(points.windows(2).all(|w| w[1].1 <= w[0].1 * 1.001), "it falls");
    assert!(at(1024.0) > 5.0 * at(16_384.0), "by much at small batches");
    assert!(at(16_384.0) < 1.2 * at(1_281_167.0), "and hardly at large ones");
    assert!(points.iter().any(|p| p.0 == 1024.0), "the given batch is a point of its own");
}

#[test]
fn the_trade_off_shows_the_bound_and_the_line_of_guessing() {
    let events = [training(1.0, 1000)];
    let chart = figures::trade_off(&events).unwrap();
    let bound = TradeOff::from_events(&events, NeighbouringRelation::AddOrRemoveOne).unwrap();
    for &(percent, share) in line(&chart, "any attacker").points() {
        let expected = bound.true_positive_rate((percent / 100.0).min(1.0)).unwrap();
        assert!((share - expected).abs() < 1e-9 && share >= percent / 100.0 - 1e-12);
    }
    assert!(line(&chart, "guessing").points().iter().all(|p| (p.0 / 100.0 - p.1).abs() < 1e-12));
    let text = chart.text();
    for (shown, form) in [(&text, "text"), (&chart.svg(), "svg")] {
        assert!(shown.contains("false alarms (false positive rate, %)"), "{form}:\n{shown}");
        assert!(shown.contains("members caught (true positive rate;"), "{form}:\n{shown}");
    }
    assert!(text.contains("at 1 % false alarms") && text.contains("  1 %"), "{text}");
    // The attacker's share is written rounded up.
    let share = bound.true_positive_rate(0.01).unwrap();
    let up = (share * 1000.0 - 1e-7).ceil() / 10.0;
    assert!(text.contains(&format!("{up} %")), "{up}:\n{text}");
}

#[test]
fn the_table_describes_each_accountant() {
    let events = [training(1.0, 1000)];
    let table = figures::accountant_comparison(&events, DELTA).unwrap().text();
    let row = |name: &str| {
        let found = table.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("no {name} in\n{table}")).to_string()
    };
    assert!(row("RDP ").contains("2.102") && row("RDP ").contains("moments"), "{table}");
    let classic = Rdp::default().with_conversion(epsilab::privacy::Conversion::Classic);
    let classic = classic.epsilon(&events, DELTA).unwrap().epsilon;
    let shown = epsilab::show::format::eps(classic);
    assert!(row("RDP, classic").contains(&shown), "{table}");
    for name in ["PLD", "GDP", "zCDP"] {
        row(name);
    }
}

#[test]
fn events_without_an_epsilon_are_an_accounting_error() {
    let open = [Event::Unaccountable { why: "raw gradients".into() }];
    let noise = NoiseMultiplier(1.0);
    for error in [
        figures::epsilon_vs_delta(&open).unwrap_err(),
        figures::epsilon_over_steps(&open[0], DELTA).unwrap_err(),
        figures::trade_off(&open).unwrap_err(),
        figures::accountant_comparison(&open, DELTA).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Accounting, "{error}");
        assert!(error.to_string().contains("raw gradients"), "{error}");
    }
    let bad = NoiseMultiplier(0.0);
    let nothing: [Event; 0] = [];
    for error in [
        figures::epsilon_vs_delta(&nothing).unwrap_err(),
        figures::accountant_comparison(&nothing, DELTA).unwrap_err(),
        figures::trade_off(&nothing).unwrap_err(),
        figures::epsilon_vs_delta((&open, Delta(2.0))).unwrap_err(),
        figures::epsilon_vs_delta(&[training(-1.0, 5)]).unwrap_err(),
        figures::epsilon_over_steps(&training(1.0, 0), DELTA).unwrap_err(),
        figures::epsilon_over_steps(&training(1.0, 5), Delta(2.0)).unwrap_err(),
        figures::epsilon_over_noise(SamplingRate(0.0), 5, DELTA).unwrap_err(),
        figures::epsilon_over_noise(SamplingRate(0.1), 0, DELTA).unwrap_err(),
        figures::epsilon_over_batch_size(0, 1.0, noise, DELTA).unwrap_err(),
        figures::epsilon_over_batch_size(100, f64::NAN, noise, DELTA).unwrap_err(),
        figures::epsilon_over_epochs(100, 101, 1.0, noise, DELTA).unwrap_err(),
        figures::epsilon_over_epochs(100, 10, 1.0, bad, DELTA).unwrap_err(),
        figures::scaling_law(100, 0, noise, 10, DELTA).unwrap_err(),
        figures::scaling_law(100, 10, noise, 0, DELTA).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
    }
    // Tiny data sets are drawn with the points they have.
    assert!(figures::scaling_law(1, 1, noise, 1, DELTA).is_ok());
    assert!(figures::epsilon_over_batch_size(2, 1.0, noise, DELTA).is_ok());
}
