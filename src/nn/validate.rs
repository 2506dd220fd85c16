//! Checks whether a user-defined module can be trained privately.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::ParamId;
use burn::prelude::*;

use super::module_trace::{self, ModuleTrace, Subject};
use super::parameters::{is_path_segment, is_wrapped_layer, join_path, list};
use super::user_module::{FieldContent, UserModule};
use super::{BatchTensor, LayerInfo, Model, NoTape, Parameter, ParameterSite, Tape};
use crate::device::host::tensor_to_vec;
use crate::{Error, ErrorKind, Result};

/// Burn's layers that have a counterpart in this library.
const SUPPORTED_BURN_LAYERS: [&str; 7] =
    ["Linear", "Conv2d", "GroupNorm", "LayerNorm", "Embedding", "Lstm", "BiLstm"];

/// Burn's other layers with parameters, for the messages only: a parameter that is not reported to
/// the tape is refused in any case.
const UNSUPPORTED_BURN_LAYERS: [&str; 18] = [
    "InstanceNorm",
    "RmsNorm",
    "Conv1d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "DeformConv2d",
    "Rnn",
    "Gru",
    "BiGru",
    "MultiHeadAttention",
    "CrossAttention",
    "TransformerEncoder",
    "TransformerDecoder",
    "PositionWiseFeedForward",
    "PRelu",
    "SwiGlu",
];

impl Model {
    /// Checks that the model can be trained privately. [`Model::custom`] calls it, and training
    /// does before it charges anything. Models made of this library's layers always pass.
    ///
    /// A user-defined module is run on synthetic examples. That logits, layer inputs and output
    /// gradients of an example do not depend on the rest of its batch is tested on these, not
    /// proved.
    ///
    /// # Errors
    /// Kind `Model`, with all problems at once: batch normalisation (it mixes examples), Burn's
    /// layers instead of this library's, parameters that no layer reports to the tape (their
    /// gradients would be missing), parameters held twice, logits, layer inputs or gradients of an
    /// example that change with the other examples or with their number, and randomness outside the
    /// batch's masks: Burn's `Dropout`, `GaussianNoise` and `RRelu`, or logits that differ between
    /// passes.
    pub fn validate(&self) -> Result<()> {
        let network = self.network();
        match &network.user_module {
            None => Ok(()),
            Some(module) => {
                let (shape, device) = (self.input_shape(), &network.device());
                check(Subject { module, shape, device }, self.classes())
            }
        }
    }
}

/// Tape that records the sites of a forward pass with their output shapes.
#[derive(Default)]
struct SiteRecorder {
    sites: Vec<(ParameterSite, Vec<usize>)>,
    call_count: usize,
}

impl Tape for SiteRecorder {
    fn clip_upstream(&mut self, y: BatchTensor, _: &crate::nn::UpstreamClip) -> BatchTensor {
        y
    }

    fn record_layer(
        &mut self,
        site: ParameterSite,
        _input: &BatchTensor,
        output: BatchTensor,
    ) -> BatchTensor {
        self.sites.push((site, output.dims()[1..].to_vec()));
        self.call_count += 1;
        output
    }

    fn layer_call_count(&self) -> usize {
        self.call_count
    }

    fn record_summed_layer(&mut self, _layer: usize, site: ParameterSite, input: BatchTensor) {
        self.sites.push((site, input.dims()[1..].to_vec()));
    }
}

/// Tape that tracks every output in autodiff, as the executors do, so that layers behave as in
/// training.
struct TrainingTape;

impl Tape for TrainingTape {
    fn clip_upstream(&mut self, y: BatchTensor, _: &crate::nn::UpstreamClip) -> BatchTensor {
        y
    }

    fn record_layer(
        &mut self,
        _site: ParameterSite,
        _input: &BatchTensor,
        output: BatchTensor,
    ) -> BatchTensor {
        output.map(Tensor::autodiff, Tensor::autodiff, Tensor::autodiff)
    }
}

/// Returns the layers that a checked module reports to the tape.
pub(super) fn layers(subject: Subject) -> Result<Vec<LayerInfo>> {
    let mut recorder = SiteRecorder::default();
    constant_logits(subject, &[0.0, 0.0], &mut recorder)?;
    Ok(lines(subject.module, &recorder))
}

/// Checks a module by its parts and by running it on synthetic examples.
pub(super) fn check(subject: Subject, classes: usize) -> Result<()> {
    let mut recorder = SiteRecorder::default();
    let zeros = constant_logits(subject, &[0.0, 0.0], &mut recorder)?;
    if zeros.dims() != [2, classes] {
        let what = format!("a module that computes logits {:?} for two examples", zeros.dims());
        let why = format!("the data has {classes} classes, so the logits must be [2, {classes}]");
        return Err(Error::new(ErrorKind::Model, what, why));
    }
    let mut problems = find_field_problems(subject.module, &recorder);
    // Two passes over equal examples; several of them make it likely that randomness shows.
    let trained = || -> Result<Vec<u32>> {
        let logits = tensor_to_vec(constant_logits(subject, &[1.0; 4], &mut TrainingTape)?);
        Ok(logits.into_iter().map(f32::to_bits).collect())
    };
    if trained()? == trained()? {
        // Comparing batches shows nothing where equal examples have different logits.
        let first = &tensor_to_vec(zeros)[..classes];
        let mixing = find_batch_dependence(subject, classes, first);
        // A module that is refused already may fail on the synthetic examples for that reason.
        let mixing = if problems.is_empty() { mixing? } else { mixing.unwrap_or(None) };
        let problem = |what| format!("{what}: compute each row of the batch independently");
        problems.extend(mixing.map(problem));
    } else {
        problems.push(
            "the logits of the same examples differ from one pass to the next while training: \
             leave randomness to nn::Dropout, whose masks belong to the batch"
                .to_owned(),
        );
    }
    if problems.is_empty() {
        return Ok(());
    }
    let what = format!("the module can't be trained privately ({})", count_things(problems.len()));
    Err(Error::new(ErrorKind::Model, what, format!("\n  - {}", problems.join("\n  - ")))
        .fix("see nn::Forward for an example of a module that can be trained"))
}

/// Problem that [`find_batch_dependence`] reports: a dependence of one example on others.
const MIXED_LOGITS: &str = "the logits of an example change with the other examples of the batch";
const MIXED_GRADIENTS: &str = "the gradient of an example changes with the other examples of the \
                               batch, though its logits do not";
const MIXED_INPUTS: &str = "the input of a layer changes with the other examples of the batch, and \
                            so does the gradient of an example by its parameters, though the \
                            logits do not";
const MIXED_BY_COUNT: &str = "an example's logits or gradient change with the size of the batch";

/// Returns the first dependence of an example on other examples, if there is one. Each synthetic
/// example is run in batches of one size whose other examples differ, and one of them in a batch
/// of its own.
///
/// Batches of one size are computed alike, so results must be equal bit for bit. `zeros` are the
/// logits of an example of zeros in a batch of such.
fn find_batch_dependence(
    subject: Subject,
    classes: usize,
    zeros: &[f32],
) -> Result<Option<&'static str>> {
    let constant = tensor_to_vec(constant_logits(subject, &[0.0, 1.0], &mut NoTape)?);
    if *zeros != constant[..classes] {
        return Ok(Some(MIXED_LOGITS));
    }
    for scale in module_trace::SCALES {
        let trial = |examples: &[u64]| ModuleTrace::record(subject, examples, scale);
        let among = trial(&[0, 1, 2])?;
        for i in 0..3 {
            let mut others = [3, 4, 5];
            others[i] = i as u64;
            let others = trial(&others)?;
            let same = [
                (MIXED_LOGITS, among.logits[i] == others.logits[i]),
                (MIXED_GRADIENTS, among.gradients[i] == others.gradients[i]),
                (MIXED_INPUTS, among.inputs[i] == others.inputs[i]),
            ];
            if let Some((mixing, _)) = same.into_iter().find(|(_, same)| !same) {
                return Ok(Some(mixing));
            }
        }
        let alone = trial(&[0])?;
        let same = [
            (&among.logits[0], &alone.logits[0]),
            (&among.gradients[0], &alone.gradients[0]),
            (&among.inputs[0], &alone.inputs[0]),
        ];
        if !same.into_iter().all(|(a, b)| close(a, b)) {
            return Ok(Some(MIXED_BY_COUNT));
        }
    }
    Ok(None)
}

/// Returns whether two rows are equal up to rounding, which may differ with the size of the batch.
fn close(a: &[u32], b: &[u32]) -> bool {
    const ROUNDING: f64 = 1e-3;
    let number = |&bits: &u32| f64::from(f32::from_bits(bits));
    let squares = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>();
    let size = squares(&mut a.iter().map(number));
    let apart = squares(&mut a.iter().zip(b).map(|(a, b)| number(a) - number(b)));
    // Training masks out examples that are not finite, so they need not agree.
    a.len() == b.len() && (!size.is_finite() || apart <= ROUNDING.powi(2) * size)
}

fn count_things(count: usize) -> String {
    if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") }
}

/// Returns the logits of examples with constant features. A panic of the module is an error.
fn constant_logits(subject: Subject, examples: &[f32], tape: &mut dyn Tape) -> Result<Tensor<2>> {
    let Subject { module, shape, device } = subject;
    let size: usize = shape.iter().product();
    let features = examples.iter().flat_map(|&value| vec![value; size]).collect();
    let x = BatchTensor::new(features, examples.len(), shape, device);
    catch_unwind(AssertUnwindSafe(|| module.0.logits(x, tape).inner()))
        .map_err(|panic| module_trace::forward_panic_error(shape, panic))
}

/// Returns the problems of the module's parts, one line per layer.
fn find_field_problems(module: &UserModule, recorder: &SiteRecorder) -> Vec<String> {
    let reported: Vec<ParamId> =
        recorder.sites.iter().flat_map(|(site, _)| site.parameter_ids()).collect();
    let mut problems = BTreeMap::new();
    let mut seen: HashMap<ParamId, String> = HashMap::new();
    for (index, (path, held)) in module.0.fields().into_iter().enumerate() {
        let fields: Vec<Option<String>> = path
            .iter()
            .map(|(name, container)| is_path_segment(name, container).then(|| name.clone()))
            .collect();
        let field_path = join_path(&fields);
        let layer = join_path(&fields[..fields.len().saturating_sub(1)]);
        let mut tell = |path: String, problem: String| {
            problems.entry(path.clone()).or_insert((index, format!("{path}: {problem}")));
        };
        let types: Vec<&str> = path.iter().filter_map(|(_, c)| c.strip_prefix("Struct:")).collect();
        if types.contains(&"BatchNorm") {
            tell(layer, "BatchNorm mixes the examples of a batch: use GroupNorm".to_owned());
            continue;
        }
        let id = match held {
            FieldContent::Parameter(id, _) => id,
            FieldContent::UnsupportedRank => {
                let problem = "a parameter of more than four dimensions has no gradient here";
                tell(field_path, problem.to_owned());
                continue;
            }
            FieldContent::Flag => {
                tell(layer, randomness_problem(types.last().copied().unwrap_or_default()));
                continue;
            }
        };
        if let Some(other) = seen.insert(id, field_path.clone()) {
            let problem =
                format!("the same parameter as {other}: store the layer once and use it twice");
            tell(field_path.clone(), problem);
            continue;
        }
        if reported.contains(&id) {
            continue;
        }
        let inside_ours = path.iter().any(|(name, container)| is_wrapped_layer(name, container));
        let foreign = types.iter().find(|name| UNSUPPORTED_BURN_LAYERS.contains(name));
        let burns = types.iter().find(|name| SUPPORTED_BURN_LAYERS.contains(name));
        match (foreign, burns) {
            _ if inside_ours => {
                tell(layer, "a layer whose forward pass is never called".to_owned())
            }
            (Some(name), _) => tell(layer, format!("Burn's {name} has no counterpart in the lab")),
            (None, Some(name)) => {
                let problem = format!("Burn's own {name}: use the lab's, nn::{name}");
                tell(layer, problem.replace("nn::BiLstm", "nn::Lstm"));
            }
            (None, None) => {
                tell(field_path, "a parameter that no layer of the lab reports".to_owned())
            }
        }
    }
    let mut lines: Vec<(usize, String)> = problems.into_values().collect();
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Returns the problem of a layer that behaves differently in training.
fn randomness_problem(name: &str) -> String {
    let drawn = "draws from Burn's generator while training, outside the batch's masks";
    match name {
        "Dropout" => format!("Burn's Dropout {drawn}: use the lab's, nn::Dropout"),
        "GaussianNoise" | "RRelu" => format!("Burn's {name} {drawn}: leave it out"),
        _ => "a layer that behaves differently in training and prediction: leave it out".to_owned(),
    }
}

/// Returns a line per site, in the order of the forward pass.
fn lines(module: &UserModule, recorder: &SiteRecorder) -> Vec<LayerInfo> {
    let location = |parameter: Parameter| {
        let layer = parameter.path.rsplit_once('.').map_or("", |(layer, _)| layer).to_owned();
        (parameter.id, (layer, parameter.len()))
    };
    let locations: HashMap<ParamId, _> = list(module).into_iter().map(location).collect();
    let line = |(site, shape): &(ParameterSite, Vec<usize>)| {
        let ids = site.parameter_ids();
        let name = ids.first().and_then(|id| locations.get(id)).map(|(layer, _)| layer.clone());
        let numbers = ids.iter().filter_map(|id| locations.get(id)).map(|(_, len)| len).sum();
        let kind = match site {
            ParameterSite::Linear { .. } => "Linear",
            ParameterSite::Conv2d { .. } => "Conv2d",
            ParameterSite::Affine { .. } => "Norm",
            ParameterSite::Embedding { .. } => "Embedding",
        };
        let name = name.unwrap_or_default();
        LayerInfo { name, kind, output_shape: shape.clone(), parameters: numbers }
    };
    recorder.sites.iter().map(line).collect()
}
