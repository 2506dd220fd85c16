//! An epsilon as JSON and as text.

use std::fmt::Write;

use epsilab::Result;
use epsilab::privacy::{AccountantResult, Delta, ErrorKind, Event, PrivacyCost};
use serde_json::{Value, json};

use super::accounting_options::{AccountantChoice, AccountingOptions};
use super::curve::{self, EpsilonAtDelta};

/// Results of the accountants.
pub struct EpsilonReport {
    options: AccountingOptions,
    delta: Delta,
    answer: AccountantResult,
    comparison: Vec<AccountantResult>,
}

impl EpsilonReport {
    /// Computes the epsilon of the events with the chosen accountant and with those to compare.
    ///
    /// # Errors
    /// Errors of the chosen accountant, except a refusal, which is a result.
    pub fn compute(options: &AccountingOptions, events: &[Event], delta: Delta) -> Result<Self> {
        let answer = options.compute_epsilon(events, delta);
        if let Err(error) = &answer.cost
            && error.kind() != ErrorKind::Accounting
        {
            return Err(error.clone().into());
        }
        let all = options.compare_all(&answer, events, delta);
        Ok(Self { options: options.clone(), delta, answer, comparison: all })
    }

    /// Returns one line of JSON with keys in alphabetical order. `epsilon` is the result of the
    /// chosen accountant; then one key per accountant, `null` if it refused or did not run.
    /// `approximate` lists the keys that are estimates. `why` is present only if `epsilon` is
    /// `null`, `curve` only if it was requested.
    pub fn to_json(&self, curve: Option<&[EpsilonAtDelta]>) -> String {
        let epsilon =
            |result: &AccountantResult| result.cost.as_ref().ok().map(|spent| spent.epsilon);
        let approximate = self.comparison.iter().filter(|a| a.approximate && a.cost.is_ok());
        let approximate: Vec<&str> = approximate.map(|a| a.accountant.as_str()).collect();
        let lower = self.answer.cost.as_ref().ok().and_then(|spent| spent.lower_bound);
        let mut line = json!({
            "accountant": self.accountant_name(), "approximate": approximate, "delta": self.delta.0,
            "epsilon": epsilon(&self.answer), "gdp": null, "lower": lower,
            "neighbouring": self.options.neighbouring, "pld": null, "rdp": null, "zcdp": null,
        });
        for result in &self.comparison {
            line[result.accountant.as_str()] = json!(epsilon(result));
        }
        if let Err(refusal) = &self.answer.cost {
            line["why"] = refusal.to_string().into();
        }
        if let Some(curve) = curve {
            line["curve"] = curve.iter().map(|at| json!([at.delta.0, at.epsilon])).collect();
        }
        line.sort_all_objects();
        line.to_string()
    }

    /// Returns the name of the accountant that computed the reported epsilon.
    fn accountant_name(&self) -> Value {
        match &self.answer.cost {
            Ok(spent) if self.options.choice == AccountantChoice::Tightest => {
                json!(spent.accountant)
            }
            _ => json!(self.options.name()),
        }
    }

    /// Returns several lines of text: the epsilon, the events, and the results of the other
    /// accountants.
    ///
    /// # Errors
    /// The refusal of the chosen accountant.
    pub fn to_text(&self, description: &str, curve: Option<&[EpsilonAtDelta]>) -> Result<String> {
        let spent = self.answer.cost.as_ref().map_err(Clone::clone)?;
        let delta = self.delta;
        let mut text = if self.answer.approximate {
            format!(
                "epsilon is {} at delta = {delta}: {APPROXIMATE}",
                format_estimate(spent.epsilon)
            )
        } else {
            format!("{spent}, at delta = {delta}")
        };
        let neighbours = self.options.neighbouring;
        let _ = write!(text, "\n  {description}");
        if let Some(orders) = &self.options.orders {
            let _ = write!(text, "\n  accountant: rdp, orders: {orders}");
        }
        let _ = write!(text, "\n  neighbouring data sets: {neighbours} training example");
        if self.options.choice == AccountantChoice::Tightest {
            for result in &self.comparison {
                let _ = write!(text, "\n  {:<5} {}", result.accountant, describe_answer(result));
            }
        }
        if let Some(curve) = curve {
            text.push_str(&curve::format_table(curve));
        }
        Ok(text)
    }
}

const APPROXIMATE: &str = "approximate (central limit theorem): may be below or above";

/// Formats an estimate: three decimals, or four digits of a large number.
fn format_estimate(epsilon: f64) -> String {
    if epsilon < 1e6 { format!("about {epsilon:.3}") } else { format!("about {epsilon:.3e}") }
}

/// Returns the text about one accountant in the comparison.
fn describe_answer(result: &AccountantResult) -> String {
    match &result.cost {
        Ok(spent) if result.approximate => {
            format!("{}: {APPROXIMATE}", format_estimate(spent.epsilon))
        }
        // The line starts with the name of the accountant.
        Ok(spent) => PrivacyCost { accountant: "proved".into(), ..spent.clone() }.to_string(),
        Err(refusal) => {
            let text = refusal.to_string();
            format!("refuses: {}", text.lines().next().unwrap_or_default())
        }
    }
}
