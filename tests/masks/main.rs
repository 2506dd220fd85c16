//! Masks that are made before training.

mod synflow;
