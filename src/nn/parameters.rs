//! Reading and replacing the parameters of a Burn module.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::prelude::*;

use crate::device::host;

/// One trainable tensor of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Layer indices, group names and the name of the tensor, separated by dots: `"0.weight"`,
    /// `"3.body.2.weight"`, `"stem.0.bias"`.
    pub path: String,
    /// Burn's id of the tensor.
    pub id: ParamId,
    /// Its shape. Linear weights are `[inputs, outputs]` (Burn's layout), convolution weights
    /// `[channels out, channels in / groups, kernel height, kernel width]`.
    pub shape: Vec<usize>,
}

impl Parameter {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Called with a parameter and a function that reads its values.
type Visit<'a> = dyn FnMut(Parameter, &dyn Fn() -> Vec<f32>) + 'a;

/// Calls `visit` with every parameter of the module, in Burn's order, and a function that copies
/// its values to the host.
pub(crate) fn visit<M: Module>(
    module: &M,
    mut visit: impl FnMut(Parameter, &dyn Fn() -> Vec<f32>),
) {
    struct Visitor<'a> {
        path: Vec<Option<String>>,
        visit: &'a mut Visit<'a>,
    }
    impl ModuleVisitor for Visitor<'_> {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.push(if is_path_segment(name, container) {
                Some(name.to_owned())
            } else {
                None
            });
        }
        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let parameter = Parameter {
                path: join_path(&self.path),
                id: param.id,
                shape: param.val().dims().to_vec(),
            };
            (self.visit)(parameter, &|| host::values(param.val()));
        }
    }
    module.visit(&mut Visitor { path: Vec::new(), visit: &mut visit });
}

/// Every parameter flattened to one dimension, on its device and without autodiff, in the order of
/// [`visit`].
pub(crate) fn flattened<M: Module>(module: &M) -> Vec<Tensor<1>> {
    struct Collect(Vec<Tensor<1>>);
    impl ModuleVisitor for Collect {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.val().inner().reshape([-1]));
        }
    }
    let mut collect = Collect(Vec::new());
    module.visit(&mut collect);
    collect.0
}

/// The module with each parameter that `tensors` has an entry for replaced by that entry, reshaped.
/// Ids stay the same, and nothing is copied.
pub(crate) fn with_flattened<M: Module>(module: M, tensors: HashMap<ParamId, Tensor<1>>) -> M {
    struct Replace(HashMap<ParamId, Tensor<1>>);
    impl ModuleMapper for Replace {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let Some(flat) = self.0.get(&param.id) else { return param };
            let shape = param.val().dims();
            Param::initialized(param.id, flat.clone().reshape(shape))
        }
    }
    module.map(&mut Replace(tensors))
}

/// The module with each parameter that `is_tracked` names, by its index in the module's order, a
/// tracked leaf of autodiff. Ids stay the same.
pub(crate) fn tracked<M: Module>(module: M, is_tracked: impl Fn(usize) -> bool) -> M {
    struct Track<F>(F, usize);
    impl<F: Fn(usize) -> bool> ModuleMapper for Track<F> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let (id, tensor, _) = param.consume();
            self.1 += 1;
            if (self.0)(self.1 - 1) {
                Param::initialized(id, tensor.inner().autodiff().require_grad())
            } else {
                Param::initialized(id, tensor.inner())
            }
        }
    }
    module.map(&mut Track(is_tracked, 0))
}

/// The module in the form that Burn's optimizers expect: parameters on the autodiff device, but not
/// tracked. Ids stay the same.
///
/// Burn keeps tracked leaves in memory until the next backward pass, which may never happen.
pub(crate) fn for_optimizer<M: Module>(module: M) -> M {
    struct Lift;
    impl ModuleMapper for Lift {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let (id, tensor, _) = param.consume();
            Param::initialized(id, tensor.inner().autodiff())
        }
    }
    module.map(&mut Lift)
}

/// The module with every parameter outside autodiff. Ids stay the same.
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

/// The module with the row-major values that `values` returns for a parameter, if it returns some.
/// Their number must be that of the parameter's elements. Ids stay the same.
pub(crate) fn with_values<M: Module>(module: M, values: impl Fn(ParamId) -> Option<Vec<f32>>) -> M {
    struct Fill<F>(F);
    impl<F: Fn(ParamId) -> Option<Vec<f32>>> ModuleMapper for Fill<F> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let Some(values) = (self.0)(param.id) else { return param };
            let (id, tensor, _) = param.consume();
            let data = TensorData::new(values, tensor.dims());
            Param::initialized(id, Tensor::from_data(data, &tensor.device()))
        }
    }
    module.map(&mut Fill(values))
}

/// Whether a field is part of parameter paths. Enum variants and the field that wraps Burn's layer
/// in a layer of this crate are left out, since they tell a user nothing.
pub(super) fn is_path_segment(name: &str, container: &str) -> bool {
    !container.starts_with("Enum:") && !is_wrapped_layer(name, container)
}

/// Whether a field holds the layer of Burn's that a layer of this crate wraps.
pub(super) fn is_wrapped_layer(name: &str, container: &str) -> bool {
    const WRAPPERS: [&str; 6] = ["Linear", "Conv2d", "GroupNorm", "LayerNorm", "Embedding", "Lstm"];
    let container = container.strip_prefix("Struct:");
    name == "inner" && container.is_some_and(|name| WRAPPERS.contains(&name))
}

/// Joins the segments of a path by dots.
pub(super) fn join_path(path: &[Option<String>]) -> String {
    path.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(".")
}
