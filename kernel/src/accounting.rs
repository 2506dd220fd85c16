//! `epsilon` and `sigma`: the accountants on the command line, scriptable by `--json`.

use epsilab::privacy::{
    Accountant, Calibrated, Delta, Epsilon, Event, OrderList, Rdp, SamplingRate, Spent,
    noise_multiplier_for,
};
use epsilab::{ErrorKind, Result};
use serde_json::{Value, json};

use crate::stdout;

/// What a training run costs: the epsilon of Poisson-sampled Gaussian steps.
#[derive(clap::Args, Clone, Debug)]
pub struct EpsilonArgs {
    /// Probability of each example to join a step: expected batch size / number of examples
    #[arg(long, allow_negative_numbers = true)]
    pub sampling_rate: f64,
    /// Standard deviation of the noise on the sum of clipped gradients / clip norm
    #[arg(long, allow_negative_numbers = true)]
    pub noise_multiplier: f64,
    /// Number of training steps
    #[arg(long)]
    pub steps: u64,
    /// Failure probability, well below 1 / number of examples
    #[arg(long, allow_negative_numbers = true)]
    pub delta: f64,
    /// Rényi orders: production, tf_legacy, opacus_default, dp_accounting_default, or numbers
    /// above 1 separated by commas
    #[arg(long, value_name = "LIST", default_value = "production")]
    pub orders: String,
    /// Print one line of JSON on stdout and nothing else
    #[arg(long)]
    pub json: bool,
}

/// How much noise a target needs: the noise multiplier for an epsilon, on the safe side.
#[derive(clap::Args, Clone, Debug)]
pub struct SigmaArgs {
    /// The epsilon to stay within
    #[arg(long, allow_negative_numbers = true)]
    pub epsilon: f64,
    /// Failure probability, well below 1 / number of examples
    #[arg(long, allow_negative_numbers = true)]
    pub delta: f64,
    /// Probability of each example to join a step: expected batch size / number of examples
    #[arg(long, allow_negative_numbers = true)]
    pub sampling_rate: f64,
    /// Number of training steps
    #[arg(long)]
    pub steps: u64,
    /// Rényi orders: production, tf_legacy, opacus_default, dp_accounting_default, or numbers
    /// above 1 separated by commas
    #[arg(long, value_name = "LIST", default_value = "production")]
    pub orders: String,
    /// Print one line of JSON on stdout and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Runs `epsilon`.
///
/// An accountant that refuses the event is part of the answer (`null` and `why` with `--json`);
/// a number out of range is an error.
pub fn epsilon(args: EpsilonArgs) -> Result<()> {
    let rdp = accountant(&args.orders)?;
    let event = event_of(&args);
    if args.json {
        stdout::print(&epsilon_json(&rdp, &event, args.delta)?.to_string())
    } else {
        let spent = rdp.epsilon(std::slice::from_ref(&event), Delta(args.delta))?;
        stdout::print(&epsilon_words(&event, args.delta, &spent, &rdp))
    }
}

/// Runs `sigma`.
pub fn sigma(args: SigmaArgs) -> Result<()> {
    let rdp = accountant(&args.orders)?;
    let found = noise_multiplier_for(
        Epsilon(args.epsilon),
        Delta(args.delta),
        SamplingRate(args.sampling_rate),
        args.steps,
        &rdp,
    )?;
    let line = if args.json { sigma_json(&found).to_string() } else { sigma_words(&args, &found) };
    stdout::print(&line)
}

fn accountant(orders: &str) -> Result<Rdp> {
    Ok(Rdp::with_orders(orders.parse::<OrderList>()?))
}

fn event_of(args: &EpsilonArgs) -> Event {
    Event::PoissonGaussian {
        sampling_rate: args.sampling_rate,
        noise_multiplier: args.noise_multiplier,
        steps: args.steps,
    }
}

/// `{"epsilon": headline, "delta": …, "rdp": …}`: one key per accountant, the headline the
/// smallest of them; `null` where one refuses, and then `why`.
fn epsilon_json(rdp: &Rdp, event: &Event, delta: f64) -> Result<Value> {
    event.check()?;
    Delta(delta).check()?;
    match rdp.epsilon(std::slice::from_ref(event), Delta(delta)) {
        Ok(Spent { epsilon, .. }) => Ok(json!({
            "epsilon": epsilon, "delta": delta, rdp.name(): epsilon
        })),
        Err(refusal) if refusal.kind() == ErrorKind::Accounting => Ok(json!({
            "epsilon": null, "delta": delta, rdp.name(): null, "why": refusal.to_string()
        })),
        Err(error) => Err(error),
    }
}

fn epsilon_words(event: &Event, delta: f64, spent: &Spent, rdp: &Rdp) -> String {
    let neighbours = epsilab::privacy::Neighbouring::default();
    format!(
        "{spent}, at delta = {}\n  {event}\n  accountant: {}, orders: {}\n  \
         neighbouring data sets: {neighbours} training example",
        Delta(delta),
        rdp.name(),
        rdp.orders(),
    )
}

/// `{"noise_multiplier": …, "epsilon": …, "accountant": "rdp"}`.
fn sigma_json(found: &Calibrated) -> Value {
    json!({
        "noise_multiplier": found.noise_multiplier.0,
        "epsilon": found.epsilon,
        "accountant": found.accountant,
    })
}

fn sigma_words(args: &SigmaArgs, found: &Calibrated) -> String {
    let event = Event::PoissonGaussian {
        sampling_rate: args.sampling_rate,
        noise_multiplier: found.noise_multiplier.0,
        steps: args.steps,
    };
    format!("{found}, at delta = {}\n  {event}", Delta(args.delta))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sampling_rate: f64, noise_multiplier: f64) -> Event {
        Event::PoissonGaussian { sampling_rate, noise_multiplier, steps: 10_000 }
    }

    #[test]
    fn epsilon_as_json_has_the_headline_the_delta_and_one_key_per_accountant() {
        let rdp = accountant("opacus_default").unwrap();
        let answer = epsilon_json(&rdp, &event(0.01, 3.5), 1e-5).unwrap();
        assert_eq!(answer.as_object().unwrap().len(), 3);
        assert!((answer["rdp"].as_f64().unwrap() - 1.205_139).abs() < 1e-5, "{answer}");
        assert_eq!(answer["epsilon"], answer["rdp"]);
        assert_eq!(answer["delta"], 1e-5);
        assert!(!answer.to_string().contains('\n'));
    }

    #[test]
    fn a_refusal_is_null_and_why() {
        let rdp = accountant("production").unwrap();
        let answer = epsilon_json(&rdp, &event(0.01, 1e-200), 1e-5).unwrap();
        assert!(answer["epsilon"].is_null() && answer["rdp"].is_null(), "{answer}");
        assert!(answer["why"].as_str().unwrap().contains("no privacy"), "{answer}");
        assert!(!answer.to_string().contains('\n'));
    }

    #[test]
    fn bad_numbers_are_errors_and_not_answers() {
        let rdp = accountant("production").unwrap();
        for (q, sigma, delta) in [
            (0.0, 1.0, 1e-5),
            (1.1, 1.0, 1e-5),
            (f64::NAN, 1.0, 1e-5),
            (0.1, 0.0, 1e-5),
            (0.1, f64::INFINITY, 1e-5),
            (0.1, 1.0, 0.0),
            (0.1, 1.0, 1.0),
            (0.1, 1.0, f64::NAN),
        ] {
            let error = epsilon_json(&rdp, &event(q, sigma), delta).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setting, "q {q} sigma {sigma} delta {delta}");
        }
        assert!(accountant("no_such_list").is_err());
        assert!(accountant("1.0").is_err());
    }

    #[test]
    fn sigma_as_json_names_multiplier_epsilon_and_accountant() {
        let rdp = accountant("production").unwrap();
        let found = noise_multiplier_for(
            Epsilon(3.0),
            Delta(1e-5),
            SamplingRate(2048.0 / 60_000.0),
            879,
            &rdp,
        )
        .unwrap();
        let answer = sigma_json(&found);
        assert_eq!(answer.as_object().unwrap().len(), 3);
        assert_eq!(answer["accountant"], "rdp");
        assert!((answer["noise_multiplier"].as_f64().unwrap() - 1.72).abs() < 0.01, "{answer}");
        assert!((2.99..=3.0).contains(&answer["epsilon"].as_f64().unwrap()), "{answer}");
    }

    #[test]
    fn the_words_say_what_holds_and_for_whom() {
        let rdp = accountant("tf_legacy").unwrap();
        let event = event(0.01, 1.1);
        let spent = rdp.epsilon(std::slice::from_ref(&event), Delta(1e-5)).unwrap();
        let words = epsilon_words(&event, 1e-5, &spent, &rdp);
        assert!(words.contains("at delta = 1e-5"), "{words}");
        assert!(words.contains("tf_legacy (72 orders, 1.25 to 512)"), "{words}");
        assert!(words.contains("add or remove one training example"), "{words}");
    }
}
