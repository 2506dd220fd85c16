//! Per-example gradients of one parameter for a chunk, in the cheapest form that has norms and a
//! weighted sum.

use burn::prelude::*;
use burn::tensor::IndexingUpdateOp;

use super::norm_weights::NormWeights;

/// Smallest normal f32.
const MIN_NORMAL: f32 = f32::MIN_POSITIVE;
/// Upper limit of the scale that rows are divided by. Some GPUs flush the reciprocal of divisors
/// above 2^126 to zero. Values scaled by this limit stay below 35, so their squares do not
/// overflow.
const MAX_SCALE: f32 = 1e37;

#[allow(clippy::large_enum_variant)] // A handful exist at a time.
pub(super) enum SiteGradient {
    /// Instance gradients, `[examples, values]`.
    Instantiated(Tensor<2>),
    /// Outer products of row i of `input`, `[examples, inputs]`, and row i of `gradient`,
    /// `[examples, outputs]`, for each example i: a linear layer that is used once.
    OuterProduct { input: Tensor<2>, gradient: Tensor<2> },
    /// Gradients of an embedding table, `[vocabulary, features]` for each example. The row of a
    /// token is the sum of `rows`, `[examples, positions, features]`, over the positions with that
    /// token in `tokens`, `[examples, positions]`. Equal tokens of an example have equal rows;
    /// `count`, `[examples, positions, 1]`, is the number of positions with the same token.
    EmbeddingTable { tokens: Tensor<2>, rows: Tensor<3>, count: Tensor<3>, vocabulary: usize },
}

impl SiteGradient {
    /// Builds a table from the gradients of all positions, `[examples, positions, features]`.
    ///
    /// The gradient of each position is replaced by the mean over the positions with the same
    /// token, so that norms are sums of squares. (Li et al., 2022, multiply the Gram matrix of the
    /// gradients by the equality mask of the tokens. Those terms can cancel, and a large gradient
    /// could hide in the rounding error.)
    pub(super) fn table(tokens: Tensor<2>, gradient: Tensor<3>, vocabulary: usize) -> Self {
        let [n, positions, _] = gradient.dims();
        let one = tokens.clone().reshape([n, positions, 1]).expand([n, positions, positions]);
        let other = tokens.clone().reshape([n, 1, positions]).expand([n, positions, positions]);
        let equal = one.equal(other).float();
        let count = equal.clone().sum_dim(2);
        let rows = equal.matmul(gradient) / count.clone();
        Self::EmbeddingTable { tokens, rows, count, vocabulary }
    }

    /// Computes the norm of each example's gradient, `[examples]`.
    ///
    /// # Guarantee
    /// No norm is too small beyond f32 rounding, with one exception: without `rescale`, the norm of
    /// an instance may come out as 0 below 1e-16 and as infinity above 1e19. Norms are sums of
    /// squares, so no terms cancel.
    pub(super) fn norms(&self, norm_weights: &NormWeights, rescale: bool) -> Tensor<1> {
        match self {
            Self::Instantiated(instance) => {
                let Some(root) = norm_weights.relative_sqrt() else {
                    return norm_of_rows(instance.clone(), rescale);
                };
                let root = root.clone().unsqueeze::<2>();
                if !rescale {
                    return norm_of_rows(instance.clone() * root, false);
                }
                // Small weights and small gradients must not underflow together: the largest
                // selected value is scaled to 1 before the weights are applied.
                let masked_out = root.clone().equal_elem(0.0).expand(instance.dims());
                let selected = instance.clone().mask_fill(masked_out, 0.0);
                let scale = scale_of_rows(&selected);
                let [n, _] = instance.dims();
                norm_of_rows(selected / scale.clone() * root, true) * scale.reshape([n])
            }
            Self::OuterProduct { input, gradient } => {
                outer_norms(input, gradient, norm_weights, |a, b| a.matmul(b))
            }
            Self::EmbeddingTable { tokens, rows, count, .. } => {
                norm_of_rows(table_as_rows(tokens, rows, count, norm_weights), rescale)
            }
        }
    }

    /// Computes Σ factor · gradient, flattened.
    pub(super) fn sum(self, factors: &Tensor<1>) -> Tensor<1> {
        match self {
            Self::Instantiated(instance) => {
                let len = instance.dims()[1];
                factors.clone().unsqueeze::<2>().matmul(instance).reshape([len])
            }
            Self::OuterProduct { input, gradient } => {
                let scaled = gradient * factors.clone().unsqueeze_dim(1);
                // Rounding a subnormal value could double it, and a large input would amplify that.
                let tiny = scaled.clone().abs().lower_elem(MIN_NORMAL);
                flat(input.transpose().matmul(scaled.mask_fill(tiny, 0.0)))
            }
            Self::EmbeddingTable { tokens, rows, vocabulary, .. } => {
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

    /// Returns the instance gradients, `[examples, values]`: the gradients of a tied parameter are
    /// added over its sites before the norm.
    pub(super) fn into_instantiated(self) -> Tensor<2> {
        match self {
            Self::Instantiated(instance) => instance,
            Self::OuterProduct { input, gradient } => {
                let product = input.unsqueeze_dim::<3>(2) * gradient.unsqueeze_dim::<3>(1);
                product.flatten(1, 2)
            }
            Self::EmbeddingTable { tokens, rows, vocabulary, .. } => {
                let [n, _, features] = rows.dims();
                let index = tokens.int().unsqueeze_dim::<3>(2).expand(rows.dims());
                let table = Tensor::<3>::zeros([n, vocabulary, features], &rows.device());
                table.scatter(1, index, rows, IndexingUpdateOp::Add).flatten(1, 2)
            }
        }
    }
}

/// Returns rows with the norms of the tables, `[examples, positions x features]`.
pub(super) fn table_as_rows(
    tokens: &Tensor<2>,
    rows: &Tensor<3>,
    count: &Tensor<3>,
    norm_weights: &NormWeights,
) -> Tensor<2> {
    // A table row is `count` times the row of each of its `count` positions. Scaling each position
    // by √count makes the squares of the positions add up to that of the table row.
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

/// Returns the largest absolute value of each row, clamped to [`MIN_NORMAL`]..[`MAX_SCALE`],
/// `[rows, 1]`.
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
    // Squares of values of at most 1 do not overflow, and do not all underflow.
    let scale = scale_of_rows(&x);
    (squares_of_rows(x / scale.clone()).sqrt() * scale).reshape([n])
}

/// Computes the norms of outer products: ‖a gᵀ‖ = ‖a‖ ‖g‖ (Goodfellow, 2015, arXiv:1510.01799);
/// with weights, √(Σⱼ gⱼ² Σᵢ wᵢⱼ aᵢ²). `a` and `g` are rescaled separately: a large input times a
/// small gradient must not underflow in the square of either.
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
    // The largest value may have weight 0, and the squares of the selected values may underflow
    // beside it. Adding what can be lost that way keeps norms from being too small. It amounts to
    // about 1e-19 of the product of the largest input and the largest gradient.
    let underflow = 4.0 * MIN_NORMAL * (inputs * outputs) as f32;
    let square = (weighted * (g.clone() * g)).sum_dim(1) + underflow;
    (square.sqrt() * a_scale * g_scale).reshape([n])
}
