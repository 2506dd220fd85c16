//! Compares every kernel with its CPU version, on a software GPU.

mod selection;
mod noise;
mod products;
mod rows;
