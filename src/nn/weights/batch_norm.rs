//! Folding of BatchNorm with fixed statistics into the convolution before it.
//!
//! With fixed statistics, BatchNorm maps each channel y of the convolution to
//! γ (y - μ) / √(σ² + ε) + β. The convolution with the weight γ w / √(σ² + ε) and the bias
//! γ (b - μ) / √(σ² + ε) + β computes the same.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use super::weight_file::{ElementType, TensorEntry, WeightFile};

/// Epsilon of PyTorch's BatchNorm, which the networks of torchvision use.
const EPSILON: f64 = 1e-5;
/// Name of the tensor by which a BatchNorm layer is found.
const RUNNING_MEAN: &str = ".running_mean";

/// A BatchNorm layer of a file, and the convolution before it.
struct FrozenBatchNorm {
    conv_weight: TensorEntry,
    conv_bias: Option<TensorEntry>,
    gamma: TensorEntry,
    beta: TensorEntry,
    mean: TensorEntry,
    variance: TensorEntry,
}

/// Replaces each BatchNorm of the file and the convolution before it by a convolution with a bias,
/// under the names of the convolution, and returns the names of the biases. `conv_of` returns the
/// name of the convolution for that of a BatchNorm layer.
///
/// # Errors
/// A description of a BatchNorm layer that can't be folded, as the end of a sentence.
pub(super) fn fold_batch_norm(
    source: &mut WeightFile,
    conv_of: fn(&str) -> Option<String>,
) -> Result<Vec<String>, String> {
    let names = source.entries.keys().filter_map(|name| name.strip_suffix(RUNNING_MEAN));
    let norms: Vec<String> = names.map(str::to_owned).collect();
    let mut biases = Vec::new();
    for norm in &norms {
        let conv = conv_of(norm).ok_or_else(|| format!("no convolution is known before {norm}"))?;
        let frozen = Rc::new(FrozenBatchNorm::take(&mut source.entries, norm, &conv)?);
        for entry in [frozen.folded_weight(&conv), frozen.folded_bias(&conv)] {
            source.entries.insert(entry.name.clone(), entry);
        }
        biases.push(format!("{conv}.bias"));
    }
    Ok(biases)
}

impl FrozenBatchNorm {
    /// Takes the tensors of both layers out of the file.
    fn take(
        entries: &mut BTreeMap<String, TensorEntry>,
        norm: &str,
        conv: &str,
    ) -> Result<Self, String> {
        entries.remove(&format!("{norm}.num_batches_tracked"));
        let conv_bias = entries.remove(&format!("{conv}.bias"));
        let mut take = |layer: &str, tensor: &str| {
            let name = format!("{layer}.{tensor}");
            entries.remove(&name).ok_or_else(|| format!("there is no tensor {name}"))
        };
        let frozen = Self {
            conv_weight: take(conv, "weight")?,
            conv_bias,
            gamma: take(norm, "weight")?,
            beta: take(norm, "bias")?,
            mean: take(norm, "running_mean")?,
            variance: take(norm, "running_var")?,
        };
        let &[channels, _, _, _] = frozen.conv_weight.shape.as_slice() else {
            return Err(format!("{conv} is no convolution of images"));
        };
        let vectors = [&frozen.gamma, &frozen.beta, &frozen.mean, &frozen.variance];
        let other = vectors.into_iter().chain(&frozen.conv_bias).find(|v| v.shape != [channels]);
        if let Some(vector) = other {
            return Err(format!("{} is not [{channels}]", vector.shown()));
        }
        Ok(frozen)
    }

    /// Returns γ / √(σ² + ε) of each channel.
    fn scale(&self) -> io::Result<Vec<f64>> {
        let (gamma, variance) = (self.gamma.values()?, self.variance.values()?);
        let each = gamma.into_iter().zip(variance);
        Ok(each.map(|(g, v)| f64::from(g) / (f64::from(v) + EPSILON).sqrt()).collect())
    }

    fn folded_weight(self: &Rc<Self>, conv: &str) -> TensorEntry {
        let of = self.clone();
        folded(conv, "weight", &self.conv_weight.shape, move || {
            let (scale, weight) = (of.scale()?, of.conv_weight.values()?);
            let per_channel = weight.len() / scale.len().max(1);
            let each = weight.iter().enumerate();
            Ok(each.map(|(i, w)| (scale[i / per_channel] * f64::from(*w)) as f32).collect())
        })
    }

    fn folded_bias(self: &Rc<Self>, conv: &str) -> TensorEntry {
        let of = self.clone();
        folded(conv, "bias", &self.gamma.shape, move || {
            let (scale, beta, mean) = (of.scale()?, of.beta.values()?, of.mean.values()?);
            let bias = of.conv_bias.as_ref().map(TensorEntry::values).transpose()?;
            let bias = bias.unwrap_or_else(|| vec![0.0; scale.len()]);
            let shifted = |i: usize| f64::from(bias[i]) - f64::from(mean[i]);
            let each = scale.iter().enumerate();
            Ok(each.map(|(i, scale)| (scale * shifted(i) + f64::from(beta[i])) as f32).collect())
        })
    }
}

/// Returns a tensor of the folded convolution, whose values are computed when they are read.
fn folded(
    conv: &str,
    parameter: &str,
    shape: &[usize],
    values: impl Fn() -> io::Result<Vec<f32>> + 'static,
) -> TensorEntry {
    TensorEntry {
        name: format!("{conv}.{parameter}"),
        shape: shape.to_vec(),
        dtype: ElementType::F32,
        read: Box::new(move || Ok(values()?.into_iter().flat_map(f32::to_le_bytes).collect())),
    }
}
