//! A module of the user's own as a network.
//!
//! Burn's visitors and mappers have methods for every rank and so can't be trait objects. What a
//! network needs of a module goes through a small trait that can, with parameters as a list of
//! the few ranks that layers have.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use burn::module::{
    Content, Devices, Flag, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper,
    ModuleVisitor, Param,
};
use burn::prelude::*;

use super::{Tape, Value};

/// What a module of one's own has to say to be trained: how examples become logits.
///
/// Implement it for any `#[derive(Module, Debug)]` struct made of the lab's layers, and hand the
/// tape on to each of them; [`Model::custom`](super::Model::custom) does the rest. Layers are made
/// from a specification and a seed, or of Burn's own by `.into()` (`.try_into()?` where Burn's have
/// options that ours don't).
///
/// ```
/// use epsilab::burn::{self, module::Module, nn::LinearConfig, prelude::*};
/// use epsilab::nn::{Forward, Linear, LinearSpec, Model, Tanh, Tape, Value};
///
/// #[derive(Module, Debug)]
/// struct TwoWays {
///     wide: Linear,
///     deep: Linear,
///     head: Linear,
/// }
///
/// impl Forward for TwoWays {
///     fn forward(&self, x: Value, tape: &mut dyn Tape) -> Tensor<2> {
///         let deep = Tanh.forward(self.deep.forward(x.clone(), tape), tape);
///         self.wide.forward(x, tape).flat() + self.head.forward(deep, tape).flat()
///     }
/// }
///
/// # fn main() -> epsilab::Result<()> {
/// let module = TwoWays {
///     wide: Linear::new(LinearSpec::new(5, 3), 1)?,
///     deep: Linear::new(LinearSpec::new(5, 8), 2)?,
///     head: LinearConfig::new(8, 3).init(&Device::flex()).into(),
/// };
/// let data = epsilab::data::from_vecs(vec![0.5; 20], &[5], vec![0, 1, 2, 0], 3)?;
/// let model = Model::custom("two_ways", module, &data)?;
/// assert_eq!(model.parameters(), 5 * 3 + 3 + 5 * 8 + 8 + 8 * 3 + 3);
/// # Ok(()) }
/// ```
///
/// # Guarantee
/// The share of an example is bounded if no example's logits depend on another example:
/// [`Model::validate`](super::Model::validate) tries it out, and refuses batch normalisation,
/// randomness other than [`Dropout`](super::Dropout)'s, and parameters that no layer reports to the
/// tape. That a module passes is a check, not a proof.
pub trait Forward {
    /// Logits `[batch, classes]` of a batch of examples.
    fn forward(&self, x: Value, tape: &mut dyn Tape) -> Tensor<2>;
}

/// A parameter of one of the ranks that layers have.
#[derive(Clone, Debug)]
pub(super) enum Ranked {
    One(Param<Tensor<1>>),
    Two(Param<Tensor<2>>),
    Three(Param<Tensor<3>>),
    Four(Param<Tensor<4>>),
}

impl Ranked {
    fn of<const D: usize>(param: &Param<Tensor<D>>) -> Option<Self> {
        let param = param as &dyn Any;
        let one = param.downcast_ref().cloned().map(Self::One);
        let two = || param.downcast_ref().cloned().map(Self::Two);
        let three = || param.downcast_ref().cloned().map(Self::Three);
        let four = || param.downcast_ref().cloned().map(Self::Four);
        one.or_else(two).or_else(three).or_else(four)
    }

    fn into<const D: usize>(self) -> Option<Param<Tensor<D>>> {
        let any: Box<dyn Any> = match self {
            Self::One(param) => Box::new(param),
            Self::Two(param) => Box::new(param),
            Self::Three(param) => Box::new(param),
            Self::Four(param) => Box::new(param),
        };
        any.downcast().ok().map(|param| *param)
    }
}

/// A field on the way to a parameter: its name, and the type it is a field of.
pub(super) type Field = (String, String);

/// What a field holds.
#[derive(Clone, Debug)]
pub(super) enum Held {
    Parameter(Ranked),
    /// A parameter of a rank that no layer has.
    TooDeep,
    /// What tells a layer of Burn's that it is being trained, so that it does something else then.
    Flag,
}

/// Something held, and where it is.
pub(super) type Found = (Vec<Field>, Held);

/// What can be done to a whole module without knowing its type.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Fork(Device),
    To(Device),
    Train,
    Valid,
    Materialize,
}

/// A user's module behind a trait object.
pub(super) trait UserModuleOps: Debug + Send + Sync {
    fn logits(&self, x: Value, tape: &mut dyn Tape) -> Tensor<2>;
    fn found(&self) -> Vec<Found>;
    fn mapped(&self, map: &mut dyn FnMut(Ranked) -> Ranked) -> Arc<dyn UserModuleOps>;
    fn changed(&self, change: Change) -> Arc<dyn UserModuleOps>;
    fn held_on(&self, devices: Devices) -> Devices;
}

impl<M: Module + Forward + Sync + 'static> UserModuleOps for M {
    fn logits(&self, x: Value, tape: &mut dyn Tape) -> Tensor<2> {
        Forward::forward(self, x, tape)
    }

    fn found(&self) -> Vec<Found> {
        #[derive(Default)]
        struct Walk {
            path: Vec<Field>,
            found: Vec<Found>,
        }
        impl ModuleVisitor for Walk {
            fn enter_module(&mut self, name: &str, container: &str) {
                self.path.push((name.to_owned(), container.to_owned()));
            }
            fn exit_module(&mut self, _name: &str, _container: &str) {
                self.path.pop();
            }
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let held = Ranked::of(param).map_or(Held::TooDeep, Held::Parameter);
                self.found.push((self.path.clone(), held));
            }
            fn visit_flag(&mut self, _flag: &Param<Flag>) {
                self.found.push((self.path.clone(), Held::Flag));
            }
        }
        let mut walk = Walk::default();
        self.visit(&mut walk);
        walk.found
    }

    fn mapped(&self, map: &mut dyn FnMut(Ranked) -> Ranked) -> Arc<dyn UserModuleOps> {
        struct Put<'a>(&'a mut dyn FnMut(Ranked) -> Ranked);
        impl ModuleMapper for Put<'_> {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                let changed = Ranked::of(&param).and_then(|ranked| (self.0)(ranked).into());
                changed.unwrap_or(param)
            }
        }
        Arc::new(self.clone().map(&mut Put(map)))
    }

    fn changed(&self, change: Change) -> Arc<dyn UserModuleOps> {
        let module = self.clone();
        Arc::new(match change {
            Change::Fork(device) => module.fork(&device),
            Change::To(device) => module.to_device(&device),
            Change::Train => module.train(),
            Change::Valid => module.valid(),
            Change::Materialize => module.materialize(),
        })
    }

    fn held_on(&self, devices: Devices) -> Devices {
        self.collect_devices(devices)
    }
}

/// A user's module as part of a [`Network`](super::Network).
#[derive(Clone, Debug)]
pub(super) struct UserModule(pub(super) Arc<dyn UserModuleOps>);

impl Module for UserModule {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.0.held_on(devices)
    }

    fn fork(self, device: &Device) -> Self {
        Self(self.0.changed(Change::Fork(device.clone())))
    }

    fn to_device(self, device: &Device) -> Self {
        Self(self.0.changed(Change::To(device.clone())))
    }

    fn train(self) -> Self {
        Self(self.0.changed(Change::Train))
    }

    fn valid(&self) -> Self {
        Self(self.0.changed(Change::Valid))
    }

    fn materialize(self) -> Self {
        Self(self.0.changed(Change::Materialize))
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        for (path, held) in self.0.found() {
            let Held::Parameter(param) = held else { continue };
            path.iter().for_each(|(name, container)| visitor.enter_module(name, container));
            match param {
                Ranked::One(param) => visitor.visit_float(&param),
                Ranked::Two(param) => visitor.visit_float(&param),
                Ranked::Three(param) => visitor.visit_float(&param),
                Ranked::Four(param) => visitor.visit_float(&param),
            }
            path.iter().rev().for_each(|(name, container)| visitor.exit_module(name, container));
        }
    }

    fn map<V: ModuleMapper>(self, mapper: &mut V) -> Self {
        Self(self.0.mapped(&mut |param| match param {
            Ranked::One(param) => Ranked::One(mapper.map_float(param)),
            Ranked::Two(param) => Ranked::Two(mapper.map_float(param)),
            Ranked::Three(param) => Ranked::Three(mapper.map_float(param)),
            Ranked::Four(param) => Ranked::Four(mapper.map_float(param)),
        }))
    }
}

impl ModuleDisplayDefault for UserModule {
    fn content(&self, content: Content) -> Option<Content> {
        content.add_formatted(&"a module of one's own").optional()
    }
}

impl ModuleDisplay for UserModule {}
