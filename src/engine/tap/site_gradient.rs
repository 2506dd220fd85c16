//! One parameter's gradients in a chunk, one per example, in the cheapest form that has their
//! norms and their weighted sum.

use burn::prelude::*;
use burn::tensor::IndexingUpdateOp;

use super::norm_weights::NormWeights;

/// The smallest normal f32.
const MIN_NORMAL: f32 = f32::MIN_POSITIVE;
/// What large numbers are divided by: some GPUs make 0 of anything over more than 2^126. What
/// is left is below 35, and its square is harmless.
const MAX_SCALE: f32 = 1e37;

#[allow(clippy::large_enum_variant)] // A handful exist at a time.
pub(super) enum SiteGradient {
    /// The gradients themselves, `[examples, numbers]`.
    Instance(Tensor<2>),
    /// Example i's gradient is the outer product of row i of `input`, `[examples, inputs]`, and
    /// row i of `gradient`, `[examples, outputs]`: a linear map used once.
    Outer { input: Tensor<2>, gradient: Tensor<2> },
    /// Example i's gradient is a table `[vocabulary, features]`: the row of a token is the sum of
    /// `rows`, `[examples, positions, features]`, over the positions with that token in `tokens`,
    /// `[examples, positions]`. Equal tokens of an example have equal rows, and `count`,
    /// `[examples, positions, 1]`, says how many.
    Table { tokens: Tensor<2>, rows: Tensor<3>, count: Tensor<3>, vocabulary: usize },
}

impl SiteGradient {
    /// A table from the gradients of all positions, `[examples, positions, features]`.
    ///
    /// Each place gets the mean over the positions with its token. (The Gram matrix of the gradients
    /// under the mask of equal tokens would give the norm as well, but from terms of both signs
    /// that cancel: an example could hide a long gradient in their rounding.)
    pub(super) fn table(tokens: Tensor<2>, gradient: Tensor<3>, vocabulary: usize) -> Self {
        let [n, positions, _] = gradient.dims();
        let one = tokens.clone().reshape([n, positions, 1]).expand([n, positions, positions]);
        let other = tokens.clone().reshape([n, 1, positions]).expand([n, positions, positions]);
        let equal = one.equal(other).float();
        let count = equal.clone().sum_dim(2);
        let rows = equal.matmul(gradient) / count.clone();
        Self::Table { tokens, rows, count, vocabulary }
    }

    /// The norm of each example's gradient, `[examples]`.
    ///
    /// # Guarantee
    /// Up to f32 rounding no norm is too small, with one exception: not `rescale`, instances
    /// whose norm is below 1e-16 may come out as 0 and above 1e19 as infinite. Sums are of
    /// squares only: nothing cancels.
    pub(super) fn norms(&self, norm_weights: &NormWeights, rescale: bool) -> Tensor<1> {
        match self {
            Self::Instance(instance) => {
                let Some(root) = norm_weights.relative_sqrt() else {
                    return norm_of_rows(instance.clone(), rescale);
                };
                let root = root.clone().unsqueeze::<2>();
                if !rescale {
                    return norm_of_rows(instance.clone() * root, false);
                }
                // Weights of a tiny share and tiny gradients must not vanish together: the
                // largest number that counts becomes 1 before the weights come.
                let masked_out = root.clone().equal_elem(0.0).expand(instance.dims());
                let selected = instance.clone().mask_fill(masked_out, 0.0);
                let scale = scale_of_rows(&selected);
                let [n, _] = instance.dims();
                norm_of_rows(selected / scale.clone() * root, true) * scale.reshape([n])
            }
            Self::Outer { input, gradient } => {
                outer_norms(input, gradient, norm_weights, |a, b| a.matmul(b))
            }
            Self::Table { tokens, rows, count, .. } => {
                norm_of_rows(table_as_rows(tokens, rows, count, norm_weights), rescale)
            }
        }
    }

    /// Σ factor · gradient, flat.
    pub(super) fn sum(self, factors: &Tensor<1>) -> Tensor<1> {
        match self {
            Self::Instance(instance) => {
                let len = instance.dims()[1];
                factors.clone().unsqueeze::<2>().matmul(instance).reshape([len])
            }
            Self::Outer { input, gradient } => {
                let scaled = gradient * factors.clone().unsqueeze_dim(1);
                // Rounding could double what is below the normal numbers, and a large input would
                // make much of that.
                let tiny = scaled.clone().abs().lower_elem(MIN_NORMAL);
                flat(input.transpose().matmul(scaled.mask_fill(tiny, 0.0)))
            }
            Self::Table { tokens, rows, vocabulary, .. } => {
                let [n, positions, features] = rows.dims();
                let scaled = rows * factors.clone().reshape([n, 1, 1]);
                let table = Tensor::<2>::zeros([vocabulary, features], &tokens.device());
                flat(table.select_assign(
                    0,
                    tokens.reshape([n * positions]).int(),
                    scaled.reshape([n * positions, features]),
                    IndexingUpdateOp::Add,
                ))
            }
        }
    }

    /// The gradients themselves, `[examples, numbers]`: for tied parameters, where those of
    /// several sites add up before the norm.
    pub(super) fn instance(self) -> Tensor<2> {
        match self {
            Self::Instance(instance) => instance,
            Self::Outer { input, gradient } => {
                let product = input.unsqueeze_dim::<3>(2) * gradient.unsqueeze_dim::<3>(1);
                product.flatten(1, 2)
            }
            Self::Table { tokens, rows, vocabulary, .. } => {
                let [n, _, features] = rows.dims();
                let index = tokens.int().unsqueeze_dim::<3>(2).expand(rows.dims());
                let table = Tensor::<3>::zeros([n, vocabulary, features], &rows.device());
                table.scatter(1, index, rows, IndexingUpdateOp::Add).flatten(1, 2)
            }
        }
    }
}

/// What has the norms of tables in its rows, `[examples, positions x features]`.
pub(super) fn table_as_rows(
    tokens: &Tensor<2>,
    rows: &Tensor<3>,
    count: &Tensor<3>,
    norm_weights: &NormWeights,
) -> Tensor<2> {
    // A row of the table is count x the row of each of its `count` positions: √count for each of
    // them, and the squares over its positions add up to the row's.
    let [n, positions, features] = rows.dims();
    let mut rows = rows.clone() * count.clone().sqrt();
    if let Some(root) = norm_weights.relative_sqrt() {
        let table = root.clone().reshape([root.dims()[0] / features, features]);
        let tokens = tokens.clone().reshape([n * positions]).int();
        rows = rows * table.select(0, tokens).reshape([n, positions, features]);
    }
    rows.flatten(1, 2)
}

fn flat(x: Tensor<2>) -> Tensor<1> {
    x.flatten(0, 1)
}

/// The largest absolute value of each row, from [`MIN_NORMAL`] to [`MAX_SCALE`], `[rows, 1]`.
fn scale_of_rows(x: &Tensor<2>) -> Tensor<2> {
    x.clone().abs().max_dim(1).clamp(MIN_NORMAL, MAX_SCALE)
}

fn squares_of_rows(x: Tensor<2>) -> Tensor<2> {
    (x.clone() * x).sum_dim(1)
}

fn norm_of_rows(x: Tensor<2>, rescale: bool) -> Tensor<1> {
    let n = x.dims()[0];
    if !rescale {
        return squares_of_rows(x).sqrt().reshape([n]);
    }
    // Squares of what is at most 1 neither overflow nor vanish together.
    let scale = scale_of_rows(&x);
    (squares_of_rows(x / scale.clone()).sqrt() * scale).reshape([n])
}

/// ‖a gᵀ‖ = ‖a‖ ‖g‖ (Goodfellow, 2015, arXiv:1510.01799), each found carefully: a large input times
/// a small gradient must not vanish in the square of either. With weights,
/// Σⱼ gⱼ² Σᵢ wᵢⱼ aᵢ².
pub(super) fn outer_norms(
    input: &Tensor<2>,
    gradient: &Tensor<2>,
    norm_weights: &NormWeights,
    product: impl Fn(Tensor<2>, Tensor<2>) -> Tensor<2>,
) -> Tensor<1> {
    let Some(relative) = norm_weights.relative() else {
        return norm_of_rows(input.clone(), true) * norm_of_rows(gradient.clone(), true);
    };
    let ([n, inputs], [_, outputs]) = (input.dims(), gradient.dims());
    let (a_scale, g_scale) = (scale_of_rows(input), scale_of_rows(gradient));
    let (a, g) = (input.clone() / a_scale.clone(), gradient.clone() / g_scale.clone());
    let weighted = product(a.clone() * a, relative.clone().reshape([inputs, outputs]));
    // The largest coordinate may have weight 0, and the squares of those that count may vanish
    // beside it: what can be underflow that way is added, so that no norm is too small. It amounts to
    // about 1e-19 of the product of the largest input and the largest gradient.
    let underflow = 4.0 * MIN_NORMAL * (inputs * outputs) as f32;
    let square = (weighted * (g.clone() * g)).sum_dim(1) + underflow;
    (square.sqrt() * a_scale * g_scale).reshape([n])
}
