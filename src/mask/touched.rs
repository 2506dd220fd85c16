//! stub
use crate::engine::Weights;
use serde::{Deserialize, Serialize};
/// stub
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Touched {
    steps: u64,
}
impl Touched {
    /// stub
    pub fn new(steps: u64) -> Self {
        Self { steps }
    }
    /// stub
    pub fn record(&mut self, _step: u64, _selected: &Weights) {}
}
