//! A published value, our value, and the resulting verdict.

use epsilab::Result;
use epsilab::privacy::{Accountant, Delta, Event, OrderList, Pld, PrivacyCost, Rdp};

/// A table of a paper, or a part of one.
pub struct Section {
    /// Short name, for test messages.
    pub id: &'static str,
    pub paper: &'static str,
    pub title: &'static str,
    /// How our column is computed.
    pub method: &'static str,
    /// Interpretation of the verdicts.
    pub note: &'static str,
    pub rows: Vec<Row>,
}

pub struct Row {
    pub setting: String,
    pub claim: Claim,
    pub ours: Result<Ours>,
    /// Reference value of other software and relative tolerance.
    pub check: Option<(f64, f64)>,
}

/// A published claim. Values are texts as printed, so that their rounding is known.
#[derive(Clone, Copy)]
pub enum Claim {
    /// The paper's own accountant gives this value; `within` is the relative tolerance for what the
    /// paper leaves open, such as rounded inputs.
    Number { printed: &'static str, within: f64 },
    /// The training is private with this epsilon.
    Guarantee { printed: &'static str },
    /// The curve of a figure decreases: the value is below that of the previous point.
    Decreases { below: f64 },
    /// Nothing was published.
    None,
}

/// Our value.
#[derive(Clone)]
pub struct Ours {
    /// An upper bound on epsilon, or the result of the paper's formula.
    pub value: f64,
    /// A proved lower bound on epsilon.
    pub lower_bound: Option<f64>,
    /// The accountant or the formula.
    pub accountant: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Our value is the published one.
    Reproduced,
    /// The same computation gives another value.
    Differs,
    /// Our proved epsilon is at or below the claim.
    Holds,
    /// Epsilon is provably at least `times` the claim.
    Refuted { times: f64 },
    /// Neither proved nor refuted: the claim lies between our bounds.
    Open,
    /// Nothing was claimed.
    NoClaim,
}

impl Row {
    pub fn new(setting: impl Into<String>, claim: Claim, ours: Result<Ours>) -> Self {
        Self { setting: setting.into(), claim, ours, check: None }
    }

    /// Adds a reference value, with a relative tolerance.
    pub fn check(mut self, value: f64, relative: f64) -> Self {
        self.check = Some((value, relative));
        self
    }

    /// The verdict, from the values alone; `None` if our value is an error.
    pub fn verdict(&self) -> Option<Verdict> {
        let ours = self.ours.as_ref().ok()?;
        Some(match self.claim {
            Claim::Number { printed, within } => {
                let printed = number(printed);
                if (ours.value - printed).abs() <= within * printed {
                    Verdict::Reproduced
                } else {
                    Verdict::Differs
                }
            }
            Claim::Guarantee { printed } => {
                // The printed value may have been rounded down: half a unit of its last digit is
                // granted.
                let rounded_claim = number(printed) + last_digit(printed) / 2.0;
                match ours.lower_bound {
                    Some(least) if least > rounded_claim => {
                        Verdict::Refuted { times: least / number(printed) }
                    }
                    _ if ours.value <= rounded_claim => Verdict::Holds,
                    _ => Verdict::Open,
                }
            }
            Claim::Decreases { below } if ours.value < below => Verdict::Reproduced,
            Claim::Decreases { .. } => Verdict::Differs,
            Claim::None => Verdict::NoClaim,
        })
    }
}

pub fn number(printed: &str) -> f64 {
    printed.parse().expect("a printed number")
}

/// One unit in the last printed digit: 0.01 for "3.45", 1e7 for "9.8e8".
fn last_digit(printed: &str) -> f64 {
    let (digits, power) = printed.split_once('e').unwrap_or((printed, "0"));
    let decimals = digits.split_once('.').map_or(0, |(_, after)| after.len()) as i32;
    10f64.powi(power.parse::<i32>().expect("a power of ten") - decimals)
}

pub fn training(sampling_rate: f64, noise_multiplier: f64, steps: u64) -> Event {
    Event::PoissonGaussian { sampling_rate, noise_multiplier, steps }
}

/// Rényi accounting with the named list of orders, as in the papers: an upper bound.
pub fn renyi(orders: &str, events: &[Event], delta: f64) -> Result<Ours> {
    let spent =
        Rdp::default().with_orders(orders.parse::<OrderList>()?).epsilon(events, Delta(delta))?;
    Ok(Ours { value: spent.epsilon, lower_bound: None, accountant: "rdp".into() })
}

/// Privacy loss distributions: upper and lower bound.
pub fn tight(events: &[Event], delta: f64) -> Result<Ours> {
    Ok(Pld::default().epsilon(events, Delta(delta))?.into())
}

impl From<PrivacyCost> for Ours {
    fn from(spent: PrivacyCost) -> Self {
        Self { value: spent.epsilon, lower_bound: spent.lower_bound, accountant: spent.accountant }
    }
}

/// The result of a formula of a paper.
pub fn formula(value: f64, accountant: &str) -> Result<Ours> {
    Ok(Ours { value, lower_bound: None, accountant: accountant.into() })
}

mod tests {
    use super::*;

    fn claimed(printed: &'static str, value: f64, lower_bound: Option<f64>) -> Verdict {
        let ours = Ok(Ours { value, lower_bound, accountant: "test".into() });
        Row::new("", Claim::Guarantee { printed }, ours).verdict().unwrap()
    }

    #[test]
    fn only_a_lower_bound_refutes_a_claim() {
        assert_eq!(claimed("0.50", 0.504, Some(0.503)), Verdict::Holds);
        assert_eq!(claimed("0.50", 2.0, Some(1.0)), Verdict::Refuted { times: 2.0 });
        // An upper bound, however large, refutes nothing.
        assert_eq!(claimed("0.50", 7.5e7, None), Verdict::Open);
        assert_eq!(claimed("0.50", 2.0, Some(0.4)), Verdict::Open);
    }

    #[test]
    fn a_value_a_few_percent_off_is_not_reproduced() {
        let row = |value| {
            let claim = Claim::Number { printed: "16.86", within: 0.02 };
            Row::new("", claim, formula(value, "test")).verdict().unwrap()
        };
        assert_eq!((row(16.80), row(16.06)), (Verdict::Reproduced, Verdict::Differs));
    }

    #[test]
    fn the_unit_of_the_last_printed_digit_is_parsed() {
        assert_eq!([last_digit("3.45"), last_digit("71"), last_digit("9.8e8")], [0.01, 1.0, 1e7]);
    }
}
