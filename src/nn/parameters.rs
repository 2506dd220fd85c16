//! Reading and replacing the parameters of a Burn module.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::prelude::*;
use burn::tensor::Gradients;

/// Trainable tensor of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Path of the tensor: layer indices, group names and the name of the tensor, separated by
    /// dots: `"0.weight"`, `"3.body.2.weight"`, `"stem.0.bias"`.
    pub path: String,
    /// Burn's id of the tensor.
    pub id: ParamId,
    /// Shape of the tensor. Linear weights are `[inputs, outputs]` (Burn's layout), convolution
    /// weights `[channels out, channels in / groups, kernel height, kernel width]`.
    pub shape: Vec<usize>,
}

impl Parameter {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns every parameter of the module, in Burn's order.
pub(crate) fn list<M: Module>(module: &M) -> Vec<Parameter> {
    #[derive(Default)]
    struct Visitor {
        path: Vec<Option<String>>,
        found: Vec<Parameter>,
    }
    impl ModuleVisitor for Visitor {
        fn enter_module(&mut self, name: &str, container: &str) {
            self.path.push(is_path_segment(name, container).then(|| name.to_owned()));
        }
        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let (path, shape) = (join_path(&self.path), param.val().dims().to_vec());
            self.found.push(Parameter { path, id: param.id, shape });
        }
    }
    let mut visitor = Visitor::default();
    module.visit(&mut visitor);
    visitor.found
}

/// Returns every parameter flattened to one dimension, on its device and without autodiff, in the
/// order of [`list`].
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

/// Returns the gradient of every parameter, flattened, in the order of [`list`]; `None` where the
/// loss does not depend on it.
pub(crate) fn gradients<M: Module>(module: &M, grads: &Gradients) -> Vec<Option<Tensor<1>>> {
    struct Collect<'a>(&'a Gradients, Vec<Option<Tensor<1>>>);
    impl ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.push(param.val().grad(self.0).map(|gradient| gradient.reshape([-1])));
        }
    }
    let mut collect = Collect(grads, Vec::new());
    module.visit(&mut collect);
    collect.1
}

/// Returns the module with each parameter for which `new` returns a tensor replaced by it,
/// reshaped. `new` is given the parameter's id and device. Ids stay the same, and nothing is
/// copied.
pub(crate) fn replaced<M: Module>(
    module: M,
    new: impl Fn(ParamId, &Device) -> Option<Tensor<1>>,
) -> M {
    struct Replace<F>(F);
    impl<F: Fn(ParamId, &Device) -> Option<Tensor<1>>> ModuleMapper for Replace<F> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let before = param.val();
            match (self.0)(param.id, &before.device()) {
                Some(flat) => Param::initialized(param.id, flat.reshape(before.dims())),
                None => param,
            }
        }
    }
    module.map(&mut Replace(new))
}

/// Role of a parameter in autodiff.
#[derive(Clone, Copy)]
pub(crate) enum AutodiffRole {
    /// Outside of autodiff.
    None,
    /// On the autodiff device, but not tracked: the form that Burn's optimizers expect. Burn keeps
    /// tracked leaves in memory until the next backward pass, which may never happen.
    Lifted,
    /// Tracked leaf of autodiff.
    Tracked,
}

/// Returns the module in which each parameter, by its index in the module's order, has this role
/// in autodiff. Ids stay the same.
pub(crate) fn with_autodiff_roles<M: Module>(module: M, role: impl Fn(usize) -> AutodiffRole) -> M {
    struct SetRole<F>(F, usize);
    impl<F: Fn(usize) -> AutodiffRole> ModuleMapper for SetRole<F> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let (id, tensor, _) = param.consume();
            let tensor = tensor.inner();
            self.1 += 1;
            Param::initialized(
                id,
                match (self.0)(self.1 - 1) {
                    AutodiffRole::None => tensor,
                    AutodiffRole::Lifted => tensor.autodiff(),
                    AutodiffRole::Tracked => tensor.autodiff().require_grad(),
                },
            )
        }
    }
    module.map(&mut SetRole(role, 0))
}

/// Returns the module with every parameter outside autodiff. Ids stay the same.
pub(crate) fn untracked<M: Module>(module: M) -> M {
    with_autodiff_roles(module, |_| AutodiffRole::None)
}

/// Returns whether a field is part of parameter paths. Enum variants and the field that wraps
/// Burn's layer in a layer of this crate are left out, since they tell a user nothing.
pub(super) fn is_path_segment(name: &str, container: &str) -> bool {
    !container.starts_with("Enum:") && !is_wrapped_layer(name, container)
}

/// Returns whether a field is the layer of Burn's that a layer of this crate wraps.
pub(super) fn is_wrapped_layer(name: &str, container: &str) -> bool {
    const WRAPPERS: [&str; 6] = ["Linear", "Conv2d", "GroupNorm", "LayerNorm", "Embedding", "Lstm"];
    let container = container.strip_prefix("Struct:");
    name == "inner" && container.is_some_and(|name| WRAPPERS.contains(&name))
}

/// Joins the segments of a path by dots.
pub(super) fn join_path(path: &[Option<String>]) -> String {
    path.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(".")
}
