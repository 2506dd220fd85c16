//! Lists of Rényi orders, over which the RDP accountant minimises.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{Error, Result};

/// A strictly increasing list of Rényi orders, each above 1.
///
/// A short list limits how small epsilon can become and may miss the best order. The default is
/// [`OrderList::production`]. The lists of other libraries reproduce their results.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderList {
    name: &'static str,
    orders: Arc<[f64]>,
}

impl OrderList {
    /// Creates the default list: Opacus' list, then 64, 80, 96 and 2^k, 3·2^(k-1) up to 65,536.
    /// The high orders make small epsilons possible.
    pub fn production() -> Self {
        let mut orders = tenths_below_eleven();
        orders.extend((12..=63).map(f64::from));
        orders.extend([64.0, 80.0, 96.0, 128.0]);
        for power in 7..16 {
            orders.extend([f64::from(3 << (power - 1)), f64::from(2 << power)]);
        }
        Self::named("production", orders)
    }

    /// Creates the list of TensorFlow Privacy's older tutorials and of papers that used it.
    pub fn tf_legacy() -> Self {
        let mut orders = vec![1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5];
        orders.extend((5..=63).map(f64::from));
        orders.extend([128.0, 256.0, 512.0]);
        Self::named("tf_legacy", orders)
    }

    /// Creates the default list of Opacus: 1.1, 1.2, …, 10.9, 12, 13, …, 63.
    pub fn opacus_default() -> Self {
        let mut orders = tenths_below_eleven();
        orders.extend((12..=63).map(f64::from));
        Self::named("opacus_default", orders)
    }

    /// Creates the default list of dp-accounting: 1.1, 1.2, …, 10.9, 11, 12, …, 63, 128, 256, 512,
    /// 1024.
    pub fn dp_accounting_default() -> Self {
        let mut orders = tenths_below_eleven();
        orders.extend((11..=63).map(f64::from));
        orders.extend([128.0, 256.0, 512.0, 1024.0]);
        Self::named("dp_accounting_default", orders)
    }

    /// Creates a list of orders given by the caller, in any order.
    ///
    /// # Errors
    /// Kind `Setting` for an empty list or an order that is not finite and above 1.
    pub fn custom(orders: &[f64]) -> Result<Self> {
        if orders.is_empty() {
            return Err(Error::setting("orders", "[]", "the list of Rényi orders is empty")
                .fix("give at least one order above 1, for example 2,4,8,16"));
        }
        if let Some(bad) = orders.iter().find(|&&order| !(order > 1.0 && order.is_finite())) {
            return Err(Error::setting("order", bad, "a Rényi order must be finite and above 1")
                .fix("use for example 2,4,8,16"));
        }
        let mut orders = orders.to_vec();
        orders.sort_by(f64::total_cmp);
        orders.dedup();
        Ok(Self::named("custom", orders))
    }

    /// Returns the orders, increasing.
    pub fn as_slice(&self) -> &[f64] {
        &self.orders
    }

    /// Returns the orders, shared.
    pub(super) fn shared(&self) -> Arc<[f64]> {
        self.orders.clone()
    }

    /// Returns the name of the list: `production`, `tf_legacy`, `opacus_default`,
    /// `dp_accounting_default` or `custom`.
    pub fn name(&self) -> &str {
        self.name
    }

    fn named(name: &'static str, orders: Vec<f64>) -> Self {
        Self { name, orders: orders.into() }
    }
}

/// Returns 1.1, 1.2, …, 10.9: the values `1 + n / 10`, whole orders included.
fn tenths_below_eleven() -> Vec<f64> {
    (1..100).map(|tenths| 1.0 + f64::from(tenths) / 10.0).collect()
}

impl Default for OrderList {
    fn default() -> Self {
        Self::production()
    }
}

/// Parses the name of a list, or orders separated by commas: `2,4,8.5`.
impl FromStr for OrderList {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "production" => Ok(Self::production()),
            "tf_legacy" => Ok(Self::tf_legacy()),
            "opacus_default" => Ok(Self::opacus_default()),
            "dp_accounting_default" => Ok(Self::dp_accounting_default()),
            list => {
                let orders: Option<Vec<f64>> =
                    list.split(',').map(|order| order.trim().parse().ok()).collect();
                let orders = orders.ok_or_else(|| {
                    Error::setting(
                        "orders",
                        text,
                        "neither the name of a list nor a list of numbers",
                    )
                    .fix(
                        "give production, tf_legacy, opacus_default, dp_accounting_default or \
                         numbers above 1 separated by commas",
                    )
                })?;
                Self::custom(&orders)
            }
        }
    }
}

impl fmt::Display for OrderList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.orders[0], self.orders[self.orders.len() - 1]);
        write!(f, "{} ({} orders, {first} to {last})", self.name, self.orders.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_production_list_extends_that_of_opacus_to_65536_without_large_gaps() {
        let production = OrderList::production();
        let orders = production.as_slice();
        assert!(orders.windows(2).all(|pair| pair[0] < pair[1] && pair[1] <= 1.5 * pair[0] + 1e-9));
        assert!(OrderList::opacus_default().as_slice().iter().all(|o| orders.contains(o)));
        assert_eq!(orders[orders.len() - 1], 65_536.0);
        for wanted in [64.0, 80.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 49_152.0] {
            assert!(orders.contains(&wanted), "{wanted}");
        }
    }

    #[test]
    fn lists_are_parsed_by_name_or_as_numbers() {
        assert_eq!("tf_legacy".parse::<OrderList>().unwrap(), OrderList::tf_legacy());
        let custom: OrderList = " 8, 2,4.5,2 ".parse().unwrap();
        assert_eq!(custom.as_slice(), [2.0, 4.5, 8.0]);
        for bad in ["", "tf", "1.0,2", "0.5", "NaN", "inf", "2,,3", "-3"] {
            assert!(bad.parse::<OrderList>().is_err(), "{bad:?}");
        }
        assert!(OrderList::custom(&[]).is_err());
    }
}
