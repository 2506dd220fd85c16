//! User-defined modules: the [`Forward`] trait, and a type-erased wrapper for [`Network`].
//!
//! Burn's `Module`, visitors and mappers have generic methods and can't be trait objects.
//! [`UserModuleOps`] is an object-safe trait with the operations that a network needs. It passes a
//! parameter as an [`Any`], which is a `Param<Tensor<D>>` of a rank that layers have, 1 to 4.
//!
//! [`Network`]: super::Network

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use burn::module::{
    Content, Devices, Flag, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper,
    ModuleVisitor, Param, ParamId,
};
use burn::prelude::*;

use super::{BatchTensor, Tape};

/// The forward pass of a user-defined module.
///
/// Implement it for a `#[derive(Module, Debug)]` struct made of the layers of this module, and pass
/// the tape to each layer. [`Model::custom`](super::Model::custom) makes a model of it. Layers are
/// built from a specification and a seed, or from Burn's layers by `.into()` (`.try_into()?` where
/// Burn's have options that these layers do not support).
///
/// ```
/// use epsilab::burn::{self, module::Module, nn::LinearConfig, prelude::*};
/// use epsilab::nn::{Forward, Linear, LinearSpec, Model, Tanh, Tape, BatchTensor};
///
/// #[derive(Module, Debug)]
/// struct WideAndDeep {
///     wide: Linear,
///     deep: Linear,
///     head: Linear,
/// }
///
/// impl Forward for WideAndDeep {
///     fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
///         let deep = Tanh.forward(self.deep.forward(x.clone(), tape), tape);
///         self.wide.forward(x, tape).into_flat() + self.head.forward(deep, tape).into_flat()
///     }
/// }
///
/// # fn main() -> epsilab::Result<()> {
/// let module = WideAndDeep {
///     wide: Linear::new(LinearSpec::new(5, 3), 1)?,
///     deep: Linear::new(LinearSpec::new(5, 8), 2)?,
///     head: LinearConfig::new(8, 3).init(&Device::flex()).into(),
/// };
/// let data = epsilab::data::from_vecs(vec![0.5; 20], &[5], vec![0, 1, 2, 0], 3)?;
/// let model = Model::custom("wide_and_deep", module, &data)?;
/// assert_eq!(model.num_parameters(), 5 * 3 + 3 + 5 * 8 + 8 + 8 * 3 + 3);
/// # Ok(()) }
/// ```
///
/// # Guarantee
/// Clipping bounds the contribution of an example if the module computes each row of a batch from
/// the same row of the input alone: then no per-example gradient depends on another example.
/// [`Model::validate`](super::Model::validate) tests this on synthetic examples. It also refuses
/// batch normalisation, randomness other than [`Dropout`](super::Dropout)'s, and parameters that no
/// layer reports to the tape. It is a test, not a proof.
pub trait Forward {
    /// Computes the logits `[batch, classes]` of a batch of examples, with dropout and recording by
    /// `tape`. `x` has the shape `[batch, ...]` of the examples that the model was made for. Row
    /// `i` of the result must depend on row `i` of `x` alone. A panic on the synthetic examples
    /// with which the model is made becomes the error of [`Model::custom`](super::Model::custom).
    fn forward(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2>;
}

/// A field on the path to a parameter: its name and the type that contains it.
pub(super) type PathSegment = (String, String);

/// The content of a field.
pub(super) enum FieldContent {
    Parameter(ParamId, Box<dyn Any>),
    /// A parameter of a rank above 4, which no layer has.
    UnsupportedRank,
    /// The training flag of a layer of Burn's that behaves differently during training.
    Flag,
}

/// The path of a field, outermost first, and its content.
pub(super) type ModuleField = (Vec<PathSegment>, FieldContent);

/// An operation on a whole module of unknown type.
#[derive(Clone, Debug)]
pub(super) enum ModuleOp {
    Fork(Device),
    ToDevice(Device),
    Train,
    Valid,
    Materialize,
}

/// Object-safe operations of a user-defined module.
pub(super) trait UserModuleOps: Debug + Send + Sync {
    /// Computes the logits, `[batch, classes]`.
    fn logits(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2>;
    /// Returns all parameters and training flags, in Burn's order.
    fn fields(&self) -> Vec<ModuleField>;
    /// Returns the module with `map` applied to every parameter of rank 1 to 4.
    fn map_parameters(&self, map: &mut dyn FnMut(&mut dyn Any)) -> Arc<dyn UserModuleOps>;
    /// Returns the module after an operation.
    fn apply(&self, change: ModuleOp) -> Arc<dyn UserModuleOps>;
    /// Returns `devices` and those of the parameters.
    fn add_devices(&self, devices: Devices) -> Devices;
}

impl<M: Module + Forward + Sync + 'static> UserModuleOps for M {
    fn logits(&self, x: BatchTensor, tape: &mut dyn Tape) -> Tensor<2> {
        Forward::forward(self, x, tape)
    }

    fn fields(&self) -> Vec<ModuleField> {
        #[derive(Default)]
        struct Visitor {
            path: Vec<PathSegment>,
            found: Vec<ModuleField>,
        }
        impl ModuleVisitor for Visitor {
            fn enter_module(&mut self, name: &str, container: &str) {
                self.path.push((name.to_owned(), container.to_owned()));
            }
            fn exit_module(&mut self, _name: &str, _container: &str) {
                self.path.pop();
            }
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let content = match D {
                    1..=4 => FieldContent::Parameter(param.id, Box::new(param.clone())),
                    _ => FieldContent::UnsupportedRank,
                };
                self.found.push((self.path.clone(), content));
            }
            fn visit_flag(&mut self, _flag: &Param<Flag>) {
                self.found.push((self.path.clone(), FieldContent::Flag));
            }
        }
        let mut visitor = Visitor::default();
        self.visit(&mut visitor);
        visitor.found
    }

    fn map_parameters(&self, map: &mut dyn FnMut(&mut dyn Any)) -> Arc<dyn UserModuleOps> {
        struct Mapper<'a>(&'a mut dyn FnMut(&mut dyn Any));
        impl ModuleMapper for Mapper<'_> {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                let mut param = param;
                (self.0)(&mut param);
                param
            }
        }
        Arc::new(self.clone().map(&mut Mapper(map)))
    }

    fn apply(&self, change: ModuleOp) -> Arc<dyn UserModuleOps> {
        let module = self.clone();
        Arc::new(match change {
            ModuleOp::Fork(device) => module.fork(&device),
            ModuleOp::ToDevice(device) => module.to_device(&device),
            ModuleOp::Train => module.train(),
            ModuleOp::Valid => module.valid(),
            ModuleOp::Materialize => module.materialize(),
        })
    }

    fn add_devices(&self, devices: Devices) -> Devices {
        self.collect_devices(devices)
    }
}

/// A user-defined module of any type, itself a Burn module.
#[derive(Clone, Debug)]
pub(super) struct UserModule(pub(super) Arc<dyn UserModuleOps>);

impl Module for UserModule {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.0.add_devices(devices)
    }

    fn fork(self, device: &Device) -> Self {
        Self(self.0.apply(ModuleOp::Fork(device.clone())))
    }

    fn to_device(self, device: &Device) -> Self {
        Self(self.0.apply(ModuleOp::ToDevice(device.clone())))
    }

    fn train(self) -> Self {
        Self(self.0.apply(ModuleOp::Train))
    }

    fn valid(&self) -> Self {
        Self(self.0.apply(ModuleOp::Valid))
    }

    fn materialize(self) -> Self {
        Self(self.0.apply(ModuleOp::Materialize))
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        for (path, content) in self.0.fields() {
            let FieldContent::Parameter(_, param) = content else { continue };
            path.iter().for_each(|(name, container)| visitor.enter_module(name, container));
            visit_rank::<1>(&*param, visitor);
            visit_rank::<2>(&*param, visitor);
            visit_rank::<3>(&*param, visitor);
            visit_rank::<4>(&*param, visitor);
            path.iter().rev().for_each(|(name, container)| visitor.exit_module(name, container));
        }
    }

    fn map<V: ModuleMapper>(self, mapper: &mut V) -> Self {
        Self(self.0.map_parameters(&mut |param| {
            map_rank::<1>(param, mapper);
            map_rank::<2>(param, mapper);
            map_rank::<3>(param, mapper);
            map_rank::<4>(param, mapper);
        }))
    }
}

/// Visits a parameter if it is of rank `D`.
fn visit_rank<const D: usize>(param: &dyn Any, visitor: &mut impl ModuleVisitor) {
    if let Some(param) = param.downcast_ref::<Param<Tensor<D>>>() {
        visitor.visit_float(param);
    }
}

/// Maps a parameter if it is of rank `D`.
fn map_rank<const D: usize>(param: &mut dyn Any, mapper: &mut impl ModuleMapper) {
    if let Some(param) = param.downcast_mut::<Param<Tensor<D>>>() {
        *param = mapper.map_float(param.clone());
    }
}

impl ModuleDisplayDefault for UserModule {
    fn content(&self, content: Content) -> Option<Content> {
        content.add_formatted(&"a user-defined module").optional()
    }
}

impl ModuleDisplay for UserModule {}
