//! Tests of all modules together.

mod conformance;
