//! Compares every kernel with its CPU version, on a software GPU.

mod noise;
mod products;
mod rows;
mod selection;
