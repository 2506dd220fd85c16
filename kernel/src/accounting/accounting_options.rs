//! Options that choose accountant and neighbouring relation.

use clap::ValueEnum;
use epsilab::privacy::{
    Accountant, AccountantResult, Delta, Event, Gdp, GdpClt, NeighbouringRelation, OrderList, Pld,
    Rdp, TightestAccountant, Zcdp, compare_accountants,
};
use epsilab::{Error, ErrorKind, Result, privacy};

use crate::options;

/// The accountants by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AccountantChoice {
    /// The smallest proved epsilon of all accountants; shows the result of each
    #[value(name = "headline")]
    Tightest,
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
pub enum NeighbouringChoice {
    /// One training example is added or removed
    AddOrRemove,
    /// One example's contribution is replaced by zeros
    ZeroOut,
    /// One example is replaced by another: twice the sensitivity
    ReplaceOne,
}

/// Accountant, neighbouring relation and Rényi orders.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct AccountingArgs {
    /// Accountant [default: headline]
    #[arg(long, value_enum)]
    pub accountant: Option<AccountantChoice>,
    /// Neighbouring relation [default: that of the event file, else add-or-remove]
    #[arg(long, value_enum, value_name = "RELATION")]
    pub neighbouring: Option<NeighbouringChoice>,
    /// Rényi orders; selects the accountant rdp: production, tf_legacy, opacus_default,
    /// dp_accounting_default, or numbers above 1 separated by commas
    #[arg(long, value_name = "LIST")]
    pub orders: Option<String>,
}

/// Checked options of accounting: accountant, neighbouring relation and Rényi orders.
#[derive(Clone, Debug)]
pub struct AccountingOptions {
    pub choice: AccountantChoice,
    pub neighbouring: NeighbouringRelation,
    pub orders: Option<OrderList>,
}

impl AccountingOptions {
    /// Checks the options `args` against the relation `of_file` of the event file.
    ///
    /// # Errors
    /// Kind `Setting` for a relation that is not that of the file, for `--orders` that can't be
    /// read, and for `--orders` with another accountant than `rdp` or another relation than
    /// add-or-remove.
    pub fn from_args(args: &AccountingArgs, of_file: Option<NeighbouringRelation>) -> Result<Self> {
        let named = args.neighbouring.map(|relation| match relation {
            NeighbouringChoice::AddOrRemove => NeighbouringRelation::AddOrRemoveOne,
            NeighbouringChoice::ZeroOut => NeighbouringRelation::ZeroOutOne,
            NeighbouringChoice::ReplaceOne => NeighbouringRelation::ReplaceOne,
        });
        if let (Some(named), Some(of_file)) = (named, of_file)
            && named != of_file
        {
            return Err(Error::new(
                ErrorKind::Setting,
                format!("--neighbouring is \"{named}\", but the file states \"{of_file}\""),
                "an epsilon for one neighbouring relation does not hold for another",
            )
            .fix("leave out --neighbouring, or change `neighbouring` in the file if it is wrong"));
        }
        let neighbouring = named.or(of_file).unwrap_or_default();
        let options = Self {
            choice: match (args.accountant, &args.orders) {
                (Some(choice), _) => choice,
                (None, Some(_)) => AccountantChoice::Rdp,
                (None, None) => AccountantChoice::Tightest,
            },
            neighbouring,
            orders: args.orders.as_deref().map(str::parse).transpose()?,
        };
        let refused = |what: &str, why| {
            Err(Error::new(ErrorKind::Setting, what, why).fix("leave out one of the two"))
        };
        if options.orders.is_some() && options.choice != AccountantChoice::Rdp {
            let what = format!("--orders with --accountant {}", options.name());
            return refused(&what, "only the accountant rdp takes Rényi orders");
        }
        if options.orders.is_some() && neighbouring != NeighbouringRelation::AddOrRemoveOne {
            let what = "--orders with a neighbouring relation other than add-or-remove";
            let why = "lists of orders serve to reproduce older results, which use add-or-remove";
            return refused(what, why);
        }
        Ok(options)
    }

    /// Returns the name of the accountant, as an option and as a key.
    pub fn name(&self) -> String {
        options::name_of(&self.choice)
    }

    /// Returns the accountant, whose results are proved bounds.
    pub fn accountant(&self) -> Box<dyn Accountant> {
        let neighbouring = self.neighbouring;
        match (self.choice, &self.orders) {
            (AccountantChoice::Tightest, _) => {
                Box::new(TightestAccountant::with_neighbouring(neighbouring))
            }
            (AccountantChoice::Pld, _) => Box::new(Pld::with_neighbouring(neighbouring)),
            (AccountantChoice::Rdp, Some(orders)) => {
                Box::new(Rdp::default().with_orders(orders.clone()))
            }
            (AccountantChoice::Rdp, None) => Box::new(Rdp::with_neighbouring(neighbouring)),
            (AccountantChoice::Gdp, _) => Box::new(Gdp::with_neighbouring(neighbouring)),
            (AccountantChoice::Zcdp, _) => Box::new(Zcdp::with_neighbouring(neighbouring)),
        }
    }

    /// Returns the result of the chosen accountant for the report. Only here may an approximation,
    /// labelled as one, replace a refusal.
    pub fn compute_epsilon(&self, events: &[Event], delta: Delta) -> AccountantResult {
        let spent = self.accountant().epsilon(events, delta);
        let refused =
            matches!(&spent, Err(error) if error.kind() == privacy::ErrorKind::Accounting);
        if self.choice == AccountantChoice::Gdp && refused {
            let estimate = GdpClt::with_neighbouring(self.neighbouring).epsilon(events, delta);
            // Without an estimate, the reason of the exact accountant is reported.
            if estimate.is_ok() {
                return AccountantResult {
                    accountant: "gdp".into(),
                    cost: estimate,
                    approximate: true,
                };
            }
        }
        AccountantResult { accountant: self.name(), cost: spent, approximate: false }
    }

    /// Returns the results of all accountants for the headline, else of the chosen one.
    pub fn compare_all(
        &self,
        result: &AccountantResult,
        events: &[Event],
        delta: Delta,
    ) -> Vec<AccountantResult> {
        if self.choice != AccountantChoice::Tightest {
            return vec![result.clone()];
        }
        let mut all = compare_accountants(events, delta, self.neighbouring);
        for result in &mut all {
            // One key for both; `approximate` tells which one it is.
            if result.accountant == "gdp_clt" {
                result.accountant = "gdp".into();
            }
        }
        all
    }
}
