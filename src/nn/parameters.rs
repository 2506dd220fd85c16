//! Walking over the parameters of a network.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::prelude::*;

use crate::device::host::{self, Host};

/// One trainable tensor of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Where it is: places in the list of layers, names of groups and of the tensor, with dots
    /// between them: `"0.weight"`, `"3.body.2.weight"`, `"stem.0.bias"`.
    pub path: String,
    /// Burn's name for the tensor.
    pub id: ParamId,
    /// Its shape. Linear weights are `[inputs, outputs]` (Burn's layout), convolution weights
    /// `[channels out, channels in, kernel height, kernel width]`.
    pub shape: Vec<usize>,
}

impl Parameter {
    /// How many numbers it holds.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it holds no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Hears of a parameter and can read its numbers.
type Found<'a> = dyn FnMut(Parameter, &dyn Fn() -> Vec<f32>) + 'a;

/// Calls `found` with every parameter and a way to read its numbers.
pub(crate) fn visit<M: Module>(
    module: &M,
    mut found: impl FnMut(Parameter, &dyn Fn() -> Vec<f32>),
) {
    struct Walk<'a> {
        path: Vec<Option<String>>,
        found: &'a mut Found<'a>,
    }
    impl ModuleVisitor for Walk<'_> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.push(if told(name, container) { Some(name.to_owned()) } else { None });
        }
        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let parameter = Parameter {
                path: join(&self.path),
                id: param.id,
                shape: param.val().dims().to_vec(),
            };
            (self.found)(parameter, &|| host::values(param.val()));
        }
    }
    module.visit(&mut Walk { path: Vec::new(), found: &mut found });
}

/// The numbers of every parameter, in the order of [`visit`].
pub(crate) fn hosts<M: Module>(module: &M) -> Vec<Host> {
    struct Walk(Vec<Host>);
    impl ModuleVisitor for Walk {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(Host::of(param.val()));
        }
    }
    let mut walk = Walk(Vec::new());
    module.visit(&mut walk);
    walk.0
}

/// Every parameter as a row of numbers, where it lives, in the order of [`visit`].
pub(crate) fn tensors<M: Module>(module: &M) -> Vec<Tensor<1>> {
    struct Walk(Vec<Tensor<1>>);
    impl ModuleVisitor for Walk {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.val().inner().reshape([-1]));
        }
    }
    let mut walk = Walk(Vec::new());
    module.visit(&mut walk);
    walk.0
}

/// The same module with a row of numbers, as many as it holds, put in the place of each parameter
/// that `rows` knows, under its old id. Nothing is copied.
pub(crate) fn placed<M: Module>(module: M, rows: HashMap<ParamId, Tensor<1>>) -> M {
    struct Place(HashMap<ParamId, Tensor<1>>);
    impl ModuleMapper for Place {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let Some(row) = self.0.get(&param.id) else { return param };
            let shape = param.val().dims();
            Param::initialized(param.id, row.clone().reshape(shape))
        }
    }
    module.map(&mut Place(rows))
}

/// The same module with every parameter a tracked leaf of autodiff, under its old id.
pub(crate) fn tracked<M: Module>(module: M) -> M {
    struct Track;
    impl ModuleMapper for Track {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let (id, tensor, _) = param.consume();
            Param::initialized(id, tensor.inner().autodiff().require_grad())
        }
    }
    module.map(&mut Track)
}

/// The same module as Burn's optimizers take it: on the autodiff device, but no leaf of a graph.
/// Leaves are remembered until the next backward pass, which need not ever come.
pub(crate) fn lifted<M: Module>(module: M) -> M {
    struct Lift;
    impl ModuleMapper for Lift {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let (id, tensor, _) = param.consume();
            Param::initialized(id, tensor.inner().autodiff())
        }
    }
    module.map(&mut Lift)
}

/// The same module with every parameter outside autodiff, under its old id.
pub(crate) fn untracked<M: Module>(module: M) -> M {
    struct Untrack;
    impl ModuleMapper for Untrack {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let (id, tensor, _) = param.consume();
            Param::initialized(id, tensor.inner())
        }
    }
    module.map(&mut Untrack)
}

/// The same module with other numbers in the parameters that `numbers` knows, as many as each
/// holds, under their old ids.
pub(crate) fn filled<M: Module>(module: M, numbers: impl Fn(ParamId) -> Option<Vec<f32>>) -> M {
    struct Fill<F>(F);
    impl<F: Fn(ParamId) -> Option<Vec<f32>>> ModuleMapper for Fill<F> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let Some(values) = (self.0)(param.id) else { return param };
            let (id, tensor, _) = param.consume();
            let data = TensorData::new(values, tensor.dims());
            Param::initialized(id, Tensor::from_data(data, &tensor.device()))
        }
    }
    module.map(&mut Fill(numbers))
}

/// What tells a user nothing stays out of paths: which variant an enum has, and that Burn's layer
/// is inside ours.
pub(super) fn told(name: &str, container: &str) -> bool {
    !container.starts_with("Enum:") && !within_ours(name, container)
}

/// Whether the field is Burn's layer in one of ours.
pub(super) fn within_ours(name: &str, container: &str) -> bool {
    const OURS: [&str; 6] = ["Linear", "Conv2d", "GroupNorm", "LayerNorm", "Embedding", "Lstm"];
    name == "inner" && container.strip_prefix("Struct:").is_some_and(|name| OURS.contains(&name))
}

pub(super) fn join(path: &[Option<String>]) -> String {
    path.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(".")
}
