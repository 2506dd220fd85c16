//! Every kernel beside its CPU version, on a software GPU.

mod choices;
mod noise;
mod products;
mod rows;
