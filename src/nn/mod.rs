//! Layers, networks and models.
//!
//! A [`Model`] is a named classifier. It contains a [`Network`], which is a list of [`Layer`]s and
//! a Burn module. Per-example gradients are computed by the executors of
//! [`engine`](crate::engine); a network only reports the inputs and outputs of its layers to a
//! [`Tape`].
//!
//! ```
//! use epsilab::prelude::*;
//! use epsilab::nn::{Flatten, LinearSpec, Relu};
//! let data = data::glyphs_with(2, 0, 1)?;
//! let layers = layers![Flatten, LinearSpec::new(784, 16), Relu, LinearSpec::new(16, 10)];
//! let model = models::sequential(&data, layers).seed(1).build()?;
//! assert_eq!(model.num_parameters(), 784 * 16 + 16 + 16 * 10 + 10);
//! assert_eq!(model.layers().len(), 4);
//! # Ok::<(), Error>(())
//! ```

mod backprop_clips;
mod batch_tensor;
mod builder;
mod finite;
mod freezing_stages;
mod init;
pub(crate) mod kernels;
mod layers;
pub(crate) mod loss;
mod model;
mod model_file;
pub mod models;
mod module_trace;
mod network;
mod parameters;
mod path_pattern;
mod precision;
mod predict;
mod provenance;
mod summary;
mod tape;
mod transfer;
mod user_module;
mod validate;
mod weights;
pub(crate) mod worker_pool;

pub(crate) use backprop_clips::map_layers;
pub use batch_tensor::BatchTensor;
pub use builder::{Activation, ModelBuilder, ModelConfig, ModelFactory, ModelFamily, SizedFamily};
pub use init::Initialisation;
pub(crate) use init::os_random_seed;
pub use kernels::Window;
pub use layers::{
    AvgPool2d, AvgPool2dSpec, BackpropClipped, BackpropClippedSpec, BiLstmGates, Conv2d,
    Conv2dSpec, Dropout, DropoutSpec, Embedding, EmbeddingSpec, Flatten, GlobalAvgPool, Group,
    GroupNorm, GroupNormSpec, GroupSpec, Layer, LayerClips, LayerNorm, LayerNormSpec, LayerSpec,
    Linear, LinearSpec, Lstm, LstmDirections, LstmGates, LstmSpec, MaxPool2d, MaxPool2dSpec,
    MeanOverTime, Relu, Residual, ResidualSpec, Selu, Standardisation, Tanh, UpstreamNorm,
    VarianceGuard, ZeroPad2d, ZeroPad2dSpec,
};
pub use model::Model;
pub(crate) use model_file::{read_error, read_regular_file};
pub use network::Network;
pub use parameters::Parameter;
pub(crate) use path_pattern::path_matches;
pub use precision::Precision;
pub(crate) use predict::ClassPrediction;
pub use provenance::Provenance;
pub use summary::{LayerInfo, ModelSummary};
pub use tape::{NoTape, ParameterSite, StandardisationRecord, Tape, UpstreamClip};
pub use transfer::TransferBuilder;
pub use user_module::Forward;
pub use weights::{
    AxisOrder, LoadedWeights, MatchedTensor, UnmatchedTensor, WeightLayout, WeightReport,
};

#[cfg(test)]
mod tests;
