//! Scaled settings, with a description of the changes.

use std::fmt;

use crate::methods::{Method, Plan};

/// A recipe that was scaled to other data, or a plan that was scaled to a larger batch. Its text
/// form lists the changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled<T> {
    pub(in crate::methods) scaled: T,
    pub(in crate::methods) changes: Vec<String>,
}

impl<M: Method + Clone> Scaled<M> {
    /// Returns the method with the scaled settings.
    pub fn method(&self) -> M {
        self.scaled.clone()
    }
}

impl Scaled<Plan> {
    /// Returns the scaled plan.
    pub fn plan(&self) -> Plan {
        self.scaled.clone()
    }
}

impl<T> Scaled<T> {
    /// Returns the changes, one sentence each; empty if nothing was changed.
    pub fn changes(&self) -> &[String] {
        &self.changes
    }
}

impl<T> fmt::Display for Scaled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changes.is_empty() {
            f.write_str("nothing was changed")
        } else {
            f.write_str(&self.changes.join("\n"))
        }
    }
}
