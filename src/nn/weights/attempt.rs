//! What is loaded into what, and the errors that say why it can't be.

use std::fmt::Display;
use std::path::Path;

use super::Layout;
use super::axes::Axes;
use super::known;
use super::place::Place;
use super::source::{Entry, GET_AGAIN, Number, Source, printable};
use crate::nn::Model;
use crate::privacy::digits::{count, counted};
use crate::{Error, ErrorKind, Result};

/// Tensors that are named in an error.
const SHOWN: usize = 3;

/// A file of weights for a model.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) model: &'a Model,
    pub(super) layout: &'a Layout,
    pub(super) path: &'a Path,
}

impl Attempt<'_> {
    fn error(self, what: impl Display, why: impl Into<String>) -> Error {
        Error::new(ErrorKind::Model, format!("{what} in {}", self.path.display()), why)
    }

    /// Advice to build another model.
    fn use_model(self) -> String {
        format!("use {}", self.layout.model)
    }

    /// Refuses a model that the layout can't be for, whatever the file.
    pub(super) fn check_model(self) -> Result<()> {
        let Self { model, layout, .. } = self;
        let what = format!("weights in the layout {layout} for {}", model.name());
        if model.is_user_module() && (layout.axes != Axes::Own || layout.new_head) {
            let why = "it is a user-defined module: which of its parameters are transposed in the \
                       file, and which layer is its head, is not known";
            return Err(Error::new(ErrorKind::Model, what, why).fix(
                "transpose the weights in the file, and use Axes::Own and .keep_initial(..)",
            ));
        }
        match (layout.differs)(model.network().specs()) {
            Some(why) => Err(Error::new(ErrorKind::Model, what, why).fix(self.use_model())),
            None => Ok(()),
        }
    }

    /// Refuses networks with BatchNorm, whose statistics are tensors of the file.
    pub(super) fn refuse_batch_norm(self, source: &Source) -> Result<()> {
        const STATISTICS: [&str; 4] = ["running_mean", "running_var", "moving_mean", "mean_ema"];
        let is_statistic =
            |name: &&String| name.split(['.', '/']).any(|part| STATISTICS.contains(&part));
        let Some(name) = source.entries.keys().find(is_statistic) else { return Ok(()) };
        let name = printable(name);
        let why = "BatchNorm mixes the examples of a batch by its statistics: an example has no \
                   gradient of its own, so clipping can't bound what it contributes";
        Err(self.error(format_args!("a network with BatchNorm ({name})"), why).fix(
            "use weights of a network with GroupNorm, such as timm's resnetv2_50x1_bit; the \
             ResNets of torchvision all have BatchNorm",
        ))
    }

    /// Parameters without a tensor, each with the tensor's name if the layout has one for it.
    pub(super) fn missing(self, source: &Source, missing: &[(Place, Option<String>)]) -> Error {
        let Self { model, layout, .. } = self;
        if let Some((Place { path, .. }, _)) = missing.iter().find(|(_, name)| name.is_none()) {
            let what = format!("{path} of {}", model.name());
            let why = format!("the layout {layout} has no name for it");
            let fix = format!("{}, or add .keep_initial({path:?})", self.use_model());
            return Error::new(ErrorKind::Model, what, why).fix(fix);
        }
        let names = missing.iter().filter_map(|(_, name)| name.as_ref());
        let what = format!(
            "no tensor for {} of {} ({})",
            counted(missing.len(), "parameter"),
            model.name(),
            some(names.clone())
        );
        // A checkpoint often holds the names below a key of its own.
        let below = names.clone().next().and_then(|name| {
            let rest = name.strip_prefix(layout.prefix.as_str())?;
            source.entries.keys().find_map(|own| own.strip_suffix(rest))
        });
        let other = known::layout_of(source.entries.keys());
        let other = other.filter(|(name, _)| *name != layout.name);
        let fix = match (below, other) {
            (Some(prefix), _) if missing.len() > 1 => {
                format!("add .prefix({prefix:?}) to the layout")
            }
            (None, Some((_, other))) => format!("use {other}, whose names these are"),
            _ => format!("{}, or add .keep_initial(..) to the layout", self.use_model()),
        };
        self.error(what, format!("it holds {}", some(source.entries.keys()))).fix(fix)
    }

    /// Tensors without a parameter.
    pub(super) fn superfluous(self, names: &[&String]) -> Error {
        let what = format!(
            "{} without a parameter of {} ({})",
            counted(names.len(), "tensor"),
            self.model.name(),
            some(names.iter().copied())
        );
        let why = "without them, the model is not the one whose weights these are";
        let fix = format!("{}, or leave them with .leave_in_file(..)", self.use_model());
        self.error(what, why).fix(fix)
    }

    /// Two parameters with one tensor.
    pub(super) fn shared(self, entry: &Entry, [one, other]: [&str; 2]) -> Error {
        let why = format!("{one} and {other} both have it");
        self.error(format_args!("the tensor {}", entry.shown()), why)
            .fix("give each parameter a tensor of its own")
    }

    /// A tensor of another shape.
    pub(super) fn shape(self, place: &Place, entry: &Entry, in_head: bool) -> Error {
        let why = format!(
            "{} of {} needs {:?}",
            place.path,
            self.model.name(),
            self.layout.axes.shape_in_file(place)
        );
        self.error(format_args!("the tensor {} of shape {:?}", entry.shown(), entry.shape), why)
            .fix(if in_head {
                "add .new_head() to the layout if the file is for other classes".to_owned()
            } else {
                self.use_model()
            })
    }

    /// A tensor of integers.
    pub(super) fn no_floats(self, place: &Place, entry: &Entry) -> Error {
        let what = format_args!("the tensor {} of {} values", entry.shown(), entry.number.name());
        self.error(what, format!("{} has floating-point numbers", place.path))
            .fix("convert the tensor to float32")
    }

    /// A tensor whose values can't be read.
    pub(super) fn unreadable(self, entry: &Entry, error: &std::io::Error) -> Error {
        let what = format!("the tensor {} in {}", entry.shown(), self.path.display());
        let why = format!("it can't be read: {}", printable(&error.to_string()));
        Error::new(ErrorKind::CorruptData, what, why).fix(GET_AGAIN)
    }

    /// A value that is NaN or infinite.
    pub(super) fn not_finite(self, entry: &Entry, at: usize, value: f32) -> Error {
        let what = format!("value {} of {}, {value},", count(at + 1), entry.shown());
        let why = match entry.number {
            Number::F64 => "it is NaN, infinite, or a float64 that is too large for float32",
            _ => "the training of these weights diverged, or the file was changed",
        };
        self.error(what, format!("its logits are NaN or infinite: {why}")).fix("use other weights")
    }
}

/// Some names, and how many more there are.
pub(super) fn some<'a>(names: impl Iterator<Item = &'a String> + Clone) -> String {
    let shown = names.clone().take(SHOWN).map(|name| printable(name));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.count().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {} more", count(more)),
    }
}
