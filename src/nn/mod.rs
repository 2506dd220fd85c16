//! Layers, networks and models: what is trained.
//!
//! A [`Model`] is what a notebook cell holds; inside is a [`Network`], a list of [`Layer`]s that
//! is also a Burn module. Everything about how gradients of single examples are made lives one
//! room above, in the engine: a network only offers its layers' inputs and outputs to a [`Tape`].

mod builder;
mod file;
mod finite;
mod init;
pub(crate) mod kernels;
mod layers;
pub(crate) mod loss;
mod model;
pub mod models;
mod network;
mod parameters;
mod precision;
mod predict;
mod summary;
mod tape;
mod trial;
mod user_module;
mod validate;
mod value;
pub(crate) mod workers;

pub use builder::{Activation, Family, Frame, ModelBuilder, Plain};
pub(crate) use file::{read_regular, unread, write_in_one_step};
pub use init::Initialisation;
pub(crate) use init::fresh_seed;
pub use kernels::Window;
pub use layers::{
    AvgPool2d, AvgPool2dSpec, BothWays, Conv2d, Conv2dSpec, Directions, Dropout, DropoutSpec,
    Embedding, EmbeddingSpec, Flatten, GlobalAvgPool, Group, GroupNorm, GroupNormSpec, GroupSpec,
    Guard, Layer, LayerNorm, LayerNormSpec, LayerSpec, Linear, LinearSpec, Lstm, LstmSpec,
    MaxPool2d, MaxPool2dSpec, MeanOverTime, Memory, Relu, Residual, ResidualSpec, Selu,
    Standardisation, Tanh,
};
pub use model::Model;
pub use network::Network;
pub use parameters::Parameter;
pub use precision::Precision;
pub use summary::{LayerInfo, Summary};
pub use tape::{NoTape, Site, Standardised, Tape};
pub use user_module::Forward;
pub use value::Value;

#[cfg(test)]
mod tests;
