//! Context of loading a file into a model, and the errors of the attempt.

use std::fmt::Display;
use std::path::Path;

use super::WeightLayout;
use super::axis_order::AxisOrder;
use super::batch_norm::fold_batch_norm;
use super::parameter_location::ParameterLocation;
use super::prefix::complete_prefixes;
use super::published_networks;
use super::weight_file::{DOWNLOAD_ADVICE, ElementType, TensorEntry, WeightFile, printable};
use crate::nn::Model;
use crate::privacy::digits::{format_count, pluralise};
use crate::{Error, ErrorKind, Result};

/// Largest number of tensors that are named in an error.
const SHOWN: usize = 3;

/// File of weights, its layout and the model that it is loaded into.
#[derive(Clone, Copy)]
pub(super) struct LoadContext<'a> {
    pub(super) model: &'a Model,
    pub(super) layout: &'a WeightLayout,
    pub(super) path: &'a Path,
}

impl LoadContext<'_> {
    fn error(self, what: impl Display, why: impl Into<String>) -> Error {
        Error::new(ErrorKind::Model, format!("{what} in {}", self.path.display()), why)
    }

    /// Returns the advice to build another model.
    fn model_advice(self) -> String {
        format!("use {}", self.layout.suggested_model)
    }

    /// Refuses a model that the layout can't be for, whatever the file.
    pub(super) fn check_model(self) -> Result<()> {
        let Self { model, layout, .. } = self;
        let what = format!("weights in the layout {layout} for {}", model.name());
        if model.is_user_module() && (layout.axes != AxisOrder::Native || layout.new_head) {
            let why = "the model is a user-defined module: which of its parameters are transposed \
                       in the file, and which layer is its head, is unknown";
            return Err(Error::new(ErrorKind::Model, what, why).fix(
                "transpose the weights in the file, and use AxisOrder::Native and .keep_initial(..)",
            ));
        }
        match (layout.mismatch)(model.network().specs()) {
            Some(why) => Err(Error::new(ErrorKind::Model, what, why).fix(self.model_advice())),
            None => Ok(()),
        }
    }

    /// Folds BatchNorm into the convolutions if the layout says how, and returns the names of their
    /// biases.
    pub(super) fn fold_batch_norm(self, source: &mut WeightFile) -> Result<Vec<String>> {
        let Some(conv_of) = self.layout.conv_before_norm else { return Ok(Vec::new()) };
        fold_batch_norm(source, conv_of).map_err(|why| {
            self.error("BatchNorm that can't be folded into a convolution", why)
                .fix("name a file of a ResNet of torchvision")
        })
    }

    /// Refuses networks with BatchNorm, whose statistics are tensors of the file.
    pub(super) fn refuse_batch_norm(self, source: &WeightFile) -> Result<()> {
        const STATISTICS: [&str; 4] = ["running_mean", "running_var", "moving_mean", "mean_ema"];
        let is_statistic =
            |name: &&String| name.split(['.', '/']).any(|part| STATISTICS.contains(&part));
        let Some(name) = source.entries.keys().find(is_statistic) else { return Ok(()) };
        let name = printable(name);
        let why = "BatchNorm mixes the examples of a batch by its statistics: an example has no \
                   separate gradient, so clipping can't bound its contribution";
        Err(self.error(format_args!("a network with BatchNorm ({name})"), why).fix(
            "use weights of a network with GroupNorm, such as timm's resnetv2_50x1_bit; those of \
             torchvision's ResNets are read by WeightLayout::torchvision() (--layout torchvision), \
             which keeps their statistics fixed",
        ))
    }

    /// Returns the error for parameters without a tensor, each with the tensor's name if the
    /// layout has one for it.
    pub(super) fn missing(
        self,
        source: &WeightFile,
        missing: &[(ParameterLocation, Option<String>)],
    ) -> Error {
        let Self { model, layout, .. } = self;
        if let Some((ParameterLocation { path, .. }, _)) =
            missing.iter().find(|(_, name)| name.is_none())
        {
            let what = format!("{path} of {}", model.name());
            let why = format!("the layout {layout} has no name for it");
            let fix = format!("{}, or add .keep_initial({path:?})", self.model_advice());
            return Error::new(ErrorKind::Model, what, why).fix(fix);
        }
        let names = missing.iter().filter_map(|(_, name)| name.as_ref());
        let what = format!(
            "no tensor for {} of {} ({})",
            pluralise(missing.len(), "parameter"),
            model.name(),
            list_names(names.clone())
        );
        let rests = names.clone().map(|name| name.strip_prefix(layout.prefix.as_str()));
        let rests: Vec<&str> = rests.map(Option::unwrap_or_default).collect();
        let prefixes = complete_prefixes(source, &rests).into_iter();
        let prefixes: Vec<_> = prefixes.map(|prefix| format!(".prefix({prefix:?})")).collect();
        let other = published_networks::detect_layout(source.entries.keys());
        let other = other.filter(|(name, _)| *name != layout.name);
        let fix = match (prefixes.as_slice(), other) {
            ([_, ..], _) if missing.len() > 1 => format!(
                "add {} to the layout (--prefix on the command line)",
                prefixes.join(" or ")
            ),
            ([], Some((_, other))) => format!("use {other}, whose names these are"),
            _ => format!("{}, or add .keep_initial(..) to the layout", self.model_advice()),
        };
        self.error(what, format!("the file holds {}", list_names(source.entries.keys()))).fix(fix)
    }

    /// Returns the error for tensors without a parameter.
    pub(super) fn superfluous(self, names: &[&String]) -> Error {
        let what = format!(
            "{} without a parameter of {} ({})",
            pluralise(names.len(), "tensor"),
            self.model.name(),
            list_names(names.iter().copied())
        );
        let why = "without them, the model is not the one whose weights these are";
        let fix = format!("{}, or leave them with .leave_in_file(..)", self.model_advice());
        self.error(what, why).fix(fix)
    }

    /// Returns the error for two parameters with one tensor.
    pub(super) fn shared_tensor(self, entry: &TensorEntry, [one, other]: [&str; 2]) -> Error {
        let why = format!("{one} and {other} both match this tensor");
        self.error(format_args!("the tensor {}", entry.shown()), why)
            .fix("give each parameter its own tensor")
    }

    /// Returns the error for a tensor of another shape.
    pub(super) fn shape_mismatch(
        self,
        location: &ParameterLocation,
        entry: &TensorEntry,
        in_head: bool,
    ) -> Error {
        let why = format!(
            "{} of {} needs {:?}",
            location.path,
            self.model.name(),
            self.layout.axes.shape_in_file(location)
        );
        self.error(format_args!("the tensor {} of shape {:?}", entry.shown(), entry.shape), why)
            .fix(if in_head {
                "add .new_head() to the layout if the file is for other classes".to_owned()
            } else {
                self.model_advice()
            })
    }

    /// Returns the error for a tensor of integers.
    pub(super) fn not_floating_point(
        self,
        location: &ParameterLocation,
        entry: &TensorEntry,
    ) -> Error {
        let what = format_args!("the tensor {} of {} values", entry.shown(), entry.dtype.name());
        self.error(what, format!("{} has floating-point numbers", location.path))
            .fix("convert the tensor to float32")
    }

    /// Returns the error for a tensor whose values can't be read.
    pub(super) fn unreadable(self, entry: &TensorEntry, error: &std::io::Error) -> Error {
        let what = format!("the tensor {} in {}", entry.shown(), self.path.display());
        let why = format!("the tensor can't be read: {}", printable(&error.to_string()));
        Error::new(ErrorKind::CorruptData, what, why).fix(DOWNLOAD_ADVICE)
    }

    /// Returns the error for a value that is NaN or infinite.
    pub(super) fn not_finite(self, entry: &TensorEntry, at: usize, value: f32) -> Error {
        let what = format!("value {} of {}, {value},", format_count(at + 1), entry.shown());
        let why = match entry.dtype {
            ElementType::F64 => {
                "the value is NaN, infinite, or a float64 that is too large for float32"
            }
            _ => "the training of these weights diverged, or the file was changed",
        };
        self.error(what, format!("the logits are NaN or infinite: {why}")).fix("use other weights")
    }
}

/// Returns some names, and the number of further ones.
pub(super) fn list_names<'a>(names: impl Iterator<Item = &'a String> + Clone) -> String {
    let shown = names.clone().take(SHOWN).map(|name| printable(name));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.count().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {} more", format_count(more)),
    }
}
