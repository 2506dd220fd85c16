//! Options that choose accountant and neighbouring relation.

use clap::ValueEnum;
use epsilab::privacy::{
    Accountant, Answer, Delta, Event, Gdp, GdpClt, Headline, Neighbouring, OrderList, Pld, Rdp,
    Zcdp, compare,
};
use epsilab::{Error, ErrorKind, Result, privacy};

use crate::options;

/// The accountants by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// The smallest proved epsilon of all accountants; shows the result of each
    Headline,
    /// Privacy loss distributions: the tightest for sampled steps
    Pld,
    /// Rényi differential privacy: fast, slightly looser
    Rdp,
    /// Gaussian: exact without sampling, else an approximation, labelled as one
    Gdp,
    /// Zero-concentrated: for Gaussians without sampling
    Zcdp,
}

/// The neighbouring relations by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Relation {
    /// One training example is added or removed
    AddOrRemove,
    /// One example's contribution is replaced by zeros
    ZeroOut,
    /// One example is replaced by another: twice the sensitivity
    ReplaceOne,
}

/// Accountant, neighbouring relation and Rényi orders.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct AskedArgs {
    /// Accountant [default: headline]
    #[arg(long, value_enum)]
    pub accountant: Option<Choice>,
    /// Neighbouring relation [default: that of the event file, else add-or-remove]
    #[arg(long, value_enum, value_name = "RELATION")]
    pub neighbouring: Option<Relation>,
    /// Rényi orders; selects the accountant rdp: production, tf_legacy, opacus_default,
    /// dp_accounting_default, or numbers above 1 separated by commas
    #[arg(long, value_name = "LIST")]
    pub orders: Option<String>,
}

/// The checked options.
#[derive(Clone, Debug)]
pub struct Asked {
    pub choice: Choice,
    pub neighbouring: Neighbouring,
    pub orders: Option<OrderList>,
}

impl Asked {
    /// # Errors
    /// Kind `Setting` for an invalid list of orders, for orders with another accountant, and for a
    /// relation other than that of the event file.
    pub fn of(args: &AskedArgs, of_file: Option<Neighbouring>) -> Result<Self> {
        let named = args.neighbouring.map(|relation| match relation {
            Relation::AddOrRemove => Neighbouring::AddOrRemoveOne,
            Relation::ZeroOut => Neighbouring::ZeroOutOne,
            Relation::ReplaceOne => Neighbouring::ReplaceOne,
        });
        if let (Some(named), Some(of_file)) = (named, of_file)
            && named != of_file
        {
            return Err(Error::new(
                ErrorKind::Setting,
                format!("--neighbouring for \"{named}\", and a file about \"{of_file}\""),
                "an epsilon under one relation is none under the other",
            )
            .fix("leave out --neighbouring, or change `neighbouring` in the file if it is wrong"));
        }
        let neighbouring = named.or(of_file).unwrap_or_default();
        let asked = Self {
            choice: match (args.accountant, &args.orders) {
                (Some(choice), _) => choice,
                (None, Some(_)) => Choice::Rdp,
                (None, None) => Choice::Headline,
            },
            neighbouring,
            orders: args.orders.as_deref().map(str::parse).transpose()?,
        };
        let refused = |what: &str, why| {
            Err(Error::new(ErrorKind::Setting, what, why).fix("leave out one of the two"))
        };
        if asked.orders.is_some() && asked.choice != Choice::Rdp {
            let what = format!("--orders with --accountant {}", asked.name());
            return refused(&what, "only rdp works with Rényi orders of your choice");
        }
        if asked.orders.is_some() && neighbouring != Neighbouring::AddOrRemoveOne {
            let what = "--orders with another neighbouring relation than add-or-remove";
            let why =
                "lists of orders are there to reproduce older numbers, which are about that one";
            return refused(what, why);
        }
        Ok(asked)
    }

    /// Name of the accountant, as an option and as a key.
    pub fn name(&self) -> String {
        options::name_of(&self.choice)
    }

    /// The accountant, if its result is a proved bound.
    pub fn accountant(&self) -> Box<dyn Accountant> {
        let neighbouring = self.neighbouring;
        match (self.choice, &self.orders) {
            (Choice::Headline, _) => Box::new(Headline::with_neighbouring(neighbouring)),
            (Choice::Pld, _) => Box::new(Pld::with_neighbouring(neighbouring)),
            (Choice::Rdp, Some(orders)) => Box::new(Rdp::default().with_orders(orders.clone())),
            (Choice::Rdp, None) => Box::new(Rdp::with_neighbouring(neighbouring)),
            (Choice::Gdp, _) => Box::new(Gdp::with_neighbouring(neighbouring)),
            (Choice::Zcdp, _) => Box::new(Zcdp::with_neighbouring(neighbouring)),
        }
    }

    /// The result to report. Only here may an approximation, labelled as one, replace a refusal.
    pub fn answer(&self, events: &[Event], delta: Delta) -> Answer {
        let spent = self.accountant().epsilon(events, delta);
        let refused =
            matches!(&spent, Err(error) if error.kind() == privacy::ErrorKind::Accounting);
        if self.choice == Choice::Gdp && refused {
            let estimate = GdpClt::with_neighbouring(self.neighbouring).epsilon(events, delta);
            // Without an estimate, the reason of the exact accountant is reported.
            if estimate.is_ok() {
                return Answer { accountant: "gdp".into(), spent: estimate, approximate: true };
            }
        }
        Answer { accountant: self.name(), spent, approximate: false }
    }

    /// Results of all accountants for the headline, else of the chosen one.
    pub fn all(&self, answer: &Answer, events: &[Event], delta: Delta) -> Vec<Answer> {
        if self.choice != Choice::Headline {
            return vec![answer.clone()];
        }
        let mut all = compare(events, delta, self.neighbouring);
        for answer in &mut all {
            // One key for both; `approximate` tells which one it is.
            if answer.accountant == "gdp_clt" {
                answer.accountant = "gdp".into();
            }
        }
        all
    }
}
