//! [`WeightLayout`]: the names and axes of a model's parameters in a file of another library.

use std::fmt;
use std::sync::Arc;

use super::axis_order::AxisOrder;
use super::parameter_location::ParameterLocation;
use super::published_networks;
use crate::nn::LayerSpec;

/// Function from a parameter of the model to its name in the file, if there is one.
type NameMapping = dyn Fn(&ParameterLocation) -> Option<String> + Send + Sync;

/// Layout of the parameters of a model in a file: names, order of axes, and exclusions.
///
/// Everything else must agree. By default each parameter of the model needs a tensor, and each
/// tensor of the file a parameter.
#[derive(Clone)]
pub struct WeightLayout {
    pub(super) name: String,
    names: Arc<NameMapping>,
    pub(super) axes: AxisOrder,
    /// Returns the reason why layers with the same parameters would compute something else than
    /// the file's network.
    pub(super) mismatch: fn(&[LayerSpec]) -> Option<&'static str>,
    /// Model that fits the layout, for advice in errors.
    pub(super) suggested_model: &'static str,
    pub(super) prefix: String,
    pub(super) new_head: bool,
    /// Patterns of parameters that keep their initial values.
    pub(super) keep_patterns: Vec<String>,
    /// Patterns of tensors that stay in the file.
    pub(super) leave_patterns: Vec<String>,
}

impl WeightLayout {
    fn new(name: &str, axes: AxisOrder, names: Arc<NameMapping>) -> Self {
        Self {
            name: name.to_owned(),
            names,
            axes,
            mismatch: |_| None,
            suggested_model: "the model that the file was saved from",
            prefix: String::new(),
            new_head: false,
            keep_patterns: Vec::new(),
            leave_patterns: Vec::new(),
        }
    }

    /// Creates the layout of the networks `resnetv2_..._bit` of the PyTorch library timm: BiT
    /// (Kolesnikov et al., 2020, "Big Transfer"), for
    /// [`models::bit_resnet`](crate::nn::models::bit_resnet).
    ///
    /// Names such as `stages.0.blocks.1.conv2.weight` and `head.fc.weight`. Other `resnetv2`
    /// networks of timm have BatchNorm or another stem, and are refused.
    pub fn timm_resnetv2() -> Self {
        let model = "models::bit_resnet50(&data), or models::bit_resnet(&data, &[3, 4, 23, 3], 3)";
        let layout = Self::new(
            published_networks::TIMM_RESNETV2,
            AxisOrder::PyTorch,
            Arc::new(published_networks::timm_name),
        );
        Self { mismatch: published_networks::bit_mismatch, suggested_model: model, ..layout }
    }

    /// Creates the layout of the wide residual networks of De et al. (2022), "Unlocking
    /// high-accuracy differentially private image classification through scale", for
    /// [`.as_published()`](crate::nn::ModelBuilder::as_published).
    ///
    /// Their weights are trees of JAX arrays. Save them as safetensors, each under the names of its
    /// module and its parameter with a slash between them, such as
    /// `wide_res_net/Block_1Conv_0_0/w`.
    pub fn de_wide_resnet() -> Self {
        let model = "models::wide_resnet(&data, 28, 10).as_published()";
        let layout = Self::new(
            published_networks::DE_WIDE_RESNET,
            AxisOrder::Jax,
            Arc::new(published_networks::haiku_name),
        );
        Self { mismatch: published_networks::de_mismatch, suggested_model: model, ..layout }
            .prefix("wide_res_net/")
    }

    /// Creates the layout of the lab: the [paths](crate::nn::Network::paths) of the parameters,
    /// and its axes.
    pub fn native() -> Self {
        Self::new(
            "own names",
            AxisOrder::Native,
            Arc::new(|location: &ParameterLocation| Some(location.path.clone())),
        )
    }

    /// Creates a layout of the names that a function returns for the paths of the model's
    /// parameters; `None` if the file has no tensor for a parameter.
    ///
    /// The names decide where values go, and shapes are compared. Whether the layers compute the
    /// same as those of the file is not checked: epsilons, paddings and activations have no
    /// parameters.
    pub fn from_fn(
        axes: AxisOrder,
        name: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::new(
            "given names",
            axes,
            Arc::new(move |location: &ParameterLocation| name(&location.path)),
        )
    }

    /// Creates a layout of pairs of a parameter's path and its name in the file. Otherwise as
    /// [`from_fn`](Self::from_fn).
    pub fn from_pairs<A: Into<String>, B: Into<String>>(
        axes: AxisOrder,
        pairs: impl IntoIterator<Item = (A, B)>,
    ) -> Self {
        let pairs = pairs.into_iter().map(|(path, name)| (path.into(), name.into()));
        let pairs: Vec<(String, String)> = pairs.collect();
        Self::from_fn(axes, move |path| {
            pairs.iter().find(|(parameter, _)| parameter == path).map(|(_, name)| name.clone())
        })
    }

    /// Sets the text before every name, such as `"state_dict."`. Tensors whose names begin
    /// otherwise are left in the file.
    pub fn prefix(self, prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..self }
    }

    /// Leaves the head of the file, which is for other classes, and keeps the model's own: the last
    /// layer with parameters.
    pub fn new_head(self) -> Self {
        Self { new_head: true, ..self }
    }

    /// Keeps the initial values of the parameters that a pattern names: a path, a layer or a group,
    /// with `*` for any characters.
    pub fn keep_initial(mut self, pattern: &str) -> Self {
        self.keep_patterns.push(pattern.to_owned());
        self
    }

    /// Leaves the tensors of the file that a pattern names, such as `"optimizer.*"`.
    pub fn leave_in_file(mut self, pattern: &str) -> Self {
        self.leave_patterns.push(pattern.to_owned());
        self
    }

    /// Returns the name in the file of the parameter at a location.
    pub(super) fn tensor_name(&self, location: &ParameterLocation) -> Option<String> {
        (self.names)(location).map(|name| format!("{}{name}", self.prefix))
    }
}

impl fmt::Display for WeightLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for WeightLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout").field("name", &self.name).field("axes", &self.axes).finish()
    }
}
