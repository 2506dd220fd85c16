//! What a card does, by tests that take the device: here they run on the CPU's.

mod steps;
