//! An epsilon as JSON and as text.

use std::fmt::Write;

use epsilab::Result;
use epsilab::privacy::{Answer, Delta, ErrorKind, Event, Spent};
use serde_json::{Value, json};

use super::asked::{Asked, Choice};
use super::curve::{self, Point};

/// Results of the accountants.
pub struct Answered {
    asked: Asked,
    delta: Delta,
    answer: Answer,
    all: Vec<Answer>,
}

impl Answered {
    /// Runs the accountants.
    ///
    /// # Errors
    /// Errors of the chosen accountant, except a refusal, which is a result.
    pub fn to(asked: &Asked, events: &[Event], delta: Delta) -> Result<Self> {
        let answer = asked.answer(events, delta);
        if let Err(error) = &answer.spent
            && error.kind() != ErrorKind::Accounting
        {
            return Err(error.clone().into());
        }
        let all = asked.all(&answer, events, delta);
        Ok(Self { asked: asked.clone(), delta, answer, all })
    }

    /// One line of JSON with keys in alphabetical order. `epsilon` is the result of the chosen
    /// accountant; then one key per accountant, `null` if it refused or did not run. `approximate`
    /// lists the keys that are estimates. `why` is present only if `epsilon` is `null`, `curve`
    /// only if it was requested.
    pub fn json(&self, curve: Option<&[Point]>) -> String {
        let epsilon = |answer: &Answer| answer.spent.as_ref().ok().map(|spent| spent.epsilon);
        let approximate = self.all.iter().filter(|a| a.approximate && a.spent.is_ok());
        let approximate: Vec<&str> = approximate.map(|a| a.accountant.as_str()).collect();
        let lower = self.answer.spent.as_ref().ok().and_then(|spent| spent.lower);
        let mut line = json!({
            "accountant": self.named(), "approximate": approximate, "delta": self.delta.0,
            "epsilon": epsilon(&self.answer), "gdp": null, "lower": lower,
            "neighbouring": self.asked.neighbouring, "pld": null, "rdp": null, "zcdp": null,
        });
        for answer in &self.all {
            line[answer.accountant.as_str()] = json!(epsilon(answer));
        }
        if let Err(refusal) = &self.answer.spent {
            line["why"] = refusal.to_string().into();
        }
        if let Some(curve) = curve {
            line["curve"] = curve.iter().map(|at| json!([at.delta.0, at.epsilon])).collect();
        }
        line.sort_all_objects();
        line.to_string()
    }

    /// The accountant that the epsilon is from.
    fn named(&self) -> Value {
        match &self.answer.spent {
            Ok(spent) if self.asked.choice == Choice::Headline => json!(spent.accountant),
            _ => json!(self.asked.name()),
        }
    }

    /// Several lines: the epsilon, the events, and the results of the other accountants.
    ///
    /// # Errors
    /// The refusal of the chosen accountant.
    pub fn words(&self, description: &str, curve: Option<&[Point]>) -> Result<String> {
        let spent = self.answer.spent.as_ref().map_err(Clone::clone)?;
        let delta = self.delta;
        let mut words = if self.answer.approximate {
            format!("epsilon is {} at delta = {delta}: {APPROXIMATE}", about(spent.epsilon))
        } else {
            format!("{spent}, at delta = {delta}")
        };
        let neighbours = self.asked.neighbouring;
        let _ = write!(words, "\n  {description}");
        if let Some(orders) = &self.asked.orders {
            let _ = write!(words, "\n  accountant: rdp, orders: {orders}");
        }
        let _ = write!(words, "\n  neighbouring data sets: {neighbours} training example");
        if self.asked.choice == Choice::Headline {
            for answer in &self.all {
                let _ = write!(words, "\n  {:<5} {}", answer.accountant, said(answer));
            }
        }
        if let Some(curve) = curve {
            words.push_str(&curve::table(curve));
        }
        Ok(words)
    }
}

const APPROXIMATE: &str = "approximate (central limit theorem): may be below or above";

/// Formats an estimate: three decimals, or four digits of a large number.
fn about(epsilon: f64) -> String {
    if epsilon < 1e6 { format!("about {epsilon:.3}") } else { format!("about {epsilon:.3e}") }
}

/// Line of one accountant in the comparison.
fn said(answer: &Answer) -> String {
    match &answer.spent {
        Ok(spent) if answer.approximate => format!("{}: {APPROXIMATE}", about(spent.epsilon)),
        // The line starts with the name of the accountant.
        Ok(spent) => Spent { accountant: "proved".into(), ..spent.clone() }.to_string(),
        Err(refusal) => {
            let text = refusal.to_string();
            format!("refuses: {}", text.lines().next().unwrap_or_default())
        }
    }
}
