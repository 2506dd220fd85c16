//! Who listens while a network computes.

use super::Value;

/// Told, for every layer with parameters, what went in and what came out.
///
/// `Network::forward` calls [`Tape::layer`] once per such layer, in order, and goes on with the
/// value it gets back: that is where an executor hooks into the backward pass.
pub trait Tape {
    /// Layer number `index` made `output` of `input`. Returns the value to go on with.
    fn layer(&mut self, index: usize, input: &Value, output: Value) -> Value;

    /// Whether layers may use the lab's own kernels instead of Burn's operations. The reference
    /// executor says no, so that the two ways of computing share as little as possible.
    fn own_kernels(&self) -> bool {
        true
    }
}

/// Nobody listens: a plain forward pass.
pub struct NoTape;

impl Tape for NoTape {
    fn layer(&mut self, _index: usize, _input: &Value, output: Value) -> Value {
        output
    }
}
